"""Qwen2.5-VL and Qwen3-VL: three-dimensional positions, pictures of any size, and in Qwen3 DeepStack."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures

from agents.hf.families.causal import CausalFamily
from agents.hf.families.family import (
    ImageFeatures,
    ProcessedImage,
    image_token,
    require_pixels,
    vision_inputs,
)


class QwenVLImages:
    """One placeholder for each square of merged patches; see `agents.hf.families.family.ImageReader`."""

    max_aspect_ratio = 200
    trims_text = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = self.placeholder = image_token(tokenizer, config.image_token_id)

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns a picture's patches, and its placeholders."""
        # Where channels are has to be said: a picture of one or three rows could be read either way.
        processed = self.image_processor(images=[image], return_tensors="np", input_data_format="channels_last")
        grid = np.asarray(processed["image_grid_thw"], np.int64)
        patch_px = self.image_processor.patch_size
        read = ProcessedImage(
            inputs={"pixel_values": np.asarray(processed["pixel_values"], np.float32), "image_grid_thw": grid},
            num_tokens=int(grid.prod()) // self.image_processor.merge_size**2,
            key=key,
            size_px=(int(grid[0, 1]) * patch_px, int(grid[0, 2]) * patch_px),
        )
        return read, self.placeholder * read.num_tokens

    def limit_pixels(self, max_pixels: int) -> None:
        """Has larger pictures scaled down."""
        processor = self.image_processor
        require_pixels(max_pixels, (processor.patch_size * processor.merge_size) ** 2)
        low, high = processor.size["shortest_edge"], processor.size["longest_edge"]  # in pixels, for all their names
        processor.size = {"shortest_edge": min(low, max_pixels), "longest_edge": min(high, max_pixels)}


class QwenVL(CausalFamily):
    """The family; see `agents.hf.families.family.Family`."""

    model_types: tuple[str, ...] = ("qwen2_5_vl", "qwen3_vl")
    image_processor_class = Qwen2VLImageProcessorPil
    reader_class = QwenVLImages

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

    def tower_output(self, features: ImageFeatures) -> Any:
        """Returns features as lists of tensors, one per picture or group of them."""
        tokens: Any = [features.tokens_ND]  # lists, whatever the annotations of transformers say
        layers: Any = [[each] for each in features.layers]
        return BaseModelOutputWithDeepstackFeatures(pooler_output=tokens, deepstack_features=layers)
