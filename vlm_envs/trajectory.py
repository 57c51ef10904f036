"""The data type that the whole project exchanges: a trajectory of turns.

Trajectories are created by the rollout loop (`agents`), scored by `judges`, batched by `training`, and shown
by reports. Token ids are the sampled ones and are never recomputed from text. Nothing here needs torch.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, TypedDict

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError


class Observation(TypedDict, total=False):
    """Observation of an agent in one turn.

    Attributes:
        text: Instructions, feedback, and, in modes other than `"image"`, the state in words. Always present.
        image: uint8[H, W, 3]. Present unless the world's `obs_mode` is `"text"`.
        images: Several images (pages, crops), in reading order, for worlds that show more than one.
        system: The instructions, as the system message before everything else; empty after the first turn.
            Present in worlds made with `system_prompt=True`.
    """

    text: str
    image: npt.NDArray[np.uint8]
    images: tuple[npt.NDArray[np.uint8], ...]
    system: str


def require_image(image: Any) -> npt.NDArray[np.uint8]:
    """Returns an image if it is uint8[height, width, 3] and not empty.

    Worlds check the output of their view with it, and so does all code that reads an image of an observation.

    Raises:
        ConfigError: If it is anything else; the message explains how to convert it.
    """
    came = type(image).__name__
    if isinstance(image, np.ndarray):
        if image.dtype == np.uint8 and image.ndim == 3 and image.shape[2] == 3 and image.size:
            return image
        came = f"{image.dtype}{list(image.shape)}"
    raise ConfigError(
        f"An image must be uint8[height, width, 3], RGB from 0 to 255; got {came}. Conversions: numpy.asarray(image); "
        "(image * 255).round().astype(numpy.uint8) of values from 0 to 1; numpy.stack([image] * 3, axis=-1) of gray "
        "values; image[..., :3] without an alpha channel."
    )


def observation_images(observation: Observation) -> tuple[npt.NDArray[np.uint8], ...]:
    """Returns the images in an observation, in order; raises `ConfigError` if one is not uint8[height, width, 3]."""
    images = (observation["image"],) if "image" in observation else observation.get("images", ())
    return tuple(map(require_image, images))


def observation_words(observation: Observation) -> str:
    """Returns all text of an observation, for readers that treat a system message like other text."""
    return "\n".join(filter(None, (observation.get("system", ""), observation.get("text", ""))))


IntArray = npt.NDArray[np.int64]
FloatArray = npt.NDArray[np.float32]
SUCCESSFUL_CALLS = "successful_calls"
"""The metric of worlds with tools that counts successful calls, including zooms."""

StopReason = Literal["stop", "length", "content_filter", "tool_call", "context", "error"]


@dataclass(frozen=True, kw_only=True, slots=True)
class PaidTerm:
    """One named term of a turn's reward.

    Attributes:
        name: `"step"`, `"grounding"`, `"ivgr/answer"`; unique among the terms of one source.
        value: The term's reward, including its weight; a turn's terms sum to its reward.
        source: `"env"`, `"format"`, `"judge:NAME"` (the method of the judge), or `"episode:NAME"` (an episode reward,
            added to the last turn).
        weight: Reward of a score of 1, so that the score is `value / weight` unless `weight` is 0. It is 1 if the
            source scores in units of reward, and None if unknown (an episode reward's term of score 0, old records).
    """

    name: str
    value: float
    source: str
    weight: float | None = 1.0

    @property
    def is_world(self) -> bool:
        """Whether it is part of the world's own reward."""
        return self.source in ("env", "format")


def world_terms(values: Mapping[str, float]) -> tuple[PaidTerm, ...]:
    """Returns a world's `info["reward_terms"]` as terms, in order."""
    return tuple(
        PaidTerm(name=name, value=float(value), source="format" if name == "format" else "env")
        for name, value in values.items()
    )


@dataclass(frozen=True, kw_only=True)
class Turn:
    """One turn: observation, response, and result.

    Attributes:
        observation: Observation of the agent.
        prompt_ids: int64[P], tokens appended before the response (the observation, rendered once).
        response_ids: int64[R], sampled tokens, including the end-of-turn token if it was sampled.
        sampler_logprobs: float32[R], log-probability of each response token under the distribution it was
            drawn from (with temperature, top-p, and suppressed tokens applied).
        response_text: The response, decoded without special tokens.
        stop_reason: `"stop"` at the end-of-turn token, `"length"` at the token limit, `"content_filter"` if
            the model or its provider refused, `"tool_call"` if the model called a tool that was not offered
            and wrote no text, `"context"` if the request exceeded a limit of the model (its context, or the
            number or size of its images; the text is empty and the episode ends), `"error"` if there is no
            response (the API was unavailable).
        reward: The world's raw reward; never changed afterwards.
        reward_terms: Its named terms, all of the world; they sum to `reward`.
        terminated: Whether the world terminated the episode.
        truncated: Whether the budget (turns, steps) was exhausted.
        info: The world's `info` after the step.
        state: The world's typed state that the agent saw.
        state_text: The same in words, in the world's representation; None if the world did not provide it.
        seen_sections: Text of the response's sections under perfect perception; empty if no section describes
            the state.
        optimal_actions_left: Length of an optimal plan from that state; None if there is none or it is
            unknown.
        thoughts: Reasoning that is not part of the response, as far as a provider shows it.
        usage: Cost of the response: `seconds`, `prompt_tokens`, `completion_tokens`, `usd`, and more, if
            known.
        model: Exact name of the model that answered, such as a dated version, if a provider reports it.
        stop_detail: The provider's explanation if a limit of the model ended the response; empty otherwise.
        summary: The summary of earlier turns that the model wrote before this one; empty without such a
            history.
        request: The first request of an episode as it was sent, with images by their hashes; empty for other
            turns.
        raw: The provider's reply as received, shortened; empty for agents without a provider.
    """

    observation: Observation
    response_text: str
    stop_reason: StopReason
    reward: float
    reward_terms: tuple[PaidTerm, ...] = ()
    terminated: bool
    truncated: bool
    info: Mapping[str, Any]
    state: Mapping[str, Any]
    state_text: str | None = None
    seen_sections: Mapping[str, str] = field(default_factory=dict)
    optimal_actions_left: int | None = None
    prompt_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    response_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    sampler_logprobs: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    thoughts: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    stop_detail: str = ""
    summary: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, kw_only=True)
