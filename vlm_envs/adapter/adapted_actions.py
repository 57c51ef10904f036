"""Actions of Gymnasium spaces as text: names, or numbers in brackets."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np
from gymnasium import spaces

from vlm_envs.errors import ConfigError
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.validation import require

Action = int | tuple[int | float, ...]
"""An action as states store it: a number of a discrete space, or all numbers of another space, flattened."""

_MAX_CHARS = 2_000
"""Maximum length of a text that is read as numbers."""
_NOT_IN_NAMES = frozenset(",;<>\n\r\t")
_MAX_SHOWN_BOUNDS = 32
MAX_LISTED = 40
"""Unless names are given, discrete spaces with more actions use numbers in brackets."""


@dataclass(frozen=True, kw_only=True)
class ActionTexts:
    """Reads and writes the actions of one space.

    Attributes:
        space: A discrete, multi-discrete, multi-binary, or box space.
        names: Named actions; no others can be read. Empty for numbers in brackets.
    """

    space: spaces.Space[Any]
    names: Mapping[str, Action] = field(default_factory=dict)

    @cached_property
    def _by_name(self) -> dict[str, Action]:
        return {name.casefold(): action for name, action in self.names.items()}

    @property
    def grammar(self) -> ActionGrammar[Action]:
        """Syntax of a list of actions; semicolons separate numbers in brackets, which contain commas."""
        return ActionGrammar(parse=self.read, separator="," if self.names else ";", expected=self.expected)

    @property
    def expected(self) -> str:
        """Description of a valid action, for prompts and error messages."""
        if self.names:
            return "one of " + ", ".join(self.names)
        bounds, kind = self._bounds, "number" if self._is_real else "whole number"
        example = self.write(self._sample(np.random.default_rng(0)))
        ranges = [f"from {_shown(least)} to {_shown(most)}" for least, most in bounds]
        if len(ranges) == 1:
            return f"1 {kind} in brackets, such as {example}, {ranges[0]}"
        if len(set(ranges)) == 1:
            return f"{len(ranges)} {kind}s in brackets, such as {example}, each {ranges[0]}"
        return f"{len(ranges)} {kind}s in brackets, such as {example}: {'; '.join(ranges[:_MAX_SHOWN_BOUNDS])}"

    def listed(self, numbers: Sequence[int]) -> str:
        """Returns actions of a discrete space as text, for prompts; omits those without a name.

        Args:
            numbers: The actions.
        """
        if self.names:
            shown, more = [name for name, action in self.names.items() if action in numbers], ""
        else:
            shown = [self.write(number) for number in numbers[:MAX_LISTED]]
            more = f" and {len(numbers) - MAX_LISTED} more" if len(numbers) > MAX_LISTED else ""
        return self.grammar.separator.join(f" {text}" for text in shown).strip() + more

    def read(self, text: str) -> Action | None:
        """Returns the action that a text stands for; None if it is not one."""
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
        """Returns an action as text that `read` can read."""
        if self.names:
            return next(name for name, named in self.names.items() if named == action)
        return json.dumps([action] if isinstance(action, int) else list(action))

    def action_of(self, value: object) -> Action | None:
        """Returns the action that a name or a value of the space stands for; None if it is not one.

        Args:
            value: A name, a number, or numbers in sequences or an array.
        """
        if isinstance(value, str):
            return self._by_name.get(value.casefold())
        try:
            numbers = np.asarray(value, None if hasattr(value, "dtype") else object).reshape(-1).tolist()
        except ValueError:  # sequences of different shapes
            return None
        kinds = int | float | np.integer | np.floating
        if any(isinstance(number, bool) or not isinstance(number, kinds) for number in numbers):
            return None
        if len(numbers) != len(self._bounds) or not all(map(math.isfinite, map(_as_float, numbers))):
            return None
        if self._is_real:
            numbers = [self._real(number) for number in numbers]
        elif any(number != int(number) for number in numbers):
            return None
        if not all(least <= number <= most for number, (least, most) in zip(numbers, self._bounds, strict=True)):
            return None
        if self._is_real:  # a number may be too large for the space's dtype
            return tuple(numbers) if all(map(math.isfinite, numbers)) else None
        whole = tuple(map(int, numbers))
        return whole[0] if isinstance(self.space, spaces.Discrete) else whole

    def value_of(self, action: Action) -> Any:
        """Returns an action in the form the environment accepts."""
        if isinstance(action, int):
            return action
        return np.array(action, self.space.dtype).reshape(self.space.shape or ())

    def sample(self, rng: np.random.Generator, allowed: Sequence[int] | None) -> Action:
        """Returns a random action.

        Args:
            rng: The only source of randomness.
            allowed: Allowed numbers of a discrete space; None for all.
        """
        if self.names:
            actions = [*self.names.values()]
            possible = [action for action in actions if allowed is None or action in allowed] or actions
            return possible[rng.integers(len(possible))]
        if allowed and isinstance(self.space, spaces.Discrete):
            return allowed[int(rng.integers(len(allowed)))]
        return self._sample(rng)

    def _sample(self, rng: np.random.Generator) -> Action:
        if self._is_real:
            return tuple(self._real(_drawn(rng, least, most)) for least, most in self._bounds)
        dtype: Any = np.uint64 if self.space.dtype == np.uint64 else np.int64
        whole = ((int(least), int(most)) for least, most in self._bounds)
        numbers = [int(rng.integers(least, most, dtype=dtype, endpoint=True)) for least, most in whole]
        return numbers[0] if isinstance(self.space, spaces.Discrete) else tuple(numbers)

    @property
    def _is_real(self) -> bool:
        return isinstance(self.space, spaces.Box) and np.issubdtype(self.space.dtype, np.floating)

    def _real(self, number: float) -> float:
        """Returns the shortest decimal of a number in the space's dtype: 0.7, not 0.699999988, for float32."""
        assert self.space.dtype is not None
        with np.errstate(over="ignore"):
            return float(str(self.space.dtype.type(_as_float(number))))

    @cached_property
    def _bounds(self) -> tuple[tuple[int | float, int | float], ...]:
        """Lower and upper bound of each number of a flattened action; those of float spaces are rounded by `_real`."""
        space = self.space
        if isinstance(space, spaces.Discrete):
            return ((int(space.start), int(space.start) + int(space.n) - 1),)
        if isinstance(space, spaces.MultiDiscrete):
            low, high = space.start, space.start + space.nvec - 1
        elif isinstance(space, spaces.MultiBinary):
            low, high = np.zeros(space.shape, np.int8), np.ones(space.shape, np.int8)
        else:
            assert isinstance(space, spaces.Box)
            low, high = space.low, space.high
        number = self._real if self._is_real else int
        return tuple((number(least), number(most)) for least, most in zip(low.flat, high.flat, strict=True))


