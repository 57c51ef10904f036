"""Rounds: groups are played until as many are useful as an iteration learns from.

    play a round ──> score ──> useful? ──> enough, or the last round ──> useful groups, filled up with others

Each world of a mix has its own number of groups, and is played again only while it lacks useful ones. So its share
does not depend on how often it is useful.

Source: DAPO (arXiv 2503.14476), section 3.2, "dynamic sampling". Where verl stops after its last round, ours learns
from what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import NamedTuple

from training.algorithms.algorithm import Algorithm
from training.batch import Batch
from training.data.worlds.mix import MixUnit
from training.rewards.score import ScoredTrajectory


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