class Trajectory:
    """One episode.

    Attributes:
        env_id: Registered id of the world.
        seed: Seed of the reset.
        turns: The turns in order, at least one.
        final_observation: Observation after the last step.
        start_state_hash: Hash of the start state; equal for siblings.
        policy_version: Number of optimizer steps of the policy that acted; -1 for agents that do not learn.
        world: Name of the world in its mix, in which one id may occur with several settings; the env id by
            default.
        level: Text of the level it was reset to; empty if the seed determined it.
    """

    env_id: str
    seed: int
    turns: tuple[Turn, ...]
    final_observation: Observation
    start_state_hash: str
    policy_version: int = -1
    world: str = ""
    level: str = ""

    def __post_init__(self) -> None:
        if not self.world:
            object.__setattr__(self, "world", self.env_id)

    @property
    def success(self) -> bool:
        """Whether the world counts the episode as solved."""
        return bool(self.turns[-1].info["success"])

    @property
    def total_reward(self) -> float:
        """Sum of the raw rewards."""
        return float(sum(turn.reward for turn in self.turns))


@dataclass(frozen=True, kw_only=True)
class TrajectoryGroup:
    """The G siblings that share a reset seed and therefore a start state.

    Attributes:
        trajectories: The siblings.

    Raises:
        AssertionError: If they do not share world, seed, and start state (an internal invariant).
    """

    trajectories: tuple[Trajectory, ...]

    def __post_init__(self) -> None:
        starts = {(t.env_id, t.seed, t.start_state_hash) for t in self.trajectories}
        assert len(starts) == 1, f"siblings must share one start, got {sorted(starts)}"


def failure_of(trajectory: Trajectory) -> str:
    """Returns the error of the worker or the agent that ended an episode; empty if it ended normally."""
    reasons = (turn.info.get("worker_error") or turn.info.get("agent_error") for turn in trajectory.turns)
    return next((str(reason) for reason in reasons if reason), "")


def is_lost(trajectory: Trajectory | None) -> bool:
    """Returns whether an episode failed, at its reset (None) or later, and so carries no information on the agent."""
    return trajectory is None or bool(failure_of(trajectory))


def tool_was_used(metrics: Mapping[str, float]) -> bool | None:
    """Returns whether a tool call succeeded, from a world's final `metrics`; None in worlds without tools."""
    return metrics[SUCCESSFUL_CALLS] > 0 if SUCCESSFUL_CALLS in metrics else None
