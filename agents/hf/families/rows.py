"""Whole rows through a model in one forward pass, without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from agents.hf.families.family import ImageFeatures, ProcessedImage
from agents.hf.families.registry import family_of


def row_hidden_states(
    model: Any,
    ids_BT: Tensor,
    mask_BT: Tensor,
    images: Sequence[ProcessedImage],
    features: ImageFeatures | None = None,
    *,
    packs_rows: bool = False,
) -> Tensor:
    """Returns the last hidden states of whole rows, float[B, T, D]; what stands at padding means nothing.

    Args:
        model: Has the backbone as `.model`.
        ids_BT: int64, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
        images: The pictures of all rows in the order of their placeholders.
        features: Of these pictures, where they are known already; computed from them otherwise.
        packs_rows: Whether the rows go through the model as a single one without padding, none of which sees another.
    """
    family = family_of(model)
    if features is None and images:
        features = family.image_features(model, images)
    # Padding is on the right, where causal attention never looks from a real token: no mask, half the attention work
    positions = family.positions(model, ids_BT, mask_BT, images)
    if packs_rows:
        return _packed_hidden_states(model, ids_BT, mask_BT, positions, features)
    return family.hidden_states(model, ids_BT, features=features, positions=positions)


def _packed_hidden_states(
    model: Any, ids_BT: Tensor, mask_BT: Tensor, positions: Tensor, features: ImageFeatures | None
) -> Tensor:
    """Returns what `row_hidden_states` does, 0 at padding.

    transformers sees the rows by their positions, which fall back to 0 where one begins. Of models whose positions have
    several axes it reads that off the count of tokens, which goes in front of the axes.
    """
    is_token_BT = mask_BT > 0
    if positions.dim() == 3:
        positions = torch.cat([(mask_BT.cumsum(-1) - 1)[None], positions])
    hidden_1ND = family_of(model).hidden_states(
        model, ids_BT[is_token_BT][None], features=features, positions=positions[..., is_token_BT].unsqueeze(-2)
    )
    hidden_BTD = hidden_1ND.new_zeros(*ids_BT.shape, hidden_1ND.shape[-1])
    return hidden_BTD.masked_scatter(is_token_BT[..., None], hidden_1ND)
