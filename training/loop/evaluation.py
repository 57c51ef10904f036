"""Evaluation: success on held-out levels, with the same rollout loop as training."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from agents.agent import Agent
from training.config.world_spec import MAX_PARALLEL, WorldSpec
from training.engines.engine import Engine, LocalEngine
from training.level_episodes import play_each, why_lost
from training.loop.metrics import mean_metrics
from vlm_envs.errors import ConfigError, WorkerError
from vlm_envs.qa.datasets.dataset_splits import told_left_out
from vlm_envs.records.run_data import start_of
from vlm_envs.registration import registered_name
from vlm_envs.splits import split_seeds
from vlm_envs.statistics.success_rates import counted_episodes, evaluated_rate
from vlm_envs.trajectory import Trajectory

_UNSHOWN: dict[tuple[str, str, str, tuple[int, ...]], dict[int, str]] = {}
"""Faults of items that cannot be shown, cached by world, split, and seeds: reading two thousand images takes a dozen
seconds, and a run evaluates the same ones repeatedly."""

_MEASURES = {"VLM/SVG-v0": "similarity"}
"""Metrics that replace the success rate in worlds where it is uninformative."""


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """One world's episodes on the levels of one split.

    Attributes:
        world: Name in the mix.
        trajectories: One per seed, without those lost with their workers.
        num_lost: Number of lost episodes, which are excluded from all rates.
    """

    env_id: str
    world: str
    split: str
    trajectories: tuple[Trajectory, ...]
    num_lost: int = 0

    @property
    def success(self) -> float:
        """Fraction of episodes solved."""
        return float(np.mean([trajectory.success for trajectory in self.trajectories]))

    def record(self, **more: Any) -> dict[str, Any]:
        """Returns the metrics to log, with the success rate's 95% interval (`evaluated_rate`).

        `turns_to_success` is the mean number of turns of solved episodes, and absent if there are none.
        Episodes with an infinite or NaN reward are excluded from mean rewards, as in training, and counted in
        `nonfinite_rewards`; the mean is NaN if no others are left.
        """
        turns = [turn for trajectory in self.trajectories for turn in trajectory.turns]
        solved = [len(trajectory.turns) for trajectory in self.trajectories if trajectory.success]
        rewards = [trajectory.total_reward for trajectory in self.trajectories if _has_finite_rewards(trajectory)]
        return {
            **more,
            "env_id": self.env_id,
            "world": self.world,
            "split": self.split,
            **evaluated_rate(
                *zip(*((start_of(episode), episode.success) for episode in self.trajectories), strict=True)
            ),
            "success": self.success,
            "num_lost": self.num_lost,
            "reward": float(np.mean(rewards)) if rewards else math.nan,
            "nonfinite_rewards": len(self.trajectories) - len(rewards),
            "format_rate": float(np.mean([bool(turn.info.get("format_correct")) for turn in turns])),
            "num_turns": len(turns) / len(self.trajectories),
            **({"turns_to_success": float(np.mean(solved))} if solved else {}),
            **mean_metrics(self.trajectories),
        }


def _has_finite_rewards(trajectory: Trajectory) -> bool:
    """Returns whether rewards and all of their sums are finite in float32, the type used in training."""
    with np.errstate(over="ignore"):
        rewards = np.array([turn.reward for turn in trajectory.turns]).astype(np.float32)
        return bool(np.isfinite(np.abs(rewards).sum()))


def evaluate(
    agent: Agent,
    spec: WorldSpec,
    *,
    split: str,
    num_episodes: int,
    first: int = 0,
    name: str = "",
    engine: Engine | None = None,
) -> EvaluationResult:
    """Plays `num_episodes` seeds of a split, from index `first`; the same ones in every call.

    A split that lists fewer levels (a benchmark) is played to its end, each level once, with a message. `name` is
    the world's name in the mix; its env id by default. The processes of an engine share the seeds. If the split
    lists a dataset's items, those that cannot be shown are skipped with a message and reduce the number of episodes,
    as the next item would be shown in their place and counted twice.

    Returns:
        The episodes. One whose worker is lost or fails to start is retried once, and omitted if it is lost again.

    Raises:
        ConfigError: If the split has no level, or none of its levels can be shown.
        WorkerError: If all episodes were lost.
    """
    num_episodes = _within(num_episodes, first, spec.num_levels(split), f"{name or spec.env_id} {split}")
    name, engine = name or spec.env_id, engine or LocalEngine()
    seeds = _shown(spec, split, list(split_seeds(split, num_episodes, start=first)), engine, f"{name} {split}")
    num_episodes = len(seeds)
    own = range(engine.rank, num_episodes, engine.num_processes)
    lost: list[Trajectory | None] = []
    mine = play_each(
        agent,
        spec,
        [seeds[index] for index in own],
        split=split,
        max_parallel=MAX_PARALLEL,
        counts_optimal_actions=True,
        on_lost=lost.append,
    )
    played = [
        episode for _, episode in sorted(engine.gather(list(zip(own, mine, strict=True))), key=lambda pair: pair[0])
    ]
    trajectories = tuple(replace(episode, world=name) for episode in played if episode is not None)
    if not trajectories:
        begun = engine.gather(lost[-len(own) :] if own else [])  # only those of the second attempt
        why = why_lost([*begun, *[None] * (num_episodes - len(begun))], of=num_episodes)
        raise WorkerError(f"Nothing is left of the evaluation of {name}, which was tried twice: {why}.")
    num_lost = num_episodes - len(trajectories)
    return EvaluationResult(env_id=spec.env_id, world=name, split=split, trajectories=trajectories, num_lost=num_lost)


def _shown(spec: WorldSpec, split: str, seeds: list[int], engine: Engine, which: str) -> list[int]:
    """Returns the seeds without those of listed items that cannot be shown, and prints which these are.

    Raises:
        ConfigError: If none can be shown.
    """
    own = seeds[engine.rank :: engine.num_processes]
    asked = (spec.env_id, repr(spec.kwargs), split, tuple(own))
    if asked not in _UNSHOWN:
        _UNSHOWN[asked] = spec.unshown(split, own)
    faults = dict(sorted(engine.gather(list(_UNSHOWN[asked].items()))))
    if faults:
        message = told_left_out(which, faults.values())
        if len(faults) == len(seeds):
            raise ConfigError(f"{message} None is left. Copy the dataset's images again, or evaluate on more.")
        if engine.rank == 0:
            print(message, flush=True)
    return [seed for seed in seeds if seed not in faults]


def _within(num_episodes: int, first: int, num_listed: int | None, which: str) -> int:
    """Returns the possible number of episodes without playing a listed level twice."""
    if num_listed is None:
        return num_episodes
    if num_listed and first >= num_listed:
        raise ConfigError(f"{which} has {num_listed} levels; --first-eval-level {first} leaves none of them.")
    num_levels = num_listed - first
    if num_episodes == num_levels:
        return num_episodes
    if num_episodes < num_levels:
        print(f"{which}: plays the first {num_episodes:,} of {num_levels:,}{f' from {first:,} on' * bool(first)}.")
        return num_episodes
    if num_levels == 0:
        raise ConfigError(
            f"{which} has no levels to evaluate on. Set the number of episodes to 0, or use another split."
        )
    print(f"{which}: {num_levels} levels, each played once; {num_episodes} episodes were requested.")
    return num_levels


def told(label: str, record: Mapping[str, Any], *, whose: str = "") -> str:
    """Returns a one-line summary of an evaluation, with the measure that replaces success if there is one.

    Args:
        label: Name of the evaluation, such as `before`.
        record: Its metrics, from `EvaluationResult.record`.
        whose: Additional text about the policy and its sampling.
    """
    success, low, high = record["success"], record["success_low"], record["success_high"]
    played = f"{record['world']} {record['split']} success {success:.3f} [{low:.3f}, {high:.3f}]"
    played_on = counted_episodes(record["num_episodes"], record["num_levels"])
    measure = measure_of(record["env_id"])
    measured = "" if measure == "success" else f", {measure} {record.get(f'metric/{measure}', math.nan):.3f}"
    return f"{label}: {played}{measured} over {played_on}{whose}"


def measure_of(env_id: str) -> str:
    """Returns the measure of a world's levels: `"success"`, or the metric that replaces it."""
    return _MEASURES.get(registered_name(env_id), "success")


def mean_success(evaluations: Sequence[EvaluationResult]) -> float:
    """Returns the mean of the worlds' success rates."""
    return float(np.mean([evaluation.success for evaluation in evaluations]))
