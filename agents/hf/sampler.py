"""Batched multi-turn sampling, tokens in and tokens out: prompt chunks, token draws, and one key-value cache.

Each turn appends two blocks of columns to every row: the observation, padded on the left, and the response,
padded on the right. Padding columns are masked and take no position, so a row's result does not depend on the
other rows.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from typing import Any

import numpy as np
import torch
from torch import Tensor
from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor, TemperatureLogitsWarper
from transformers.cache_utils import Cache, DynamicLayer
from transformers.generation.logits_process import TopPLogitsWarper

from agents.agent import RolloutRows
from agents.hf.chat import ChatEncoder, PromptSegment, SampledResponse
from agents.hf.family import ProcessedImage, placeholder_order
from agents.hf.model_families import SeenImages, family_of
from agents.hf.sampling_config import SamplingConfig

_NO_IDS = torch.LongTensor()
"""The preceding tokens, which none of the warpers used here reads."""


class TokenDrawer:
    """Draws tokens from logits according to the sampling settings.

    Args:
        encoder: Provides the tokens that are never drawn.
        sampling: Sampling settings.
        draws: Source of randomness; unused by greedy sampling.
        device: Device of the logits.
    """

    def __init__(
        self, encoder: ChatEncoder, sampling: SamplingConfig, draws: EpisodeDraws, device: torch.device
    ) -> None:
        self._is_greedy, self.draws = sampling.temperature == 0.0, draws
        self._warp = LogitsProcessorList([SuppressTokensLogitsProcessor(encoder.suppressed_ids(), device=str(device))])
        if sampling.temperature not in (0.0, 1.0):
            self._warp.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_p < 1.0:
            self._warp.append(TopPLogitsWarper(sampling.top_p))

    def draw(self, logits_NV: Tensor, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Returns one token per row, int64[N], and its log-probability.

        Args:
            logits_NV: float32.
            rows: N row indices of the episodes.
        """
        logprobs_NV = torch.log_softmax(self._warp(_NO_IDS, logits_NV), dim=-1)
        ids_N = logprobs_NV.argmax(dim=-1) if self._is_greedy else self.draws(logprobs_NV, rows)
        return ids_N, logprobs_NV.gather(1, ids_N[:, None])[:, 0]


def left_padded(rows: Sequence[np.ndarray[Any, Any]], pad_id: int) -> tuple[Tensor, Tensor]:
    """Returns rows of tokens as int64[B, T] with padding before them, and int64[B, T], 1 for tokens."""
    width = max(map(len, rows))
    ids_BT = torch.full((len(rows), width), pad_id, dtype=torch.long)
    is_token_BT = torch.zeros(len(rows), width, dtype=torch.long)
    for index, row in enumerate(rows):
        ids_BT[index, width - len(row) :] = torch.from_numpy(row.astype(np.int64))
        is_token_BT[index, width - len(row) :] = 1
    return ids_BT, is_token_BT


def next_positions(positions: Tensor, is_token_BT: Tensor) -> Tensor:
    """Returns the position of the token after each row, int64[B]."""
    return (positions * is_token_BT).reshape(-1, *is_token_BT.shape).amax(dim=(0, 2)) + 1


def prefill_chunks(is_image_BT: Tensor, num_tokens: int | None, *, whole_images: bool) -> Iterator[slice]:
    """Yields the column ranges of the chunks of a padded batch of prompts.

    Args:
        is_image_BT: bool, which columns are placeholders.
        num_tokens: Most columns of a chunk; None for all.
        whole_images: Whether images must be fed whole. A chunk then ends before an image that does not fit, or after
            one that is longer than a chunk.
    """
    width = is_image_BT.shape[1]
    step = num_tokens or width
    cuts = set(range(1, width))
    if whole_images:
        within = (is_image_BT[:, :-1] & is_image_BT[:, 1:]).any(0)
        cuts -= set((within.nonzero()[:, 0] + 1).tolist())
    start = 0
    while start < width:
        end = min(start + step, width)
        earlier = range(end, start, -1)
        end = next((column for column in earlier if column in cuts or column == width), 0)
        end = end or next((column for column in range(start + step, width) if column in cuts), width)
        yield slice(start, end)
        start = end


