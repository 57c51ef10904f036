"""Forward passes over complete rows, in which the tokens of a shared prefix are computed once.

Rows with a common prefix form a tree: a token that several rows share, along with everything before it, is computed
once. Group members share their prompt, including images, and often the first words of their responses.

    rows  A B C D E           nodes  A B C D E F G          place  0 1 2 3 4
          A B C F                                                  0 1 2 5
          A B G                                                    0 1 6

Per-token work (projections, MLPs, norms) is done for the nodes, and thus never for padding. Attention is computed
within rows: a row's queries are its own nodes only, the tail after the prefix it shares with earlier rows; its keys
are all of its tokens. Gradients equal those of the separate rows: a node's gradient is the sum over the rows that
contain it.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agents.hf.family import ImageFeatures, ProcessedImage, placeholder_order
from agents.hf.model_families import family_of

SHARED_SDPA = "sdpa_of_prefix_trees"
"""transformers' name of this attention; without a tree it is the same as `sdpa`."""


def row_hidden_states(
    model: Any,
    ids_BT: Tensor,
    mask_BT: Tensor,
    images: Sequence[ProcessedImage],
    features: ImageFeatures | None = None,
    *,
    packs_rows: bool = False,
    shares_prefixes: bool = False,
) -> Tensor:
    """Returns the last hidden states of complete rows, float[B, T, D]; undefined at padding.

    Args:
        model: Has the backbone as `.model`.
        ids_BT: int64, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
        images: The images of all rows in the order of their placeholders.
        features: Features of these images, if already computed; otherwise computed once per distinct image.
        packs_rows: Whether to concatenate the rows into one without padding, masked so that none sees another.
        shares_prefixes: Whether to compute shared prefixes once, without padding, for a model that supports prefix
            trees (see `can_share_prefixes`); `packs_rows` then has no effect.
    """
    family = family_of(model)
    if features is None and images:
        features = _features(model, images)
    # Padding is on the right, where causal attention of a real token never looks: no mask, half the attention work
    positions = family.positions(model, ids_BT, mask_BT, images)
    if shares_prefixes:
        tree = prefix_tree(_contents(model, ids_BT, images), mask_BT.cpu()).to(ids_BT.device)
        return _shared_hidden_states(model, ids_BT, positions, features, tree)
    if packs_rows:
        return _packed_hidden_states(model, ids_BT, mask_BT, positions, features)
    return family.hidden_states(model, ids_BT, features=features, positions=positions)


