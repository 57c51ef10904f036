"""Objects named as `module:factory`, so that arguments of worlds stay text that worker processes can be sent."""

from __future__ import annotations

import importlib
from typing import Any

from vlm_envs.errors import ConfigError


def made_by(what: str, name: str) -> object:
    """Returns what a factory makes.

    Args:
        what: The argument's name, for messages.
        name: `"module:factory"`, a callable without arguments.

    Raises:
        ConfigError: If there is no such module or callable. What the factory raises is raised as it is.
    """
    module_name, _, factory_name = name.partition(":")
    if not (module_name and factory_name):
        raise ConfigError(f"{what} must be 'module:factory'; got {name!r}.")
    try:
        factory: Any = getattr(importlib.import_module(module_name), factory_name)
    except (ImportError, AttributeError) as error:
        raise ConfigError(f"{what}={name!r} cannot be imported: {error}. Check the module and its name.") from error
    if not callable(factory):
        raise ConfigError(f"{what}={name!r} is {factory!r}, which cannot be called; name a function that returns one.")
    made: object = factory()
    return made


def resolved(what: str, value: object, *attributes: str) -> Any:
    """Returns the object that an argument is, or that the factory makes which it names.

    Args:
        what: The argument's name, for messages.
        value: The object, or `"module:factory"`.
        *attributes: What the object must have.

    Raises:
        ConfigError: If it has not, or there is no such factory.
    """
    made = made_by(what, value) if isinstance(value, str) else value
    if not all(hasattr(made, name) for name in attributes):
        raise ConfigError(
            f"{what} must be 'module:factory' or an object with {' and '.join(attributes)}; got {made!r}."
        )
    return made
