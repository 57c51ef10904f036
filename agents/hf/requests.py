"""What makes an agent continuous, whatever samples its responses: requests by row, answered as they are over."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

from agents.agent import Response
from agents.hf.chat import PromptSegment
from agents.hf.conversations import Conversations, SampledResponse
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld


class RequestSampler(Protocol):
    """Continues conversations that join and leave at any time; the methods are those of vLLM."""

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any row is yet to be answered."""

    def add_request(self, row: int, segment: PromptSegment) -> None:
        """Appends a segment to a row, whose response is to be sampled."""

    def step(self) -> Mapping[int, SampledResponse]:
        """Goes on with all rows that are yet to be answered; returns the responses that are over."""

    def abort(self, row: int) -> None:
        """Gives up a row that was to be answered; it does not come back."""


class AnswersRequests:
    """The part of an agent that makes it a `ContinuousAgent`, given its `_sampler` and `_conversations`."""

    _sampler: Any
    _conversations: Conversations
    _segments: dict[int, PromptSegment]
    _before_start: dict[str, Any]

    def start(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Opens one conversation per world."""
        self._segments, self._before_start = {}, self.state_dict()  # type: ignore[attr-defined]
        super().start(worlds)  # type: ignore[misc]

    def restart(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Opens the conversations of the rollout that is under way anew: what follows is as if it had begun here."""
        self.load_state_dict(self._before_start)  # type: ignore[attr-defined]
        self.start(worlds)

    @property
    def _requests(self) -> RequestSampler:
        sampler: RequestSampler = self._sampler
        return sampler

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any row is yet to be answered."""
        return self._requests.has_unfinished_requests

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the response to what a row shows now.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (self._segments[row],) = self._conversations.segments([row], [observation])
        self._requests.add_request(row, self._segments[row])

    def step(self) -> dict[int, Response]:
        """Goes on with all rows that are yet to be answered; returns the responses that are over."""
        samples = self._requests.step()
        rows = list(samples)
        segments = [self._segments.pop(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        self._segments.pop(row, None)
        self._requests.abort(row)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row, once all are there."""
        for row, observation in zip(rows, observations, strict=True):
            self.add_request(row, observation)
        found: dict[int, Response] = {}
        while not found.keys() >= {*rows}:
            found |= self.step()
        return [found[row] for row in rows]
