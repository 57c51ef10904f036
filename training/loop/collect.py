"""Collecting groups of sibling episodes, in rounds until enough of them are useful.

    play a round ──> score ──> useful? ──> enough, or the last round ──> useful groups, filled up with others

Each world of a mixture has its own number of groups, and is played again only while it lacks useful ones. So its share
does not depend on how often it is useful.

Source: DAPO (arXiv 2503.14476), section 3.2, "dynamic sampling". Where verl stops after its last round, ours learns
from what there is.
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
"""Training seeds below belong to the cold start, so that no level is shown to both."""


class Watcher(Protocol):
    """Is told of what is played, as soon as it is: judges, who ask about it while others still play."""

    def saw_turn(self, env_id: str, turn: Turn) -> None:
        """Takes a turn of an episode that goes on, or its last."""

    def saw_episode(self, trajectory: Trajectory) -> None:
        """Takes an episode that is over."""


class _Played(NamedTuple):
    """A group as it was played: the number of its world in the mix, its own number there, its siblings."""

    place: int
    number: int
    siblings: Sequence[Trajectory | None]


class Collector:
    """Holds the training worlds and plays groups of siblings in them; processes share them out, group by group."""

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
        """Returns the worlds of an iteration with their numbers of groups."""
        return self._worlds.units(iteration)

    def collect(
        self,
        agent: Agent,
        iteration: int,
        sampling_round: int = 0,
        worlds: Container[str] | None = None,
        watchers: Sequence[Watcher] = (),
    ) -> list[TrajectoryGroup]:
        """Plays one iteration's episodes; seeds depend on iteration and round only, so a resumed run sees the same.

        Levels of pools, and shares that go by success, depend on what was played before, too: see `state_dict`.

        Args:
            agent: Who acts.
            iteration: Number of the iteration, from 0.
            sampling_round: Which of its rounds, below `algorithm.max_sampling_rounds`; no two have a level in common.
            worlds: Names of the worlds that are played; None for all.
            watchers: Who is told of what this process plays; of episodes they are given the turns that are returned.

        Returns:
            `num_groups` groups of `group_size` siblings, in the order of their worlds; at times one more or fewer where
            that is odd and iVGR's partners share it, and fewer where a world could not be started, not even in a worker
            started anew. Such a group is dropped whole, and `metrics` counts it. None of a round after the first that
            lost every episode.

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
        places = [place for place in self._worlds.played(iteration) if worlds is None or place.name in worlds]
        levels = {place.number: self._worlds.next_levels(place) for place in places}
        own = self._played(agent, places, first, levels, watchers)
        mine = {(each.place, each.number): each for each in own}  # not as gathering copies them: watchers know these
        gathered = sorted(self._engine.gather(own), key=lambda each: (each.place, each.number))
        played = [mine.get((each.place, each.number), each) for each in gathered]
        groups = self._whole_groups(played, {place.number: place.name for place in places})
        if sampling_round == 0:  # later rounds are of worlds that lack useful groups, which says something of them
            self._learn(played)
        num_episodes = sum(len(each.siblings) for each in played)
        num_lost = sum(is_lost(episode) for each in played for episode in each.siblings)
        self._num_lost_episodes += num_lost
        if num_lost == num_episodes or not groups:
            if sampling_round > 0:
                _logger.warning("Round %d of iteration %d lost all its episodes.", sampling_round, iteration)
                return []
            lost = [sibling for each in played for sibling in each.siblings if is_lost(sibling)]
            told = why_lost(lost, of=num_episodes)
            raise NothingLeftError(f"Nothing is left of iteration {iteration}: {told}, then go on with --resume.")
        if num_lost:
            _logger.warning("Iteration %d has lost %d of its %d episodes.", iteration, num_lost, num_episodes)
        return groups

    def _whole_groups(self, played: Sequence[_Played], names: Mapping[int, str]) -> list[TrajectoryGroup]:
        """Returns the groups none of whose siblings is missing, with the names of their worlds; counts the others."""
        groups: list[TrajectoryGroup] = []
        for each in played:
            kept = [episode for episode in each.siblings if episode is not None]
            if len(kept) < len(each.siblings):
                self._num_dropped_groups += 1
            else:
                named = tuple(replace(episode, world=names[each.place]) for episode in kept)
                groups.append(TrajectoryGroup(trajectories=named))
        return groups

    def _learn(self, played: Sequence[_Played]) -> None:
        """Tells shares that go by success what the worlds' episodes came to, those that were lost left out."""
        if self._worlds.adaptive is None:
            return
        success: dict[int, list[bool]] = {}
        for each in played:
            told = [episode.success for episode in each.siblings if episode is not None and not is_lost(episode)]
            success.setdefault(each.place, []).extend(told)
        self._worlds.adaptive.learn(success)

    def _played(
        self,
        agent: Agent,
        places: Sequence[MixEntry],
        first: int,
        levels: Mapping[int, Sequence[str] | None],
        watchers: Sequence[Watcher],
    ) -> list[_Played]:
        """Plays this process's groups of worlds, on levels of their pools, or of seeds from the round's first on."""
        size, mine = self._config.group_size, [place for place in places if place.own]
        batches = {place.number: self._batch(place, first, levels[place.number], watchers) for place in mine}
        ready = {number: batch for number, batch in batches.items() if batch is not None}
        played = dict(zip(ready, try_rollouts(agent, [*ready.values()]), strict=True))
        nothing: list[Trajectory | None] = [None] * size
        return [
            _Played(
                place.number, group, played[place.number][index * size :][:size] if place.number in ready else nothing
            )
            for place in mine
            for index, group in enumerate(place.own)
        ]

    def _batch(
        self, place: MixEntry, first: int, levels: Sequence[str] | None, watchers: Sequence[Watcher]
    ) -> WorldBatch | None:
        """Returns what is to be played of a world; None where its workers do not come up."""
        size, numbers = self._config.group_size, list(split_seeds("train", place.num_groups, start=first))
        try:
            worlds = self._worlds.vector(place)
        except WorkerError as error:
            _logger.warning("%s %d groups of %s are left out.", error, len(place.own), place.name)
            return None
        worlds.counts_optimal_actions = self._records
        on_turn, on_episode = _told(place, watchers)
        return WorldBatch(
            worlds,
            [numbers[group] for group in place.own for _ in range(size)],
            [place.spec.env_id] * (len(place.own) * size),
            None if levels is None else [levels[group] for group in place.own for _ in range(size)],
            on_turn,
            on_episode,
        )

    def metrics(self) -> dict[str, float]:
        """Returns how many episodes of the last iteration were lost with their workers, and groups dropped for it.

        Beside them stand the epochs of pools, and what shares go by where they go by success.
        """
        return {
            "lost_episodes": float(self._num_lost_episodes),
            "dropped_groups": float(self._num_dropped_groups),
            **self._worlds.metrics(),
        }

    def state_dict(self) -> dict[str, Any] | None:
        """Returns what the next iteration depends on besides its number; None where there is no such thing."""
        return self._worlds.state_dict()

    def load_state_dict(self, state: Mapping[str, Any] | None) -> None:
        """Goes on from what `state_dict` returned; raises `ConfigError` if a pool has other levels now."""
        if state is not None:
            self._worlds.load_state_dict(state)

    def close(self) -> None:
        """Ends the worlds' workers."""
        self._worlds.close()


