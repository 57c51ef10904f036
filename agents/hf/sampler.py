"""Batched sampling over several turns: one cache for all of them, token in, token out.

Each turn appends two blocks of columns to every row: the observation, padded on the left, and the response, padded on
the right. Padding columns are masked and take no position, so a row's result does not depend on its neighbours.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor, TemperatureLogitsWarper
from transformers.generation.logits_process import TopPLogitsWarper

from agents.hf.cache import GrowingCache
from agents.hf.chat import ChatEncoder, PromptSegment
from agents.hf.sampling import SamplingConfig

_NO_IDS = torch.LongTensor()
"""What came before; none of the warpers used here looks at it."""


@dataclass(frozen=True, kw_only=True)
class SampledResponse:
    """Sampled tokens of one row and their log-probabilities under the distribution they were drawn from."""

    ids: list[int]
    logprobs: list[float]


class CachedSampler:
    """Continues a batch of conversations.

    Args:
        model: A Qwen2.5-VL or Qwen3-VL model for conditional generation.
        encoder: Gives padding, end-of-turn and suppressed tokens.
        sampling: How responses are drawn.
        generator: Source of randomness, on the model's device.
    """

    def __init__(self, model: Any, encoder: ChatEncoder, sampling: SamplingConfig, generator: torch.Generator) -> None:
        self.model, self.encoder, self.sampling, self.generator = model, encoder, sampling, generator
        self._warp = LogitsProcessorList(
            [SuppressTokensLogitsProcessor(encoder.suppressed_ids(), device=str(model.device))]
        )
        if sampling.temperature not in (0.0, 1.0):
            self._warp.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_p < 1.0:
            self._warp.append(TopPLogitsWarper(sampling.top_p))
        self.start([])

    def start(self, rows: Sequence[int]) -> None:
        """Forgets everything and opens one empty conversation per row."""
        self._rows = list(rows)
        self._cache = GrowingCache()
        device = self.model.device
        self._mask = torch.zeros(len(rows), 0, dtype=torch.long, device=device)
        self._next_position = torch.zeros(len(rows), dtype=torch.long, device=device)
        self._pending: list[list[int]] = [[] for _ in rows]

    @torch.no_grad()
    def continue_rows(self, rows: Sequence[int], segments: Sequence[PromptSegment]) -> list[SampledResponse]:
        """Appends a segment to each row and samples its response.

        Args:
            rows: A subset of the rows started, in any order; the others are dropped for good.
            segments: What each row is shown.

        Returns:
            One sample per row, in the order of `rows`.
        """
        self._keep(rows)
        logits = self._prefill(segments)
        samples = [SampledResponse(ids=[], logprobs=[]) for _ in rows]
        open_rows = np.ones(len(rows), dtype=bool)
        for step in range(self.sampling.max_new_tokens):
            ids, logprobs = self._draw(logits)
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
        index = torch.tensor([self._rows.index(row) for row in rows], device=self._mask.device)
        if self._mask.shape[1]:
            self._cache.batch_select_indices(index)
        self._mask, self._next_position = self._mask[index], self._next_position[index]
        self._pending = [self._pending[i] for i in index.tolist()]
        self._rows = list(rows)

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
        vision = vision_inputs([image for segment in segments for image in segment.images], self.model)
        relative = mrope_positions(self.model, ids, mask, vision.get("image_grid_thw"), self.encoder.image_token_id)
        positions = relative + self._next_position[None, :, None]
        self._next_position = (positions * mask).amax(dim=(0, 2)) + 1
        self._mask = torch.cat([self._mask, mask], dim=1)
        return self._forward(ids, positions, **vision)

    def _decode(self, ids: torch.Tensor, fed_rows: np.ndarray[Any, Any]) -> torch.Tensor:
        """Feeds one token to each open row and returns the next logits."""
        fed = torch.from_numpy(fed_rows).to(self._mask)[:, None]
        self._mask = torch.cat([self._mask, fed], dim=1)
        positions = self._next_position[None, :, None].expand(3, -1, 1)
        logits = self._forward(ids[:, None], positions)
        self._next_position = self._next_position + fed[:, 0]
        return logits

    def _forward(self, ids: torch.Tensor, positions: torch.Tensor, **vision: torch.Tensor) -> torch.Tensor:
        output = self.model.model(
            input_ids=ids,
            attention_mask=self._mask,
            position_ids=positions,
            past_key_values=self._cache,
            use_cache=True,
            **vision,
        )
        logits: torch.Tensor = self.model.lm_head(output.last_hidden_state[:, -1]).float()
        return logits

    def _draw(self, logits: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        """Returns one token per row and its log-probability."""
        logprobs = torch.log_softmax(self._warp(_NO_IDS, logits), dim=-1)
        if self.sampling.temperature == 0.0:
            ids = logprobs.argmax(dim=-1)
        else:
            # Exponential race: the same distribution as torch.multinomial, at a fifth of its cost on a CPU
            races = torch.empty_like(logprobs).exponential_(generator=self.generator)
            ids = (logprobs - races.log()).argmax(dim=-1)
        return ids, logprobs.gather(1, ids[:, None])[:, 0]


def vision_inputs(images: Sequence[Any], model: Any) -> dict[str, torch.Tensor]:
    """Returns the model's arguments for pictures: flat patches and their grids; empty without pictures.

    Args:
        images: `PatchedImage`s in the order of their placeholders, row by row.
        model: Gives device and dtype.
    """
    if not images:
        return {}
    patches = torch.from_numpy(np.concatenate([image.patches for image in images]))
    grids = torch.from_numpy(np.stack([image.grid_thw for image in images]))
    return {
        "pixel_values": patches.to(model.device, model.dtype),
        "image_grid_thw": grids.to(model.device),
    }


def last_hidden_states(
    model: Any, ids_BT: torch.Tensor, mask_BT: torch.Tensor, vision: dict[str, torch.Tensor], image_token_id: int
) -> torch.Tensor:
    """Returns the last hidden states of whole rows, float[B, T, D], in one forward pass without a cache.

    Args:
        model: Has `.model`, the vision-language backbone.
        ids_BT: int64, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
        vision: The pictures, see `vision_inputs`.
        image_token_id: Id of the image placeholder.
    """
    # Padding is on the right, where causal attention never looks from a real token: no mask, half the attention work
    output = model.model(
        input_ids=ids_BT,
        attention_mask=None,
        position_ids=mrope_positions(model, ids_BT, mask_BT, vision.get("image_grid_thw"), image_token_id),
        use_cache=False,
        **vision,
    )
    hidden_BTD: torch.Tensor = output.last_hidden_state
    return hidden_BTD


def mrope_positions(
    model: Any,
    ids: torch.Tensor,
    mask: torch.Tensor,
    image_grid_thw: torch.Tensor | None,
    image_token_id: int,
) -> torch.Tensor:
    """Returns the family's three-dimensional positions of a padded block, starting at 0 in every row.

    Args:
        model: Computes them as it was trained to.
        ids: int64[rows, tokens].
        mask: int64[rows, tokens], 1 for tokens that are not padding, anywhere in the row.
        image_grid_thw: int64[images, 3], or None.
        image_token_id: Id of the image placeholder.

    Returns:
        int64[3, rows, tokens].
    """
    if image_grid_thw is None:
        return ((mask.cumsum(-1) - 1) * mask).expand(3, *mask.shape)
    positions, _ = model.model.get_rope_index(
        ids,
        mm_token_type_ids=(ids == image_token_id).int(),
        image_grid_thw=image_grid_thw,
        attention_mask=mask,
    )
    return positions  # type: ignore[no-any-return]