def action_texts(
    space: spaces.Space[Any], named: Mapping[str, Any] | Sequence[str] | None, own_names: Sequence[str]
) -> ActionTexts:
    """Returns the reader and writer of the actions of a space.

    Args:
        space: The environment's action space.
        named: The setting `actions`.
        own_names: The environment's own names for the numbers of a discrete space; used if `named` is None.

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
        actions: dict[str, Action] = {}
        for name, value in named.items():
            action = numbers.action_of(value)
            if action is None:
                raise ConfigError(f"actions: {name!r} is {value!r}, which is not an action of {space}.")
            actions[name] = action
        return _with_names(space, actions)
    if not isinstance(space, spaces.Discrete):
        require(
            named is None,
            f"actions must map names to actions of {space}, such as {{'name': "
            f"{numbers.write(numbers.sample(np.random.default_rng(0), None))}}}; got {named!r}.",
        )
        return numbers
    indices = range(int(space.start), int(space.start) + int(space.n))
    if named is None:
        named = own_names[: len(indices)]
        if len({name.casefold() for name in named}) < len(indices) or not all(map(_can_be_read, named)):
            if len(indices) > MAX_LISTED:
                return numbers
            named = [*map(str, indices)]
    require(
        len(named) == len(indices),
        f"actions must have {len(indices)} names, for the numbers {indices[0]} to {indices[-1]}; got {len(named)}: "
        f"{', '.join(map(str, named))}. To omit actions, map names to numbers.",
    )
    return _with_names(space, dict(zip(named, indices, strict=True)))


def _with_names(space: spaces.Space[Any], names: Mapping[str, Action]) -> ActionTexts:
    """Returns the reader and writer of named actions; raises `ConfigError` unless each name can be read."""
    require(bool(names), "actions must have at least one name; got none. Omit actions to use the environment's own.")
    folded = [name.casefold() for name in names]
    for number, name in enumerate(names):
        require(
            _can_be_read(name) and folded[number] not in folded[:number],
            f"actions: {name!r} cannot be read back: names must differ in more than case, and must not be empty, "
            "begin or "
            "end with a space, or contain commas, semicolons, or angle brackets.",
        )
    return ActionTexts(space=space, names=names)


def _can_be_read(name: str) -> bool:
    return bool(name) and name == name.strip() and not _NOT_IN_NAMES & set(name)


def _drawn(rng: np.random.Generator, least: float, most: float) -> float:
    """Returns a number between bounds, with few digits; if a bound is infinite, a number near the other one or zero."""
    least_drawn = least if math.isfinite(least) else (most - max(2.0, abs(most)) if math.isfinite(most) else -1.0)
    most_drawn = most if math.isfinite(most) else (least + max(2.0, abs(least)) if math.isfinite(least) else 1.0)
    part = rng.random()
    drawn = least_drawn * (1 - part) + most_drawn * part  # a difference of the bounds may be too large
    span = most_drawn / 2 - least_drawn / 2
    num_digits = 2 if span <= 0 else max(2, 1 - math.floor(math.log10(span)))
    return min(max(round(drawn, num_digits), least), most)


def _as_float(number: float) -> float:
    try:
        return float(number)
    except OverflowError:  # of a whole number
        return math.inf


def _shown(bound: float) -> str:
    """Returns a bound in the form in which it is read, or in words."""
    if math.isinf(bound):
        return "minus infinity" if bound < 0 else "infinity"
    return json.dumps(bound).removesuffix(".0")
