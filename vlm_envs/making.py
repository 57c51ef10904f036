"""How classes of worlds are called: by text or by numbers, and with suggestions for misspelled arguments."""

from __future__ import annotations

import inspect
import re
from abc import ABCMeta
from collections.abc import Mapping
from typing import Any

from vlm_envs.errors import ConfigError, did_you_mean, require_choice

ACTION_MODES = ("text", "discrete")


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
    `num_levels`, too, which draws that many levels beforehand, as for `gymnasium.make_vec`. It derives from `ABCMeta`
    so that worlds may have abstract base classes besides `World`.
    """

    def __call__(cls, *args: Any, action_mode: str = "text", **kwargs: Any) -> Any:
        """Returns the world, or the wrapper around it; raises `UnknownArgumentError` for misspelled arguments."""
        is_discrete = require_choice("action_mode", action_mode, ACTION_MODES) == "discrete"
        num_levels = kwargs.pop("num_levels", None) if is_discrete else None
        try:
            world = super().__call__(*args, **kwargs)
        except TypeError as error:
            if unknown := unknown_argument(error, cls, kwargs):
                raise UnknownArgumentError(cls.__name__, unknown) from error
            raise
        if not is_discrete:
            return world
        from vlm_envs.exports.discrete import numbered  # Not for those who play by text

        return numbered(world, num_levels=num_levels)

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
    known = [*keyword_parameters(creator), *(["action_mode"] if isinstance(creator, WorldType) else [])]
    if name is None or name not in kwargs or name in known:
        return None
    return (
        f"cannot be made with {name}={kwargs[name]!r}: it has no argument {name!r}.{did_you_mean(name, known)} "
        f"It takes {', '.join(known)}."
    )


def keyword_parameters(creator: Any) -> dict[str, inspect.Parameter]:
    """Returns the keyword parameters of a class or a function; of a base class those that no subclass has itself."""
    constructors = [vars(each).get("__init__") for each in creator.__mro__] if isinstance(creator, type) else [creator]
    found: dict[str, inspect.Parameter] = {}
    for constructor in filter(None, constructors):
        parameters = inspect.signature(constructor).parameters.values()
        found = found | {e.name: e for e in parameters if e.kind is e.KEYWORD_ONLY and e.name not in found}
        if all(each.kind is not each.VAR_KEYWORD for each in parameters):
            break
    return found
