"""The agent protocols, and what agents are given and return."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Protocol, Self, runtime_checkable

import numpy as np

from vlm_envs.trajectory import FloatArray, IntArray, Observation, StopReason

if TYPE_CHECKING:
    from vlm_envs.vector.vector_world import VectorWorld


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


@dataclass(frozen=True, kw_only=True)
class RolloutRows:
    """The rows of a rollout, one per world.

    Attributes:
        batch_sizes: Number of rows of each batch played together, in order; each draws as it would by itself.
        group_of_row: Group of each row, numbered from 0. The first episodes of a group have the same world, seed,
            level, and first observation.
    """

    batch_sizes: tuple[int, ...] = ()
    group_of_row: tuple[int, ...] = ()

    @classmethod
    def ungrouped(cls, num_rows: int) -> Self:
        """Returns the rows of one batch, each in a group of its own."""
        return cls(batch_sizes=(num_rows,), group_of_row=tuple(range(num_rows)))

    @property
    def num_envs(self) -> int:
        """Number of rows."""
        return len(self.group_of_row)

    @property
    def batch_indices(self) -> list[tuple[int, int]]:
        """Each row's batch, and its index there."""
        return [(batch, index) for batch, size in enumerate(self.batch_sizes) for index in range(size)]


class Agent(Protocol):
    """What every agent has besides the methods of `EpisodeAgent`, `BatchAgent`, or `ContinuousAgent`.

    An agent may also have an `identity`, a dictionary of JSON types with whatever decides what it does besides its name
    and settings, such as a hash of its weights: boards keep a hash of it, and notice when it has changed.

    Attributes:
        policy_version: Optimiser steps of the policy that acts; -1 for agents that do not learn.
    """

    policy_version: int


class EpisodeAgent(Agent, Protocol):
    """An agent that answers each episode by itself, such as by an API.

    Its `start`, as in `BatchAgent`, and `begin(row)`, called before each episode of a row, are optional.
    """

    async def respond(self, row: int, observation: Observation) -> Response:
        """Returns the response to what a row shows now."""


class BatchAgent(Agent, Protocol):
    """An agent that answers all episodes together, once each of them has asked."""

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes and prepares for one episode in each of the worlds, just reset.

        An agent that takes a second argument `rows` is also given the `RolloutRows`.
        """

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one answer per row.

        Args:
            rows: Indices of the episodes that go on; rows left out never come back.
            observations: What each of them shows now.
        """


@runtime_checkable
class ContinuousAgent(Agent, Protocol):
    """An agent that batches whoever is there: episodes join and leave at any time. The methods are those of vLLM."""

    def start(self, worlds: Any, rows: RolloutRows) -> None:
        """Prepares for one episode per row.

        Args:
            worlds: The `VectorWorld` that is played, or the same `rows` where several are played together.
            rows: What is known of the rows; an agent need not take it.
        """

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the answer to what a row shows now."""

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
