"""InternVL 3 in transformers' own format (the checkpoints named `-hf`): square tiles and a thumbnail of them all."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
from transformers import PreTrainedTokenizerBase
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (
    GotOcr2ImageProcessorPil,
    get_optimal_tiled_canvas,
)

from agents.hf.families.causal import CausalFamily
from agents.hf.families.family import (
    ProcessedImage,
    image_token,
    require_pixels,
)


class InternVLImages:
    """Cuts a picture into tiles, as the family's processor does; see `agents.hf.families.family.ImageReader`.

    With `"max_patches": 1` in the checkpoint's preprocessor_config.json a picture is one tile.
    """

    max_aspect_ratio = 200
    trims_text = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = self.placeholder = image_token(tokenizer, config.image_token_id)
        self._tokens_per_tile = config.image_seq_length
        self._start = getattr(tokenizer, "start_image_token", "<img>")
        self._end = getattr(tokenizer, "end_image_token", "</img>")

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns a picture's tiles, the thumbnail last, and its placeholders between start and end."""
        # The family's processor always asks for tiles, whatever the image processor's own setting is
        processed = self.image_processor(
            images=[image], return_tensors="np", input_data_format="channels_last", crop_to_patches=True
        )
        tiles = np.asarray(processed["pixel_values"], np.float32)
        read = ProcessedImage(
            inputs={"pixel_values": tiles},
            num_tokens=len(tiles) * self._tokens_per_tile,
            key=key,
            size_px=self._size_px(image, tiles),
        )
        return read, f"{self._start}{self.placeholder * read.num_tokens}{self._end}"

    def _size_px(self, image: npt.NDArray[np.uint8], tiles: npt.NDArray[np.float32]) -> tuple[int, int]:
        processor, (height, width) = self.image_processor, tiles.shape[-2:]
        columns, rows = get_optimal_tiled_canvas(
            image.shape[:2], (height, width), processor.min_patches, processor.max_patches
        )
        return rows * height, columns * width

    def limit_pixels(self, max_pixels: int) -> None:
        """Has larger pictures cut into fewer tiles; beside several there is the thumbnail."""
        processor = self.image_processor
        num_tiles = max_pixels // (processor.size["height"] * processor.size["width"])
        require_pixels(max_pixels, processor.size["height"] * processor.size["width"])
        processor.max_patches = min(processor.max_patches, max(1, num_tiles - 1))
        processor.min_patches = min(processor.min_patches, processor.max_patches)


class InternVL(CausalFamily):
    """The family; see `agents.hf.families.family.Family`."""

    model_types: tuple[str, ...] = ("internvl",)
    image_processor_class = GotOcr2ImageProcessorPil
    reader_class = InternVLImages
