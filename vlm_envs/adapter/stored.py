"""Arguments of adapted worlds as plain data, so that boards and runs do not depend on the TOML file."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
import os
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym

from vlm_envs.adapter.adapter_settings import (
    ENTRY_POINT,
    FIXED,
    NAMESPACE,
    SOURCES,
    adapt,
    digests,
    is_toml,
    located,
    plain,
    relative,
    require_env,
    search,
    source_of,
    without_folders,
)
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import ADAPT, registered_name

_FILE, _DIGESTS = "file", "functions"
"""Keys of a record that are not arguments: the path of its TOML file, and hashes of the files of its functions."""


def stored_arguments(env_id: str, directory: str | Path | None = None) -> dict[str, Any] | None:
    """Returns the arguments of `adapt` that define a world, as JSON data; None if it is not an adapted world.

    The name is always included. Functions are `"module:function"` or, if they are next to a TOML file,
    `"folder/module:function"` with a hash of the module's file; then the path of the TOML file is also
    included.

    Args:
        env_id: For example `adapt:lake.toml`.
        directory: Directory of the record, to which paths are relative; None for absolute paths.

    Raises:
        ConfigError: If the world does not exist.
    """
    world_id = registered_name(env_id)
    spec = gym.registry[world_id]
    if spec.entry_point != ENTRY_POINT:
        return None
    arguments: dict[str, Any] = json.loads(json.dumps(plain(spec.kwargs), default=_named))
    key = _source(env_id)
    source = SOURCES.get(world_id, "") if not key or key in FIXED else key
    stored = {"name": world_id.removeprefix(f"{NAMESPACE}/"), **arguments}
    if is_toml(source):
        stored[_FILE] = source
    if hashes := digests(arguments):
        stored[_DIGESTS] = hashes
    return stored if directory is None else _relative(stored, directory)


def moved(stored: Mapping[str, Any], before: Path, after: Path) -> dict[str, Any]:
    """Returns a record whose paths are changed from relative to one directory to relative to another."""
    absolute = located(stored, before, "")
    if _FILE in stored:
        absolute[_FILE] = os.path.abspath(before / stored[_FILE])
    return _relative(absolute, after)


def comparable(stored: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the arguments in a record except for the locations of files; equal worlds have equal results."""
    return without_folders(_arguments(stored))


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the names of arguments in which two adapted worlds differ.

    A module before the environment's id and the folder of a function are ignored.
    """
    return _differing(comparable(one), comparable(other))


def changed_arguments(env_id: str, stored: Mapping[str, Any], directory: str | Path = "") -> list[str]:
    """Returns the arguments in which a world differs from a record of it; empty if its TOML file does not exist.

    Args:
        env_id: For example `adapt:lake.toml`.
        stored: A record returned by `stored_arguments`.
        directory: Directory of the record.

    Raises:
        ConfigError: If the file is not valid.
    """
    source, file = _source(env_id), _file(env_id, stored, directory)
    if source:
        is_missing = bool(file) and not os.path.isfile(file)
    else:
        with contextlib.suppress(ConfigError):  # for a module prefix that cannot be imported
            registered_name(env_id)
        is_missing = env_id.rpartition(":")[2] not in gym.registry
    if is_missing:
        return []
    now = stored_arguments(f"{ADAPT}:{file}" if file and file != source else env_id)
    return differing(stored, now or {})


def changed_functions(env_id: str, stored: Mapping[str, Any], directory: str | Path = "") -> list[str]:
    """Returns the files next to a TOML file that a world's functions come from, if they differ from the recorded ones.

    Missing files are not included. For the arguments, see `changed_arguments`.
    """
    return differing_functions(stored, {_DIGESTS: digests(_located(env_id, stored, directory))})


def differing_functions(stored: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the files of functions whose contents differ between two records."""
    now = other.get(_DIGESTS, {})
    return [name for name, digest in stored.get(_DIGESTS, {}).items() if now.get(name, digest) != digest]


