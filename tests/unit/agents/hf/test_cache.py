"""The growing cache is transformers' own, only without the copies."""

from __future__ import annotations

import pytest
import torch
from transformers.cache_utils import DynamicCache

from agents.hf.sampler import GrowingCache, _GrowingLayer

HEADS, HEAD_DIM = 2, 3


def states(rows: int, tokens: int, seed: int) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(seed)
    shape = (2, rows, HEADS, tokens, HEAD_DIM)
    return tuple(torch.randn(shape, generator=generator))


def test_appends_and_row_selection_equal_the_dynamic_cache():
    ours, theirs = GrowingCache(), DynamicCache()
    rows = 4
    # Crosses two chunk borders; rows leave and are reordered between appends.
    for seed, (tokens, keep) in enumerate([(100, None), (27, [3, 0, 2]), (1, None), (1, [1]), (200, None), (1, None)]):
        for layer in range(2):
            key, value = states(rows, tokens, seed * 10 + layer)
            for ours_part, theirs_part in zip(
                ours.update(key, value, layer), theirs.update(key, value, layer), strict=True
            ):
                assert torch.equal(ours_part, theirs_part)
        if keep is not None:
            index = torch.tensor(keep)
            ours.batch_select_indices(index)
            theirs.batch_select_indices(index)
            rows = len(keep)
        assert ours.get_seq_length() == theirs.get_seq_length()
    assert ours.get_seq_length() == 330


def test_capacity_grows_by_whole_chunks_and_appends_do_not_move_the_buffers():
    layer = _GrowingLayer()
    layer.update(*states(1, 5, 0))
    start = layer.keys.data_ptr()
    for step in range(_GrowingLayer.CHUNK - 5):
        layer.update(*states(1, 1, step))
        assert layer.keys.data_ptr() == start
    assert layer._buffers.shape[3] == layer.get_seq_length() == _GrowingLayer.CHUNK
    layer.update(*states(1, 1, 0))
    assert layer._buffers.shape[3] == 2 * _GrowingLayer.CHUNK


@pytest.mark.parametrize("tokens", [1, 128, 129])
def test_an_empty_cache_has_no_length(tokens):
    cache = GrowingCache()
    assert cache.get_seq_length() == 0
    cache.update(*states(2, tokens, 0), 0)
    assert cache.get_seq_length() == tokens
