"""A key-value cache of rows that have come to different lengths, for batches that rows join and leave at any time.

Every row has a slot. Its tokens stand at the start of it, one behind another, without padding. A pass goes over
neighbouring slots; what it adds stands in the last columns while it lasts, as in any left-padded batch, and only then
moves to each row's own end:

    before          during a pass        after
    a a a a . .     a a a a . A          a a a a A .
    b b . . . .     b b . . B B          b b B B . .
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor
from transformers.cache_utils import Cache, DynamicLayer

CHUNK = 128
"""Columns by which slots grow."""


@dataclass
class _Window:
    """The slots that a pass goes over, `start` to `stop`, and the columns before those it adds."""

    start: int = 0
    stop: int = 0
    num_past: int = 0


class _SlotLayer(DynamicLayer):
    """One layer's keys and values, `(2, slots, heads, columns, head_dim)`."""

    _buffers: Tensor

    def __init__(self, window: _Window, num_slots: int) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self._window, self._num_slots = window, num_slots

    def get_seq_length(self) -> int:
        """Returns the columns before those that a pass adds."""
        return self._window.num_past

    def update(self, key_states: Tensor, value_states: Tensor, *args: Any, **kwargs: Any) -> tuple[Tensor, Tensor]:
        """Puts states, shape (rows, heads, tokens, head_dim), into the last columns, and returns all of the window."""
        window, end = self._window, self._window.num_past + key_states.shape[-2]
        self._reserve(end, key_states)
        rows = self._buffers[:, window.start : window.stop, :, :end]
        rows[:, :, :, window.num_past :] = torch.stack([key_states, value_states])
        return rows[0], rows[1]

    def move(self, slots_N: Tensor, from_N: Tensor, to_N: Tensor) -> None:
        """Copies columns of slots to other columns of them."""
        self._buffers[:, slots_N, :, to_N] = self._buffers[:, slots_N, :, from_N]

    def copy(self, from_N: Tensor, to_N: Tensor, num_columns: int) -> None:
        """Copies the first columns of slots to other slots, all at once."""
        self._buffers[:, to_N, :, :num_columns] = self._buffers[:, from_N, :, :num_columns]

    def _reserve(self, num_columns: int, like: Tensor) -> None:
        if self.is_initialized and self._buffers.shape[3] >= num_columns:
            return
        _, heads, _, head_dim = like.shape
        buffers = like.new_zeros(2, self._num_slots, heads, -(-num_columns // CHUNK) * CHUNK, head_dim)
        if self.is_initialized:
            buffers[:, :, :, : self._buffers.shape[3]] = self._buffers
        else:
            self.lazy_initialization(like, like)
        self._buffers = buffers


class SlotCache(Cache):
    """A drop-in for transformers' `DynamicCache`, for a pass over some of its slots at a time.

    Args:
        num_slots: Most rows.
        device: Where indices go.

    Attributes:
        lengths: int64[slots], tokens in each.
    """

    def __init__(self, num_slots: int, device: torch.device | str = "cpu") -> None:
        self._window = _Window()
        self.lengths = torch.zeros(num_slots, dtype=torch.long, device=device)
        super().__init__(layer_class_to_replicate=partial(_SlotLayer, self._window, num_slots))  # type: ignore[arg-type]

    @property
    def _slot_layers(self) -> list[_SlotLayer]:
        return cast("list[_SlotLayer]", self.layers)

    def open(self, start: int, stop: int, added_BT: Tensor) -> Tensor:
        """Prepares a pass over neighbouring slots.

        Args:
            start: First slot.
            stop: Behind the last one.
            added_BT: bool, which of the tokens that are fed are no padding; padding stands on the left.

        Returns:
            int64 `(B, past + T)`, the pass's `attention_mask`.
        """
        lengths_B = self.lengths[start:stop]
        num_past = int(lengths_B.max())
        self._window.start, self._window.stop, self._window.num_past = start, stop, num_past
        past_BT = torch.arange(num_past, device=lengths_B.device) < lengths_B[:, None]
        return torch.cat([past_BT, added_BT], dim=1).long()

    def commit(self, added_BT: Tensor) -> None:
        """Moves what the pass added, which `open` was told of, to the ends of its rows."""
        window = self._window
        rows_N, tokens_N = added_BT.nonzero(as_tuple=True)
        slots_N = rows_N + window.start
        order_N = added_BT.cumsum(1)[rows_N, tokens_N] - 1
        from_N, to_N = tokens_N + window.num_past, self.lengths[slots_N] + order_N
        for layer in self._slot_layers:
            layer.move(slots_N, from_N, to_N)
        self.lengths[window.start : window.stop] += added_BT.sum(1)

    def copy(self, from_slots: Sequence[int], to_slots: Sequence[int], lengths: Sequence[int] | None = None) -> None:
        """Copies slots to others, all at once: what is copied is what was there before.

        Args:
            from_slots: N slots.
            to_slots: N others.
            lengths: How many of their first tokens; None for all.
        """
        if not from_slots:
            return
        from_N, to_N = (torch.tensor(list(each), device=self.lengths.device) for each in (from_slots, to_slots))
        lengths_N = self.lengths[from_N] if lengths is None else torch.tensor(list(lengths)).to(from_N)
        for layer in self._slot_layers:
            layer.copy(from_N, to_N, int(lengths_N.max()))
        self.lengths[to_N] = lengths_N