@contextmanager
def restored(env_id: str, stored: Mapping[str, Any] | None, directory: str | Path = "") -> Iterator[None]:
    """Makes an id stand for an adapted world as a record describes it, within the block.

    TOML files are not read within the block.

    Args:
        env_id: For example `adapt:lake.toml`.
        stored: A record returned by `stored_arguments`; None has no effect.
        directory: Directory of the record, to which its paths are relative. If they do not exist, those next
            to the TOML file that the id names are used.

    Raises:
        ConfigError: If the world can no longer be created.
    """
    if stored is None:
        yield
        return
    world_id, source = recorded_id(stored), _source(env_id)
    file, arguments = _file(env_id, stored, directory), _located(env_id, stored, directory)
    search(os.path.dirname(file))
    with _kept(gym.registry, world_id), _kept(SOURCES, world_id), _kept(FIXED, source):
        if world_id not in gym.registry or _differing(arguments, _arguments(stored_arguments(world_id) or {})):
            gym.registry.pop(world_id, None)
            adapt(arguments.pop("env"), **arguments)
        if source:
            FIXED[source] = world_id
        if file:
            SOURCES[world_id] = file
        yield


@contextmanager
def _kept(table: dict[str, Any], key: str) -> Iterator[None]:
    """Restores an entry of a table, or its absence, after the block."""
    before = table.get(key)
    try:
        yield
    finally:
        table.pop(key, None)
        if before is not None:
            table[key] = before


def recorded_id(stored: Mapping[str, Any]) -> str:
    """Returns the id of the world that a record describes."""
    return f"{NAMESPACE}/{stored['name']}"


@contextmanager
def fixed(env_ids: Iterable[str]) -> Iterator[None]:
    """Makes ids stand for the same adapted worlds within the block, even if their TOML files change."""
    with contextlib.ExitStack() as stack:
        for env_id in env_ids:
            stack.enter_context(restored(env_id, stored_arguments(env_id)))
        yield


def changed_since(env_id: str, keys: Iterable[str]) -> str:
    """Returns a text that lists changes since a world was recorded: `lake.toml has changed since: goal, success`."""
    return f"{env_id.removeprefix(f'{ADAPT}:')} has changed since: {', '.join(keys)}"


def functions_changed(env_id: str, files: Iterable[str]) -> str:
    """Returns a sentence that lists changed files of functions."""
    return f"The functions of {env_id.removeprefix(f'{ADAPT}:')} have changed since: {', '.join(files)}."


def defining_packages(stored: Mapping[str, Any]) -> dict[str, str]:
    """Returns the distributions that define an adapted environment's class and base classes, with their versions.

    Code that is not installed has no distribution. Empty if the environment cannot be imported.
    """
    try:
        entry_point = gym.spec(require_env(stored["env"])).entry_point
        creator = entry_point if callable(entry_point) else gym.envs.registration.load_env_creator(str(entry_point))
    except (ConfigError, EngineUnavailableError, ImportError, AttributeError):
        return {}
    classes = creator.__mro__ if isinstance(creator, type) else (creator,)
    modules = {member.__module__.partition(".")[0] for member in classes}
    names = {name for module in modules for name in _owners().get(module, ())}
    return {name: importlib.metadata.version(name) for name in sorted(names)}


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    """Returns the distributions of every importable package, which takes about a second."""
    return importlib.metadata.packages_distributions()


def _named(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _source(env_id: str) -> str:
    """Returns the text after `adapt:`, with the absolute path if it is a file; empty for other ids."""
    prefix, _, text = env_id.partition(":")
    return source_of(text) if prefix == ADAPT else ""


def _file(env_id: str, stored: Mapping[str, Any], directory: str | Path) -> str:
    """Returns the path of a world's TOML file; empty for none.

    This is the recorded path unless only the id names an existing file.
    """
    source = _source(env_id)
    recorded = [os.path.abspath(os.path.join(directory, stored[_FILE]))] if _FILE in stored else []
    paths = [*recorded, *([source] if is_toml(source) else [])]
    return next(filter(os.path.isfile, paths), next(iter(paths), ""))


def _located(env_id: str, stored: Mapping[str, Any], directory: str | Path) -> dict[str, Any]:
    """Returns the arguments in a record, with the current locations of functions."""
    return located(_arguments(stored), directory, os.path.dirname(_file(env_id, stored, directory)))


def _relative(stored: Mapping[str, Any], directory: str | Path) -> dict[str, Any]:
    file = {_FILE: os.path.relpath(stored[_FILE], directory)} if _FILE in stored else {}
    return {**relative(stored, directory), **file}


def _arguments(stored: Mapping[str, Any]) -> dict[str, Any]:
    return {key: value for key, value in stored.items() if key not in (_FILE, _DIGESTS)}


def _differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    one, other = ({**summary, "env": str(summary.get("env")).rpartition(":")[2]} for summary in (one, other))
    absent = object()
    return [key for key in dict.fromkeys((*one, *other)) if one.get(key, absent) != other.get(key, absent)]
