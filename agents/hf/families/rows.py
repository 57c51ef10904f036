"""Whole rows through a model in one forward pass, without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor

from agents.hf.families.family import ImageFeatures, ProcessedImage
from agents.hf.families.registry import family_of


def row_hidden_states(
    model: Any,
    ids_BT: Tensor,
    mask_BT: Tensor,
    images: Sequence[ProcessedImage],
    features: ImageFeatures | None = None,
) -> Tensor:
    """Returns the last hidden states of whole rows, float[B, T, D].

    Args:
        model: Has the backbone as `.model`.
        ids_BT: int64, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
        images: The pictures of all rows in the order of their placeholders.
        features: Of these pictures, where they are known already; computed from them otherwise.
    """
    family = family_of(model)
    if features is None and images:
        features = family.image_features(model, images)
    # Padding is on the right, where causal attention never looks from a real token: no mask, half the attention work
    positions = family.positions(model, ids_BT, mask_BT, images)
    return family.hidden_states(model, ids_BT, features=features, positions=positions)
