"""Blind scripts: the lazy agent, which gives the same responses in every episode, and the search for its actions.

Its return shows how much of a world can be solved without looking. An untried script may earn more.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from contextlib import closing, suppress
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from agents.agent import Agent, Response
from agents.oracle import THOUGHTS, OracleAgent
from agents.rollout import try_rollout
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.parts import Dynamics
from vlm_envs.registration import make
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation, Trajectory
from vlm_envs.validation import require_positive
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import VectorWorld

MOST_SEQUENCES = 100
"""Most sequences of named actions to try; if a turn has more, only repetitions and alternations of two are tried."""

NUM_FIRST_LEVELS = 32
"""Validation levels on which every candidate is tried; with fewer, the best is picked by luck."""

NUM_ENVS = 8
"""Worlds in which the oracle plays in parallel; level counts are rounded up to a multiple of it."""

NUM_SCRIPT_ENVS = 2
"""Worlds in which candidates play in parallel: few enough that the images of their levels stay cached, because every
candidate plays these levels before the next ones start. Divides `NUM_ENVS`."""

NUM_FINALISTS = 5
"""Candidates that are tried on all validation levels."""

Script = tuple[str, ...]
"""The response of each turn; the last one repeats."""

OnStep = Callable[[str, int, int], None]
"""Called with the current step, its progress, and its total."""

NUM_LEVELS = 200
"""Training levels on which sequences are compared."""

NUM_CHANGES = 750
"""Changes tried from each initial sequence, one after another."""

_NOT_DRAWN = {"obs_mode": "text"}

NUM_BEGINNINGS = 4
"""Initial sequences of a search."""

MOST_ACTIONS = 40
"""Longest sequence searched; in longer episodes, its last turn repeats."""

_MOST_REPLACED = 3
_MOVED_RATE = 0.3
"""Probability of also moving an action to another position, after replacing some."""

OnCount = Callable[[int, int], None]
"""Called with the progress and the total."""


class ScriptAgent:
    """Gives a fixed list of responses.

    Args:
        script: The response of each turn, at least one; the last one repeats.
    """

    policy_version = -1

    def __init__(self, script: Script) -> None:
        self.script = script
        self._num_given: dict[int, int] = {}

    def start(self, worlds: VectorWorld) -> None:
        """Restarts the script."""
        self._num_given = {}

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns the next response of each row."""
        return [Response(text=self._next(row)) for row in rows]

    def _next(self, row: int) -> str:
        turn = self._num_given.get(row, 0)
        self._num_given[row] = turn + 1
        return self.script[min(turn, len(self.script) - 1)]


class LazyAgent:
    """Plays the best script found by a search, which is not a bound: better scripts may exist.

    Candidates are sequences of named actions, repeated every turn; episode-long sequences that solve many training
    levels; and the oracle's responses on training levels: whole episodes, and the first or the last response repeated.
    The candidate with the highest success, then the highest return, on validation levels is played. Choosing takes a
    few hundred episodes per kind of world, and some additional seconds where actions have names.

    Args:
        num_train_levels: Training levels on which the oracle is recorded.
        num_val_levels: Validation levels on which the best candidates are compared.

    Attributes:
        on_progress: Called often while responses are chosen, which takes minutes in slow worlds, with the environment
            ID, the current step, its progress, and its total. An exception that it raises ends the choice.

    Raises:
        ConfigError: If a number is not positive.
    """

    policy_version = -1

    def __init__(self, *, num_train_levels: int = 8, num_val_levels: int = 48) -> None:
        self.num_train_levels = require_positive("num_train_levels", num_train_levels)
        self.num_val_levels = require_positive("num_val_levels", num_val_levels)
        self.on_progress: Callable[[str, str, int, int], None] = lambda env_id, step, num_done, num_wanted: None
        self._chosen: dict[str, Script] = {}
        self._rows: list[ScriptAgent] = []

    def start(self, worlds: VectorWorld) -> None:
        """Chooses a script for each kind of world not seen before."""
        self._rows = []
        for spec in worlds.get_attr("spec"):
            kwargs = {name: value for name, value in spec.kwargs.items() if name != "split"}
            key = repr((spec.id, sorted(kwargs.items())))
            if key not in self._chosen:
                self._chosen[key] = self.choose(spec.id, kwargs)
            self._rows.append(ScriptAgent(self._chosen[key]))

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns the next response of each row's script."""
        return [response for row in rows for response in self._rows[row].respond([row], [])]

    def choose(self, env_id: str, kwargs: dict[str, Any]) -> Script:
        """Returns the best script found for a world.

        Args:
            env_id: A registered id.
            kwargs: World arguments except `split`.
        """
        on_step = partial(self.on_progress, env_id)
        found = (*_named(env_id, kwargs), *_searched(env_id, kwargs, on_step), *self._watched(env_id, kwargs, on_step))
        candidates = list(dict.fromkeys(found))
        num_first = min(NUM_FIRST_LEVELS, self.num_val_levels)
        tried = _TriedScripts(env_id, on_step)
        with closing(world_vector(env_id, NUM_SCRIPT_ENVS, **not_drawn(env_id, kwargs), split="val")) as worlds:
            for num_levels in (num_first, self.num_val_levels):
                tried.play(candidates, worlds, num_levels)
                candidates = sorted(candidates, key=tried.worth, reverse=True)[:NUM_FINALISTS]
        return candidates[0]

    def _watched(self, env_id: str, kwargs: dict[str, Any], on_step: OnStep) -> list[Script]:
        seeds = _seeds("train", self.num_train_levels)
        scripts = []
        with closing(world_vector(env_id, NUM_ENVS, **not_drawn(env_id, kwargs), split="train")) as worlds:
            for start in range(0, len(seeds), NUM_ENVS):
                on_turn = partial(on_step, "watching the oracle on training levels", start, len(seeds))
                episodes = _played(OracleAgent(), worlds, env_id, seeds[start : start + NUM_ENVS], on_turn)
                scripts += [tuple(turn.response_text for turn in episode.turns) for episode in episodes]
        return [variant for script in scripts for variant in (script, script[:1], script[-1:])]


