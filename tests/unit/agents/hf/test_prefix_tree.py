"""A tree has each beginning of rows once, and in its calls of attention each token sees its own row up to itself."""

from __future__ import annotations

import torch
from hypothesis import example, given
from hypothesis import strategies as st

from agents.hf.row_passes import prefix_tree

ROWS = st.lists(st.lists(st.integers(0, 2), min_size=1, max_size=12), min_size=1, max_size=6)


def padded(rows):
    width = max(map(len, rows))
    contents_BT = torch.tensor([[*row, *[0] * (width - len(row))] for row in rows])
    mask_BT = torch.tensor([[1] * len(row) + [0] * (width - len(row)) for row in rows])
    return contents_BT, mask_BT


def beginnings(rows):
    return [[tuple(row[: end + 1]) for end in range(len(row))] for row in rows]


def answered(tree, x_N):
    """Returns for each node what of the rows it sees, as its calls of attention have it."""
    seen = []
    for call in tree.queries:
        num_rows, num_asked = call.node_CS.shape
        for row in range(num_rows):
            keys = [x_N[place] for place in call.key_CT[row]]
            for asked in range(num_asked):
                is_whole = call.mask_C1ST is None
                sees = range(asked + 1) if is_whole else call.mask_C1ST[row, 0, asked].nonzero()[:, 0].tolist()
                seen.append((x_N[call.node_CS[row, asked]], tuple(keys[place] for place in sees)))
    return [seen[place] for place in tree.answer_N]


@given(ROWS)
@example([[1, 1], [1, 1]])
@example([[0], [0, 0]])
@example([[0, 1, 2, 0], [0, 1, 2, 1], [0, 1, 2, 1, 1]])
def test_each_beginning_is_a_node(rows):
    contents_BT, mask_BT = padded(rows)
    tree = prefix_tree(contents_BT, mask_BT)
    begun = beginnings(rows)
    assert tree.num_nodes == len({each for row in begun for each in row})
    node_of = {}
    for row, starts in enumerate(begun):
        for column, start in enumerate(starts):
            node = int(tree.place_BT[row, column])
            assert node_of.setdefault(start, node) == node
    assert sorted(node_of.values()) == list(range(tree.num_nodes))
    spread_BT = tree.rows(tree.nodes(contents_BT))
    assert torch.equal(spread_BT[mask_BT > 0], contents_BT[mask_BT > 0])


@given(ROWS)
@example([[1, 1], [1, 1]])
@example([[0], [0, 0], [0, 0, 1]])
@example([[0] * 9, [0] * 8 + [1]])
def test_each_node_is_answered_once_by_what_is_before_it(rows):
    contents_BT, mask_BT = padded(rows)
    tree = prefix_tree(contents_BT, mask_BT)
    told = answered(tree, tree.nodes(contents_BT).tolist())
    begun = [(row, column, start) for row, starts in enumerate(beginnings(rows)) for column, start in enumerate(starts)]
    expected = {int(tree.place_BT[row, column]): start for row, column, start in begun}
    for node, (own, seen) in enumerate(told):
        assert (own, seen) == (expected[node][-1], expected[node])


def test_rows_that_have_little_of_their_own_ask_for_little():
    shared = [0, 1] * 10
    tree = prefix_tree(*padded([[*shared, 0], [*shared, 1, 1], [*shared, 2, 2, 2], shared]))
    assert [tuple(call.node_CS.shape) for call in tree.queries] == [(1, 23), (2, 3)]
    assert tree.num_nodes == 20 + 1 + 2 + 3