def _features(model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
    """Returns the features of images, computing each distinct image once."""
    distinct = {image.key: image for image in images}
    seen = family_of(model).image_features(model, [*distinct.values()])
    if len(distinct) == len(images):
        return seen
    ends = np.cumsum([image.num_tokens for image in distinct.values()])
    end_of = dict(zip(distinct, ends.tolist(), strict=True))
    places = [np.arange(end_of[image.key] - image.num_tokens, end_of[image.key]) for image in images]
    return seen.select(torch.from_numpy(np.concatenate(places)).to(seen.tokens_ND.device))


def _contents(model: Any, ids_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
    """Returns a number per token that identifies it, int64[B, T]: its ID, or at a placeholder, the image's number."""
    contents_BT = ids_BT.cpu()
    numbers: dict[bytes, int] = {}
    of_each = [-1 - numbers.setdefault(image.key, len(numbers)) for image in images]
    numbers_M = torch.from_numpy(np.repeat(np.array(of_each, np.int64), [image.num_tokens for image in images]))
    return contents_BT.masked_scatter(contents_BT == model.model.config.image_token_id, numbers_M)


def _shared_hidden_states(
    model: Any, ids_BT: Tensor, positions: Tensor, features: ImageFeatures | None, tree: PrefixTree
) -> Tensor:
    """Returns the result of `row_hidden_states`, computed on the nodes of the rows' tree."""
    ids_N = tree.nodes(ids_BT)
    if features is not None:
        is_image_BT = ids_BT == model.model.config.image_token_id
        features = features.select(tree.nodes(placeholder_order(is_image_BT))[tree.nodes(is_image_BT)])
    hidden_1ND = family_of(model).hidden_states(
        model,
        ids_N[None],
        features=features,
        positions=positions.flatten(-2).index_select(-1, tree.node_N).unsqueeze(-2),
        tree=tree,
    )
    return tree.rows(hidden_1ND[0])


def _packed_hidden_states(
    model: Any, ids_BT: Tensor, mask_BT: Tensor, positions: Tensor, features: ImageFeatures | None
) -> Tensor:
    """Returns the result of `row_hidden_states`, 0 at padding.

    transformers separates the rows by their positions, which drop to 0 at the start of each. For models with several
    position axes it uses the token count, which is inserted as the first axis.
    """
    is_token_BT = mask_BT > 0
    if positions.dim() == 3:
        positions = torch.cat([(mask_BT.cumsum(-1) - 1)[None], positions])
    hidden_1ND = family_of(model).hidden_states(
        model, ids_BT[is_token_BT][None], features=features, positions=positions[..., is_token_BT].unsqueeze(-2)
    )
    hidden_BTD = hidden_1ND.new_zeros(*ids_BT.shape, hidden_1ND.shape[-1])
    return hidden_BTD.masked_scatter(is_token_BT[..., None], hidden_1ND)


def _attention(
    module: torch.nn.Module,
    query: Tensor,
    key: Tensor,
    value: Tensor,
    attention_mask: Tensor | None,
    *,
    prefix_tree: PrefixTree | None = None,
    **kwargs: Any,
) -> tuple[Tensor, None]:
    """Computes attention like transformers' `sdpa`; for the nodes of a tree, within each row."""
    if prefix_tree is None and _is_decoding(query, key):
        return _decoded(query, key, value, attention_mask, **kwargs), None
    if prefix_tree is None:
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended
    nodes = [x[0].transpose(0, 1) for x in (query, key, value)]
    answers = [_answers(call, *nodes, **kwargs) for call in prefix_tree.queries]
    return torch.cat(answers).index_select(0, prefix_tree.answer_N)[None], None


def _is_decoding(query: Tensor, key: Tensor) -> bool:
    """Returns whether each row has one query token and several heads share their keys and values."""
    return query.shape[2] == 1 and query.shape[1] > key.shape[1]


def _decoded(
    q_BH1D: Tensor,
    k_BGTD: Tensor,
    v_BGTD: Tensor,
    mask: Tensor | None,
    *,
    scaling: float,
    dropout: float = 0.0,
    **_: Any,
) -> Tensor:
    """Returns the attention output of one token per row, `(B, 1, H, D)`; each key and value is read once."""
    batch, heads, width = len(q_BH1D), q_BH1D.shape[1], q_BH1D.shape[3]
    q_BGSD = q_BH1D.reshape(batch, k_BGTD.shape[1], -1, width)  # S heads of a group become query tokens
    answer_BGSD = F.scaled_dot_product_attention(
        q_BGSD, k_BGTD, v_BGTD, attn_mask=mask, scale=scaling, dropout_p=dropout
    )
    return answer_BGSD.reshape(batch, 1, heads, width)


def _answers(
    queries: Queries, q_NHD: Tensor, k_NHD: Tensor, v_NHD: Tensor, *, scaling: float, dropout: float = 0.0, **_: Any
) -> Tensor:
    """Returns the attention outputs of one call, `(C * S, heads, D)`."""
    q_CSHD, k_CTHD, v_CTHD = (
        x_NHD.flatten(1).index_select(0, index.flatten()).view(*index.shape, *x_NHD.shape[1:])
        for x_NHD, index in ((q_NHD, queries.node_CS), (k_NHD, queries.key_CT), (v_NHD, queries.key_CT))
    )
    answer_CHSD = F.scaled_dot_product_attention(
        q_CSHD.transpose(1, 2),
        k_CTHD.transpose(1, 2),
        v_CTHD.transpose(1, 2),
        attn_mask=queries.mask_C1ST,
        is_causal=queries.mask_C1ST is None,
        scale=scaling,
        dropout_p=dropout,
        enable_gqa=q_NHD.shape[1] != k_NHD.shape[1],
    )
    return answer_CHSD.transpose(1, 2).flatten(0, 1)


def can_share_prefixes(model: Any) -> bool:
    """Returns whether a model can process rows as a tree.

    It can if it uses torch's attention and every token is visible to exactly the tokens after it. It cannot if tokens
    of an image attend to each other in both directions, or with a sliding window.
    """
    config = model.model.get_decoder().config
    is_full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    is_sdpa = config._attn_implementation in ("sdpa", SHARED_SDPA)
    return is_full and is_sdpa and not family_of(model).keeps_images_whole


def share_prefixes(model: Any) -> None:
    """Makes a model, and its copies, accept rows as trees; otherwise it stays the same.

    Args:
        model: A model for which `can_share_prefixes` is true.
    """
    for module in model.model.get_decoder().modules():
        if isinstance(config := getattr(module, "config", None), PreTrainedConfig):
            config._attn_implementation = SHARED_SDPA


AttentionInterface.register(SHARED_SDPA, _attention)
AttentionMaskInterface.register(SHARED_SDPA, sdpa_mask)


@dataclass(frozen=True, kw_only=True)
class Queries:
    """Attention queries of some of the rows, computed in one call.

    Attributes:
        node_CS: int64, the query nodes of each of C rows, padded on the right with arbitrary nodes.
        key_CT: int64, the nodes of each row, padded in the same way.
        mask_C1ST: bool, the keys visible to each query; None for causal queries of all tokens.
    """

    node_CS: Tensor
    key_CT: Tensor
    mask_C1ST: Tensor | None = None

    def to(self, device: torch.device | str) -> Queries:
        """Returns the queries on a device."""
        mask = None if self.mask_C1ST is None else self.mask_C1ST.to(device)
        return Queries(node_CS=self.node_CS.to(device), key_CT=self.key_CT.to(device), mask_C1ST=mask)


@dataclass(frozen=True, kw_only=True)
class PrefixTree:
    """N distinct tokens of B rows of at most T tokens; tokens with the same prefix are merged into one node.

    Attributes:
        place_BT: int64, the node of each token; 0 at padding.
        node_N: int64, index of each node in the flattened rows, `row * T + column`, in the first row that has it.
        queries: Attention calls, in which every node is a query once.
        answer_N: int64, index of each node's output in the concatenated, flattened outputs of all calls.
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
            queries=tuple(call.to(device) for call in self.queries),
            answer_N=self.answer_N.to(device),
        )

    def nodes(self, x_BTX: Tensor) -> Tensor:
        """Gathers token values into node values, `(N, …)`."""
        return x_BTX.flatten(0, 1).index_select(0, self.node_N)

    def rows(self, x_NX: Tensor) -> Tensor:
        """Expands node values to token values, `(B, T, …)`."""
        return x_NX.index_select(0, self.place_BT.flatten()).view(*self.place_BT.shape, *x_NX.shape[1:])


def prefix_tree(contents_BT: Tensor, mask_BT: Tensor) -> PrefixTree:
    """Returns the prefix tree of rows.

    Args:
        contents_BT: int64, a number that identifies each token, padded on the right.
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
    """Returns for each token the first row that has it with the same prefix."""
    num_rows, width = contents_BT.shape
    first_BT = np.tile(np.arange(num_rows)[:, None], (1, width))
    for row in range(num_rows - 1, -1, -1):  # backward, so that the first row wins
        is_shared = np.logical_and.accumulate((contents_BT == contents_BT[row]) & is_token_BT[row], axis=1)
        first_BT[is_shared] = row
    return first_BT


def _calls(
    is_node_BT: npt.NDArray[np.bool_], length_B: npt.NDArray[np.int64]
) -> Iterator[tuple[npt.NDArray[np.int64], npt.NDArray[np.int64]]]:
    """Yields rows and their query columns in one call: all columns if most are their own, otherwise their tails."""
    width = is_node_BT.shape[1]
    own_B = is_node_BT.sum(1)
    is_whole_B = own_B > width / 2  # above this, causal queries of all tokens are less work than masked ones
    if (rows_C := is_whole_B.nonzero()[0]).size:
        yield rows_C, np.tile(np.arange(width), (len(rows_C), 1))
    if (rows_C := (~is_whole_B & (own_B > 0)).nonzero()[0]).size:
        columns_CS = (length_B - own_B)[rows_C, None] + np.arange(own_B[rows_C].max())
        yield rows_C, np.minimum(columns_CS, width - 1)


def _queries(place_CT: npt.NDArray[np.int64], columns_CS: npt.NDArray[np.int64]) -> Queries:
    """Returns the queries of rows at some of their columns."""
    mask_C1ST = columns_CS[:, None, :, None] >= np.arange(place_CT.shape[1])
    return Queries(
        node_CS=torch.from_numpy(np.take_along_axis(place_CT, columns_CS, 1)),
        key_CT=torch.from_numpy(place_CT),
        mask_C1ST=torch.from_numpy(mask_C1ST) if columns_CS.shape != place_CT.shape else None,
    )
