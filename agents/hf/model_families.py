"""The families of vision-language models by model type: Qwen-VL, InternVL 3, SmolVLM2, and Gemma 3.

In Gemma 3, tokens of one image attend to each other in both directions, and most layers use a sliding window. Its
masks are computed here, from positions: transformers counts columns, but ours may contain padding within a row, so
that a window of columns is not a window of tokens.
"""

from __future__ import annotations

import math
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
import transformers
from packaging.version import Version
from torch import Tensor, nn
from transformers import PreTrainedTokenizerBase
from transformers.models.gemma3.image_processing_pil_gemma3 import Gemma3ImageProcessorPil
from transformers.models.got_ocr2.image_processing_pil_got_ocr2 import (
    GotOcr2ImageProcessorPil,
    get_optimal_tiled_canvas,
)
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil
from transformers.models.qwen3_vl.modeling_qwen3_vl import BaseModelOutputWithDeepstackFeatures
from transformers.models.smolvlm.image_processing_pil_smolvlm import SmolVLMImageProcessorPil
from transformers.models.smolvlm.processing_smolvlm import get_image_prompt_string

from agents.hf.family import (
    Family,
    ImageFeatures,
    ImageReader,
    ProcessedImage,
    image_token,
    joined,
    require_pixels,
    vision_inputs,
)
from vlm_envs.errors import ConfigError


class QwenVLImages(ImageReader):
    """One placeholder for each square of merged patches."""

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image's patches and its placeholders."""
        processed = self.processed(image)
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
        """Scales down larger images."""
        processor = self.image_processor
        require_pixels(max_pixels, (processor.patch_size * processor.merge_size) ** 2)
        low, high = processor.size["shortest_edge"], processor.size["longest_edge"]  # pixel counts, despite the names
        processor.size = {"shortest_edge": min(low, max_pixels), "longest_edge": min(high, max_pixels)}


class QwenVL(Family):
    """Qwen2.5-VL and Qwen3-VL, whose tower is called `visual` and whose positions have three axes."""

    model_types = ("qwen2_5_vl", "qwen3_vl")
    image_processor_class = Qwen2VLImageProcessorPil
    reader_class = QwenVLImages

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of images."""
        tower = model.model.visual
        shown = model.model.get_image_features(**vision_inputs(images, tower.device, tower.dtype), return_dict=True)
        layers = getattr(shown, "deepstack_features", None) or ()
        return ImageFeatures(tokens_ND=torch.cat(shown.pooler_output), layers=tuple(map(torch.cat, layers)))

    def positions(self, model: Any, ids_BT: Tensor, mask_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
        """Returns positions along time, height, and width, int64[3, B, T]."""
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
        """Returns features as lists of tensors, one per image or group of images."""
        tokens: Any = [features.tokens_ND]  # lists, despite the annotations of transformers
        layers: Any = [[layer] for layer in features.layers]
        return BaseModelOutputWithDeepstackFeatures(pooler_output=tokens, deepstack_features=layers)


class InternVLImages(ImageReader):
    """Cuts an image into tiles, like the family's processor.

    With `"max_patches": 1` in the checkpoint's preprocessor_config.json an image is one tile.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        super().__init__(tokenizer, image_processor, config)
        self._tokens_per_tile = config.image_seq_length
        self._start = getattr(tokenizer, "start_image_token", "<img>")
        self._end = getattr(tokenizer, "end_image_token", "</img>")

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image's tiles, the thumbnail last, and its placeholders between start and end."""
        # The family's processor always requests tiles, whatever the image processor's own setting
        processed = self.processed(image, crop_to_patches=True)
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
        """Cuts larger images into fewer tiles; several tiles are followed by a thumbnail."""
        processor = self.image_processor
        num_tiles = max_pixels // (processor.size["height"] * processor.size["width"])
        require_pixels(max_pixels, processor.size["height"] * processor.size["width"])
        processor.max_patches = min(processor.max_patches, max(1, num_tiles - 1))
        processor.min_patches = min(processor.min_patches, processor.max_patches)


class InternVL(Family):
    """InternVL 3."""

    model_types = ("internvl",)
    image_processor_class = GotOcr2ImageProcessorPil
    reader_class = InternVLImages


