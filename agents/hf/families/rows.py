"""Whole rows through a model in one forward pass, without a cache."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from agents.hf.families.family import ImageFeatures, ProcessedImage, placeholder_order
from agents.hf.families.prefix_tree import PrefixTree, prefix_tree
from agents.hf.families.registry import family_of


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
    """Returns the last hidden states of whole rows, float[B, T, D]; what stands at padding means nothing.

    Args:
        model: Has the backbone as `.model`.
        ids_BT: int64, padded on the right.
        mask_BT: int64, 1 for tokens that are not padding.
        images: The pictures of all rows in the order of their placeholders.
        features: Of these pictures, where they are known already; computed from them otherwise, each picture's once.
        packs_rows: Whether the rows go through the model as a single one without padding, none of which sees another.
        shares_prefixes: Whether what several rows begin with goes through it once, and no padding does; of a model that
            takes prefix trees, see `agents.hf.families.shared_attention`. There is nothing left to pack then.
    """
    family = family_of(model)
    if features is None and images:
        features = _features(model, images)
    # Padding is on the right, where causal attention never looks from a real token: no mask, half the attention work
    positions = family.positions(model, ids_BT, mask_BT, images)
    if shares_prefixes:
        tree = prefix_tree(_contents(model, ids_BT, images), mask_BT.cpu()).to(ids_BT.device)
        return _shared_hidden_states(model, ids_BT, positions, features, tree)
    if packs_rows:
        return _packed_hidden_states(model, ids_BT, mask_BT, positions, features)
    return family.hidden_states(model, ids_BT, features=features, positions=positions)


def _features(model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
    """Returns the features of pictures, each of which is shown to the tower once."""
    distinct = {image.key: image for image in images}
    seen = family_of(model).image_features(model, [*distinct.values()])
    if len(distinct) == len(images):
        return seen
    ends = np.cumsum([image.num_tokens for image in distinct.values()])
    end_of = dict(zip(distinct, ends.tolist(), strict=True))
    places = [np.arange(end_of[image.key] - image.num_tokens, end_of[image.key]) for image in images]
    return seen.select(torch.from_numpy(np.concatenate(places)).to(seen.tokens_ND.device))


def _contents(model: Any, ids_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
    """Returns what tells each token from others, int64[B, T]: its id; at a placeholder, which picture it is of."""
    contents_BT = ids_BT.cpu()
    numbers: dict[bytes, int] = {}
    of_each = [-1 - numbers.setdefault(image.key, len(numbers)) for image in images]
    numbers_M = torch.from_numpy(np.repeat(np.array(of_each, np.int64), [image.num_tokens for image in images]))
    return contents_BT.masked_scatter(contents_BT == model.model.config.image_token_id, numbers_M)


def _shared_hidden_states(
    model: Any, ids_BT: Tensor, positions: Tensor, features: ImageFeatures | None, tree: PrefixTree
) -> Tensor:
    """Returns what `row_hidden_states` does, from the nodes of a tree of the rows."""
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
