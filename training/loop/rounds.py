"""Rounds: groups are played until as many are useful as an iteration learns from.

    play a round ──> score ──> useful? ──> enough, or the last round ──> useful groups, filled up with others

Source: DAPO (arXiv 2503.14476), section 3.2, "dynamic sampling". Where verl stops after its last round, ours learns
from what there is.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field

from training.algorithms.algorithm import Algorithm
from training.batch import Batch
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


def sample_groups(
    play: Callable[[int], list[ScoredTrajectory]],
    to_batch: Callable[[Sequence[ScoredTrajectory]], Batch],
    algorithm: Algorithm,
    *,
    num_groups: int,
    group_size: int,
) -> Sample:
    """Plays rounds until `num_groups` groups are useful, `algorithm.max_sampling_rounds` times at most.

    Args:
        play: Plays and scores the round of a number, from 0; no two rounds have a level in common.
        to_batch: Makes tensors of whole groups.
        algorithm: Says which groups are useful.
        num_groups: How many are wanted.
        group_size: Episodes of each, which stand one behind another.

    Returns:
        The first round as it is, where that is the only one there may be. Otherwise `num_groups` groups, in the order
        they were played: the first ones that are useful and, if these are too few, the first others, which an
        algorithm's `keep` masks. Fewer only where fewer were played.
    """
    first = _round(play(0), to_batch)
    if algorithm.max_sampling_rounds == 1:
        return Sample(learnt=first, first=first)
    groups = list(_groups(first, algorithm, group_size))
    gen_rounds, num_first = 1, len(groups)
    while sum(is_useful for _, is_useful in groups) < num_groups and gen_rounds < algorithm.max_sampling_rounds:
        for group in _groups(_round(play(gen_rounds), to_batch), algorithm, group_size):
            if group[1] or len(groups) < num_groups:  # others would only take memory: there are enough to fill up with
                groups.append(group)
        gen_rounds += 1
    by_use = sorted(range(len(groups)), key=lambda number: not groups[number][1])
    chosen = sorted(by_use[:num_groups])
    metrics = {
        "gen_rounds": float(gen_rounds),
        "resampled_groups": float(sum(number >= num_first for number in chosen)),
    }
    if chosen == list(range(num_first)):
        return Sample(learnt=first, first=first, metrics=metrics)
    learnt = _round([episode for number in chosen for episode in groups[number][0]], to_batch)
    return Sample(learnt=learnt, first=first, metrics=metrics)


def _round(scored: list[ScoredTrajectory], to_batch: Callable[[Sequence[ScoredTrajectory]], Batch]) -> Round:
    return Round(scored=scored, batch=to_batch(scored))


def _groups(played: Round, algorithm: Algorithm, group_size: int) -> Iterator[tuple[list[ScoredTrajectory], bool]]:
    """Yields the groups of a round, and whether each is useful."""
    is_useful_B = algorithm.useful_rows(played.batch).tolist()
    for start in range(0, len(played.scored), group_size):
        rows = slice(start, start + group_size)
        yield played.scored[rows], any(is_useful_B[rows])
