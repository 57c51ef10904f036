"""Gemma 3: tokens of one picture attend to each other in both directions, and most layers see a window only.

Its masks are made here, from positions: transformers counts columns, of which ours may be padding in the middle of a
row, and a window of columns is then not one of tokens.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil

from agents.hf.families.causal import CausalFamily
from agents.hf.families.family import (
    ProcessedImage,
    image_token,
    require_pixels,
)


class Gemma3Images:
    """A picture is one square, however long it is; see `agents.hf.families.family.ImageReader`.

    As in the family's processor there is no pan and scan unless somebody asks for it, and here nobody does.
    """

    max_aspect_ratio = 200
    trims_text = True

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = image_token(tokenizer, config.boi_token_index)
        self.placeholder = image_token(tokenizer, config.image_token_index)
        end = image_token(tokenizer, config.eoi_token_index)
        self._num_tokens = config.mm_tokens_per_image
        self._written = f"\n\n{self.marker}{self.placeholder * self._num_tokens}{end}\n\n"

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns a picture's pixels, and its placeholders between start and end, in a paragraph of their own."""
        processed = self.image_processor(
            images=[image], return_tensors="np", input_data_format="channels_last", do_pan_and_scan=False
        )
        pixels = np.asarray(processed["pixel_values"], np.float32)
        height, width = pixels.shape[-2:]
        read = ProcessedImage(
            inputs={"pixel_values": pixels}, num_tokens=self._num_tokens, key=key, size_px=(height, width)
        )
        return read, self._written

    def limit_pixels(self, max_pixels: int) -> None:
        """Changes nothing: all pictures have one size."""
        require_pixels(max_pixels, self.image_processor.size["height"] * self.image_processor.size["width"])


class Gemma3(CausalFamily):
    """The family; see `agents.hf.families.family.Family`."""

    model_types: tuple[str, ...] = ("gemma3",)
    keeps_images_whole = True
    image_processor_class = Gemma3ImageProcessorPil
    reader_class = Gemma3Images

    def attention(self, model: Any, ids_BT: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """Returns a mask for each kind of layer."""
        config = model.model.config
        is_image_BT = ids_BT == config.image_token_id
        mask_BK = torch.ones_like(ids_BT) if mask is None else mask
        is_seen = _seen(is_image_BT, mask_BK)
        in_window = is_seen & _within(mask_BK, ids_BT.shape[1], config.get_text_config().sliding_window)
        masks = {"full_attention": is_seen, "sliding_attention": in_window}
        if config.get_text_config()._attn_implementation == "sdpa":
            return masks
        return {kind: _added(each, model.dtype) for kind, each in masks.items()}


def _seen(is_image_BT: Tensor, mask_BK: Tensor) -> Tensor:
    """Returns which columns each of the last T may look at, bool[B, 1, T, K]: those before it, and its own picture.

    Args:
        is_image_BT: bool, which of the last T columns are placeholders; those side by side are one picture.
        mask_BK: int64, 1 for columns that are not padding.
    """
    num_new, num_all = is_image_BT.shape[1], mask_BK.shape[1]
    columns = torch.arange(num_all, device=mask_BK.device)
    is_before_TK = columns <= columns[num_all - num_new :, None]
    starts_BT = is_image_BT & ~torch.nn.functional.pad(is_image_BT, (1, 0))[:, :-1]
    picture_BT = torch.where(is_image_BT, starts_BT.cumsum(-1), 0)
    picture_BK = torch.nn.functional.pad(picture_BT, (num_all - num_new, 0))
    is_own_BTK = (picture_BT[:, :, None] == picture_BK[:, None]) & is_image_BT[:, :, None]
    seen_BTK = (is_before_TK | is_own_BTK) & mask_BK[:, None].bool()
    # Padding looks at itself, for a softmax over nothing is not a number
    is_itself_TK = columns == columns[num_all - num_new :, None]
    return (seen_BTK | is_itself_TK)[:, None]


def _within(mask_BK: Tensor, num_new: int, window: int) -> Tensor:
    """Returns which columns are behind each of the last T or fewer than `window` tokens before, bool[B, 1, T, K]."""
    counted_BK = mask_BK.cumsum(-1)
    return (counted_BK[:, None] > counted_BK[:, -num_new:, None] - window)[:, None]


def _added(is_seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a mask as what is added to scores."""
    return torch.where(is_seen, 0.0, torch.finfo(dtype).min).to(dtype)
