"""An agent that vLLM samples, in which no episode waits for another."""

from __future__ import annotations

from agents.agent import Response
from agents.hf.chat import PromptSegment
from agents.vllm.agent import VLLMAgent
from vlm_envs.trajectory import Observation
from vlm_envs.vector.env import VectorWorld


class ContinuousVLLMAgent(VLLMAgent):
    """A `ContinuousAgent`; see `VLLMAgent` for its arguments. It says what that one says, whoever is asked first."""

    _segments: dict[int, PromptSegment]

    def start(self, worlds: VectorWorld) -> None:
        """Opens one conversation per world."""
        super().start(worlds)
        self._segments = {}

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any row is yet to be answered."""
        return self._sampler.has_unfinished_requests

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the response to what a row shows now.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (self._segments[row],) = self._conversations.segments([row], [observation])
        self._sampler.add_request(row, self._segments[row])

    def step(self) -> dict[int, Response]:
        """Goes on with all that were asked for; returns the responses that are over, or why there is none."""
        samples = self._sampler.step()
        rows = list(samples)
        segments = [self._segments.pop(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        self._segments.pop(row, None)
        self._sampler.abort(row)
