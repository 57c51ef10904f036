"""Qwen2.5-VL and Qwen3-VL: three-dimensional positions, pictures of any size, and in Qwen3 DeepStack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor
from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

from agents.hf.families.family import ImageFeatures, ProcessedImage, vision_inputs


class QwenVL:
    """The family; see `agents.hf.families.family.Family`."""

    model_types: tuple[str, ...] = ("qwen2_5_vl", "qwen3_vl")

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of pictures."""
        tower = model.model.visual
        shown = model.model.get_image_features(**vision_inputs(images, tower.device, tower.dtype), return_dict=True)
        layers = getattr(shown, "deepstack_features", None) or ()
        return ImageFeatures(tokens_ND=torch.cat(shown.pooler_output), layers=tuple(map(torch.cat, layers)))

    def positions(self, model: Any, ids_BT: Tensor, mask_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
        """Returns positions along time, height and width, int64[3, B, T]."""
        if not images:
            return ((mask_BT.cumsum(-1) - 1) * mask_BT).expand(3, *mask_BT.shape)
        backbone = model.model
        grids = torch.cat([torch.from_numpy(image.inputs["image_grid_thw"]) for image in images])
        positions: Tensor
        positions, _ = backbone.get_rope_index(
            ids_BT,
            mm_token_type_ids=(ids_BT == backbone.config.image_token_id).int(),
            image_grid_thw=grids.to(ids_BT.device),
            attention_mask=mask_BT,
        )
        return positions

    def hidden_states(
        self,
        model: Any,
        ids_BT: Tensor,
        *,
        features: ImageFeatures | None,
        positions: Tensor,
        mask: Tensor | None = None,
        cache: Any = None,
    ) -> Tensor:
        """Returns the last hidden states."""
        shown = None
        if features is not None:
            # Lists of tensors, one per picture or group of them, whatever the annotations of transformers say
            tokens: Any = [features.tokens_ND]
            layers: Any = [[each] for each in features.layers]
            shown = {"image": BaseModelOutputWithDeepstackFeatures(pooler_output=tokens, deepstack_features=layers)}
        output = model.model(
            input_ids=ids_BT,
            attention_mask=mask,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            mm_encoder_outputs=shown,
        )
        hidden_BTD: Tensor = output.last_hidden_state
        return hidden_BTD

    def logits(self, model: Any, hidden_ND: Tensor) -> Tensor:
        """Returns the next token's logits."""
        logits_NV: Tensor = model.lm_head(hidden_ND)
        return logits_NV
