"""An engine without vLLM: it writes down what it is asked, and answers with tokens that its weights decide."""

from __future__ import annotations

import numpy as np

from agents.hf.conversations import SampledResponse


class FakeEngine:
    """Answers each request by its seed alone, or with an error where `lost` names how many are asked before."""

    def __init__(self, end_of_turn_id: int, lost_after: int | None = None) -> None:
        self.version, self.end_of_turn_id, self.lost_after = "", end_of_turn_id, lost_after
        self.requests: list = []
        self.loaded: list = []
        self.is_closed = False

    def load(self, weights, version):
        self.version = version
        self.loaded.append({name: value.clone() for name, value in weights.items()})

    def generate(self, requests):
        return [self._answer(request) for request in requests]

    def close(self):
        self.is_closed = True

    def _answer(self, request):
        self.requests.append(request)
        if self.lost_after is not None and len(self.requests) > self.lost_after:
            return SampledResponse(ids=[], logprobs=[], error="the engine is gone")
        ids = [*np.random.default_rng(request.seed).integers(300, 400, 3).tolist(), self.end_of_turn_id]
        return SampledResponse(ids=ids, logprobs=[-0.5] * len(ids))
