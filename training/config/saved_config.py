"""Configurations as JSON, copies without validation, and checks of output folders."""

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
    """Returns a changed copy without validation, for settings that are valid only once all of them are set."""
    changed = copy.copy(config)
    for name, value in changes.items():
        object.__setattr__(changed, name, value)
    return changed


def plain(value: Any) -> Any:
    """Returns a configuration, or a part of one, as plain data: dataclasses as dictionaries, paths as text.

    Enum members become their values.
    """
    if isinstance(value, Path):
        return str(value)
    if is_dataclass(value) and not isinstance(value, type):
        return {setting.name: plain(getattr(value, setting.name)) for setting in fields(value)}
    if isinstance(value, Mapping):
        return {plain(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return tuple(map(plain, value)) if isinstance(value, tuple) else [*map(plain, value)]
    return plain(value.value) if isinstance(value, Enum) else value


def rebuilt(kind: Any, value: Any) -> Any:
    """Rebuilds a value from plain data, which has no tuples, paths, or enums, and only texts as keys.

    Args:
        kind: Its type, as in annotations.
        value: The JSON value.
    """
    if is_dataclass(kind) and isinstance(value, Mapping):
        hints = typing.get_type_hints(kind)
        known = [setting.name for setting in fields(kind) if setting.init and setting.name in value]
        return typing.cast(Any, kind)(**{name: rebuilt(hints[name], value[name]) for name in known})
    origin, arguments = typing.get_origin(kind) or kind, typing.get_args(kind)
    if origin in (typing.Union, types.UnionType):
        return rebuilt(_part_for(value, [argument for argument in arguments if argument is not types.NoneType]), value)
    if isinstance(value, Mapping):
        of_key, of_value = arguments if len(arguments) == 2 else (Any, Any)
        return {_key(of_key, key): rebuilt(of_value, item) for key, item in value.items()}
    if isinstance(value, list):
        if origin is tuple and arguments and arguments[-1] is not Ellipsis:
            return tuple(rebuilt(part, item) for part, item in zip(arguments, value, strict=True))
        found = [rebuilt(arguments[0] if arguments else Any, item) for item in value]
        return found if origin is list else tuple(found)
    return kind(value) if value is not None and _is_written_otherwise(kind) else value


def _part_for(value: Any, parts: list[Any]) -> Any:
    """Returns the member of a union that a value belongs to, as far as JSON can distinguish them."""
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
    """Returns an algorithm as plain data: its name under `class`, which is not a valid setting, and its settings."""
    return {"class": name_of(algorithm), **plain(algorithm)}


def require_resumable(algorithm: Algorithm) -> None:
    """Raises if an algorithm would not be equal after saving and loading, so that a run could not be resumed.

    Raises:
        ConfigError: If a setting has a type that JSON lacks, or is NaN, which equals nothing.
    """
    hints = typing.get_type_hints(type(algorithm))
    for name, value in ((setting.name, getattr(algorithm, setting.name)) for setting in fields(algorithm)):
        if not _comes_back(hints[name], value):
            raise ConfigError(
                f"--algorithm {name_of(algorithm)}: its setting {name!r} is {value!r}, which cannot be saved as JSON "
                "and loaded, so a run could not be resumed with it. Allowed are finite numbers, texts, booleans, "
                "None, paths, enums, and lists, tuples, dictionaries, and dataclasses of these, each matching its "
                "annotation."
            )


def _comes_back(kind: Any, value: Any) -> bool:
    try:
        return bool(rebuilt(kind, json.loads(json.dumps(to_json(plain(value))))) == value)
    except (TypeError, ValueError):
        return False


def require_name(config: object) -> None:
    """Raises unless a configuration's `name` is a single folder within `output`.

    Raises:
        ConfigError: If the name is empty, or contains or leads to other folders.
    """
    name = str(vars(config)["name"])
    require(
        Path(name).name == name and name not in ("", ".."),
        f"{field_name(config, 'name')} must be one part of a path, such as my_run: it is a folder within "
        f"{field_name(config, 'output')}; got {name!r}.",
    )


def numbered(name: str) -> Iterator[str]:
    """Yields a name, and then the name with the suffixes -2, -3, and so on."""
    yield name
    for number in itertools.count(2):
        yield f"{name}-{number}"


def require_writable(directory: Path, output: str) -> None:
    """Raises if a folder within `output` cannot be created or written to. Leaves no files behind.

    Raises:
        ConfigError: If the folder, or else its nearest existing parent, is not a folder or not writable.
    """
    problem = "its path is invalid"
    try:
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(directory)  # fails if a name is too long
        place = next(path for path in (directory, *directory.parents) if os.path.lexists(path))
        problem = f"{place} takes no files" if place.is_dir() else f"{place} is not a folder"
        with tempfile.TemporaryDirectory(prefix=".", dir=place):  # permissions are not enough, as for root in /proc
            return
    except OSError as error:
        problem += f" ({error.strerror})" if "not a folder" not in problem else ""
    raise ConfigError(
        f"--output {output}: {problem}, so {directory} cannot be made. Name a folder that can be written to."
    )
