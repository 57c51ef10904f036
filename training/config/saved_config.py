"""Configurations as JSON, copies of them that are not validated, and the output folders that they are saved in."""

from __future__ import annotations

import contextlib
import copy
import itertools
import json
import os
import tempfile
import types
import typing
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from enum import Enum
from pathlib import Path
from typing import Any, TypeVar

from training.algorithms.algorithm import Algorithm
from training.algorithms.shipped import name_of
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import to_json
from vlm_envs.validation import field_name, require

_Config = TypeVar("_Config")


def unchecked(config: _Config, **changes: Any) -> _Config:
    """Return a changed copy that is not validated: its settings may fit only once all of them are known."""
    changed = copy.copy(config)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


def plain(value: Any) -> Any:
    """Returns a configuration, or a value of one, as plain data: dataclasses as dictionaries, paths as text.

    Members of enums are their values.
    """
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {each.name: plain(getattr(value, each.name)) for each in fields(value)}
    if isinstance(value, Mapping):
        return {plain(key): plain(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(plain, value)) if isinstance(value, tuple) else [*map(plain, value)]
    return plain(value.value) if isinstance(value, Enum) else value


def rebuilt(kind: Any, value: Any) -> Any:
    """Returns what plain data was made from; JSON has no tuples, paths or enums, and only texts as keys.

    Args:
        kind: Its type, as annotations have it.
        value: What JSON holds.
    """
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = typing.get_type_hints(kind)
        known = [each.name for each in fields(kind) if each.init and each.name in value]
        return typing.cast(Any, kind)(**{name: rebuilt(hints[name], value[name]) for name in known})
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return rebuilt(_part_for(value, [each for each in arguments if each is not types.NoneType]), value)
    if isinstance(value, Mapping):
        of_key, of_value = arguments if len(arguments) == 2 else (Any, Any)
        return {_key(of_key, key): rebuilt(of_value, each) for key, each in value.items()}
    if isinstance(value, list):
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return tuple(rebuilt(part, each) for part, each in zip(arguments, value, strict=True))
        found = [rebuilt(arguments[0] if arguments else Any, each) for each in value]
        return found if origin is list else tuple(found)
    return kind(value) if value is not None and _is_written_otherwise(kind) else value


def _part_for(value: Any, parts: list[Any]) -> Any:
    """Returns the part of a union that a value is of, as far as JSON tells them apart."""
    if len(parts) == 1:
        return parts[0]
    origins = {typing.get_origin(part) or part: part for part in parts}
    if isinstance(value, list):
        return origins.get(tuple, origins.get(list, Any))
    if isinstance(value, Mapping):
        return origins.get(dict, next(filter(is_dataclass, parts), Any))
    return Any


def _is_written_otherwise(kind: Any) -> bool:
    return isinstance(kind, type) and issubclass(kind, Path | Enum)


def _key(kind: Any, key: str) -> Any:
    return kind(key) if kind in (int, float, Path) else key


def saved_algorithm(algorithm: Algorithm) -> dict[str, Any]:
    """Returns an algorithm as plain data: its name under `class`, which no setting can be called, and its settings."""
    return {"class": name_of(algorithm), **plain(algorithm)}


def require_resumable(algorithm: Algorithm) -> None:
    """Refuses an algorithm that would not be the same when it is read back, so that no run could go on with it.

    Raises:
        ConfigError: If a setting is of a type that JSON does not have, or is NaN, which equals nothing.
    """
    hints = typing.get_type_hints(type(algorithm))
    for name, value in ((each.name, getattr(algorithm, each.name)) for each in fields(algorithm)):
        if not _comes_back(hints[name], value):
            raise ConfigError(
                f"--algorithm {name_of(algorithm)}: its setting {name!r} is {value!r}, which cannot be saved as JSON "
                "and read back, so no run could be resumed with it. Possible are finite numbers, texts, truth values, "
                "None, paths, enums, and lists, tuples, dictionaries and dataclasses of these, each as its annotation "
                "says."
            )


def _comes_back(kind: Any, value: Any) -> bool:
    try:
        return bool(rebuilt(kind, json.loads(json.dumps(to_json(plain(value))))) == value)
    except (TypeError, ValueError):
        return False


def require_name(config: object) -> None:
    """Refuses a configuration whose `name` is anything but one folder within `output`.

    Raises:
        ConfigError: If the name is empty, leads out of that folder or has folders in it.
    """
    name = str(vars(config)["name"])
    require(
        Path(name).name == name and name not in ("", ".."),
        f"{field_name(config, 'name')} must be one part of a path, such as my_run: it is a folder within "
        f"{field_name(config, 'output')}; got {name!r}.",
    )


def numbered(name: str) -> Iterator[str]:
    """Yields a name, and then the same with a number behind it, from 2 on: the first that is free is taken."""
    yield name
    for number in itertools.count(2):
        yield f"{name}-{number}"


def require_writable(directory: Path, output: str) -> None:
    """Refuses a folder within `output` that cannot be made or written to. Nothing is left behind.

    Raises:
        ConfigError: If the nearest of its parents that exists, or itself if it does, is not a folder or takes no files.
    """
    problem = "it cannot be looked for"
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(directory)  # fails where a name is too long
        place = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
        problem = f"{place} takes no files" if place.is_dir() else f"{place} is not a folder"
        with tempfile.TemporaryDirectory(prefix=".", dir=place):  # rights alone do not tell: see /proc, for root
            return
    except OSError as error:
        problem += f" ({error.strerror})" if "not a folder" not in problem else ""
    raise ConfigError(
        f"--output {output}: {problem}, so {directory} cannot be made. Name a folder that can be written to."
    )
