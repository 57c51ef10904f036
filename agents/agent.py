"""The agent protocols, their inputs, and their outputs."""

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
    """An agent's response to one observation.

    Attributes:
        text: The response, without special tokens.
        stop_reason: `"stop"`, `"length"` (token limit), `"content_filter"` (refused), `"tool_call"` (it called a tool
            that was not offered and wrote no text), `"context"` (the request exceeded a limit of the model; the text is
            empty and the episode ends) or `"error"` (no response).
        prompt_ids: int64[P], tokens appended before the response; empty for agents without tokens.
        response_ids: int64[R], sampled tokens; empty for agents without tokens.
        sampler_logprobs: float32[R], log-probability of each token under the distribution it was drawn from.
        thoughts: Reasoning outside the text, if the provider shows it.
        usage: Resources used, by name: `seconds`, tokens, `usd`; `uncounted` where reply tokens are estimated.
        model: Exact name of the model that answered, as its provider reports it; empty if it does not.
        error: Why there is no response; empty if there is one.
        stop_detail: See `Turn`; so are `summary`, `request`, and `raw`.
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
        batch_sizes: Number of rows of each batch played together, in order; each samples as if it were alone.
        group_of_row: Group of each row, numbered from 0. The first episodes of a group have the same world, seed,
            level, and first observation.
    """

    batch_sizes: tuple[int, ...] = ()
    group_of_row: tuple[int, ...] = ()

    @classmethod
    def ungrouped(cls, num_rows: int) -> Self:
        """Returns the rows of one batch, each in its own group."""
        return cls(batch_sizes=(num_rows,), group_of_row=tuple(range(num_rows)))

    @property
    def num_envs(self) -> int:
        """Number of rows."""
        return len(self.group_of_row)

    @property
    def batch_indices(self) -> list[tuple[int, int]]:
        """The batch of each row, and the row's index within it."""
        return [(batch, index) for batch, size in enumerate(self.batch_sizes) for index in range(size)]


class Agent(Protocol):
    """Members of every agent in addition to the methods of `EpisodeAgent`, `BatchAgent`, or `ContinuousAgent`.

    An agent may also have an `identity`, a JSON dictionary of everything that determines its behavior, apart from its
    name and settings, such as a hash of its weights. Boards store a hash of it to detect changes.

    Attributes:
        policy_version: Optimizer steps of the current policy; -1 for agents that do not learn.
    """

    policy_version: int


class EpisodeAgent(Agent, Protocol):
    """An agent that answers each episode separately, such as through an API.

    Its `start`, as in `BatchAgent`, and `begin(row)`, called before each episode of a row, are optional.
    """

    async def respond(self, row: int, observation: Observation) -> Response:
        """Returns the response to a row's current observation."""


class BatchAgent(Agent, Protocol):
    """An agent that answers all episodes together, once all of them have requested a response."""

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes and prepares for one episode in each of the worlds, just reset.

        An agent that takes a second argument `rows` is also given the `RolloutRows`.
        """

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns one answer per row.

        Args:
            rows: Indices of the episodes that continue; omitted rows do not return.
            observations: Current observation of each row.
        """


@runtime_checkable
class ContinuousAgent(Agent, Protocol):
    """An agent that batches the current requests; episodes join and leave at any time. The methods mirror vLLM's."""

    def start(self, worlds: Any, rows: RolloutRows) -> None:
        """Prepares for one episode per row.

        Args:
            worlds: The `VectorWorld` to play, or the same `rows` if several vectors are played together.
            rows: The rows' batches and groups; an agent need not accept it.
        """

    def add_request(self, row: int, observation: Observation) -> None:
        """Requests the response to a row's current observation."""

    def step(self) -> dict[int, Response]:
        """Advances all requests, by about one token; returns the finished responses by row."""

    def abort(self, row: int) -> None:
        """Drops the request of a row, which does not return."""


@runtime_checkable
class BoundedAgent(Agent, Protocol):
    """An agent whose conversations may exceed its context; their episodes are then truncated."""

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether the context has room for the next observation of a row and a response to it."""


@runtime_checkable
class LearningAgent(Agent, Protocol):
    """An agent that receives its weights from a trainer, which also saves the state of its sampling."""

    def sync(self, policy: Any, version: int) -> None:
        """Replaces the weights used for sampling.

        Args:
            policy: The model being trained.
            version: Its optimizer steps; becomes `policy_version`.
        """

    def release(self) -> None:
        """Frees the memory used for sampling before an update; `start` is called next."""

    def state_dict(self) -> dict[str, Any]:
        """Returns everything the next responses depend on in addition to weights and observations."""

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state from `state_dict`, as far as the device allows; reports where it does not."""
