"""Conversations token by token, whatever samples their responses, and requests of agents that batch continuously."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from agents.agent import Response
from agents.hf.chat import ChatEncoder, PromptSegment
from agents.hf.sampling_config import SamplingConfig, require_room
from vlm_envs.trajectory import Observation


@dataclass(frozen=True, kw_only=True)
class SampledResponse:
    """Sampled tokens of one row and their log-probabilities under the distribution they were drawn from.

    Attributes:
        ids: The tokens, the one that ended the response included; none where there is an error.
        logprobs: Of each.
        error: Why there is no response; empty if there is one.
    """

    ids: list[int]
    logprobs: list[float]
    error: str = ""


class Conversations:
    """What the rows of a batch were shown and said, as far as the next segment depends on it.

    Args:
        encoder: The chat format.
        sampling: How responses are drawn.
        max_context_tokens: Most tokens of a conversation.
    """

    def __init__(self, encoder: ChatEncoder, sampling: SamplingConfig, max_context_tokens: int) -> None:
        self.encoder, self.sampling, self.max_context_tokens = encoder, sampling, max_context_tokens
        self._was_cut: dict[int, bool] = {}
        self._num_tokens: dict[int, int] = {}
        self._next: dict[int, tuple[Observation, PromptSegment]] = {}

    def start(self) -> None:
        """Forgets all of them."""
        self._was_cut, self._num_tokens, self._next = {}, {}, {}

    def release(self) -> None:
        """Lets go of the segments, and their pictures."""
        self._next = {}

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether there is room for an observation and the longest response to it."""
        num_tokens = self._num_tokens.get(row, 0) + len(self._segment(row, observation).ids)
        return num_tokens + self.sampling.max_new_tokens <= self.max_context_tokens

    def segments(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[PromptSegment]:
        """Returns what rows are shown next, in tokens.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        segments = []
        for row, observation in zip(rows, observations, strict=True):
            segment = self._segment(row, observation)
            if row not in self._was_cut:
                require_room(len(segment.ids), self.max_context_tokens, self.sampling)
            segments.append(segment)
        return segments

    def asked(self, row: int) -> PromptSegment:
        """Returns what a row was shown last."""
        return self._next[row][1]

    def responses(
        self, rows: Sequence[int], segments: Sequence[PromptSegment], samples: Sequence[SampledResponse]
    ) -> list[Response]:
        """Returns what rows answered to their segments, and goes on from there."""
        return [self._response(*each) for each in zip(rows, segments, samples, strict=True)]

    def _segment(self, row: int, observation: Observation) -> PromptSegment:
        """Returns what a row is shown next, in tokens."""
        known = self._next.get(row)
        if known is None or known[0] is not observation:
            segment = self.encoder.encode(
                observation, is_first=row not in self._was_cut, needs_end_of_turn=self._was_cut.get(row, False)
            )
            self._next[row] = known = observation, segment
        return known[1]

    def _response(self, row: int, segment: PromptSegment, sample: SampledResponse) -> Response:
        if sample.error:
            return Response(text="", stop_reason="error", error=sample.error, prompt_ids=segment.ids)
        stopped = sample.ids[-1] == self.encoder.end_of_turn_id
        self._was_cut[row] = not stopped
        self._num_tokens[row] = self._num_tokens.get(row, 0) + len(segment.ids) + len(sample.ids)
        return Response(
            text=self.encoder.decode(sample.ids),
            stop_reason="stop" if stopped else "length",
            prompt_ids=segment.ids,
            response_ids=np.asarray(sample.ids, np.int64),
            sampler_logprobs=np.asarray(sample.logprobs, np.float32),
        )


class AnswersRequests:
    """The part of an agent that makes it a `ContinuousAgent`, given its `_sampler` and `_conversations`.

    The sampler has the methods of vLLM's engine: `add_request`, `step`, `abort`.
    """

    _sampler: Any
    _conversations: Conversations

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the response to what a row shows now.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (segment,) = self._conversations.segments([row], [observation])
        self._sampler.add_request(row, segment)

    def step(self) -> dict[int, Response]:
        """Goes on with all rows that are yet to be answered; returns the responses that are over."""
        samples = self._sampler.step()
        rows = list(samples)
        segments = [self._conversations.asked(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        self._sampler.abort(row)