class ModelSampler(ABC):
    """Base class of samplers of a transformers model.

    Args:
        model: A model of a supported family, with its language-model head.
        encoder: Provides padding, end-of-turn, and suppressed tokens.
        sampling: Sampling settings.
        draws: Source of randomness.
    """

    _cache: Any

    def __init__(self, model: Any, encoder: ChatEncoder, sampling: SamplingConfig, draws: EpisodeDraws) -> None:
        self.model, self.encoder, self.sampling = model, encoder, sampling
        self.family = family_of(model)
        self.seen = SeenImages()
        self._tokens = TokenDrawer(encoder, sampling, draws, device=model.device)
        self.start(RolloutRows())

    def _logits(
        self,
        ids_BT: Tensor,
        positions: Tensor,
        images: Sequence[ProcessedImage],
        opened: Callable[[slice], Tensor],
        closed: Callable[[slice], None] = lambda columns: None,
    ) -> Tensor:
        """Feeds columns chunk by chunk, and returns the logits after the last one, float32[B, V].

        Args:
            ids_BT: int64, tokens, padded on the left.
            positions: Positions of the tokens.
            images: The images of all rows in the order of their placeholders.
            opened: Prepares the cache for a chunk and returns the chunk's attention mask.
            closed: Called after a chunk.
        """
        features = self.seen.features(self.model, images) if images else None
        is_image_BT = ids_BT == self.encoder.image_token_id
        order_BT = placeholder_order(is_image_BT)
        whole = self.family.keeps_images_whole
        for columns in prefill_chunks(is_image_BT, self.sampling.prefill_chunk_tokens, whole_images=whole):
            shown = order_BT[:, columns][is_image_BT[:, columns]]
            hidden_BTD = self.family.hidden_states(
                self.model,
                ids_BT[:, columns],
                features=features.select(shown) if features is not None and len(shown) else None,
                positions=positions[..., columns],
                mask=opened(columns),
                cache=self._cache,
            )
            closed(columns)
        return self.family.logits(self.model, hidden_BTD[:, -1]).float()

    @abstractmethod
    def start(self, rows: RolloutRows, draws: EpisodeDraws | None = None) -> None:
        """Drops all conversations and opens one empty conversation per row.

        Args:
            rows: The rows, and which of them start with the same observation.
            draws: New source of randomness; unchanged by default.
        """


