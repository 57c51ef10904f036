"""Objects named as `module:factory`, so that arguments of worlds stay text that worker processes can be sent."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from vlm_envs.arguments.faults import import_named
from vlm_envs.errors import ConfigError, did_you_mean


def resolved(
    what: str,
    value: object,
    *attributes: str,
    known: Mapping[str, object] = MappingProxyType({}),
    settings: Mapping[str, object] = MappingProxyType({}),
) -> Any:
    """Returns the object that an argument is or names, or that the factory makes which it names.

    Args:
        what: The argument's name, for messages.
        value: The object; a name of `known`; or `"module:factory"`, a callable.
        *attributes: What the object must have.
        known: Objects that have a name.
        settings: Arguments of the factory by name; with those of a known object's type one like it is made.

    Raises:
        ConfigError: If it has not, or there is no such name, module or callable, or it takes no such settings. What a
            factory raises is raised as it is.
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
            f"{what}_kwargs={dict(settings)!r} would do nothing: {what} is an object already. Leave them out, or name "
            "a 'module:factory' that takes them."
        )
    made = _made_by(what, value, settings) if isinstance(value, str) else value
    if not all(hasattr(made, name) for name in attributes):
        raise ConfigError(
            f"{what} must be 'module:factory' or an object with {' and '.join(attributes)}; got {made!r}."
        )
    return made


def _made_by(what: str, name: str, settings: Mapping[str, object]) -> object:
    """Returns what the factory `"module:factory"` makes."""
    module_name, _, factory_name = name.partition(":")
    if not (module_name and factory_name):
        raise ConfigError(f"{what} must be 'module:factory'; got {name!r}.")
    module = import_named(module_name, option=f"{what}={name!r}", instead="Check the module and its name.")
    factory: Any = getattr(module, factory_name, None)
    if factory is None:
        known = did_you_mean(factory_name, vars(module))
        raise ConfigError(f"{what}={name!r}: {module_name} has no {factory_name!r}.{known}")
    if not callable(factory):
        raise ConfigError(f"{what}={name!r} is {factory!r}, which cannot be called; name a function that returns one.")
    return _called(what, factory, settings)


def _called(what: str, factory: Callable[..., object], settings: Mapping[str, object]) -> object:
    """Returns what a factory makes of settings, after asking whether it takes them: its own errors are its own."""
    try:
        inspect.signature(factory).bind(**settings)
    except TypeError as error:
        named = f"{what}_kwargs={dict(settings)!r}"
        raise ConfigError(f"{named}: {error}. It takes {inspect.signature(factory)}.") from None
    except ValueError:  # a callable that does not tell what it takes
        pass
    return factory(**settings)