def _told(place: MixEntry, watchers: Sequence[Watcher]) -> tuple[OnTurn | None, OnEpisode | None]:
    """Returns what tells watchers of turns and episodes of a world."""
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
    """What is played at a time: groups of siblings, one behind another.

    Attributes:
        scored: The episodes.
        batch: The same, as tensors.
    """

    scored: list[ScoredTrajectory]
    batch: Batch


@dataclass(frozen=True, kw_only=True)
class Sample:
    """What an iteration learns from, and what was played for it.

    Attributes:
        learnt: The episodes that are learnt from.
        first: The first round, which nothing was chosen from: what its episodes did is how the policy plays.
        metrics: `gen_rounds`, the rounds that were played, and `resampled_groups`, the groups of `learnt` that stand in
            place of others of the first round; none where there is never more than a round.
    """

    learnt: Round
    first: Round
    metrics: dict[str, float] = field(default_factory=dict)


class _Group(NamedTuple):
    """Siblings: their round and their number in it, their episodes, and whether they are useful."""

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
    """Plays rounds until every world has its number of useful groups, `algorithm.max_sampling_rounds` times at most.

    Args:
        play: Plays and scores the round of a number, from 0, in the worlds of these names or in all; no two rounds have
            a level in common. A later round that was lost has no episodes, and is the last.
        to_batch: Makes tensors of whole groups.
        algorithm: Says which groups are useful.
        units: The worlds, those of partners together, with their numbers of groups.
        group_size: Episodes of each group, which stand one behind another.

    Returns:
        The first round as it is, where that is the only one there may be. Otherwise each world's number of groups, in
        the order they were played: its first ones that are useful and, if these are too few, its first others, which an
        algorithm's `keep` masks. Partners' groups of one start state are taken together, those first that are all
        useful. Fewer only where fewer were played.
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
    """Returns what these groups are as what is learnt from."""
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
    """Yields the groups of the round of this number."""
    is_useful_B = algorithm.useful_rows(played.batch).tolist()
    for start in range(0, len(played.scored), group_size):
        rows = slice(start, start + group_size)
        yield _Group((number, start), played.scored[rows], any(is_useful_B[rows]))


def _questions(unit: MixUnit, groups: Sequence[_Group]) -> list[list[_Group]]:
    """Returns a round's groups of a unit's worlds, those of one start state together."""
    by_seed: dict[int, list[_Group]] = {}
    for group in groups:
        played = group.episodes[0].trajectory
        if played.world in unit.names:
            by_seed.setdefault(played.seed, []).append(group)
    return list(by_seed.values())


def _best(unit: MixUnit, questions: Sequence[list[_Group]]) -> list[list[_Group]]:
    """Returns as many start states as are wanted, most useful groups first; as many useful ones stay in order."""
    return sorted(questions, key=lambda groups: -sum(group.is_useful for group in groups))[: unit.num_groups]


def _num_useful(unit: MixUnit, questions: Sequence[list[_Group]]) -> int:
    """Returns for how many start states every world of a unit has a useful group."""
    return sum(sum(group.is_useful for group in groups) == len(unit.names) for groups in questions)
