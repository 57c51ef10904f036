"""Metrics of an iteration."""

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
        scored: The episodes with their judges' rewards. Lost ones count in speeds, but in no mean, as in evaluations.
        batch: The same episodes as tensors.
        rollout_s: Duration of the rollout, in seconds.

    Returns:
        Success, reward and its parts (sums per episode), judges' scores (per turn, 0 to 1), correctness of thoughts
        about the current state (per turn, 0 to 1), turns of solved episodes and share of episodes with successful
        tool use, if there are any, format rate, lengths,
        number of episodes that filled the context, speeds, share of groups without variance, shares of unjudged turns
        and of untrainable rows, and number of episodes with an infinite or NaN reward,
        which are in no mean of rewards. Judges' terms are averaged over fully judged episodes; a mean of
        nothing is NaN.
    """
    num_tokens = sum(len(turn.response_ids) for episode in scored for turn in episode.trajectory.turns)
    num_turns = sum(len(episode.trajectory.turns) for episode in scored)
    rows, worlds = batch.comparable_B, {episode.trajectory.world for episode in scored}
    with_finite = zip(scored, batch.finite_B.tolist(), strict=True)
    finite = [episode for episode, is_finite in with_finite if is_finite and not episode.is_lost]
    scored = [episode for episode in scored if not episode.is_lost]
    turns = [turn for episode in scored for turn in episode.trajectory.turns]
    judged = [episode for episode in finite if all(episode.trainable_turns)]
    flat = zero_variance_groups(batch.returns_B[rows], batch.group_index_B[rows], batch.magnitudes_B[rows])
    metrics = {
        "success": _mean([episode.trajectory.success for episode in scored]),
        "reward": _mean([episode.trajectory.total_reward for episode in finite]),
        "return": _mean([sum(episode.turn_rewards) for episode in judged]),
        "format_rate": _mean([bool(turn.info.get("format_correct")) for turn in turns]),
        "response_tokens": _mean([len(turn.response_ids) for turn in turns]),
        "cut_rate": _mean([turn.stop_reason == "length" for turn in turns]),
        "context_full": float(sum(bool(episode.trajectory.turns[-1].info.get("context_full")) for episode in scored)),
        "num_turns": _mean([len(episode.trajectory.turns) for episode in scored]),
        "zero_variance_groups": float(flat.float().mean()) if len(flat) else 1.0,
        "unavailable_turns": _mean([not is_judged for episode in scored for is_judged in episode.trainable_turns]),
        "unavailable_episodes": _mean([not all(episode.trainable_turns) for episode in scored]),
        "nonfinite_rewards": float(len(scored) - len(finite)),
        "untrainable_rows": float((~batch.usable_B).float().mean()),
        "tokens_per_s": num_tokens / rollout_s,
        "turns_per_s": num_turns / rollout_s,
    }
    for world in sorted(worlds) if len(worlds) > 1 else ():
        of_world = [episode.trajectory.success for episode in scored if episode.trajectory.world == world]
        metrics[f"success/{world}"] = _mean(of_world)
    return (
        metrics
        | _turns_to_success([episode.trajectory for episode in scored])
        | mean_metrics([episode.trajectory for episode in scored])
        | mean_scores(scored)
        | _thought_score([episode.trajectory for episode in scored])
        | _tool_used([episode.trajectory for episode in scored])
        | _reward_parts(finite, judged)
    )


def _mean(values: Sequence[float]) -> float:
    return float(np.mean(values)) if values else math.nan


def _turns_to_success(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns `turns_to_success`, and in a mix `turns_to_success/<world>` for each world with a solved episode."""
    turns: defaultdict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        if trajectory.success:
            turns[trajectory.world].append(len(trajectory.turns))
    return _means("turns_to_success", turns, is_mix=_is_mix(trajectories))


