"""Imports modules and objects that users name, and reports errors in them in one line with file and line number."""

from __future__ import annotations

import importlib
import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import MappingProxyType, ModuleType
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.requirements import CHECKOUT
from vlm_envs.validation import did_you_mean


def import_named(module: str, *, option: str, instead: str, shown: str = "") -> ModuleType:
    """Returns a module that a user named.

    Args:
        module: Its name, as in an import statement.
        option: The option that named it, with its value, for messages.
        instead: Remedy if the module does not exist.
        shown: The module's name in messages, if different.

    Raises:
        ConfigError: If it cannot be imported, with file and line if the user's own code failed, or if it is a
            folder without code.
    """
    try:
        imported = importlib.import_module(module)
    except (Exception, SystemExit) as error:
        fault = fault_in_module(error)
        raise ConfigError(f"{option}: cannot import {shown or module!r}: {fault or f'{error}. {instead}'}") from error
    if getattr(imported, "__file__", None) is None and hasattr(imported, "__path__"):  # without `__init__.py`
        folder = next(iter(imported.__path__))
        raise ConfigError(f"{option}: {module!r} is a folder here, not a module; change to {folder} first.")
    return imported


def fault_in_module(error: BaseException) -> str | None:
    """Returns where and how a user's own code failed: `worlds/mine.py, line 3: KeyError: 'HOME'`.

    Call it where the error is caught, in the function that imported the module or called its code.

    Args:
        error: The exception that was raised.

    Returns:
        The last line within the folder of the code that was called, wherever it is installed, since lines in
        libraries below it are less useful to its author. None if none of that code was reached, for example
        if the module does not exist.
    """
    if isinstance(error, SyntaxError) and error.filename and Path(error.filename).is_file():
        return f"{_shown(error.filename)}, line {error.lineno}: {type(error).__name__}: {error.msg}"
    _, *called = traceback.extract_tb(error.__traceback__)
    frames = [frame for frame in called if not frame.filename.startswith("<") and frame.filename != importlib.__file__]
    return _described(error, [frame for frame in frames if _folder(frame) == _folder(frames[0])])


def fault_in_world(error: BaseException) -> str | None:
    """Returns the last line of a user's own code, as `fault_in_module` does; None if none was reached.

    User code is all code outside this checkout's packages, Python's library, and installed packages.

    Args:
        error: The exception that was raised while this package ran a user's world.
    """
    ours = tuple(str(CHECKOUT / name) + os.sep for name in ("vlm_envs", "agents", "judges", "training", "benchmarks"))
    ours += tuple(map(sysconfig.get_path, ("stdlib", "purelib", "platlib")))
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith(ours)]
    # Frames of compiled packages name source files that do not exist
    return _described(error, [frame for frame in frames if Path(frame.filename).is_file()])


def _folder(frame: traceback.FrameSummary) -> Path:
    return Path(frame.filename).parent


def _described(error: BaseException, frames: Sequence[traceback.FrameSummary]) -> str | None:
    if not frames:
        return None
    said = (str(error).splitlines() or [""])[0]
    return f"{_shown(frames[-1].filename)}, line {frames[-1].lineno}: {type(error).__name__}{': ' * bool(said)}{said}"


def _shown(filename: str) -> str:
    """Returns a path relative to the current folder if it is within it."""
    path = Path(filename)
    return str(path.relative_to(Path.cwd()) if path.is_relative_to(Path.cwd()) else path)


def resolved(
    what: str,
    value: object,
    *attributes: str,
    known: Mapping[str, object] = MappingProxyType({}),
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Any:
    """Returns an object that is given directly, by name, or by a factory that creates it.

    Args:
        what: The argument's name, for messages.
        value: The object; a name of `known`; or `"module:factory"`, a callable.
        *attributes: Attributes that the object must have.
        known: Objects that have a name.
        settings: Arguments of the factory by name; for a known object, a new one of its type is created with
            them.

    Raises:
        ConfigError: If an attribute is missing; the name, module, or callable does not exist; or the settings
            do not fit. Exceptions of a factory pass through.
    """
    if isinstance(value, str) and value in known:
        return _called(what, type(known[value]), settings) if settings else known[value]
    if isinstance(value, str) and known and ":" not in value:
        raise ConfigError(
            f"{what} must be {', '.join(map(repr, known))}, 'module:factory' or an object; got {value!r}."
            f"{did_you_mean(value, known)}"
        )
    if settings and not isinstance(value, str):
        raise ConfigError(
            f"{what}_kwargs={dict(settings)!r} would have no effect: {what} is already an object. Omit them, or "
            "name a "
            "'module:factory' that accepts them."
        )
    made = _made_by(what, value, settings) if isinstance(value, str) else value
    if not all(hasattr(made, name) for name in attributes):
        raise ConfigError(
            f"{what} must be 'module:factory' or an object with {' and '.join(attributes)}; got {made!r}."
        )
    return made


def _made_by(what: str, name: str, settings: Mapping[str, object]) -> object:
    """Returns the object created by the factory `"module:factory"`."""
    module_name, _, factory_name = name.partition(":")
    if not (module_name and factory_name):
        raise ConfigError(f"{what} must be 'module:factory'; got {name!r}.")
    module = import_named(module_name, option=f"{what}={name!r}", instead="Check the module and its name.")
    factory: Any = getattr(module, factory_name, None)
    if factory is None:
        known = did_you_mean(factory_name, vars(module))
        raise ConfigError(f"{what}={name!r}: {module_name} has no {factory_name!r}.{known}")
    if not callable(factory):
        raise ConfigError(f"{what}={name!r} is {factory!r}, which is not callable; name a function that returns one.")
    return _called(what, factory, settings)


def _called(what: str, factory: Callable[..., object], settings: Mapping[str, object]) -> object:
    """Returns the result of a factory, after checking its signature, so that errors raised in it pass through."""
    try:
        inspect.signature(factory).bind(**settings)
    except TypeError as error:
        named = f"{what}_kwargs={dict(settings)!r}"
        raise ConfigError(f"{named}: {error}. Its signature is {inspect.signature(factory)}.") from None
    except ValueError:  # a callable without an inspectable signature
        pass
    return factory(**settings)
