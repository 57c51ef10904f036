"""Score: what each turn earns in all. The world's raw reward is not touched; judges add named parts to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from judges.repetition import RepetitionConfig
from judges.shaping import (
    GroundingReward,
    JudgedTurn,
    RepetitionTerm,
    RewardTerm,
    ShapedTurn,
    WorldModelingReward,
    shape,
)
from training.config import JudgeConfig
from vlm_envs.trajectory import Trajectory


@dataclass(frozen=True, kw_only=True)
class ScoredTrajectory:
    """A trajectory with its judges' rewards.

    Attributes:
        trajectory: What was played.
        shaped: One per turn.
    """

    trajectory: Trajectory
    shaped: tuple[ShapedTurn, ...]

    @property
    def turn_rewards(self) -> list[float]:
        """Raw reward plus shaping, per turn."""
        return [turn.reward + shaped.total for turn, shaped in zip(self.trajectory.turns, self.shaped, strict=True)]

    @property
    def trainable_turns(self) -> list[bool]:
        """Whether each turn can be learnt from.

        Nothing of an episode whose worker failed or whose API was out; otherwise all but what no judge could score.
        """
        turns = self.trajectory.turns
        lost = any("worker_error" in turn.info or turn.stop_reason == "error" for turn in turns)
        return [shaped.available and not lost for shaped in self.shaped]


def reward_terms(config: JudgeConfig) -> list[RewardTerm]:
    """Returns the shaping terms a configuration asks for."""
    terms: list[RewardTerm] = []
    if config.grounding_weight > 0:
        terms.append(GroundingReward(weight=config.grounding_weight))
    if config.worldmodeling_weight > 0:
        terms.append(WorldModelingReward(weight=config.worldmodeling_weight))
    if config.repetition_penalty > 0:
        terms.append(RepetitionTerm(RepetitionConfig(penalty=-config.repetition_penalty)))
    return terms


def score(
    trajectories: Sequence[Trajectory], terms: Sequence[RewardTerm], representation: Mapping[str, str]
) -> list[ScoredTrajectory]:
    """Judges every turn of a batch of trajectories.

    Args:
        trajectories: What was played.
        terms: The parts of the shaped reward.
        representation: How each world, by env id, asked for states to be written.

    Returns:
        One scored trajectory each, in order.
    """
    turns = [
        JudgedTurn(
            env_id=trajectory.env_id,
            representation=representation[trajectory.env_id],  # type: ignore[arg-type]
            observation_text=turn.info.get("sections", {}).get("observation"),
            prediction_text=turn.info.get("sections", {}).get("prediction"),
            format_correct=bool(turn.info.get("format_correct", False)),
            state=turn.state,
            next_state=turn.info["state"],
        )
        for trajectory in trajectories
        for turn in trajectory.turns
    ]
    shaped = iter(shape(turns, terms))
    return [
        ScoredTrajectory(trajectory=trajectory, shaped=tuple(next(shaped) for _ in trajectory.turns))
        for trajectory in trajectories
    ]
