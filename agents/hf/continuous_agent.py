"""An agent that is a checkpoint, and batches whoever is there: no episode waits for another."""

from __future__ import annotations

from agents.agent import Response
from agents.hf.agent import CheckpointAgent
from agents.hf.continuous import ContinuousSampler
from agents.hf.draws import EpisodeDraws
from agents.hf.requests import AnswersRequests


class ContinuousHFAgent(AnswersRequests, CheckpointAgent):
    """Samples with continuous batching; a `ContinuousAgent`. See `CheckpointAgent` for its arguments."""

    def _make_sampler(self) -> ContinuousSampler:
        return ContinuousSampler(self.model, self.encoder, self.sampling, EpisodeDraws(self.seed))

    def step(self) -> dict[int, Response]:
        """Samples a token of every row, or the first one of rows that came; returns the responses that are over."""
        with self._evaluating():
            return super().step()