class _TriedScripts:
    """Outcomes of scripts on validation levels. Each script plays each level once.

    Args:
        env_id: The world's id.
        on_step: Called after each turn.
    """

    def __init__(self, env_id: str, on_step: OnStep) -> None:
        self._env_id, self._on_step = env_id, on_step
        self._num_levels = 0
        self._outcomes: dict[Script, list[tuple[bool, float]]] = {}

    def play(self, scripts: Sequence[Script], worlds: VectorWorld, num_levels: int) -> None:
        """Plays scripts on the first levels, all of them on the same few levels before the next ones."""
        seeds = _seeds("val", num_levels)[self._num_levels :]
        self._num_levels += len(seeds)
        num_played, num_wanted = 0, len(scripts) * len(seeds)
        step = f"comparing {len(scripts)} scripts on validation levels"
        for start in range(0, len(seeds), NUM_SCRIPT_ENVS):
            batch = seeds[start : start + NUM_SCRIPT_ENVS]
            for script in scripts:
                on_turn = partial(self._on_step, step, num_played, num_wanted)
                episodes = _played(ScriptAgent(script), worlds, self._env_id, batch, on_turn)
                outcomes = self._outcomes.setdefault(script, [])
                outcomes += [(episode.success, episode.total_reward) for episode in episodes]
                num_played += len(batch)

    def worth(self, script: Script) -> tuple[float, float]:
        """Returns the success rate and the mean return of a script."""
        outcomes = self._outcomes[script]
        num_played = max(1, len(outcomes))
        return sum(success for success, _ in outcomes) / num_played, sum(reward for _, reward in outcomes) / num_played


def _named(env_id: str, kwargs: dict[str, Any]) -> list[Script]:
    """Returns sequences of a world's named actions, each as the one response of a script."""
    with closing(make(env_id, **kwargs)) as made:
        world: Any = made.unwrapped
        world.reset(seed=0)
        return [(_response(world, actions),) for actions in _sequences(world)]


def _searched(env_id: str, kwargs: dict[str, Any], on_step: OnStep) -> list[Script]:
    """Returns episode-long sequences found by the search, split into turns; none if actions have no names."""
    levels = open_loop(env_id, kwargs, on_level=partial(on_step, "starting training levels"))
    if levels is None:
        return []
    with closing(make(env_id, **kwargs)) as made:
        world: Any = made.unwrapped
        world.reset(seed=0)
        length = _turn_length(world)
        return [
            tuple(_response(world, actions[start : start + length]) for start in range(0, len(actions), length))
            for actions in levels.searched(_sequences(world), partial(on_step, "searching on training levels"))
        ]


def _turn_length(world: Any) -> int:
    return int(world.max_actions_per_turn) if world.task.grammar.separator else 1


def _sequences(world: Any) -> list[tuple[Any, ...]]:
    """Returns all sequences of named actions that fill a turn; if there are too many, repetitions and alternations."""
    actions = [world.task.grammar.parse(name) for name in world.task.action_names or ()]
    length = _turn_length(world)
    if len(actions) ** length <= MOST_SEQUENCES:
        return list(itertools.product(actions, repeat=length))
    return [tuple(itertools.islice(itertools.cycle(pair), length)) for pair in itertools.product(actions, repeat=2)]


