"""Episodes as judges see them, put together by hand."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.reward_registry import episode_reward
from tests.unit.judges.awaited import Waiting
from vlm_envs.trajectory import Observation, Trajectory, Turn

BEFORE = {"player_position": (3, 1), "target_position": (3, 3), "hole_positions": []}
AFTER = {"player_position": (2, 1), "target_position": (3, 3), "hole_positions": []}


def episode(
    responses: Sequence[str],
    infos: Sequence[Mapping[str, Any]],
    *,
    env_id: str = "VLM/ZoomQA-v0",
    state: Mapping[str, Any] | None = None,
    shown: Observation | None = None,
) -> Trajectory:
    """An episode of these responses, with the world's `info` after each; `state` is the one before the first."""
    turns = tuple(
        Turn(
            observation=shown or {"text": ""},
            response_text=response,
            stop_reason="stop",
            reward=0.0,
            terminated=number == len(infos) - 1,
            truncated=False,
            info=info,
            state=state or {},
        )
        for number, (response, info) in enumerate(zip(responses, infos, strict=True))
    )
    return Trajectory(env_id=env_id, seed=0, turns=turns, final_observation={"text": ""}, start_state_hash="")


def episode_judge(name: str, **models: Any) -> Any:
    """The judge of a reward, which may ask these fields of `JudgeModels`; its calls are waited for."""
    return Waiting(episode_reward(name).make_judge(JudgeModels(**models)))


def lake(
    observation: str | None, prediction: str | None, *, env_id: str = "VLM/FrozenLake-v0", **info: Any
) -> Trajectory:
    """An episode of one step on a lake, with what was written of it."""
    written = {"observation": observation, "prediction": prediction}
    sections = {name: text for name, text in written.items() if text is not None}
    told = {"representation": "natural_language", "format_correct": True, "sections": sections, "state": AFTER}
    return episode([""], [told | info], env_id=env_id, state=BEFORE)


def with_state(trajectory: Trajectory, **changes: Any) -> Trajectory:
    """The same episode, as if it had ended in another state."""
    *turns, last = trajectory.turns
    info = {**last.info, "state": {**last.info["state"], **changes}}
    return replace(trajectory, turns=(*turns, replace(last, info=info)))


def with_response(trajectory: Trajectory, response: str) -> Trajectory:
    """The same episode, as if its last response had been another."""
    *turns, last = trajectory.turns
    return replace(trajectory, turns=(*turns, replace(last, response_text=response)))
