"""Evaluation: success on held-out levels, through the same rollout loop as training."""

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
"""What is wrong with items that cannot be shown, by what was asked: to look at two thousand pictures takes a dozen
seconds, and a run evaluates the same ones again and again."""

_MEASURES = {"VLM/SVG-v0": "similarity"}
"""Of worlds whose success says little: which of their metrics counts in its place."""


@dataclass(frozen=True, kw_only=True)
class EvaluationResult:
    """One world's episodes on the levels of one split.

    Attributes:
        world: What its mix calls it.
        trajectories: One per seed, without those that were lost with their workers.
        num_lost: How many those are; they say nothing of the policy and are in no rate.
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
        """Returns the numbers that are logged, with the success rate's 95% interval (`evaluated_rate`).

        `turns_to_success` is the mean number of turns of the solved episodes, and absent where none was solved.
        Episodes with an infinite or NaN reward are in no mean of rewards, as in training, and `nonfinite_rewards`
        counts them; the mean is NaN where there are no others.
        """
        turns = [turn for trajectory in self.trajectories for turn in trajectory.turns]
        solved = [len(trajectory.turns) for trajectory in self.trajectories if trajectory.success]
        rewards = [trajectory.total_reward for trajectory in self.trajectories if _has_finite_rewards(trajectory)]
        return {
            **more,
            "env_id": self.env_id,
            "world": self.world,
            "split": self.split,
            **evaluated_rate(*zip(*((start_of(each), each.success) for each in self.trajectories), strict=True)),
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
    """Returns whether rewards are finite, and so is every sum of them, in the float32 that training has."""
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
    """Plays `num_episodes` seeds of a split, from the one with index `first` on, the same ones at every call.

    A split that lists fewer levels (a benchmark) is played to its end, each level once, and a line says so. `name` is
    what the world's mix calls it; its env id by default. The processes of an engine share the seeds. Where the split
    lists a data set's items, those that cannot be shown are not played, as the next one would be shown in their place
    and counted twice; a line names them, and the number of episodes is what is left.

    Returns:
        The episodes. One that is lost with its worker, or whose worker does not come up, is played once more, and left
        out if it is lost again.

    Raises:
        ConfigError: If the split has no level, or none of them can be shown.
        WorkerError: If none is left.
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
    played = [each for _, each in sorted(engine.gather(list(zip(own, mine, strict=True))), key=lambda pair: pair[0])]
    trajectories = tuple(replace(each, world=name) for each in played if each is not None)
    if not trajectories:
        begun = engine.gather(lost[-len(own) :] if own else [])  # in the second attempt
        why = why_lost([*begun, *[None] * (num_episodes - len(begun))], of=num_episodes)
        raise WorkerError(f"Nothing is left of the evaluation of {name}, which was tried twice: {why}.")
    num_lost = num_episodes - len(trajectories)
    return EvaluationResult(env_id=spec.env_id, world=name, split=split, trajectories=trajectories, num_lost=num_lost)


def _shown(spec: WorldSpec, split: str, seeds: list[int], engine: Engine, which: str) -> list[int]:
    """Returns the seeds without those of listed items that cannot be shown, and says which these are.

    Raises:
        ConfigError: If none is left.
    """
    own = seeds[engine.rank :: engine.num_processes]
    asked = (spec.env_id, repr(spec.kwargs), split, tuple(own))
    if asked not in _UNSHOWN:
        _UNSHOWN[asked] = spec.unshown(split, own)
    faults = dict(sorted(engine.gather(list(_UNSHOWN[asked].items()))))
    if faults:
        told = told_left_out(which, faults.values())
        if len(faults) == len(seeds):
            raise ConfigError(f"{told} None is left. Copy the data set's pictures again, or evaluate on more.")
        if engine.rank == 0:
            print(told, flush=True)
    return [seed for seed in seeds if seed not in faults]


def _within(num_episodes: int, first: int, num_listed: int | None, which: str) -> int:
    """Returns how many episodes there can be without playing a listed level twice."""
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
        raise ConfigError(f"{which} has no level to be evaluated on. Ask for 0 episodes there, or for another split.")
    print(f"{which}: {num_levels} levels, each is played once; {num_episodes} episodes were asked for.")
    return num_levels


def told(label: str, record: Mapping[str, Any], *, whose: str = "") -> str:
    """Returns the line that says what an evaluation came to, with the measure that counts in place of success.

    Args:
        label: What the evaluation is called, such as `before`.
        record: Its numbers, as `EvaluationResult.record` returns them.
        whose: What is added of the policy that played, if it is not the one that is trained, and of how it was sampled.
    """
    success, low, high = record["success"], record["success_low"], record["success_high"]
    played = f"{record['world']} {record['split']} success {success:.3f} [{low:.3f}, {high:.3f}]"
    played_on = counted_episodes(record["num_episodes"], record["num_levels"])
    measure = measure_of(record["env_id"])
    measured = "" if measure == "success" else f", {measure} {record.get(f'metric/{measure}', math.nan):.3f}"
    return f"{label}: {played}{measured} over {played_on}{whose}"


def measure_of(env_id: str) -> str:
    """Returns what a world's levels are measured by: `"success"`, or the metric that counts in its place."""
    return _MEASURES.get(registered_name(env_id), "success")


def mean_success(evaluations: Sequence[EvaluationResult]) -> float:
    """Returns the mean of the worlds' success rates."""
    return float(np.mean([evaluation.success for evaluation in evaluations]))
