"""What families have in common whose language model is a plain causal one: positions that count tokens."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch import Tensor
from transformers.modeling_outputs import BaseModelOutputWithPooling

from agents.hf.families.family import ImageFeatures, ProcessedImage


class CausalFamily:
    """Positions, hidden states and logits of such a family; see `agents.hf.families.family.Family`."""

    keeps_images_whole = False

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
    ) -> Tensor:
        """Returns the last hidden states."""
        shown = None if features is None else {"image": BaseModelOutputWithPooling(pooler_output=features.tokens_ND)}
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
