"""Attention of models that take rows as prefix trees, registered with transformers."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor
from transformers import AttentionInterface, AttentionMaskInterface, PreTrainedConfig
from transformers.integrations.sdpa_attention import sdpa_attention_forward
from transformers.masking_utils import sdpa_mask

from agents.hf.families.prefix_tree import PrefixTree, Queries
from agents.hf.families.registry import family_of

SHARED_SDPA = "sdpa_of_prefix_trees"
"""What transformers calls the attention by; without a tree it is its own `sdpa`."""


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
    """Computes attention as transformers' `sdpa` does; of a tree's nodes, within each of the rows."""
    if prefix_tree is None and _is_decoding(query, key):
        return _decoded(query, key, value, attention_mask, **kwargs), None
    if prefix_tree is None:
        attended: tuple[Tensor, None] = sdpa_attention_forward(module, query, key, value, attention_mask, **kwargs)
        return attended
    nodes = [x[0].transpose(0, 1) for x in (query, key, value)]
    answers = [_answers(each, *nodes, **kwargs) for each in prefix_tree.queries]
    return torch.cat(answers).index_select(0, prefix_tree.answer_N)[None], None


def _is_decoding(query: Tensor, key: Tensor) -> bool:
    """Returns whether each row asks for one token, in heads several of which share their keys and values."""
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
    """Returns what one token of each row is answered, `(B, 1, H, D)`: keys and values are read once for their heads."""
    batch, heads, width = len(q_BH1D), q_BH1D.shape[1], q_BH1D.shape[3]
    q_BGSD = q_BH1D.reshape(batch, k_BGTD.shape[1], -1, width)  # S heads ask as if they were tokens
    answer_BGSD = F.scaled_dot_product_attention(
        q_BGSD, k_BGTD, v_BGTD, attn_mask=mask, scale=scaling, dropout_p=dropout
    )
    return answer_BGSD.reshape(batch, 1, heads, width)


def _answers(
    queries: Queries, q_NHD: Tensor, k_NHD: Tensor, v_NHD: Tensor, *, scaling: float, dropout: float = 0.0, **_: Any
) -> Tensor:
    """Returns what rows are answered in one call, `(C * S, heads, D)`."""
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
    """Returns whether rows can go through a model as a tree.

    That is so where its attention is torch's own, and each token is seen by all that follow it and by none before. It
    is not where tokens of a picture see each other in both directions, or a window slides.
    """
    config = model.model.get_decoder().config
    is_full = set(getattr(config, "layer_types", None) or ["full_attention"]) == {"full_attention"}
    is_sdpa = config._attn_implementation in ("sdpa", SHARED_SDPA)
    return is_full and is_sdpa and not family_of(model).keeps_images_whole


def share_prefixes(model: Any) -> None:
    """Has a model take rows as trees from here on, its copies too; for all else it stays what it was.

    Args:
        model: One of those that `can_share_prefixes`.
    """
    for module in model.model.get_decoder().modules():
        if isinstance(config := getattr(module, "config", None), PreTrainedConfig):
            config._attn_implementation = SHARED_SDPA


AttentionInterface.register(SHARED_SDPA, _attention)
AttentionMaskInterface.register(SHARED_SDPA, sdpa_mask)