LEAST_TRANSFORMERS = Version("5.21")
"""From this version on, features of tiles are returned one by one."""


class SmolVLMImages(ImageReader):
    """Cuts an image into tiles, like the family's processor.

    With `"do_image_splitting": false` in the checkpoint's preprocessor_config.json an image is one tile.

    Raises:
        ConfigError: With a version of transformers that arranges the features of tiles differently.
    """

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        if Version(transformers.__version__) < LEAST_TRANSFORMERS:
            raise ConfigError(
                f"SmolVLM needs transformers {LEAST_TRANSFORMERS} or newer; this is {transformers.__version__}. "
                "Run: pip install --upgrade transformers"
            )
        super().__init__(tokenizer, image_processor, config)
        patches_per_side = config.vision_config.image_size // config.vision_config.patch_size
        self._tokens_per_tile = patches_per_side**2 // config.scale_factor**2
        self._around = getattr(tokenizer, "fake_image_token", "<fake_token_around_image>")
        self._whole = getattr(tokenizer, "global_image_token", "<global-img>")

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image's tiles, the whole image last, and their placeholders after the names of their positions."""
        processed = self.processed(image, return_row_col_info=True)
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
        """Cuts larger images into fewer rows and columns; several tiles are followed by the whole image."""
        processor = self.image_processor
        side = processor.max_image_size["longest_edge"]
        require_pixels(max_pixels, side**2)
        num_per_side = max(1, math.isqrt(max(1, max_pixels // side**2 - 1)))
        processor.size = {"longest_edge": min(processor.size["longest_edge"], num_per_side * side)}


class SmolVLM(Family):
    """SmolVLM2."""

    model_types = ("smolvlm",)
    image_processor_class = SmolVLMImageProcessorPil
    reader_class = SmolVLMImages

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of images."""
        tower = model.model.vision_model
        tiles = vision_inputs(images, tower.device, tower.dtype)
        shown = model.model.get_image_features(
            tiles["pixel_values"][None], tiles["pixel_attention_mask"][None], return_dict=True
        )
        return ImageFeatures(tokens_ND=torch.cat(shown.pooler_output))


class Gemma3Images(ImageReader):
    """Scales every image to one square, whatever its aspect ratio.

    Pan and scan is off, which is also the default of the family's processor.
    """

    trims_text = True

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = image_token(tokenizer, config.boi_token_index)
        self.placeholder = image_token(tokenizer, config.image_token_index)
        end = image_token(tokenizer, config.eoi_token_index)
        self._num_tokens = config.mm_tokens_per_image
        self._written = f"\n\n{self.marker}{self.placeholder * self._num_tokens}{end}\n\n"

    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image's pixels, and its placeholders between start and end, in a separate paragraph."""
        pixels = np.asarray(self.processed(image, do_pan_and_scan=False)["pixel_values"], np.float32)
        height, width = pixels.shape[-2:]
        read = ProcessedImage(
            inputs={"pixel_values": pixels}, num_tokens=self._num_tokens, key=key, size_px=(height, width)
        )
        return read, self._written

    def limit_pixels(self, max_pixels: int) -> None:
        """Checks the limit only: all images have one size."""
        require_pixels(max_pixels, self.image_processor.size["height"] * self.image_processor.size["width"])


class Gemma3(Family):
    """Gemma 3, whose images attend to themselves in both directions."""

    model_types = ("gemma3",)
    keeps_images_whole = True
    image_processor_class = Gemma3ImageProcessorPil
    reader_class = Gemma3Images

    def attention(self, model: Any, ids_BT: Tensor, mask: Tensor | None) -> dict[str, Tensor]:
        """Returns one mask per kind of layer."""
        config = model.model.config
        is_image_BT = ids_BT == config.image_token_id
        mask_BK = torch.ones_like(ids_BT) if mask is None else mask
        is_seen = _seen(is_image_BT, mask_BK)
        in_window = is_seen & _within(mask_BK, ids_BT.shape[1], config.get_text_config().sliding_window)
        masks = {"full_attention": is_seen, "sliding_attention": in_window}
        if config.get_text_config()._attn_implementation == "sdpa":
            return masks
        return {kind: _added(mask, model.dtype) for kind, mask in masks.items()}


def _seen(is_image_BT: Tensor, mask_BK: Tensor) -> Tensor:
    """Returns the columns visible to each of the last T, bool[B, 1, T, K]: earlier ones, and those of its own image.

    Args:
        is_image_BT: bool, which of the last T columns are placeholders; adjacent ones are one image.
        mask_BK: int64, 1 for columns that are not padding.
    """
    num_new, num_all = is_image_BT.shape[1], mask_BK.shape[1]
    columns = torch.arange(num_all, device=mask_BK.device)
    is_before_TK = columns <= columns[num_all - num_new :, None]
    starts_BT = is_image_BT & ~torch.nn.functional.pad(is_image_BT, (1, 0))[:, :-1]
    image_BT = torch.where(is_image_BT, starts_BT.cumsum(-1), 0)
    image_BK = torch.nn.functional.pad(image_BT, (num_all - num_new, 0))
    is_own_BTK = (image_BT[:, :, None] == image_BK[:, None]) & is_image_BT[:, :, None]
    seen_BTK = (is_before_TK | is_own_BTK) & mask_BK[:, None].bool()
    # Padding sees itself, because a softmax over nothing is NaN
    is_itself_TK = columns == columns[num_all - num_new :, None]
    return (seen_BTK | is_itself_TK)[:, None]


def _within(mask_BK: Tensor, num_new: int, window: int) -> Tensor:
    """Returns the columns that are fewer than `window` tokens before each of the last T, or later, bool[B, 1, T, K]."""
    counted_BK = mask_BK.cumsum(-1)
    return (counted_BK[:, None] > counted_BK[:, -num_new:, None] - window)[:, None]


def _added(is_seen: Tensor, dtype: torch.dtype) -> Tensor:
    """Returns a mask as an additive bias for attention scores."""
    return torch.where(is_seen, 0.0, torch.finfo(dtype).min).to(dtype)


_FAMILIES: tuple[Family, ...] = (QwenVL(), InternVL(), SmolVLM(), Gemma3())
MODEL_TYPES = tuple(model_type for family in _FAMILIES for model_type in family.model_types)
"""All supported model types."""


def family_of(model: Any) -> Family:
    """Returns the family of a policy or a critic, by the type of its backbone.

    Raises:
        ValueError: If its model type is not supported.
    """
    return family_of_type(model.model.config.model_type)


def family_of_type(model_type: str) -> Family:
    """Returns the family of a `model_type` of `config.json`.

    Raises:
        ValueError: If the model type is not supported.
    """
    for family in _FAMILIES:
        if model_type in family.model_types:
            return family
    raise ValueError(f"Expected a model of {', '.join(MODEL_TYPES)}; got {model_type!r}.")


def vision_parts(model: Any) -> list[nn.Module]:
    """Returns the modules before the language model: the vision tower, the projector, and anything between them."""
    decoder = model.model.get_decoder()
    return [part for part in model.model.children() if part is not decoder]


class SeenImages:
    """Computes the features of each image once, however many rows have it.

    Args:
        max_bytes: Most bytes of features kept for later; requested images may exceed it.
    """

    def __init__(self, *, max_bytes: int = 256 * 2**20) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._features: OrderedDict[bytes, ImageFeatures] = OrderedDict()

    def features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of at least one image, in order.

        Args:
            model: Its tower must be unchanged since `forget`.
            images: May contain duplicates.
        """
        unseen = list({image.key: image for image in images if image.key not in self._features}.values())
        if unseen:
            seen, start = family_of(model).image_features(model, unseen), 0
            for image in unseen:
                self._keep(image.key, seen.select(slice(start, start + image.num_tokens)).copied())
                start += image.num_tokens
        for image in images:
            self._features.move_to_end(image.key)
        found = joined([self._features[image.key] for image in images])
        while self._num_bytes > self._max_bytes:
            _, oldest = self._features.popitem(last=False)
            self._num_bytes -= oldest.nbytes
        return found

    def forget(self) -> None:
        """Drops all features."""
        self._features.clear()
        self._num_bytes = 0

    def _keep(self, key: bytes, features: ImageFeatures) -> None:
        self._features[key] = features
        self._num_bytes += features.nbytes
