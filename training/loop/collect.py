"""Collects groups of episodes, in rounds until enough groups are useful.

    play a round ──> score ──> useful? ──> enough, or the last round ──> useful groups, filled up with others

Each world of a mix has its own number of groups, and is played again only while it lacks useful ones. Its share
therefore does not depend on how often its groups are useful.

Source: DAPO (arXiv 2503.14476), section 3.2, "dynamic sampling". After the last round, verl stops; here training
continues with the groups there are.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Container, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import chain
from typing import Any, NamedTuple, Protocol

from agents.agent import Agent
from agents.rollout import OnEpisode, OnTurn, WorldBatch, try_rollouts
from training.algorithms.algorithm import Algorithm
from training.batch import Batch
from training.config.run_config import RunConfig
from training.engines.engine import Engine, LocalEngine
from training.errors import NothingLeftError
from training.level_episodes import why_lost
from training.mixture.mixed_worlds import MixedWorlds, MixEntry, MixUnit
from training.pools.pool_levels import open_pools
from training.rewards.turn_scores import ScoredTrajectory
from vlm_envs.errors import WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory, TrajectoryGroup, Turn, is_lost

_logger = logging.getLogger(__name__)

_FIRST_SEED = 100_000_000
"""Lower training seeds belong to the cold start, so that the two share no levels."""


class Watcher(Protocol):
    """Callbacks for turns and episodes as soon as they are played, such as judges that start their requests early."""

    def saw_turn(self, env_id: str, turn: Turn) -> None:
        """Receives a turn of an episode."""

    def saw_episode(self, trajectory: Trajectory) -> None:
        """Receives a finished episode."""


class _Played(NamedTuple):
    """A played group: index of its world in the mix, its index there, and its episodes."""

    place: int
    number: int
    siblings: Sequence[Trajectory | None]


class Collector:
    """Owns the training worlds and plays groups of episodes in them; processes share the groups."""

    def __init__(self, config: RunConfig, engine: Engine | None = None) -> None:
        self._config = config
        self._engine: Engine = engine or LocalEngine()
        self._worlds = MixedWorlds(
            config.worlds,
            config.num_groups,
            copies=config.group_size,
            rank=self._engine.rank,
            num_processes=self._engine.num_processes,
            pools=open_pools([spec.pool for spec in config.worlds], seed=config.seed),
            mix=config.mix,
        )
        self._num_lost_episodes = self._num_dropped_groups = 0
        self._records = False

    def units(self, iteration: int) -> list[MixUnit]:
        """Returns the units of an iteration's mix with their numbers of groups."""
        return self._worlds.units(iteration)

    def collect(
        self,
        agent: Agent,
        iteration: int,
        sampling_round: int = 0,
        worlds: Container[str] | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> list[TrajectoryGroup]:
        """Plays one iteration's episodes; seeds depend only on iteration and round, so a resumed run repeats them.

        Levels of pools and adaptive shares also depend on earlier episodes; see `state_dict`.

        Args:
            agent: The agent.
            iteration: Number of the iteration, from 0.
            sampling_round: Round of the iteration, below `algorithm.max_sampling_rounds`; rounds share no levels.
            worlds: Names of the worlds to play; None for all.
            watchers: Callbacks for turns and episodes of this process.

        Returns:
            `num_groups` groups of `group_size` episodes, in the order of their worlds. The number may be one more or
            fewer if it is odd and iVGR's partners share it, and is lower if a world could not be started, even with a
            new worker; such groups are dropped and counted in `metrics`. Empty for a round after the first that lost
            every episode.

        Raises:
            NothingLeftError: If every episode of the first round was lost.
        """
        rounds_before = iteration * self._config.algorithm.max_sampling_rounds + sampling_round
        offset = self._config.seed * 1_000_003 + rounds_before * self._config.num_groups
        first = _FIRST_SEED + offset % 800_000_000
        if sampling_round == 0:
            self._num_lost_episodes = self._num_dropped_groups = 0
        every = self._config.record_every
        self._records = every > 0 and iteration % every == 0
        places = [entry for entry in self._worlds.played(iteration) if worlds is None or entry.name in worlds]
        levels = {entry.number: self._worlds.next_levels(entry) for entry in places}
        own = self._played(agent, places, first, levels, watchers)
        mine = {(group.place, group.number): group for group in own}  # no copies from gathering, as watchers keep these
        gathered = sorted(self._engine.gather(own), key=lambda group: (group.place, group.number))
        played = [mine.get((group.place, group.number), group) for group in gathered]
        groups = self._whole_groups(played, {entry.number: entry.name for entry in places})
        if sampling_round == 0:  # later rounds are biased towards worlds that lack useful groups
            self._learn(played)
        num_episodes = sum(len(group.siblings) for group in played)
        num_lost = sum(is_lost(episode) for group in played for episode in group.siblings)
        self._num_lost_episodes += num_lost
        if num_lost == num_episodes or not groups:
            if sampling_round > 0:
                _logger.warning("Round %d of iteration %d lost all its episodes.", sampling_round, iteration)
                return []
            lost = [sibling for group in played for sibling in group.siblings if is_lost(sibling)]
            reason = why_lost(lost, of=num_episodes)
            raise NothingLeftError(f"Nothing is left of iteration {iteration}: {reason}, then resume with --resume.")
        if num_lost:
            _logger.warning("Iteration %d lost %d of its %d episodes.", iteration, num_lost, num_episodes)
        return groups

    def _whole_groups(self, played: Sequence[_Played], names: Mapping[int, str]) -> list[TrajectoryGroup]:
        """Returns the complete groups with the names of their worlds, and counts the others."""
        groups: list[TrajectoryGroup] = []
        for group in played:
            kept = [episode for episode in group.siblings if episode is not None]
            if len(kept) < len(group.siblings):
                self._num_dropped_groups += 1
            else:
                named = tuple(replace(episode, world=names[group.place]) for episode in kept)
                groups.append(TrajectoryGroup(trajectories=named))
        return groups

    def _learn(self, played: Sequence[_Played]) -> None:
        """Updates adaptive shares with the worlds' success, without lost episodes."""
        if self._worlds.adaptive is None:
            return
        success: dict[int, list[bool]] = {}
        for group in played:
            successes = [episode.success for episode in group.siblings if episode is not None and not is_lost(episode)]
            success.setdefault(group.place, []).extend(successes)
        self._worlds.adaptive.learn(success)

    def _played(
        self,
        agent: Agent,
        places: Sequence[MixEntry],
        first: int,
        levels: Mapping[int, Sequence[str] | None],
        watchers: Sequence[Watcher],
    ) -> list[_Played]:
        """Plays this process's groups, on levels of pools or from seeds starting at the round's first."""
        size, mine = self._config.group_size, [entry for entry in places if entry.own]
        batches = {entry.number: self._batch(entry, first, levels[entry.number], watchers) for entry in mine}
        ready = {number: batch for number, batch in batches.items() if batch is not None}
        played = dict(zip(ready, try_rollouts(agent, [*ready.values()]), strict=True))
        nothing: list[Trajectory | None] = [None] * size
        return [
            _Played(
                entry.number, group, played[entry.number][index * size :][:size] if entry.number in ready else nothing
            )
            for entry in mine
            for index, group in enumerate(entry.own)
        ]

    def _batch(
        self, place: MixEntry, first: int, levels: Sequence[str] | None, watchers: Sequence[Watcher]
    ) -> WorldBatch | None:
        """Returns the batch to play in a world; None if its workers fail to start."""
        size, numbers = self._config.group_size, list(split_seeds("train", place.num_groups, start=first))
        try:
            worlds = self._worlds.vector(place)
        except WorkerError as error:
            _logger.warning("%s %d groups of %s are left out.", error, len(place.own), place.name)
            return None
        worlds.counts_optimal_actions = self._records
        on_turn, on_episode = _callbacks(place, watchers)
        return WorldBatch(
            worlds,
            [numbers[group] for group in place.own for _ in range(size)],
            [place.spec.env_id] * (len(place.own) * size),
            None if levels is None else [levels[group] for group in place.own for _ in range(size)],
            on_turn,
            on_episode,
        )

    def metrics(self) -> dict[str, float]:
        """Returns the numbers of episodes and groups lost in the last iteration.

        Also includes the epochs of pools, and the state of adaptive shares.
        """
        return {
            "lost_episodes": float(self._num_lost_episodes),
            "dropped_groups": float(self._num_dropped_groups),
            **self._worlds.metrics(),
        }

    def state_dict(self) -> dict[str, Any] | None:
        """Returns the state that the next iteration depends on, except its number; None if there is none."""
        return self._worlds.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Restores the state returned by `state_dict`; raises `ConfigError` if a pool has other levels now."""
        if state is not None:
            self._worlds.load_state_dict(state)

    def close(self) -> None:
        """Stops the worlds' workers."""
        self._worlds.close()


def _callbacks(place: MixEntry, watchers: Sequence[Watcher]) -> tuple[OnTurn | None, OnEpisode | None]:
    """Returns callbacks that pass a world's turns and episodes to watchers."""
    if not watchers:
        return None, None

    def on_turn(row: int, turn: Turn) -> None:
        for watcher in watchers:
            watcher.saw_turn(place.spec.env_id, turn)

    def on_episode(row: int, episode: Trajectory) -> None:
        named = replace(episode, world=place.name)
        for watcher in watchers:
            watcher.saw_episode(named)

    return on_turn, on_episode


@dataclass(frozen=True, kw_only=True)
class Round:
    """One round of episodes, ordered by group.

    Attributes:
        scored: The episodes.
        batch: The same episodes as tensors.
    """

    scored: list[ScoredTrajectory]
    batch: Batch


@dataclass(frozen=True, kw_only=True)
class Sample:
    """The episodes that an iteration trains on and the first round.

    Attributes:
        learnt: The episodes to train on.
        first: The first round, an unbiased sample of the policy's behavior.
        metrics: `gen_rounds`, the number of rounds, and `resampled_groups`, the number of groups in `learnt` from later
            rounds; empty if there is always a single round.
    """

    learnt: Round
    first: Round
    metrics: dict[str, float] = field(default_factory=dict)


class _Group(NamedTuple):
    """A group: its round and index, its episodes, and whether it is useful."""

    place: tuple[int, int]
    episodes: list[ScoredTrajectory]
    is_useful: bool


def sample_groups(
    play: Callable[[int, frozenset[str] | None], list[ScoredTrajectory]],
    to_batch: Callable[[Sequence[ScoredTrajectory]], Batch],
    algorithm: Algorithm,
    *,
    units: Sequence[MixUnit],
    group_size: int,
) -> Sample:
    """Plays rounds until every world has its number of useful groups, at most `algorithm.max_sampling_rounds` times.

    Args:
        play: Plays and scores a round by number, from 0, in the named worlds or in all; rounds share no levels. A
            later round may return no episodes if it was lost, and is then the last.
        to_batch: Converts whole groups to tensors.
        algorithm: Determines which groups are useful.
        units: The worlds, with partners as one unit, and their numbers of groups.
        group_size: Episodes per group, which are adjacent.

    Returns:
        The first round unchanged if there is only one. Otherwise each world's number of groups, in playing order: its
        first useful ones and, if these are too few, its first others, which an algorithm's `keep` masks. Partners'
        groups of one start state are taken together, preferably those that are all useful. Fewer groups only if
        fewer were played.
    """
    first = _round(play(0, None), to_batch)
    if algorithm.max_sampling_rounds == 1:
        return Sample(learnt=first, first=first)
    chosen: dict[MixUnit, list[list[_Group]]] = {unit: [] for unit in units}
    gen_rounds, played = 0, first
    while True:
        groups = list(_groups(played, algorithm, group_size, gen_rounds))
        chosen = {unit: _best(unit, [*questions, *_questions(unit, groups)]) for unit, questions in chosen.items()}
        gen_rounds += 1
        lacking = frozenset(
            name for unit in units if _num_useful(unit, chosen[unit]) < unit.num_groups for name in unit.names
        )
        scored = play(gen_rounds, lacking) if lacking and gen_rounds < algorithm.max_sampling_rounds else []
        if not scored:
            break
        played = _round(scored, to_batch)
    return _sample(first, sorted(chain(*chain(*chosen.values()))), to_batch, gen_rounds, group_size)


def _sample(
    first: Round,
    groups: list[_Group],
    to_batch: Callable[[Sequence[ScoredTrajectory]], Batch],
    gen_rounds: int,
    group_size: int,
) -> Sample:
    """Returns the sample of these groups."""
    metrics = {
        "gen_rounds": float(gen_rounds),
        "resampled_groups": float(sum(group.place[0] > 0 for group in groups)),
    }
    if not metrics["resampled_groups"] and len(groups) * group_size == len(first.scored):
        return Sample(learnt=first, first=first, metrics=metrics)
    learnt = _round([episode for group in groups for episode in group.episodes], to_batch)
    return Sample(learnt=learnt, first=first, metrics=metrics)


def _round(scored: list[ScoredTrajectory], to_batch: Callable[[Sequence[ScoredTrajectory]], Batch]) -> Round:
    return Round(scored=scored, batch=to_batch(scored))


def _groups(played: Round, algorithm: Algorithm, group_size: int, number: int) -> Iterator[_Group]:
    """Yields the groups of a round."""
    is_useful_B = algorithm.useful_rows(played.batch).tolist()
    for start in range(0, len(played.scored), group_size):
        rows = slice(start, start + group_size)
        yield _Group((number, start), played.scored[rows], any(is_useful_B[rows]))


def _questions(unit: MixUnit, groups: Sequence[_Group]) -> list[list[_Group]]:
    """Returns a round's groups of a unit's worlds, grouped by start state."""
    by_seed: dict[int, list[_Group]] = {}
    for group in groups:
        played = group.episodes[0].trajectory
        if played.world in unit.names:
            by_seed.setdefault(played.seed, []).append(group)
    return list(by_seed.values())


def _best(unit: MixUnit, questions: Sequence[list[_Group]]) -> list[list[_Group]]:
    """Returns the required number of start states, those with the most useful groups first, otherwise in order."""
    return sorted(questions, key=lambda groups: -sum(group.is_useful for group in groups))[: unit.num_groups]


def _num_useful(unit: MixUnit, questions: Sequence[list[_Group]]) -> int:
    """Returns the number of start states for which every world of a unit has a useful group."""
    return sum(sum(group.is_useful for group in groups) == len(unit.names) for groups in questions)
