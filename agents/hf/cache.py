"""A key-value cache that is written in place, so that a long batch does not copy itself at every token."""

from __future__ import annotations

from typing import Any

import torch
from transformers.cache_utils import Cache, DynamicLayer


class _GrowingLayer(DynamicLayer):
    """One layer's keys and values in buffers that grow by whole chunks."""

    CHUNK = 128

    _buffers: torch.Tensor

    def update(
        self, key_states: torch.Tensor, value_states: torch.Tensor, *args: Any, **kwargs: Any
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """Appends states, shape (rows, heads, tokens, head_dim), and returns all of them."""
        start = self.get_seq_length()
        end = start + key_states.shape[-2]
        self._reserve(end, key_states)
        self._buffers[:, :, :, start:end] = torch.stack([key_states, value_states])
        self.keys, self.values = self._buffers[:, :, :, :end]
        return self.keys, self.values

    def _reserve(self, num_tokens: int, like: torch.Tensor) -> None:
        """Makes room for that many tokens."""
        if self.is_initialized and self._buffers.shape[3] >= num_tokens:
            return
        capacity = -(-num_tokens // self.CHUNK) * self.CHUNK
        rows, heads, _, head_dim = like.shape
        buffers = like.new_empty(2, rows, heads, capacity, head_dim)
        if self.is_initialized:
            buffers[:, :, :, : self._buffers.shape[3]] = self._buffers
        else:
            self.lazy_initialization(like, like)
        self._buffers = buffers

    def batch_select_indices(self, indices: torch.Tensor) -> None:
        """Keeps these rows only."""
        length = self.get_seq_length()
        self._buffers = self._buffers[:, indices]
        self.keys, self.values = self._buffers[:, :, :, :length]


class GrowingCache(Cache):
    """A drop-in for transformers' `DynamicCache` whose appends are in place."""

    def __init__(self) -> None:
        super().__init__(layer_class_to_replicate=_GrowingLayer)
