"""An agent that is a checkpoint, and batches whoever is there: no episode waits for another."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from agents.agent import Response
from agents.hf.agent import CheckpointAgent
from agents.hf.chat import PromptSegment
from agents.hf.continuous import ContinuousSampler
from agents.hf.draws import EpisodeDraws
from vlm_envs.trajectory import Observation
from vlm_envs.vector.env import VectorWorld


class ContinuousHFAgent(CheckpointAgent):
    """Samples with continuous batching; a `ContinuousAgent`. See `CheckpointAgent` for its arguments.

    Each response is drawn from a random stream of its own, which the agent's seed, the number of the rollout, the row
    and its turn decide. So what an episode is does not depend on when others are asked, but for floating-point ties.
    """

    _num_rollouts = 0
    _segments: dict[int, PromptSegment]

    def _make_sampler(self) -> ContinuousSampler:
        return ContinuousSampler(self.model, self.encoder, self.sampling, EpisodeDraws(self.seed))

    def start(self, worlds: VectorWorld) -> None:
        """Opens one conversation per world."""
        self._sampler.start(range(worlds.num_envs), EpisodeDraws(self.seed, self._num_rollouts))
        self._num_rollouts += 1
        self._conversations.start()
        self._segments = {}

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any row is yet to be answered."""
        return bool(self._sampler.has_unfinished_requests)

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the response to what a row shows now.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (self._segments[row],) = self._conversations.segments([row], [observation])
        self._sampler.add_request(row, self._segments[row])

    def step(self) -> dict[int, Response]:
        """Samples a token of every row, or the first one of rows that came; returns the responses that are over."""
        with self._evaluating():
            samples = self._sampler.step()
        rows = list(samples)
        segments = [self._segments.pop(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        self._segments.pop(row, None)
        self._sampler.abort(row)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a response per row, once all are there."""
        for row, observation in zip(rows, observations, strict=True):
            self.add_request(row, observation)
        found: dict[int, Response] = {}
        while not found.keys() >= {*rows}:
            found |= self.step()
        return [found[row] for row in rows]

    def state_dict(self) -> dict[str, Any]:
        """Returns how many rollouts there were, which decide the random streams of the next."""
        return {"num_rollouts": self._num_rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with the next rollout."""
        self._num_rollouts = state["num_rollouts"]
