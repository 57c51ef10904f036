"""Micro-batches hold every row once, little padding, and as many of them in each process."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from tests.unit.training.batches import text_batch
from training.engines.engine import LocalEngine
from training.update.micro_batches import (
    MAX_PADDING,
    RowLimits,
    micro_batches,
    row_groups,
    shared_rows,
    split_rows,
)

ONE_ROW = RowLimits(max_rows=1)
LENGTHS = st.lists(st.integers(1, 300), min_size=1, max_size=40)


def alone(lengths):
    """Returns rows none of which has a sibling."""
    return [[row] for row in range(len(lengths))]


class OneOfSeveral(LocalEngine):
    def __init__(self, rank, num_processes):
        self.rank, self.num_processes = rank, num_processes


@given(LENGTHS, st.integers(1, 700))
def test_a_token_budget_holds_padding_included(lengths, max_tokens):
    parts = split_rows(alone(lengths), lengths, RowLimits(max_rows=1, max_tokens=max_tokens))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    for part in parts:
        padded, filled = len(part) * max(lengths[row] for row in part), sum(lengths[row] for row in part)
        assert padded <= max_tokens or len(part) == 1
        assert padded - filled <= MAX_PADDING * padded


@given(LENGTHS, st.integers(1, 700))
def test_packed_rows_fill_a_token_budget(lengths, max_tokens):
    limits = RowLimits(max_rows=1, max_tokens=max_tokens, has_padding=False)
    parts = split_rows(alone(lengths), lengths, limits)
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    totals = [sum(lengths[row] for row in part) for part in parts]
    assert all(total <= max_tokens or len(part) == 1 for total, part in zip(totals, parts, strict=True))
    for total, behind in zip(totals, parts[1:], strict=False):
        assert total + lengths[behind[0]] > max_tokens, "there was room for the next one"


@given(LENGTHS, st.integers(1, 9))
def test_rows_are_counted_where_tokens_are_not(lengths, max_rows):
    parts = split_rows(alone(lengths), lengths, RowLimits(max_rows=max_rows))
    assert [len(part) for part in parts[:-1]] == [max_rows] * (len(parts) - 1)
    flat = [row for part in parts for row in part]
    assert sorted(flat) == list(range(len(lengths)))
    assert [lengths[row] for row in flat] == sorted(lengths)


@given(LENGTHS, st.integers(1, 5))
def test_processes_share_tokens_evenly(lengths, num_processes):
    shares = shared_rows(alone(lengths), lengths, num_processes)
    assert sorted(row for share in shares for [row] in share) == list(range(len(lengths)))
    loads = [sum(lengths[row] for [row] in share) for share in shares]
    assert max(loads) - min(loads) <= max(lengths), "nobody has more than one row too many"


@pytest.fixture
def uneven():
    batch = text_batch([[-1, 0, 0, 0]] * 5, [[1.0]] * 5)
    mask_BT = torch.tensor([[1, 1, 1, 1], [1, 1, 0, 0], [1, 1, 1, 0], [1, 1, 0, 0], [1, 1, 1, 1]])
    return replace(batch, attention_mask_BT=mask_BT, turn_index_BT=batch.turn_index_BT.where(mask_BT > 0, -1))


@pytest.mark.parametrize("num_processes", [1, 2, 3, 7])
def test_every_process_has_as_many_and_their_shares_make_one(uneven, num_processes):
    engines = [OneOfSeveral(rank, num_processes) for rank in range(num_processes)]
    parts = [list(micro_batches(uneven, range(5), ONE_ROW, engine, aggregation="token_mean")) for engine in engines]
    assert len({len(part) for part in parts}) == 1
    real = [micro for part in parts for micro in part if not micro.is_filler]
    assert sorted(row for micro in real for row in micro.rows) == list(range(5))
    assert sum(micro.share for part in parts for micro in part) == pytest.approx(1.0)
    assert {micro.normalizer for part in parts for micro in part} == {10.0}
    for part in parts:
        assert [micro.is_last for micro in part] == [False] * (len(part) - 1) + [True]
        for micro in part:
            assert micro.is_filler == (not micro.part.response_mask_BT.any())


def test_filler_is_the_shortest_row(uneven):
    groups = [row_groups(uneven, [0, 1, 4], ONE_ROW, OneOfSeveral(rank, 2)) for rank in (0, 1)]
    assert groups == [[([0], False), ([1], False)][::-1], [([4], False), ([1], True)]]


def test_nothing_to_learn_is_no_micro_batch(uneven):
    nothing = replace(uneven, trainable_B=torch.zeros(5, dtype=torch.bool))
    assert list(micro_batches(nothing, range(5), ONE_ROW, LocalEngine(), aggregation="token_mean")) == []


@given(LENGTHS, st.integers(1, 9), st.none() | st.integers(1, 700), st.booleans())
def test_limits_below_halve_the_largest_micro_batch_until_each_is_a_single_row(lengths, max_rows, max_tokens, packs):
    limits, rows = RowLimits(max_rows=max_rows, max_tokens=max_tokens, has_padding=not packs), alone(lengths)
    parts = split_rows(rows, lengths, limits)
    while (smaller := limits.below(parts, lengths)) is not None:
        before = parts
        limits, parts = smaller, split_rows(rows, lengths, smaller)
        assert len(parts) > len(before)
        assert max(map(len, parts)) <= max(map(len, before))
    assert all(len(part) == 1 for part in parts)


@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=6), min_size=1, max_size=8), st.integers(1, 9))
def test_siblings_go_together_where_there_is_room(groups, max_rows):
    lengths = [length for group in groups for length in group]
    places = iter(range(len(lengths)))
    together = [[next(places) for _ in group] for group in groups]
    parts = split_rows(together, lengths, RowLimits(max_rows=max_rows, keeps_siblings=True))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    assert all(len(part) <= max_rows for part in parts)
    for group in together:
        num_parts = sum(bool({*part} & {*group}) for part in parts)
        assert num_parts == 1 if len(group) <= max_rows else num_parts <= len(group) // max_rows + 2


def test_processes_share_out_whole_groups():
    batch = replace(text_batch([[-1, 0, 0]] * 6, [[1.0]] * 6), group_index_B=torch.tensor([0, 0, 1, 1, 1, 2]))
    limits = RowLimits(max_rows=8, keeps_siblings=True)
    found = [row_groups(batch, [5, 3, 0, 4, 1, 2], limits, OneOfSeveral(rank, 2)) for rank in (0, 1)]
    assert [[rows for rows, _ in each] for each in found] == [[[2, 3, 4]], [[0, 1, 5]]]


@given(st.lists(st.lists(st.integers(1, 300), min_size=1, max_size=6), min_size=1, max_size=8), st.integers(1, 900))
def test_padding_in_attention_counts_as_tokens(groups, max_tokens):
    lengths = [length for group in groups for length in group]
    places = iter(range(len(lengths)))
    together = [[next(places) for _ in group] for group in groups]
    parts = split_rows(together, lengths, RowLimits(max_rows=1, max_tokens=max_tokens, keeps_siblings=True))
    assert sorted(row for part in parts for row in part) == list(range(len(lengths)))
    padded = [len(part) * max(lengths[row] for row in part) for part in parts]
    assert all(num_tokens <= max_tokens or len(part) == 1 for part, num_tokens in zip(parts, padded, strict=True))
