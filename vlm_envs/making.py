"""How classes of worlds are called: by text or by numbers, and with suggestions for misspelled arguments."""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any

from vlm_envs.errors import ConfigError, did_you_mean, require, require_choice

ACTION_MODES = ("text", "discrete")

_ADDED = ("action_mode", "num_levels")


class UnknownArgumentError(ConfigError):
    """A world has no argument of that name.

    Args:
        name: What cannot be made.
        fault: The rest of the sentence, and what to do.
    """

    def __init__(self, name: str, fault: str) -> None:
        super().__init__(f"{name} {fault}")
        self.name, self.fault = name, fault

    def __reduce__(self) -> tuple[type[UnknownArgumentError], tuple[str, str]]:
        return type(self), (self.name, self.fault)


class WorldType(ABCMeta):
    """The type of world classes, which gives every world the argument `action_mode`, also in `gymnasium.make`.

    `action_mode="discrete"` wraps the world in a `vlm_envs.exports.discrete.DiscreteWorld`. It then has the argument
    `num_levels`, too, which draws that many levels beforehand, as for `gymnasium.make_vec`. A class whose constructor
    has a parameter of either name keeps it.

    It derives from `ABCMeta`, so worlds may have abstract base classes besides `World`. Base classes with any other
    metaclass, such as those of Qt objects, are a metaclass conflict: hold such an object as an attribute.
    """

    def __call__(cls, *args: Any, **kwargs: Any) -> Any:
        """Returns the world, or the wrapper around it.

        Raises:
            UnknownArgumentError: For misspelled arguments.
            ConfigError: For `num_levels` without `action_mode="discrete"`.
        """
        given = {name: kwargs.pop(name) for name in _ADDED if name in kwargs and name in added_arguments(cls)}
        is_discrete = require_choice("action_mode", given.get("action_mode", "text"), ACTION_MODES) == "discrete"
        num_levels = given.get("num_levels")
        require(
            is_discrete or num_levels is None,
            f"{cls.__name__} with num_levels={num_levels!r} needs action_mode='discrete', too. Add that argument, or "
            "remove num_levels.",
        )
        try:
            world = super().__call__(*args, **kwargs)
        except TypeError as error:
            if unknown := unknown_argument(error, cls, kwargs):
                raise UnknownArgumentError(cls.__name__, unknown) from error
            raise
        if not is_discrete:
            return world
        from vlm_envs.exports.discrete import discrete_world  # Text worlds do not need it

        return discrete_world(world, num_levels=num_levels)

    @property
    def __signature__(cls) -> inspect.Signature:
        """The constructor's own, for help texts."""
        return inspect.signature(cls.__init__.__get__(object()))  # type: ignore[misc]


def unknown_argument(error: TypeError, creator: Any, kwargs: Mapping[str, Any]) -> str | None:
    """Returns what is wrong with a keyword argument that a creator does not have; None for other errors.

    Args:
        error: What calling the creator raised.
        creator: A class or a function.
        kwargs: What it was called with.
    """
    match = re.search(r"unexpected keyword argument '(\w+)'", str(error))
    name = match.group(1) if match else None
    known = [*keyword_parameters(creator), *(added_arguments(creator) if isinstance(creator, WorldType) else ())]
    if name is None or name not in kwargs or name in known:
        return None
    return (
        f"cannot be made with {name}={kwargs[name]!r}: it has no argument {name!r}.{did_you_mean(name, known)} "
        f"It takes {', '.join(known) or 'none'}."
    )


def added_arguments(cls: type) -> tuple[str, ...]:
    """Returns which of `action_mode` and `num_levels` a world class gets from `WorldType`: those it lacks itself."""
    own = keyword_parameters(cls)
    return () if "action_mode" in own else tuple(name for name in _ADDED if name not in own)


def keyword_parameters(creator: Any) -> dict[str, inspect.Parameter]:
    """Returns the parameters of a class or a function that a keyword can set.

    Where a constructor has `**kwargs`, those of base classes are included, except required ones that may be
    positional: a subclass passes these itself.
    """
    constructors = [vars(base).get("__init__") for base in creator.__mro__] if isinstance(creator, type) else [creator]
    found: dict[str, inspect.Parameter] = {}
    for number, constructor in enumerate(filter(None, constructors)):
        parameters = [*inspect.signature(constructor).parameters.values()][isinstance(creator, type) :]  # Without self
        keywords = {p.name: p for p in parameters if _can_be_keyword(p, is_inherited=number > 0)}
        found |= {name: parameter for name, parameter in keywords.items() if name not in found}
        if all(parameter.kind is not parameter.VAR_KEYWORD for parameter in parameters):
            break
    return found


def _can_be_keyword(parameter: inspect.Parameter, *, is_inherited: bool) -> bool:
    if parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
        return not (is_inherited and parameter.default is parameter.empty)
    return parameter.kind is parameter.KEYWORD_ONLY
