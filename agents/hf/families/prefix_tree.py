"""Rows that begin alike, as a tree: a token that several rows have, with the same before it, goes through a model once.

Siblings share their prompt, pictures included, and often the first words of their answers.

    rows  A B C D E           nodes  A B C D E F G          place  0 1 2 3 4
          A B C F                                                  0 1 2 5
          A B G                                                    0 1 6

What a model does with each token by itself (projections, MLPs, norms) it does for the nodes, and so never for padding.
Attention is computed within rows: a row asks for its own nodes only, its tail behind what it shares with rows above it,
and is answered by all of its tokens. Gradients are those of the rows: a node's is the sum over those that it is in.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class Queries:
    """What some of the rows ask in one call of attention.

    Attributes:
        node_CS: int64, the nodes that each of C rows asks for, padded on the right with any.
        key_CT: int64, the nodes that each row consists of, padded likewise.
        mask_C1ST: bool, what each sees; None where the rows ask for all of their tokens, each for those up to it.
    """

    node_CS: Tensor
    key_CT: Tensor
    mask_C1ST: Tensor | None = None

    def to(self, device: torch.device | str) -> Queries:
        """Returns the same on a device."""
        mask = None if self.mask_C1ST is None else self.mask_C1ST.to(device)
        return Queries(node_CS=self.node_CS.to(device), key_CT=self.key_CT.to(device), mask_C1ST=mask)


@dataclass(frozen=True, kw_only=True)
class PrefixTree:
    """N tokens of B rows of at most T tokens, each once that several rows have with the same before it.

    Attributes:
        place_BT: int64, which node each token of the rows is; 0 at padding.
        node_N: int64, where in the flattened rows, `row * T + column`, each node is taken from: the first row it has.
        queries: Calls of attention, in which every node is asked for once.
        answer_N: int64, where among the flattened answers of all calls, one behind the other, each node's is.
    """

    place_BT: Tensor
    node_N: Tensor
    queries: tuple[Queries, ...]
    answer_N: Tensor

    @property
    def num_nodes(self) -> int:
        """Number of nodes."""
        return len(self.node_N)

    def to(self, device: torch.device | str) -> PrefixTree:
        """Returns the tree on a device."""
        return PrefixTree(
            place_BT=self.place_BT.to(device),
            node_N=self.node_N.to(device),
            queries=tuple(each.to(device) for each in self.queries),
            answer_N=self.answer_N.to(device),
        )

    def nodes(self, x_BTX: Tensor) -> Tensor:
        """Returns what each node has of what the rows' tokens have, `(N, …)`."""
        return x_BTX.flatten(0, 1).index_select(0, self.node_N)

    def rows(self, x_NX: Tensor) -> Tensor:
        """Returns what each token of the rows has of what the nodes have, `(B, T, …)`."""
        return x_NX.index_select(0, self.place_BT.flatten()).view(*self.place_BT.shape, *x_NX.shape[1:])


def prefix_tree(contents_BT: Tensor, mask_BT: Tensor) -> PrefixTree:
    """Returns the tree of rows.

    Args:
        contents_BT: int64, what tells each token from others, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
    """
    is_token_BT = mask_BT.numpy() > 0
    num_rows, width = is_token_BT.shape
    first_BT = _first_rows(contents_BT.numpy(), is_token_BT)
    is_node_BT = (first_BT == np.arange(num_rows)[:, None]) & is_token_BT
    number_BT = (is_node_BT.cumsum() - 1).reshape(is_node_BT.shape)
    place_BT = np.where(is_token_BT, number_BT[first_BT, np.arange(width)], 0)
    calls = [*_calls(is_node_BT, is_token_BT.sum(1))]
    answer_N, start = np.zeros(is_node_BT.sum(), np.int64), 0
    for rows_C, columns_CS in calls:
        is_own_CS = np.take_along_axis(is_node_BT[rows_C], columns_CS, 1)
        asked_CS = np.take_along_axis(place_BT[rows_C], columns_CS, 1)
        answer_N[asked_CS[is_own_CS]] = start + is_own_CS.ravel().nonzero()[0]
        start += columns_CS.size
    return PrefixTree(
        place_BT=torch.from_numpy(place_BT),
        node_N=torch.from_numpy(is_node_BT.ravel().nonzero()[0]),
        queries=tuple(_queries(place_BT[rows_C], columns_CS) for rows_C, columns_CS in calls),
        answer_N=torch.from_numpy(answer_N),
    )


def _first_rows(contents_BT: npt.NDArray[np.int64], is_token_BT: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Returns for each token the first row that has it with the same before it."""
    num_rows, width = contents_BT.shape
    first_BT = np.tile(np.arange(num_rows)[:, None], (1, width))
    for row in range(num_rows - 1, -1, -1):  # the first row has the last word
        is_shared = np.logical_and.accumulate((contents_BT == contents_BT[row]) & is_token_BT[row], axis=1)
        first_BT[is_shared] = row
    return first_BT


def _calls(
    is_node_BT: npt.NDArray[np.bool_], length_B: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yields rows, and the columns that they ask for in one call: all, where much is their own, else their tails."""
    width = is_node_BT.shape[1]
    own_B = is_node_BT.sum(1)
    is_whole_B = own_B > width / 2  # above, asking for all and leaving out the upper half of the mask is less work
    if (rows_C := is_whole_B.nonzero()[0]).size:
        yield rows_C, np.tile(np.arange(width), (len(rows_C), 1))
    if (rows_C := (~is_whole_B & (own_B > 0)).nonzero()[0]).size:
        columns_CS = (length_B - own_B)[rows_C, None] + np.arange(own_B[rows_C].max())
        yield rows_C, np.minimum(columns_CS, width - 1)


def _queries(place_CT: npt.NDArray[np.int64], columns_CS: npt.NDArray[np.int64]) -> Queries:
    """Returns what rows ask for at some of their columns."""
    mask_C1ST = columns_CS[:, None, :, None] >= np.arange(place_CT.shape[1])
    return Queries(
        node_CS=torch.from_numpy(np.take_along_axis(place_CT, columns_CS, 1)),
        key_CT=torch.from_numpy(place_CT),
        mask_C1ST=torch.from_numpy(mask_C1ST) if columns_CS.shape != place_CT.shape else None,
    )
