"""The agent protocols, and the turns made of what an agent was shown and answered."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import Future
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, runtime_checkable

import numpy as np

from vlm_envs.trajectory import FloatArray, IntArray, Observation, StopReason, Turn, world_terms
from vlm_envs.world import OPTIMAL_ACTIONS_LEFT

if TYPE_CHECKING:
    from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld


@dataclass(frozen=True, kw_only=True)
class Response:
    """One answer.

    Attributes:
        text: What was said, without special tokens.
        stop_reason: `"stop"`, `"length"` (token limit), `"content_filter"` (refused), `"tool_call"` (it called a tool
            that was not offered and wrote no text), `"context"` (the request exceeded a limit of the model; the text is
            empty and ends the episode) or `"error"` (no response).
        prompt_ids: int64[P], tokens appended before the response; empty for agents without tokens.
        response_ids: int64[R], sampled tokens; empty for agents without tokens.
        sampler_logprobs: float32[R], log-probability of each under the distribution it was drawn from.
        thoughts: Reasoning that is no part of the text, as far as a provider shows it.
        usage: What it took, by name: `seconds`, tokens, `usd`; `uncounted` where tokens of replies are estimated.
        model: Exact name of the model that answered, as its provider tells it; empty where it does not.
        error: Why there is no response; empty if there is one.
        stop_detail: See `Turn`, as for `summary`, `request` and `raw`.
    """

    text: str
    stop_reason: StopReason = "stop"
    prompt_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    response_ids: IntArray = field(default_factory=lambda: np.zeros(0, np.int64))
    sampler_logprobs: FloatArray = field(default_factory=lambda: np.zeros(0, np.float32))
    thoughts: str = ""
    usage: Mapping[str, float] = field(default_factory=dict)
    model: str = ""
    error: str = ""
    stop_detail: str = ""
    summary: str = ""
    request: Mapping[str, Any] = field(default_factory=dict)
    raw: Mapping[str, Any] = field(default_factory=dict)


class Agent(Protocol):
    """Answers observations of several episodes that run side by side, all of them together.

    An agent that answers each episode by itself, such as by an API, has `async def respond(row, observation)` instead,
    which returns one `Response`; its `start(worlds)`, and `begin(row)` before each episode of a row, are optional.

    An agent may also have an `identity`, a dictionary of JSON types with whatever decides what it does besides its name
    and settings, such as a hash of its weights: boards keep a hash of it, and notice when it has changed.

    Attributes:
        policy_version: Optimiser steps of the policy that acts; -1 for agents that do not learn.
    """

    policy_version: int

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes and prepares for one episode in each of the worlds, just reset."""

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one answer per row.

        Args:
            rows: Indices of the episodes that go on; rows left out never come back.
            observations: What each of them shows now.
        """


@runtime_checkable
class AsyncAgent(Agent, Protocol):
    """An agent that answers each episode by itself, so that none has to wait for another."""

    def begin(self, row: int) -> None:
        """Forgets the earlier episode of a row and prepares for a new one."""

    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Returns the answer to what a row shows now, as soon as it is there; a failure is an answer, too."""


@runtime_checkable
class ContinuousAgent(Agent, Protocol):
    """An agent that batches whoever is there: episodes join and leave at any time. The methods are those of vLLM."""

    def start(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Prepares for one episode in each of the worlds; those of joined vectors draw as they would by themselves."""

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any episode is yet to be answered."""

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the answer to what a row shows now."""

    def restart(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Does what `start` did, in the rollout that is under way; later ones are what they would have been."""

    def step(self) -> dict[int, Response]:
        """Goes on with all that were asked for, by a token or so; returns the answers that are there, by row."""

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row, which does not come back."""


@runtime_checkable
class BoundedAgent(Agent, Protocol):
    """An agent whose conversations may outgrow what it can read; their episodes are then truncated."""

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether there is room for what a row, answered before, shows now, and for an answer to it."""


@runtime_checkable
class LearningAgent(Agent, Protocol):
    """An agent whose weights come from a trainer, which also saves where its sampling stands."""

    def sync(self, policy: Any, version: int) -> None:
        """Takes the weights that act from now on.

        Args:
            policy: The model that is trained.
            version: Optimiser steps it has seen; the new `policy_version`.
        """

    def release(self) -> None:
        """Lets go of the memory that playing takes, before the update needs it; `start` comes next."""

    def state_dict(self) -> dict[str, Any]:
        """Returns what the next responses depend on besides weights and observations."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on from what `state_dict` returned, as far as the device allows; says so where it does not."""


def make_turn(
    observation: Observation,
    seen: Mapping[str, Any],
    response: Response,
    info: Mapping[str, Any],
    reward: float = 0.0,
    *,
    terminated: bool = False,
    truncated: bool = False,
) -> Turn:
    """Returns one turn from what was shown, said and answered.

    Args:
        observation: What the agent was shown.
        seen: The world's `info` that came with it, of the state before the turn.
        response: What the agent said.
        info: The world's `info` in answer, of the state after the turn.
        reward: What the world paid for the turn.
        terminated: Whether the world ended with it.
        truncated: Whether a limit ended the episode with it.
    """
    return Turn(
        observation=observation,
        state=seen["state"],
        state_text=seen.get("state_text"),
        seen_sections=seen.get("seen_sections", {}),
        optimal_actions_left=seen.get(OPTIMAL_ACTIONS_LEFT),
        response_text=response.text,
        stop_reason=response.stop_reason,
        prompt_ids=response.prompt_ids,
        response_ids=response.response_ids,
        sampler_logprobs=response.sampler_logprobs,
        reward=reward,
        reward_terms=world_terms(info.get("reward_terms", {})),
        terminated=terminated,
        truncated=truncated,
        info=info,
        thoughts=response.thoughts,
        usage=response.usage,
        model=response.model,
        stop_detail=response.stop_detail,
        summary=response.summary,
        request=response.request,
        raw=response.raw,
    )
