"""Continues conversations with vLLM: tokens in, tokens out, and of each request a seed of its own."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from agents.hf.chat import ChatEncoder, PromptSegment
from agents.hf.conversations import SampledResponse
from agents.hf.draws import places_of
from agents.hf.families.family import ProcessedImage
from agents.hf.sampling import SamplingConfig
from agents.vllm.engine import Request, VLLMEngine, image_offsets


@dataclass
class _Row:
    """A conversation so far: which of the rollouts played together it is of, and which of its rows there.

    Behind that stand its tokens, its pictures, and how many responses are in it.
    """

    part: int
    place: int
    ids: list[int] = field(default_factory=list)
    images: list[ProcessedImage] = field(default_factory=list)
    num_turns: int = 0


class VLLMSampler:
    """A `Sampler` that asks an engine; what the engine keeps of a prefix is not computed again.

    What is drawn depends on the seed, on how many rollouts were started, on the row and on the turn: on nothing that is
    sampled beside it.

    Args:
        engine: Samples.
        encoder: Tells pictures from text.
        seed: Of all that is drawn.
        sampling: How responses are drawn; None for as the engine was made.
    """

    def __init__(
        self, engine: VLLMEngine, encoder: ChatEncoder, seed: int, sampling: SamplingConfig | None = None
    ) -> None:
        self.engine, self.encoder, self.seed, self.sampling = engine, encoder, seed, sampling
        self.num_started = 0
        self._first_started = 0
        self._rows: dict[int, _Row] = {}
        self._asked: dict[str, int] = {}

    def start(self, sizes: Sequence[int]) -> None:
        """Forgets everything and opens empty conversations: of each rollout that is played so many."""
        self.release()
        self._first_started = self.num_started + 1
        self.num_started += len(sizes)
        self._rows = {row: _Row(*place) for row, place in enumerate(places_of(sizes))}

    def release(self) -> None:
        """Forgets everything, and gives up what is yet to be answered."""
        self.engine.abort([*self._asked])
        self._rows, self._asked = {}, {}

    def continue_rows(self, rows: Sequence[int], segments: Sequence[PromptSegment]) -> list[SampledResponse]:
        """Appends a segment to each row and samples its response; one that cannot be had says why.

        Args:
            rows: A subset of the rows started, in any order; the others are dropped for good.
            segments: What each row is shown.
        """
        self._rows = {row: self._rows[row] for row in rows}
        for row, segment in zip(rows, segments, strict=True):
            self.add_request(row, segment)
        samples: dict[int, SampledResponse] = {}
        while self.has_unfinished_requests:
            samples |= self.step()
        return [samples[row] for row in rows]

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any row is yet to be answered."""
        return bool(self._asked)

    def add_request(self, row: int, segment: PromptSegment) -> None:
        """Appends a segment to a row and asks for its response."""
        name = uuid.uuid4().hex
        self.engine.add_request(name, self._request(row, segment))
        self._asked[name] = row

    def step(self) -> dict[int, SampledResponse]:
        """Goes on with all rows that are yet to be answered; returns the responses that are there, by row."""
        samples = {self._asked.pop(name): sample for name, sample in self.engine.step().items() if name in self._asked}
        for row, sample in samples.items():
            self._rows[row].ids += sample.ids
            self._rows[row].num_turns += 1
        return samples

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        names = [name for name, asked in self._asked.items() if asked == row]
        self.engine.abort(names)
        for name in names:
            del self._asked[name]

    def _request(self, row: int, segment: PromptSegment) -> Request:
        known = self._rows[row]
        known.ids += segment.ids.tolist()
        known.images += segment.images
        rollout = self._first_started + known.part
        drawn = np.random.default_rng([self.seed, rollout, known.place, known.num_turns])
        return Request(
            ids=list(known.ids),
            images=tuple(known.images),
            offsets=image_offsets(known.ids, known.images, self.encoder.image_token_id),
            seed=int(drawn.integers(2**62)),
            sampling=self.sampling,
        )
