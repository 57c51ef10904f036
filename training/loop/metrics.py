"""What is logged of an iteration."""

from __future__ import annotations

import itertools
import math
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager

import numpy as np
import torch

from judges.scores import JudgeScore
from judges.turn_rewards import Section, score_thoughts
from training.algorithms.algorithm import Credit, ModelOutputs
from training.algorithms.estimators import zero_variance_groups
from training.batch import OBSERVED, Batch
from training.engines.host_memory import GIB
from training.rewards.turn_scores import ScoredTrajectory
from vlm_envs.records.run_data import TurnNotes
from vlm_envs.trajectory import PaidTerm, Trajectory, tool_was_used


def rollout_metrics(scored: Sequence[ScoredTrajectory], batch: Batch, *, rollout_s: float) -> dict[str, float]:
    """Returns means over an iteration's episodes and turns.

    Args:
        scored: The episodes with their judges' rewards. Lost ones are in the speeds and in no mean, as in evaluations.
        batch: The same, as tensors.
        rollout_s: Seconds it took to play them.

    Returns:
        Success, reward and its parts (sums per episode), judges' scores (per turn, 0 to 1), how right thoughts were of
        what is seen (likewise), turns of solved episodes, where there are any, in how many episodes
        a tool did its work, where there are any, format rate, lengths,
        number of episodes that the context ended, speeds, fraction of groups without variance, fractions of what no
        judge could score and of rows that cannot be trained on, number of episodes with an infinite or NaN reward,
        which are in no mean of rewards. What judges add is averaged over the episodes that were wholly judged; a mean
        over nothing is NaN.
    """
    num_tokens = sum(len(turn.response_ids) for each in scored for turn in each.trajectory.turns)
    num_turns = sum(len(each.trajectory.turns) for each in scored)
    rows, worlds = batch.comparable_B, {each.trajectory.world for each in scored}
    with_finite = zip(scored, batch.finite_B.tolist(), strict=True)
    finite = [each for each, is_finite in with_finite if is_finite and not each.is_lost]
    scored = [each for each in scored if not each.is_lost]
    turns = [turn for each in scored for turn in each.trajectory.turns]
    judged = [each for each in finite if all(each.trainable_turns)]
    flat = zero_variance_groups(batch.returns_B[rows], batch.group_index_B[rows], batch.magnitudes_B[rows])
    metrics = {
        "success": _mean([each.trajectory.success for each in scored]),
        "reward": _mean([each.trajectory.total_reward for each in finite]),
        "return": _mean([sum(each.turn_rewards) for each in judged]),
        "format_rate": _mean([bool(turn.info.get("format_correct")) for turn in turns]),
        "response_tokens": _mean([len(turn.response_ids) for turn in turns]),
        "cut_rate": _mean([turn.stop_reason == "length" for turn in turns]),
        "context_full": float(sum(bool(each.trajectory.turns[-1].info.get("context_full")) for each in scored)),
        "num_turns": _mean([len(each.trajectory.turns) for each in scored]),
        "zero_variance_groups": float(flat.float().mean()) if len(flat) else 1.0,
        "unavailable_turns": _mean([not is_judged for each in scored for is_judged in each.trainable_turns]),
        "unavailable_episodes": _mean([not all(each.trainable_turns) for each in scored]),
        "nonfinite_rewards": float(len(scored) - len(finite)),
        "untrainable_rows": float((~batch.usable_B).float().mean()),
        "tokens_per_s": num_tokens / rollout_s,
        "turns_per_s": num_turns / rollout_s,
    }
    for world in sorted(worlds) if len(worlds) > 1 else ():
        of_world = [each.trajectory.success for each in scored if each.trajectory.world == world]
        metrics[f"success/{world}"] = _mean(of_world)
    return (
        metrics
        | _turns_to_success([each.trajectory for each in scored])
        | mean_metrics([each.trajectory for each in scored])
        | mean_scores(scored)
        | _thought_score([each.trajectory for each in scored])
        | _tool_used([each.trajectory for each in scored])
        | _reward_parts(finite, judged)
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _turns_to_success(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns `turns_to_success`, and in a mix `turns_to_success/<world>` for each world with a solved episode."""
    turns: defaultdict[str, list[float]] = defaultdict(list)
    for each in trajectories:
        if each.success:
            turns[each.world].append(len(each.turns))
    return _means("turns_to_success", turns, is_mix=_is_mix(trajectories))


def mean_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the worlds' own measures of their final states, averaged over the episodes that have them.

    Returns:
        `metric/<name>` to its mean over finite values, NaN where there are none; and `nonfinite_metrics`, the number of
        episodes with an infinite or NaN one, where there are any.
    """
    values: defaultdict[str, list[float]] = defaultdict(list)
    num_nonfinite = 0
    for trajectory in trajectories:
        measured = {name: float(value) for name, value in trajectory.turns[-1].info.get("metrics", {}).items()}
        num_nonfinite += not all(map(math.isfinite, measured.values()))
        for name, value in measured.items():
            values[f"metric/{name}"] += [value] if math.isfinite(value) else []
    means = {name: float(np.mean(each)) if each else math.nan for name, each in sorted(values.items())}
    return means | ({"nonfinite_metrics": float(num_nonfinite)} if num_nonfinite else {})


def mean_scores(scored: Sequence[ScoredTrajectory]) -> dict[str, float]:
    """Returns judges' scores of each section, averaged over turns.

    Returns:
        `score/<section>` from 0 to 1, for the sections that anybody judged, of the worlds where anybody did; in a mix
        of several worlds also `score/<section>/<world>` of each of them. A turn without that section, or out of the
        format, scores 0; one that no judge could score is left out.
    """
    judged: defaultdict[str, list[Mapping[Section, JudgeScore]]] = defaultdict(list)
    for each in scored:
        if not each.is_lost:
            judged[each.trajectory.world] += [turn.scores for turn in each.turns if turn.available]
    values = {
        section: {
            world: [scores[section].value if section in scores else 0.0 for scores in of]
            for world, of in sorted(judged.items())
            if any(section in scores for scores in of)
        }
        for section in sorted({section for of in judged.values() for scores in of for section in scores})
    }
    is_mix = len(judged) > 1
    means: dict[str, float] = {}
    for section, of in values.items():
        means |= _means(f"score/{section}", of, is_mix=is_mix)
    return means


def _thought_score(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns `thought_score`, the mean of what `score_thoughts` says of turns; nothing where no turn has a place.

    In a mix each world that has such turns has its own, too, `thought_score/<world>`.
    """
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for each in trajectories:
        for turn in each.turns:
            if (score := score_thoughts(turn)) is not None:
                scores[each.world].append(score)
    return _means("thought_score", scores, is_mix=_is_mix(trajectories))


def _tool_used(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns `tool_used`, the share of episodes in which a tool did its work, of those of worlds that have tools.

    In a mix each such world has its own, too, `tool_used/<world>`; where there are no tools, nothing is returned.
    """
    used: defaultdict[str, list[bool]] = defaultdict(list)
    for each in trajectories:
        if (was_used := tool_was_used(each.turns[-1].info.get("metrics") or {})) is not None:
            used[each.world].append(was_used)
    return _means("tool_used", used, is_mix=_is_mix(trajectories))


def _is_mix(trajectories: Sequence[Trajectory]) -> bool:
    return len({each.world for each in trajectories}) > 1


def _means(name: str, of_worlds: Mapping[str, Sequence[float]], *, is_mix: bool) -> dict[str, float]:
    """Returns the mean of what all worlds say and, in a mix, `<name>/<world>` of each; nothing where none says any."""
    if not of_worlds:
        return {}
    own = {f"{name}/{world}": _mean(of) for world, of in sorted(of_worlds.items())}
    return {name: _mean([*itertools.chain(*of_worlds.values())])} | (own if is_mix else {})


def turn_notes(scored: ScoredTrajectory, credit: Sequence[Mapping[str, float]] | None = None) -> list[TurnNotes]:
    """Returns what is recorded of each turn beside what happened in it; with credit, where any was assigned."""
    return [
        TurnNotes(
            judge_terms=turn.judge_terms if turn.available else _of_episode(turn.judge_terms),
            scores={section: score.value for section, score in turn.scores.items() if score.available},
            credit=credit[index] if credit is not None else {},
        )
        for index, turn in enumerate(scored.turns)
    ]


def _of_episode(terms: Sequence[PaidTerm]) -> tuple[PaidTerm, ...]:
    """Returns an episode reward's terms: those of judges that could not answer are not 0."""
    return tuple(term for term in terms if term.source.startswith("episode:"))


def turn_credit(batch: Batch, outputs: ModelOutputs, credit: Credit, num_rows: int) -> list[list[dict[str, float]]]:
    """Returns what the algorithm made of each turn of the first rows.

    Args:
        batch: The rows.
        outputs: What the models said of them before the update.
        credit: What the algorithm made of that.
        num_rows: How many rows, from the first on; fewer where the batch has fewer.

    Returns:
        Per row and turn the mean `advantage` of its tokens and, with a critic, the `value` of the prefix before its
        first one; nothing for turns that are masked.
    """
    notes: list[list[dict[str, float]]] = []
    learnt_BT = torch.where(batch.response_mask_BT, batch.turn_index_BT, OBSERVED)
    for row in range(min(num_rows, batch.num_rows)):
        turns: list[dict[str, float]] = []
        for turn in range(batch.turn_rewards_BK.shape[1]):
            tokens = (learnt_BT[row] == turn).nonzero()[:, 0]
            note = {"advantage": float(credit.advantages_BT[row, tokens].mean())} if len(tokens) else {}
            if len(tokens) and outputs.values_BT is not None:
                note["value"] = float(outputs.values_BT[row, tokens[0]])
            turns.append(note)
        notes.append(turns)
    return notes


def _reward_parts(scored: Sequence[ScoredTrajectory], judged: Sequence[ScoredTrajectory]) -> dict[str, float]:
    """Returns each named reward part, summed over an episode and averaged over episodes: the judges' over their own."""
    sums: defaultdict[str, float] = defaultdict(float)
    for each in scored:
        for turn in each.trajectory.turns:
            for term in turn.reward_terms:
                sums[f"reward/{term.name}"] += term.value / len(scored)
    for each in judged:
        for turn_scores in each.turns:
            for term in turn_scores.judge_terms:
                sums[f"judge/{term.name}"] += term.value / len(judged)
    return dict(sorted(sums.items()))


class PeakMemory:
    """The most that tensors took of a GPU at a time, in the phases of an iteration; nothing on other devices.

    What CUDA itself takes, and what torch keeps for tensors to come, is not in it. While a batch is sampled beside the
    update (`--staleness 1`) a phase's peak is of both.

    Args:
        device: Where the policy is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._peaks: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a block, under a name."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        yield
        if self._device.type == "cuda":
            self._peaks[name] = torch.cuda.max_memory_allocated(self._device) / GIB

    def metrics(self) -> dict[str, float]:
        """Returns `<phase>_peak_gib` of the phases so far, in GiB, and begins anew."""
        peaks, self._peaks = self._peaks, {}
        return {f"{name}_peak_gib": peak for name, peak in peaks.items()}
