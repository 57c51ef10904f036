"""An engine without vLLM: it writes down what it is asked, and answers with tokens that its weights decide."""

from __future__ import annotations

import numpy as np

from agents.hf.chat import SampledResponse


class FakeEngine:
    """Answers each request by its seed alone, or with an error: all after so many, or those of a number, from 1."""

    def __init__(self, end_of_turn_id: int, lost_after: int | None = None) -> None:
        self.version, self.end_of_turn_id, self.lost_after = "", end_of_turn_id, lost_after
        self.requests: list = []
        self.loaded: list = []
        self.asked: dict = {}
        self.is_closed, self.num_answered, self.lost = False, 0, frozenset()

    def load(self, weights, version):
        self.version = version
        self.loaded.append({name: value.clone() for name, value in weights.items()})

    def add_request(self, name, request):
        self.asked[name] = request
        self.requests.append(request)

    def step(self):
        """Answers the last that was asked for, alone."""
        name, request = self.asked.popitem()
        return {name: self._answer(request)}

    def abort(self, names):
        for name in names:
            self.asked.pop(name, None)

    def close(self):
        self.is_closed = True

    def _answer(self, request):
        self.num_answered += 1
        after = self.lost_after is not None and self.num_answered > self.lost_after
        if after or self.num_answered in self.lost:
            return SampledResponse(ids=[], logprobs=[], error="the engine is gone")
        ids = [*np.random.default_rng(request.seed).integers(300, 400, 3).tolist(), self.end_of_turn_id]
        return SampledResponse(ids=ids, logprobs=[-0.5] * len(ids))
