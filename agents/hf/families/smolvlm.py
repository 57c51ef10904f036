"""SmolVLM2: a picture is cut into rows and columns, each named in the prompt, and seen once as a whole."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from packaging.version import Version
from transformers import PreTrainedTokenizerBase
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

from agents.hf.families.causal import CausalFamily
from agents.hf.families.family import (
    ImageFeatures,
    ProcessedImage,
    image_token,
    require_pixels,
    vision_inputs,
)
from vlm_envs.errors import ConfigError

LEAST_TRANSFORMERS = Version("5.21")
"""Features of tiles come one by one from it on."""


class SmolVLMImages:
    """Cuts a picture up as the family's processor does; see `agents.hf.families.family.ImageReader`.

    With `"do_image_splitting": false` in the checkpoint's preprocessor_config.json a picture is one tile.

    Raises:
        ConfigError: With a version of transformers that lays features of tiles out otherwise.
    """

    max_aspect_ratio = 200
    trims_text = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        if Version(transformers.__version__) < LEAST_TRANSFORMERS:
            raise ConfigError(
                f"SmolVLM takes transformers {LEAST_TRANSFORMERS} or newer; this is {transformers.__version__}. "
                "Use: pip install --upgrade transformers"
            )
        self.image_processor = image_processor
        self.marker = self.placeholder = image_token(tokenizer, config.image_token_id)
        patches_per_side = config.vision_config.image_size // config.vision_config.patch_size
        self._tokens_per_tile = patches_per_side**2 // config.scale_factor**2
        self._around = getattr(tokenizer, "fake_image_token", "<fake_token_around_image>")
        self._whole = getattr(tokenizer, "global_image_token", "<global-img>")

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns a picture's tiles, the whole last, and their placeholders behind the names of their places."""
        processed = self.image_processor(
            images=[image], return_tensors="np", input_data_format="channels_last", return_row_col_info=True
        )
        inputs = {
            "pixel_values": np.asarray(processed["pixel_values"], np.float32)[0],
            "pixel_attention_mask": np.asarray(processed["pixel_attention_mask"], np.int64)[0],
        }
        num_tokens = len(inputs["pixel_values"]) * self._tokens_per_tile
        rows, columns = processed["rows"][0][0], processed["cols"][0][0]
        height, width = inputs["pixel_values"].shape[-2:]
        written = get_image_prompt_string(
            rows,
            columns,
            self._tokens_per_tile,
            fake_token_around_image=self._around,
            image_token=self.placeholder,
            global_image_token=self._whole,
        )
        size_px = (max(1, rows) * height, max(1, columns) * width)
        return ProcessedImage(inputs=inputs, num_tokens=num_tokens, key=key, size_px=size_px), written

    def limit_pixels(self, max_pixels: int) -> None:
        """Has larger pictures cut into fewer rows and columns; beside several tiles there is the whole."""
        processor = self.image_processor
        side = processor.max_image_size["longest_edge"]
        require_pixels(max_pixels, side**2)
        num_per_side = max(1, math.isqrt(max(1, max_pixels // side**2 - 1)))
        processor.size = {"longest_edge": min(processor.size["longest_edge"], num_per_side * side)}


class SmolVLM(CausalFamily):
    """The family; see `agents.hf.families.family.Family`."""

    model_types: tuple[str, ...] = ("smolvlm",)
    image_processor_class = SmolVLMImageProcessorPil
    reader_class = SmolVLMImages

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of pictures."""
        tower = model.model.vision_model
        tiles = vision_inputs(images, tower.device, tower.dtype)
        shown = model.model.get_image_features(
            tiles["pixel_values"][None], tiles["pixel_attention_mask"][None], return_dict=True
        )
        return ImageFeatures(tokens_ND=torch.cat(shown.pooler_output))
