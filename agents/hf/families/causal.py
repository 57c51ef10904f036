"""What families share: a vision tower, then a causal language model over its features and the tokens between them.

A family says what is its own: the parts of `CausalFamily` that it overrides.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPooling

from agents.hf.families.family import ImageFeatures, ImageReader, ProcessedImage, vision_inputs

_NO_MASK = torch.empty(1, 1, 0, 0)
"""For attention that is told otherwise what each token sees: transformers takes four axes for a finished mask."""


class CausalFamily:
    """Pictures, positions, hidden states and logits; see `agents.hf.families.family.Family`.

    Attributes:
        reader_class: Its `ImageReader`.
    """

    reader_class: Callable[[PreTrainedTokenizerBase, Any, Any], ImageReader]
    keeps_images_whole = False

    def image_reader(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> ImageReader:
        """Returns how a checkpoint takes pictures."""
        return type(self).reader_class(tokenizer, image_processor, config)

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of pictures, of which the tower gives as many for each tile."""
        tower = model.model.vision_tower
        shown = model.model.get_image_features(**vision_inputs(images, tower.device, tower.dtype), return_dict=True)
        return ImageFeatures(tokens_ND=shown.pooler_output.flatten(0, 1))

    def positions(self, model: Any, ids_BT: Tensor, mask_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
        """Returns the number of tokens before each, int64[B, T]; padding behind a row goes on counting."""
        # Where positions fall back, transformers sees the start of another sequence packed into the row
        is_behind_BT = mask_BT.flip(-1).cumsum(-1).flip(-1) == 0
        return ((mask_BT + is_behind_BT).cumsum(-1) - 1).clamp(min=0)

    def hidden_states(
        self,
        model: Any,
        ids_BT: Tensor,
        *,
        features: ImageFeatures | None,
        positions: Tensor,
        mask: Tensor | None = None,
        cache: Any = None,
        tree: Any = None,
    ) -> Tensor:
        """Returns the last hidden states."""
        output = model.model(
            input_ids=ids_BT,
            attention_mask=self.attention(model, ids_BT, mask) if tree is None else _NO_MASK,
            position_ids=positions,
            past_key_values=cache,
            use_cache=cache is not None,
            mm_encoder_outputs=None if features is None else {"image": self.tower_output(features)},
            **({} if tree is None else {"prefix_tree": tree}),
        )
        hidden_BTD: Tensor = output.last_hidden_state
        return hidden_BTD

    def attention(self, model: Any, ids_BT: Tensor, mask: Tensor | None) -> Any:
        """Returns the backbone's `attention_mask`: the mask of `hidden_states`, unless it is more than causal."""
        return mask

    def tower_output(self, features: ImageFeatures) -> Any:
        """Returns features in the form in which the backbone has them from its own tower."""
        return BaseModelOutputWithPooling(pooler_output=features.tokens_ND)

    def logits(self, model: Any, hidden_ND: Tensor) -> Tensor:
        """Returns the next token's logits."""
        logits_NV: Tensor = model.lm_head(hidden_ND)
        return logits_NV