def mean_metrics(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns the worlds' own metrics of their final states, averaged over the episodes that have them.

    Returns:
        `metric/<name>` with its mean over finite values, NaN if there are none; and `nonfinite_metrics`, the number of
        episodes with an infinite or NaN metric, if there are any.
    """
    values: defaultdict[str, list[float]] = defaultdict(list)
    num_nonfinite = 0
    for trajectory in trajectories:
        measured = {name: float(value) for name, value in trajectory.turns[-1].info.get("metrics", {}).items()}
        num_nonfinite += not all(map(math.isfinite, measured.values()))
        for name, value in measured.items():
            values[f"metric/{name}"] += [value] if math.isfinite(value) else []
    means = {name: float(np.mean(finite)) if finite else math.nan for name, finite in sorted(values.items())}
    return means | ({"nonfinite_metrics": float(num_nonfinite)} if num_nonfinite else {})


def mean_scores(scored: Sequence[ScoredTrajectory]) -> dict[str, float]:
    """Returns judges' scores by section, averaged over turns.

    Returns:
        `score/<section>` from 0 to 1, for judged sections, over the worlds with judges; in a mix also
        `score/<section>/<world>` for each world. A turn without that section, or out of the
        format, scores 0; one that no judge could score is left out.
    """
    judged: defaultdict[str, list[Mapping[Section, JudgeScore]]] = defaultdict(list)
    for episode in scored:
        if not episode.is_lost:
            judged[episode.trajectory.world] += [turn.scores for turn in episode.turns if turn.available]
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
    """Returns `thought_score`, the mean of `score_thoughts` over turns; empty if it applies to no turn.

    In a mix, also returns `thought_score/<world>` for each world with such turns.
    """
    scores: defaultdict[str, list[float]] = defaultdict(list)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            if (score := score_thoughts(turn)) is not None:
                scores[trajectory.world].append(score)
    return _means("thought_score", scores, is_mix=_is_mix(trajectories))


def _tool_used(trajectories: Sequence[Trajectory]) -> dict[str, float]:
    """Returns `tool_used`, the share of episodes with successful tool use in worlds with tools.

    In a mix, also returns `tool_used/<world>` for each such world; empty if there are no tools.
    """
    used: defaultdict[str, list[bool]] = defaultdict(list)
    for trajectory in trajectories:
        if (was_used := tool_was_used(trajectory.turns[-1].info.get("metrics") or {})) is not None:
            used[trajectory.world].append(was_used)
    return _means("tool_used", used, is_mix=_is_mix(trajectories))


def _is_mix(trajectories: Sequence[Trajectory]) -> bool:
    return len({trajectory.world for trajectory in trajectories}) > 1


def _means(name: str, of_worlds: Mapping[str, Sequence[float]], *, is_mix: bool) -> dict[str, float]:
    """Returns the mean over all worlds and, in a mix, `<name>/<world>` for each; empty if there are no values."""
    if not of_worlds:
        return {}
    own = {f"{name}/{world}": _mean(of) for world, of in sorted(of_worlds.items())}
    return {name: _mean([*itertools.chain(*of_worlds.values())])} | (own if is_mix else {})


def turn_notes(scored: ScoredTrajectory, credit: Sequence[Mapping[str, float]] | None = None) -> list[TurnNotes]:
    """Returns the notes to record for each turn, with its credit if there is any."""
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
    """Returns the credit of each turn in the first rows.

    Args:
        batch: The rows.
        outputs: The models' outputs for the rows before the update.
        credit: The algorithm's credit.
        num_rows: Maximum number of rows.

    Returns:
        Per row and turn, the mean `advantage` of its tokens and, with a critic, the `value` of the prefix before its
        first token; empty for masked turns.
    """
    notes: list[list[dict[str, float]]] = []
    trained_BT = torch.where(batch.response_mask_BT, batch.turn_index_BT, OBSERVED)
    for row in range(min(num_rows, batch.num_rows)):
        turns: list[dict[str, float]] = []
        for turn in range(batch.turn_rewards_BK.shape[1]):
            tokens = (trained_BT[row] == turn).nonzero()[:, 0]
            note = {"advantage": float(credit.advantages_BT[row, tokens].mean())} if len(tokens) else {}
            if len(tokens) and outputs.values_BT is not None:
                note["value"] = float(outputs.values_BT[row, tokens[0]])
            turns.append(note)
        notes.append(turns)
    return notes


def _reward_parts(scored: Sequence[ScoredTrajectory], judged: Sequence[ScoredTrajectory]) -> dict[str, float]:
    """Returns the mean per episode of each named reward part; judges' parts are averaged over judged episodes."""
    sums: defaultdict[str, float] = defaultdict(float)
    for episode in scored:
        for turn in episode.trajectory.turns:
            for term in turn.reward_terms:
                sums[f"reward/{term.name}"] += term.value / len(scored)
    for episode in judged:
        for turn_scores in episode.turns:
            for term in turn_scores.judge_terms:
                sums[f"judge/{term.name}"] += term.value / len(judged)
    return dict(sorted(sums.items()))


class PeakMemory:
    """Measures the peak memory of tensors on a GPU in the phases of an iteration; empty on other devices.

    Excludes CUDA's own memory and torch's unused reserve. If a batch is sampled during the
    update (`--staleness 1`), a phase's peak includes both.

    Args:
        device: Device of the policy.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._peaks: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures the block as a named phase."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        yield
        if self._device.type == "cuda":
            self._peaks[name] = torch.cuda.max_memory_allocated(self._device) / GIB

    def metrics(self) -> dict[str, float]:
        """Returns `<phase>_peak_gib` of the phases so far, in GiB, and starts over."""
        peaks, self._peaks = self._peaks, {}
        return {f"{name}_peak_gib": peak for name, peak in peaks.items()}
