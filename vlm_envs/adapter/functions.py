"""Functions of adapted worlds: `"module:function"`, or `"folder/module:function"` for a module beside a TOML file."""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from types import ModuleType
from typing import Any, NamedTuple

from vlm_envs.arguments.faults import import_named
from vlm_envs.errors import did_you_mean, require

INFO_RULE = "info:"
"""Prefix of a `success` that names an entry of `info`, not a function."""

_SETTINGS = ("success", "describe", "plan")
_DIGEST_CHARS = 16
_LOCK = threading.Lock()


class _Named(NamedTuple):
    """The parts of a function's name; `folder` is empty for modules that are imported by name."""

    folder: str
    module: str
    function: str

    @classmethod
    def parse(cls, value: object) -> _Named | None:
        if not isinstance(value, str) or ":" not in value:
            return None
        path, _, function = value.rpartition(":")
        return cls(*os.path.split(path), function)

    def __str__(self) -> str:
        return f"{os.path.join(self.folder, self.module)}:{self.function}"

    @property
    def file(self) -> Path | None:
        """The module's file in the folder, or None if it does not exist."""
        path = Path(self.folder, *self.module.split("."))
        files = (path / "__init__.py", path.with_name(f"{path.name}.py"))
        return next(filter(Path.is_file, files), None) if self.folder else None


def _functions(arguments: Mapping[str, Any]) -> dict[str, _Named]:
    found = {key: _Named.parse(arguments.get(key)) for key in _SETTINGS}
    is_rule = str(arguments.get("success")).startswith(INFO_RULE)
    return {key: named for key, named in found.items() if named is not None and not (key == "success" and is_rule)}


def located(arguments: Mapping[str, Any], directory: str | Path, beside: str) -> dict[str, Any]:
    """Returns arguments of `adapt` with absolute folders of functions.

    Args:
        arguments: The arguments.
        directory: What folders in them are relative to.
        beside: A folder whose modules are used where a function has no folder or its module is not there; empty for
            none.
    """
    found = dict(arguments)
    for key, named in _functions(arguments).items():
        own = named._replace(folder=named.folder and os.path.abspath(os.path.join(directory, named.folder)))
        other = named._replace(folder=beside)
        found[key] = str(other if own.file is None and other.file is not None else own)
    return found


def relative(arguments: Mapping[str, Any], directory: str | Path) -> dict[str, Any]:
    """Returns arguments with folders of functions relative to a directory."""
    named = {key: value for key, value in _functions(arguments).items() if value.folder}
    moved = {key: str(value._replace(folder=os.path.relpath(value.folder, directory))) for key, value in named.items()}
    return {**arguments, **moved}


def without_folders(arguments: Mapping[str, Any]) -> dict[str, Any]:
    """Returns arguments with functions as `"module:function"`."""
    return {**arguments, **{key: str(named._replace(folder="")) for key, named in _functions(arguments).items()}}


def digests(arguments: Mapping[str, Any]) -> dict[str, str]:
    """Returns a hash of every file that functions come from, by its path within its folder."""
    files = {named.file: named.folder for named in _functions(arguments).values()}
    return {
        file.relative_to(folder).as_posix(): hashlib.sha256(file.read_bytes()).hexdigest()[:_DIGEST_CHARS]
        for file, folder in files.items()
        if file is not None
    }


def search(folder: str) -> None:
    """Has modules found in a folder where they are nowhere else; an environment's module may be beside a TOML file."""
    if folder and folder not in sys.path:
        sys.path.append(folder)


def function_of(what: str, value: str | Callable[..., Any]) -> Callable[..., Any]:
    """Returns a function, or the one that a text names.

    Args:
        what: The setting, for messages.
        value: The function, `"module:function"`, or `"folder/module:function"`.

    Raises:
        ConfigError: If there is no such module or function.
    """
    if not isinstance(value, str):
        return value
    named = _Named.parse(value)
    assert named is not None, value
    option = f"{what}={str(named._replace(folder=''))!r}"
    if named.folder:
        module = _beside(named, option)
    else:
        module = import_named(named.module, option=option, instead="Run from the folder that holds it, or install it.")
    found: Any = getattr(module, named.function, None)
    hint = did_you_mean(named.function, vars(module))
    require(callable(found), f"{option}: {named.module} has no function {named.function!r}.{hint}")
    return found  # type: ignore[no-any-return]


def _beside(named: _Named, option: str) -> ModuleType:
    """Returns a module of a folder, whatever other modules of its name there are."""
    folder = os.path.abspath(named.folder)
    file = named.file
    require(
        file is not None,
        f"{option}: {os.path.join(folder, *named.module.split('.'))}.py is not there. Restore it or, if it was moved "
        "with the TOML file, run from the folder that the file's path starts from.",
    )
    assert file is not None
    by_name = sys.modules.get(named.module)
    if by_name is not None and _is_at(by_name, file):  # it registered the environment; its classes must be the same
        return by_name
    package = f"_vlm_envs_beside_{hashlib.sha256(folder.encode()).hexdigest()[:_DIGEST_CHARS]}"
    with _LOCK:
        if (imported := sys.modules.get(f"{package}.{named.module}")) is not None:
            return imported
        if package not in sys.modules:
            sys.modules[package] = ModuleType(package)
            sys.modules[package].__path__ = [folder]
        with _siblings_first(folder):
            return import_named(f"{package}.{named.module}", option=option, instead="", shown=named.module)


@contextlib.contextmanager
def _siblings_first(folder: str) -> Iterator[None]:
    """Has imports find a folder's modules before others of the same names, except for Python's own."""
    names = {path.stem for path in Path(folder).iterdir() if path.suffix == ".py" or (path / "__init__.py").is_file()}
    names -= sys.stdlib_module_names

    def loaded() -> dict[str, ModuleType]:
        return {name: module for name, module in sys.modules.items() if name.partition(".")[0] in names}

    others = {name: module for name, module in loaded().items() if not _is_within(module, folder)}
    for name in others:
        del sys.modules[name]
    sys.path.insert(0, folder)
    importlib.invalidate_caches()
    try:
        yield
    finally:
        sys.path.remove(folder)
        hidden = {name.partition(".")[0] for name in others}
        for name in loaded():
            if name.partition(".")[0] in hidden:
                del sys.modules[name]
        sys.modules.update(others)


def _is_at(module: ModuleType, file: Path) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and Path(path).resolve() == file.resolve()


def _is_within(module: ModuleType, folder: str) -> bool:
    path = getattr(module, "__file__", None)
    return path is not None and Path(path).resolve().is_relative_to(Path(folder).resolve())
