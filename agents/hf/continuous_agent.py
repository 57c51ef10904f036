"""An agent that is a checkpoint, and batches whoever is there: no episode waits for another."""

from __future__ import annotations

from typing import Any

from agents.agent import Response
from agents.hf.agent import CheckpointAgent
from agents.hf.continuous import ContinuousSampler
from agents.hf.draws import EpisodeDraws
from agents.hf.requests import AnswersRequests


class ContinuousHFAgent(AnswersRequests, CheckpointAgent):
    """Samples with continuous batching; a `ContinuousAgent`. See `CheckpointAgent` for its arguments.

    Each response is drawn from a random stream of its own, which the agent's seed, the number of the rollout, the row
    and its turn decide. So what an episode is does not depend on when others are asked, but for floating-point ties.
    """

    _num_rollouts = 0

    def _make_sampler(self) -> ContinuousSampler:
        return ContinuousSampler(self.model, self.encoder, self.sampling, EpisodeDraws(self.seed))

    def step(self) -> dict[int, Response]:
        """Samples a token of every row, or the first one of rows that came; returns the responses that are over."""
        with self._evaluating():
            return super().step()

    def _open(self, num_rows: int) -> None:
        self._sampler.start(range(num_rows), EpisodeDraws(self.seed, self._num_rollouts))
        self._num_rollouts += 1

    def state_dict(self) -> dict[str, Any]:
        """Returns how many rollouts there were, which decide the random streams of the next."""
        return {"num_rollouts": self._num_rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on with the next rollout."""
        self._num_rollouts = state["num_rollouts"]