def _response(world: Any, actions: Sequence[Any]) -> str:
    return world.write_response(actions, dict.fromkeys(THOUGHTS, "unknown"))  # type: ignore[no-any-return]


def _seeds(split: str, num_levels: int) -> list[int]:
    return list(split_seeds(split, -(-num_levels // NUM_ENVS) * NUM_ENVS))


def _played(
    agent: Agent, worlds: VectorWorld, env_id: str, seeds: Sequence[int], on_turn: Callable[[], None]
) -> list[Trajectory]:
    """Returns the episodes that could be started."""
    env_ids = [env_id] * len(seeds)
    episodes = try_rollout(agent, worlds, seeds, env_ids=env_ids, on_turn=lambda row, turn: on_turn())
    return [episode for episode in episodes if episode is not None]


def not_drawn(env_id: str, kwargs: dict[str, Any]) -> dict[str, Any]:
    """Returns world arguments that skip drawing images if the world has the text mode.

    Args:
        env_id: A registered id.
        kwargs: Arguments of the world.
    """
    try:
        make(env_id, **kwargs | _NOT_DRAWN).close()
    except ConfigError:  # no text mode, as in an adapted world without `describe`
        return kwargs
    return kwargs | _NOT_DRAWN


@dataclass(eq=False, slots=True)
class _Place:
    """A state that a sequence has reached.

    Attributes:
        state: The state.
        is_over: Whether an episode ends here when an action has led here.
        after: Next state of each action and whether the action changed anything; None if that is random.
    """

    state: Any
    is_over: bool
    after: dict[Any, tuple[_Place, bool] | None] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class OpenLoop:
    """Levels of a world and the actions to search over.

    Attributes:
        dynamics: The world's dynamics; a step that drew no random number is taken once and cached.
        states: Start states; states that cannot be hashed are not cached.
        actions: All named actions, hashable.
        length: Number of actions per sequence.
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
        """Returns the next state and whether the action changed it; caches both if no random number was drawn."""
        before = rng.bit_generator.state if action not in place.after else None
        state, is_changed = self.dynamics.step(place.state, action, rng)
        found = self._place(state), is_changed
        if before is not None:
            place.after[action] = found if rng.bit_generator.state == before else None
        return found

    def _place(self, state: Any) -> _Place:
        try:
            place = self._places.get(state)
        except TypeError:  # a state with a list or an array, which a user's world may have
            return _Place(state, self.dynamics.is_over(state))
        if place is None:
            place = self._places[state] = _Place(state, self.dynamics.is_over(state))
        return place

    def searched(
        self, first: Sequence[Sequence[Any]], on_change: OnCount = lambda num_done, num_wanted: None
    ) -> list[tuple[Any, ...]]:
        """Returns the best sequences found by random changes to the best initial ones; deterministic per level set.

        Args:
            first: Initial sequences, at least one; each is repeated to full length.
            on_change: Called after each change.
        """
        repeated = {tuple(actions[i % len(actions)] for i in range(self.length)): None for actions in first}
        beginnings = sorted(repeated, key=self.num_solved, reverse=True)[:NUM_BEGINNINGS]
        num_changes = NUM_CHANGES * len(beginnings)
        found = []
        for number, best in enumerate(beginnings):
            rng, most = np.random.default_rng(number), self.num_solved(best)
            for num_done in range(number * NUM_CHANGES, (number + 1) * NUM_CHANGES):
                on_change(num_done + 1, num_changes)
                changed = self._changed(best, rng)
                if (num_solved := self.num_solved(changed)) >= most:  # ties are kept, to cross plateaus
                    best, most = changed, num_solved
            found.append(best)
        return found

    def _changed(self, sequence: tuple[Any, ...], rng: np.random.Generator) -> tuple[Any, ...]:
        actions = list(sequence)
        for position in rng.integers(self.length, size=rng.integers(1, _MOST_REPLACED + 1)):
            actions[position] = self.actions[rng.integers(len(self.actions))]
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
    """Returns a world's training levels to search on; levels that cannot be started are left out.

    Returns None if actions have no names, if an engine computes each step, or if no level can be started.

    Args:
        env_id: A registered id.
        kwargs: World arguments except `split`.
        num_levels: Number of levels.
        on_level: Called after each started level.
    """
    with closing(make(env_id, **not_drawn(env_id, kwargs) | {"split": "train"})) as made:
        world: Any = made.unwrapped
        if not world.task.action_names or not world.dynamics.steps_are_cheap:
            return None
        states = []
        for number, seed in enumerate(split_seeds("train", num_levels), start=1):
            on_level(number, num_levels)
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