class EpisodeDraws:
    """Draws each response from its own generator, so that no row depends on other rows or on scheduling.

    One number per token is drawn on the CPU and converted to a token by the inverse of the distribution function, at a
    tenth of the cost of `torch.multinomial`, which draws noise for every token of the vocabulary.

    Args:
        seed: The same seed, rollout, row, and turn draw the same numbers on any device.
        rollout: Number of the rollout.
        rows: Rows of several rollouts played together, numbered from `rollout` on; None for a single one.
    """

    def __init__(self, seed: int, rollout: int = 0, rows: RolloutRows | None = None) -> None:
        self._seed, self._rollout = seed, rollout
        self._places = None if rows is None else rows.batch_indices
        self._num_begun: Counter[int] = Counter()
        self._generators: dict[int, np.random.Generator] = {}

    def begin(self, rows: Sequence[int]) -> None:
        """Starts a response of each of these rows."""
        for row in rows:
            part, index = (0, row) if self._places is None else self._places[row]
            self._generators[row] = np.random.default_rng(
                [self._seed, self._rollout + part, index, self._num_begun[row]]
            )
            self._num_begun[row] += 1

    def __call__(self, logprobs_NV: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns a token for each row, int64[N].

        Args:
            logprobs_NV: float, log-probabilities.
            rows: N row indices of the episodes.
        """
        drawn = torch.tensor([self._generators[row].random() for row in rows], dtype=torch.float64)
        cumulated_NV = logprobs_NV.double().exp().cumsum(-1)
        drawn_N1 = drawn.to(logprobs_NV.device)[:, None] * cumulated_NV[:, -1:]
        return torch.searchsorted(cumulated_NV, drawn_N1, right=True)[:, 0].clamp(max=logprobs_NV.shape[-1] - 1)


class CachedSampler(ModelSampler):
    """Continues a batch of conversations; a `Sampler`. See `ModelSampler` for its arguments."""

    def start(self, rows: RolloutRows, draws: EpisodeDraws | None = None) -> None:
        """Drops all conversations and opens one empty conversation per row, see `ModelSampler`."""
        self._tokens.draws = draws or self._tokens.draws
        self._rows = list(range(len(rows.group_of_row)))
        self._cache = GrowingCache()
        device = self.model.device
        self._mask = torch.zeros(len(self._rows), 0, dtype=torch.long, device=device)
        self._next_position = torch.zeros(len(self._rows), dtype=torch.long, device=device)
        self._pending: list[list[int]] = [[] for _ in self._rows]

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
        """Drops the rows that do not continue."""
        if list(rows) == self._rows:
            return
        self._select(torch.tensor([self._rows.index(row) for row in rows], device=self._mask.device))
        self._rows = list(rows)

    def _select(self, index: torch.Tensor) -> None:
        """Selects rows by index, in this order; an index may occur several times."""
        if self._mask.shape[1]:
            self._cache.batch_select_indices(index)
        self._mask, self._next_position = self._mask[index], self._next_position[index]
        self._pending = [self._pending[i] for i in index.tolist()]

    def _prefill_first(self, segments: Sequence[PromptSegment]) -> torch.Tensor:
        """Feeds the first segments, shared ones only once, and returns the result of `_prefill`."""
        numbers: dict[Hashable, int] = {}
        number_of = [numbers.setdefault(segment.key, len(numbers)) for segment in segments]
        first = [number_of.index(number) for number in numbers.values()]
        self._select(torch.tensor(first, device=self._mask.device))
        logits = self._prefill([segments[index] for index in first])
        of_each = torch.tensor(number_of, device=self._mask.device)
        self._select(of_each)
        return logits[of_each]

    def _prefill(self, segments: Sequence[PromptSegment]) -> torch.Tensor:
        """Feeds the segments, left-padded to one width, and returns the logits after them, shape (rows, vocab)."""
        rows = [np.r_[pending, segment.ids] for pending, segment in zip(self._pending, segments, strict=True)]
        ids, mask = (tensor.to(self._mask.device) for tensor in left_padded(rows, self.encoder.pad_id))
        images = [image for segment in segments for image in segment.images]
        positions = self.family.positions(self.model, ids, mask, images) + self._next_position[:, None]
        self._next_position = next_positions(positions, mask)
        return self._logits(ids, positions, images, partial(self._opened, mask))

    def _decode(self, ids: torch.Tensor, fed_rows: np.ndarray[Any, Any]) -> torch.Tensor:
        """Feeds one token to each open row and returns the next logits."""
        fed = torch.from_numpy(fed_rows).to(self._mask)[:, None]
        positions = self.family.positions(self.model, ids[:, None], torch.ones_like(ids[:, None]), [])
        positions = positions + self._next_position[:, None]
        self._next_position = self._next_position + fed[:, 0]
        return self._logits(ids[:, None], positions, [], partial(self._opened, fed))

    def _opened(self, mask: torch.Tensor, columns: slice) -> torch.Tensor:
        self._mask = torch.cat([self._mask, mask[:, columns]], dim=1)
        return self._mask


class BufferedLayer(DynamicLayer):
    """Keys and values of one layer in buffers, `(2, rows, heads, columns, head_dim)`, that grow by `CHUNK` columns."""

    CHUNK = 128

    _buffers: torch.Tensor

    def _reserve(self, num_columns: int, num_rows: int, like: torch.Tensor) -> None:
        """Grows the buffers to at least that many columns."""
        if self.is_initialized and self._buffers.shape[3] >= num_columns:
            return
        _, heads, _, head_dim = like.shape
        buffers = like.new_zeros(2, num_rows, heads, -(-num_columns // self.CHUNK) * self.CHUNK, head_dim)
        if self.is_initialized:
            buffers[:, :, :, : self._buffers.shape[3]] = self._buffers
        else:
            self.lazy_initialization(like, like)
        self._buffers = buffers


class _GrowingLayer(BufferedLayer):
    """Keys and values of one layer, appended in place."""

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends states, shape (rows, heads, tokens, head_dim), and returns all of them."""
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        self._reserve(end, len(key_states), key_states)
        self._buffers[:, :, :, start:end] = torch.stack([key_states, value_states])
        self.keys, self.values = self._buffers[:, :, :, :end]
        return self.keys, self.values

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps only these rows."""
        length = self.get_seq_length()
        self._buffers = self._buffers[:, indices]
        self.keys, self.values = self._buffers[:, :, :, :length]


class GrowingCache(Cache):
    """A drop-in replacement for transformers' `DynamicCache` that appends in place."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_GrowingLayer)
