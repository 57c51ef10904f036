"""Search for one sequence of actions, the same in every episode, that solves many levels; it may miss better ones."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.parts import Dynamics
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds

NUM_LEVELS = 200
"""Training levels on which sequences are compared."""

NUM_CHANGES = 750
"""Changes that are tried from each beginning, one after the other."""

_NOT_DRAWN = {"obs_mode": "text"}

NUM_BEGINNINGS = 4
"""Sequences that a search begins with."""

MOST_ACTIONS = 40
"""Actions of a sequence; whoever has more in an episode repeats its last turn."""

_MOST_REPLACED = 3
_MOVED_RATE = 0.3
"""How often an action is moved to another place, besides those that are replaced."""


OnCount = Callable[[int, int], None]
"""Called with how much is done, and how much there is."""


def not_drawn(env_id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns world arguments that skip drawing images if the world has the text mode.

    Args:
        env_id: A registered id.
        kwargs: Arguments of the world.
    """
    try:
        make(env_id, **kwargs | _NOT_DRAWN).close()
    except ConfigError:  # no words for its states, as in an adapted world without `describe`
        return kwargs
    return kwargs | _NOT_DRAWN


@dataclass(slots=True)
class _Counted:
    """Reports how many of a number of things are done."""

    on_count: OnCount
    num_wanted: int
    num_done: int = 0

    def add(self) -> None:
        self.num_done += 1
        self.on_count(self.num_done, self.num_wanted)


@dataclass(eq=False, slots=True)
class _Place:
    """A state that some sequence has come to.

    Attributes:
        state: The state.
        is_over: Whether an episode ends here when an action has led here.
        after: What an action leads to and whether that changes anything; None if that is up to chance.
    """

    state: Any
    is_over: bool
    after: dict[Any, tuple[_Place, bool] | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """Levels of a world and what may be done in them.

    Attributes:
        dynamics: Of the world; a step that drew no number is taken once and remembered.
        states: Where episodes begin; nothing is remembered of those that cannot be hashed.
        actions: All actions that have a name, hashable.
        length: Actions of a sequence.
    """

    dynamics: Dynamics[Any, Any]
    states: tuple[Any, ...]
    actions: tuple[Any, ...]
    length: int
    _places: dict[Any, _Place] = field(default_factory=dict, init=False, repr=False)

    def num_solved(self, sequence: Sequence[Any]) -> int:
        """Returns how many levels a sequence solves."""
        return sum(self._is_solved(number, state, sequence) for number, state in enumerate(self.states))

    def _is_solved(self, number: int, state: Any, sequence: Sequence[Any]) -> bool:
        place, rng = self._place(state), None
        for action in sequence:
            found = place.after.get(action)
            if found is None:
                rng = rng or np.random.default_rng(number)
                found = self._stepped(place, action, rng)
            place, is_changed = found
            if is_changed and place.is_over:
                return self.dynamics.is_success(place.state)
        return False

    def _stepped(self, place: _Place, action: Any, rng: np.random.Generator) -> tuple[_Place, bool]:
        """Returns where an action leads, and whether that is elsewhere; keeps it if no number was drawn."""
        before = rng.bit_generator.state if action not in place.after else None
        state, is_changed = self.dynamics.step(place.state, action, rng)
        found = self._place(state), is_changed
        if before is not None:
            place.after[action] = found if rng.bit_generator.state == before else None
        return found

    def _place(self, state: Any) -> _Place:
        try:
            place = self._places.get(state)
        except TypeError:  # one that holds a list or an array, as a world of one's own may
            return _Place(state, self.dynamics.is_over(state))
        if place is None:
            place = self._places[state] = _Place(state, self.dynamics.is_over(state))
        return place

    def searched(
        self, first: Sequence[Sequence[Any]], on_change: OnCount = lambda num_done, num_wanted: None
    ) -> list[tuple[Any, ...]]:
        """Returns what changes to the best of the first sequences lead to; equal levels give equal ones.

        Args:
            first: Sequences to begin with, at least one; each is repeated until it is long enough.
            on_change: Called after each change that was tried.
        """
        repeated = {tuple(each[place % len(each)] for place in range(self.length)): None for each in first}
        beginnings = sorted(repeated, key=self.num_solved, reverse=True)[:NUM_BEGINNINGS]
        counted = _Counted(on_change, len(beginnings) * NUM_CHANGES)
        return [self._climbed(each, np.random.default_rng(number), counted) for number, each in enumerate(beginnings)]

    def _climbed(self, best: tuple[Any, ...], rng: np.random.Generator, counted: _Counted) -> tuple[Any, ...]:
        """Returns a sequence after changes; one that solves no fewer levels is kept."""
        most = self.num_solved(best)
        for _ in range(NUM_CHANGES):
            counted.add()
            changed = self._changed(best, rng)
            if (num_solved := self.num_solved(changed)) >= most:
                best, most = changed, num_solved
        return best

    def _changed(self, sequence: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
        actions = list(sequence)
        for place in rng.integers(self.length, size=rng.integers(1, _MOST_REPLACED + 1)):
            actions[place] = self.actions[rng.integers(len(self.actions))]
        if rng.random() < _MOVED_RATE:
            taken, given = rng.integers(self.length, size=2)
            actions.insert(given, actions.pop(taken))
        return tuple(actions)


def open_loop(
    env_id: str,
    kwargs: dict[str, Any],
    *,
    num_levels: int = NUM_LEVELS,
    on_level: OnCount = lambda num_done, num_wanted: None,
) -> OpenLoop | None:
    """Returns a world's training levels to search on.

    None where actions have no names, as answers have none, where an engine takes each step, and where no level can be
    started; those that cannot are left out.

    Args:
        env_id: A registered id.
        kwargs: Arguments of the world besides its split.
        num_levels: How many levels.
        on_level: Called after each level that was started.
    """
    with closing(make(env_id, **not_drawn(env_id, kwargs) | {"split": "train"})) as made:
        world: Any = made.unwrapped
        if not world.task.action_names or not world.dynamics.steps_are_cheap:
            return None
        states = []
        counted = _Counted(on_level, num_levels)
        for seed in split_seeds("train", num_levels):
            counted.add()
            with suppress(VLMEnvsError):
                world.reset(seed=seed)
                states.append(world.state)
        if not states:
            return None
        most = world.max_turns * (world.max_actions_per_turn if world.task.grammar.separator else 1)
        return OpenLoop(
            dynamics=world.dynamics,
            states=tuple(states),
            actions=tuple(map(world.task.grammar.parse, world.task.action_names)),
            length=min(most, world.max_steps or most, MOST_ACTIONS),
        )
