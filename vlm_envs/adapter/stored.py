"""Arguments of adapted worlds as plain data, so that boards and runs can be used without the TOML file."""

from __future__ import annotations

import contextlib
import functools
import importlib.metadata
import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import gymnasium as gym

from vlm_envs.adapter.settings import ENTRY_POINT, FIXED, NAMESPACE, adapt, plain, require_env, source_of
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.registration import ADAPT, registered_name

_ABSENT = object()


def stored_arguments(env_id: str) -> dict[str, Any] | None:
    """Returns the arguments of `adapt` that made a world, as JSON has them; None if it is not an adapted world.

    The name is always among them. Functions are `"module:function"`.

    Raises:
        ConfigError: If there is no such world.
    """
    world_id = registered_name(env_id)
    spec = gym.registry[world_id]
    if spec.entry_point != ENTRY_POINT:
        return None
    arguments: dict[str, Any] = json.loads(json.dumps(plain(spec.kwargs), default=_named))
    return {"name": world_id.removeprefix(f"{NAMESPACE}/"), **arguments}


def differing(one: Mapping[str, Any], other: Mapping[str, Any]) -> list[str]:
    """Returns the names of arguments in which two adapted worlds differ; a module before an id makes no difference."""
    return [key for key in dict.fromkeys((*one, *other)) if _compared(one, key) != _compared(other, key)]


def changed_arguments(env_id: str, stored: Mapping[str, Any]) -> list[str]:
    """Returns the arguments in which a world differs from a record of it; nothing if its TOML file is not there.

    Args:
        env_id: For example `adapt:lake.toml`.
        stored: As `stored_arguments` returned it.

    Raises:
        ConfigError: If the file cannot be used.
    """
    if _is_missing(env_id):
        return []
    now = stored_arguments(env_id)
    return differing(stored, now or {})


@contextmanager
def restored(env_id: str, stored: Mapping[str, Any] | None) -> Iterator[None]:
    """Has an id stand for an adapted world as a record describes it, within the block.

    TOML files are not read meanwhile.

    Args:
        env_id: For example `adapt:lake.toml`.
        stored: As `stored_arguments` returned it; None changes nothing.

    Raises:
        ConfigError: If such a world can no longer be made.
    """
    if stored is None:
        yield
        return
    world_id = recorded_id(stored)
    before, key = gym.registry.get(world_id), _key(env_id)
    fixed_before = None if key is None else FIXED.get(key)
    if before is None or differing(stored, stored_arguments(world_id) or {}):
        gym.registry.pop(world_id, None)
        try:
            adapt(stored["env"], **{name: value for name, value in stored.items() if name != "env"})
        except BaseException:
            _put_back(gym.registry, world_id, before)
            raise
    if key is not None:
        FIXED[key] = world_id
    try:
        yield
    finally:
        _put_back(gym.registry, world_id, before)
        if key is not None:
            _put_back(FIXED, key, fixed_before)


def recorded_id(stored: Mapping[str, Any]) -> str:
    """Returns the id of the world that a record describes."""
    return f"{NAMESPACE}/{stored['name']}"


@contextmanager
def fixed(env_ids: Iterable[str]) -> Iterator[None]:
    """Has ids stand for the same adapted worlds within the block, even if somebody edits their TOML files."""
    with contextlib.ExitStack() as stack:
        for env_id in env_ids:
            stack.enter_context(restored(env_id, stored_arguments(env_id)))
        yield


def changed_since(env_id: str, keys: Iterable[str]) -> str:
    """Returns that a world is no longer what a record says: `lake.toml has changed since: goal, success`."""
    return f"{env_id.removeprefix(f'{ADAPT}:')} has changed since: {', '.join(keys)}"


def defining_packages(stored: Mapping[str, Any]) -> dict[str, str]:
    """Returns the distributions that define an adapted environment's class and its base classes, with their versions.

    Code that is not installed has none, and nothing is returned if the environment cannot be imported.
    """
    try:
        entry_point = gym.spec(require_env(stored["env"])).entry_point
        creator = entry_point if callable(entry_point) else gym.envs.registration.load_env_creator(str(entry_point))
    except (ConfigError, EngineUnavailableError, ImportError, AttributeError):
        return {}
    classes = creator.__mro__ if isinstance(creator, type) else (creator,)
    modules = {each.__module__.partition(".")[0] for each in classes}
    names = {name for module in modules for name in _owners().get(module, ())}
    return {name: importlib.metadata.version(name) for name in sorted(names)}


@functools.cache
def _owners() -> Mapping[str, list[str]]:
    """Returns the distributions of every importable package, which takes a second to find out."""
    return importlib.metadata.packages_distributions()


def _named(value: Any) -> str:
    named = value if hasattr(value, "__qualname__") else type(value)
    return f"{named.__module__}:{named.__qualname__}"


def _compared(arguments: Mapping[str, Any], key: str) -> Any:
    value = arguments.get(key, _ABSENT)
    return value.rpartition(":")[2] if key == "env" and isinstance(value, str) else value


def _described(env_id: str) -> str | None:
    """Returns what follows `adapt:`; None for other ids."""
    prefix, _, text = env_id.partition(":")
    return text if prefix == ADAPT and text else None


def _is_missing(env_id: str) -> bool:
    text = _described(env_id)
    if text is not None:
        return text.lower().endswith(".toml") and not Path(text).is_file()
    with contextlib.suppress(ConfigError):  # of a module in front that cannot be imported
        registered_name(env_id)
    return env_id.rpartition(":")[2] not in gym.registry


def _key(env_id: str) -> str | None:
    text = _described(env_id)
    return None if text is None else source_of(text)


def _put_back(table: dict[str, Any], key: str, value: Any) -> None:
    table.pop(key, None)
    if value is not None:
        table[key] = value
