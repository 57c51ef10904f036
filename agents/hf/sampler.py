"""Batched sampling over several turns: one cache for all of them, token in, token out.

Each turn appends two blocks of columns to every row: the observation, padded on the left, and the response, padded on
the right. Padding columns are masked and take no position, so a row's result does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np
import torch

from agents.hf.cache import GrowingCache
from agents.hf.chat import PromptSegment
from agents.hf.conversations import SampledResponse
from agents.hf.decoding import ModelSampler, prefill_chunks
from agents.hf.draws import EpisodeDraws
from agents.hf.families.family import ImageFeatures, placeholder_order


class CachedSampler(ModelSampler):
    """Continues a batch of conversations; a `Sampler`. See `ModelSampler` for its arguments."""

    def start(self, rows: Sequence[int], draws: EpisodeDraws | None = None) -> None:
        """Forgets everything and opens one empty conversation per row, see `ModelSampler`."""
        self._tokens.draws = draws or self._tokens.draws
        self._rows = list(rows)
        self._cache = GrowingCache()
        device = self.model.device
        self._mask = torch.zeros(len(rows), 0, dtype=torch.long, device=device)
        self._next_position = torch.zeros(len(rows), dtype=torch.long, device=device)
        self._pending: list[list[int]] = [[] for _ in rows]

    @torch.no_grad()
    def continue_rows(self, rows: Sequence[int], segments: Sequence[PromptSegment]) -> list[SampledResponse]:
        """Appends a segment to each row and samples its response, see `Sampler`."""
        self._keep(rows)
        logits = self._prefill(segments) if self._mask.shape[1] else self._prefill_first(segments)
        self._tokens.draws.begin(rows)
        samples = [SampledResponse(ids=[], logprobs=[]) for _ in rows]
        open_rows = np.ones(len(rows), dtype=bool)
        for step in range(self.sampling.max_new_tokens):
            ids, logprobs = self._tokens.draw(logits, rows)
            drawn, drawn_logprobs = ids.cpu().numpy(), logprobs.cpu().numpy()
            for index in np.flatnonzero(open_rows):
                samples[index].ids.append(int(drawn[index]))
                samples[index].logprobs.append(float(drawn_logprobs[index]))
            fed_rows = open_rows
            open_rows = open_rows & (drawn != self.encoder.end_of_turn_id)
            if not open_rows.any() or step == self.sampling.max_new_tokens - 1:
                self._pending = [[samples[index].ids[-1]] if is_fed else [] for index, is_fed in enumerate(fed_rows)]
                break
            logits = self._decode(ids, fed_rows)
        return samples

    def _keep(self, rows: Sequence[int]) -> None:
        """Drops the rows that do not go on."""
        if list(rows) == self._rows:
            return
        self._select(torch.tensor([self._rows.index(row) for row in rows], device=self._mask.device))
        self._rows = list(rows)

    def _select(self, index: torch.Tensor) -> None:
        """Takes what stands at some places, in their order, any of them several times."""
        if self._mask.shape[1]:
            self._cache.batch_select_indices(index)
        self._mask, self._next_position = self._mask[index], self._next_position[index]
        self._pending = [self._pending[i] for i in index.tolist()]

    def _prefill_first(self, segments: Sequence[PromptSegment]) -> torch.Tensor:
        """Feeds the first segments, one that several rows have once, and returns what `_prefill` does."""
        numbers: dict[Hashable, int] = {}
        number_of = [numbers.setdefault(segment.key, len(numbers)) for segment in segments]
        first = [number_of.index(number) for number in numbers.values()]
        self._select(torch.tensor(first, device=self._mask.device))
        logits = self._prefill([segments[place] for place in first])
        of_each = torch.tensor(number_of, device=self._mask.device)
        self._select(of_each)
        return logits[of_each]

    def _prefill(self, segments: Sequence[PromptSegment]) -> torch.Tensor:
        """Feeds the segments, left-padded to one width, and returns the logits after them, shape (rows, vocab)."""
        device = self._mask.device
        rows = [np.r_[pending, segment.ids] for pending, segment in zip(self._pending, segments, strict=True)]
        width = max(map(len, rows))
        ids = torch.full((len(rows), width), self.encoder.pad_id, dtype=torch.long)
        mask = torch.zeros(len(rows), width, dtype=torch.long)
        for index, row in enumerate(rows):
            ids[index, width - len(row) :] = torch.from_numpy(row.astype(np.int64))
            mask[index, width - len(row) :] = 1
        ids, mask = ids.to(device), mask.to(device)
        images = [image for segment in segments for image in segment.images]
        relative = self.family.positions(self.model, ids, mask, images)
        positions = relative + self._next_position[:, None]
        self._next_position = (positions * mask).reshape(-1, *mask.shape).amax(dim=(0, 2)) + 1
        features = self.seen.features(self.model, images) if images else None
        is_image = ids == self.encoder.image_token_id
        whole = self.family.keeps_images_whole
        order = placeholder_order(is_image)
        for start, end in prefill_chunks(is_image, self.sampling.prefill_chunk_tokens, whole_images=whole):
            self._mask = torch.cat([self._mask, mask[:, start:end]], dim=1)
            shown = order[:, start:end][is_image[:, start:end]]
            part = features.select(shown) if features is not None and len(shown) else None
            hidden = self._forward(ids[:, start:end], positions[..., start:end], part)
        return self._logits(hidden)

    def _decode(self, ids: torch.Tensor, fed_rows: np.ndarray[Any, Any]) -> torch.Tensor:
        """Feeds one token to each open row and returns the next logits."""
        fed = torch.from_numpy(fed_rows).to(self._mask)[:, None]
        self._mask = torch.cat([self._mask, fed], dim=1)
        positions = self.family.positions(self.model, ids[:, None], torch.ones_like(ids[:, None]), [])
        hidden = self._forward(ids[:, None], positions + self._next_position[:, None])
        self._next_position = self._next_position + fed[:, 0]
        return self._logits(hidden)

    def _forward(
        self, ids: torch.Tensor, positions: torch.Tensor, features: ImageFeatures | None = None
    ) -> torch.Tensor:
        """Feeds a block of columns and returns their hidden states."""
        return self.family.hidden_states(
            self.model, ids, features=features, positions=positions, mask=self._mask, cache=self._cache
        )

    def _logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """Returns the logits after the last column."""
        return self.family.logits(self.model, hidden[:, -1]).float()
