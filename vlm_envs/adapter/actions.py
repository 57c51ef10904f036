"""Actions of Gymnasium spaces as text: names, or numbers in brackets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt
from gymnasium import spaces

from vlm_envs.errors import ConfigError, require
from vlm_envs.responses.parsing import ActionGrammar

Action = int | tuple[int | float, ...]
"""An action as states keep it: a number of a discrete space, or all numbers of another space in a row."""

_MAX_CHARS = 2_000
"""Longest text that is read as numbers."""
_NOT_IN_NAMES = frozenset(",;<>\n\r\t")
_MAX_SHOWN_BOUNDS = 32


@dataclass(frozen=True, kw_only=True)
class ActionTexts:
    """Reads and writes the actions of one space.

    Attributes:
        space: A discrete, multi-discrete, multi-binary, or box space.
        names: Named actions; only these are read. Empty for numbers in brackets.
    """

    space: spaces.Space[Any]
    names: Mapping[str, Action] = field(default_factory=dict)
    _by_name: Mapping[str, Action] = field(init=False, repr=False)
    _names: Mapping[Action, str] = field(init=False, repr=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "_by_name", {name.casefold(): action for name, action in self.names.items()})
        object.__setattr__(self, "_names", {action: name for name, action in reversed([*self.names.items()])})

    @property
    def grammar(self) -> ActionGrammar[Action]:
        """How a list of actions is written; numbers in brackets contain commas, so semicolons separate them."""
        return ActionGrammar(parse=self.read, separator="," if self.names else ";", expected=self.expected)

    @property
    def expected(self) -> str:
        """What an action looks like, for prompts and error messages."""
        if self.names:
            return "one of " + ", ".join(self.names)
        low, high = self._bounds
        kind = "numbers" if self._is_real else "whole numbers"
        example = self.write(tuple(self._sample(np.random.default_rng(0))))
        ranges = [f"from {_shown(least)} to {_shown(most)}" for least, most in zip(low, high, strict=True)]
        if len(set(ranges)) == 1:
            return f"{low.size} {kind if low.size > 1 else kind[:-1]} in brackets, such as {example}, each {ranges[0]}"
        listed = "; ".join(ranges[:_MAX_SHOWN_BOUNDS])
        return f"{low.size} {kind} in brackets, such as {example}: {listed}"

    def read(self, text: str) -> Action | None:
        """Returns the action that a text is, or None."""
        text = text.strip()
        if self.names:
            return self._by_name.get(text.casefold())
        if len(text) > _MAX_CHARS:
            return None
        try:
            value = json.loads(text)
        except (ValueError, RecursionError):
            return None
        numbers = value if isinstance(value, list) else [value]
        if not all(isinstance(number, int | float) and not isinstance(number, bool) for number in numbers):
            return None
        return self.action_of(numbers)

    def write(self, action: Action) -> str:
        """Returns an action as `read` reads it."""
        if self.names:
            return self._names[action]
        return json.dumps([action] if isinstance(action, int) else list(action))

    def action_of(self, value: object) -> Action | None:
        """Returns the action that a name or a value of the space stands for; None if it is not one.

        Args:
            value: A name, a number, or numbers in sequences or an array.
        """
        if isinstance(value, str):
            return self._by_name.get(value.casefold())
        try:
            numbers = np.asarray(value)
        except ValueError:  # sequences of different lengths
            return None
        low, high = self._bounds
        if numbers.dtype.kind not in "iuf" or numbers.size != low.size:
            return None
        flat = numbers.reshape(-1)
        if not (np.isfinite(flat.astype(np.float64)).all() and (flat >= low).all() and (flat <= high).all()):
            return None
        if self._is_real:
            return tuple(map(float, flat))
        if any(number != int(number) for number in flat):
            return None
        whole = tuple(map(int, flat))
        return whole[0] if isinstance(self.space, spaces.Discrete) else whole

    def value_of(self, action: Action) -> Any:
        """Returns an action as the environment takes it."""
        if isinstance(action, int):
            return action
        return np.array(action, self.space.dtype).reshape(self.space.shape or ())

    def sample(self, rng: np.random.Generator, allowed: Sequence[int] | None) -> Action:
        """Returns a random action.

        Args:
            rng: Draws it.
            allowed: Numbers of a discrete space that are allowed; None for all.
        """
        if self.names:
            actions = [*self.names.values()]
            possible = [action for action in actions if action in allowed] if allowed is not None else actions
            possible = possible or actions
            return possible[rng.integers(len(possible))]
        return tuple(self._sample(rng))

    def _sample(self, rng: np.random.Generator) -> list[int | float]:
        low, high = self._bounds
        if not self._is_real:
            return [int(rng.integers(int(least), int(most) + 1)) for least, most in zip(low, high, strict=True)]
        low, high = (np.where(np.isfinite(bound), bound, start) for bound, start in ((low, -1.0), (high, 1.0)))
        drawn = np.round(rng.uniform(np.minimum(low, high), np.maximum(low, high)), 2)
        return [float(number) for number in np.clip(drawn, *self._bounds)]

    @property
    def _is_real(self) -> bool:
        return isinstance(self.space, spaces.Box) and np.issubdtype(self.space.dtype, np.floating)

    @property
    def _bounds(self) -> tuple[npt.NDArray[np.float64], npt.NDArray[np.float64]]:
        """Least and largest value of each number in a row."""
        space = self.space
        if isinstance(space, spaces.Discrete):
            low, high = np.array([space.start]), np.array([space.start + space.n - 1])
        elif isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            low, high = np.zeros(space.shape), np.ones(space.shape)
        else:
            assert isinstance(space, spaces.Box)
            low, high = space.low, space.high
        return low.reshape(-1).astype(np.float64), high.reshape(-1).astype(np.float64)


def action_texts(
    space: spaces.Space[Any], named: Mapping[str, Any] | Sequence[str] | None, own_names: Sequence[str]
) -> ActionTexts:
    """Returns how the actions of a space are written.

    Args:
        space: The environment's action space.
        named: The setting `actions`.
        own_names: What the environment itself calls the numbers of a discrete space; used without `named`.

    Raises:
        ConfigError: If the space is of another kind, or `named` does not fit it.
    """
    kinds = (spaces.Discrete, spaces.MultiDiscrete, spaces.MultiBinary, spaces.Box)
    require(
        isinstance(space, kinds),
        f"Only Discrete, MultiDiscrete, MultiBinary, and Box actions can be adapted; the environment has {space}. "
        "Wrap it so that its actions are one of these.",
    )
    numbers = ActionTexts(space=space)
    if isinstance(named, Mapping):
        return ActionTexts(
            space=space, names=_checked({name: numbers.action_of(named[name]) for name in named}, named, space)
        )
    if not isinstance(space, spaces.Discrete):
        require(
            named is None,
            f"actions must map names to actions of {space}, such as {{'name': "
            f"{numbers.write(numbers.sample(np.random.default_rng(0), None))}}}; got {named!r}.",
        )
        return numbers
    first, count = int(space.start), int(space.n)
    if named is not None:
        require(
            len(named) == count,
            f"actions must have {count} names, for the numbers {first} to {first + count - 1}; got {len(named)}: "
            f"{', '.join(map(str, named))}. To leave actions out, map names to numbers.",
        )
    if named is not None:
        names = [*named]
    elif len({name.casefold() for name in own_names[:count]}) == count:
        names = [*own_names[:count]]
    else:
        names = [str(number) for number in range(first, first + count)]
    return ActionTexts(
        space=space, names=_checked(dict(zip(names, range(first, first + count), strict=True)), named, space)
    )


def _checked(names: Mapping[str, Action | None], given: object, space: spaces.Space[Any]) -> dict[str, Action]:
    """Returns named actions; raises `ConfigError` unless each name can be read and each value is in the space."""
    require(bool(names), "actions must have at least one name; got none. Leave actions out for the environment's own.")
    found: dict[str, Action] = {}
    for name, action in names.items():
        if action is None:
            assert isinstance(given, Mapping)
            raise ConfigError(f"actions: {name!r} is {given[name]!r}, which is not an action of {space}.")
        fits = bool(name.strip()) and name == name.strip() and not _NOT_IN_NAMES & set(name)
        require(
            fits and name.casefold() not in map(str.casefold, found),
            f"actions: {name!r} cannot be read back: names must be different from each other in any case, not empty, "
            "and without commas, semicolons, angle brackets, and spaces around them.",
        )
        found[name] = action
    return found


def _shown(bound: float) -> str:
    return ("minus infinity" if bound < 0 else "infinity") if math.isinf(bound) else f"{bound:g}"
