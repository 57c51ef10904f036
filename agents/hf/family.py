"""The interface of a family of vision-language models: image features, token positions, and hidden states.

Image features are computed in a separate step, so that they can be shared: by group members with the same image, by
the passes over one batch, and by a policy and its reference with the same frozen tower.

A family in `agents.hf.model_families` overrides the parts that differ.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor
from transformers import PreTrainedTokenizerBase
from transformers.modeling_outputs import BaseModelOutputWithPooling

from vlm_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class ProcessedImage:
    """An image in the format of a family's image processor.

    Attributes:
        inputs: Arguments of the vision tower by name; images are concatenated along the first axis.
        num_tokens: Number of placeholders in the prompt, one per feature vector.
        key: Identifies the content; equal keys mean equal content.
        size_px: Height and width to which the image processor scaled the whole image; None if unknown.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    num_tokens: int
    key: bytes
    size_px: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return sum(value.nbytes for value in self.inputs.values())


@dataclass(frozen=True, kw_only=True)
class ImageFeatures:
    """Output of a vision tower: N vectors, one per placeholder, in the order of the placeholders.

    Attributes:
        tokens_ND: Vectors that replace the placeholders' embeddings.
        layers: `(N, D)` each, added to the output of the first layers of the language model (DeepStack); often empty.
    """

    tokens_ND: Tensor
    layers: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        """Size in memory."""
        return sum(tensor.nbytes for tensor in (self.tokens_ND, *self.layers))

    def copied(self) -> ImageFeatures:
        """Returns a copy that does not keep a larger tensor alive."""
        return ImageFeatures(tokens_ND=self.tokens_ND.clone(), layers=tuple(layer.clone() for layer in self.layers))

    def select(self, index: Tensor | slice) -> ImageFeatures:
        """Returns the indexed vectors, in the order of the index."""
        return ImageFeatures(tokens_ND=self.tokens_ND[index], layers=tuple(layer[index] for layer in self.layers))

    def to(self, device: torch.device | str) -> ImageFeatures:
        """Returns the features on another device, without gradients."""
        layers = tuple(layer.detach().to(device) for layer in self.layers)
        return ImageFeatures(tokens_ND=self.tokens_ND.detach().to(device), layers=layers)


def placeholder_order(is_image_BT: Tensor) -> Tensor:
    """Returns the feature index of each placeholder, row by row, int64[B, T]; undefined elsewhere."""
    return (is_image_BT.flatten().cumsum(0) - 1).view_as(is_image_BT)


def joined(features: Sequence[ImageFeatures]) -> ImageFeatures:
    """Returns the concatenated features of one or more images or groups of images."""
    layers = tuple(torch.cat(layer) for layer in zip(*(part.layers for part in features), strict=True))
    return ImageFeatures(tokens_ND=torch.cat([part.tokens_ND for part in features]), layers=layers)


def vision_inputs(images: Sequence[ProcessedImage], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Returns the vision tower's arguments for the concatenated images; empty without images.

    Args:
        images: Images of one family.
        device: Target device.
        dtype: Type of floating-point inputs.
    """
    inputs = {}
    for name in images[0].inputs if images else ():
        value = torch.from_numpy(np.concatenate([image.inputs[name] for image in images]))
        inputs[name] = value.to(device, dtype if value.is_floating_point() else value.dtype)
    return inputs


def image_token(tokenizer: PreTrainedTokenizerBase, token_id: int) -> str:
    """Returns the text of the token with an ID from a model's configuration.

    Raises:
        ValueError: If the tokenizer has no such token.
    """
    token: Any = tokenizer.convert_ids_to_tokens(token_id)
    if token is None:
        raise ValueError(
            f"The tokenizer has no token {token_id}, the image token of config.json. Tokenizer and model must be from "
            "the same checkpoint."
        )
    return str(token)


def require_pixels(max_pixels: int, smallest: int) -> None:
    """Raises `ConfigError` if a pixel limit is below the size of the smallest image."""
    if max_pixels < smallest:
        raise ConfigError(
            f"max_image_pixels must be at least {smallest}, this checkpoint's size of the smallest image; got "
            f"{max_pixels}."
        )


class ImageReader(ABC):
    """Converts images into a checkpoint's inputs: those of its vision tower, and placeholders in the prompt.

    Args:
        tokenizer: The checkpoint's tokenizer.
        image_processor: The checkpoint's own, of a class that does not need torchvision.
        config: The model's configuration.

    Attributes:
        marker: The chat template's text for an image.
        placeholder: The token that feature vectors replace.
        max_aspect_ratio: Largest accepted ratio of the longer to the shorter side.
        trims_text: Whether the family's chat templates strip white space from texts and answers. Texts are then
            stripped here, too; answers stay as they were sampled.

    Raises:
        ValueError: If the tokenizer lacks one of the family's image tokens.
    """

    max_aspect_ratio = 200
    trims_text = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = self.placeholder = image_token(tokenizer, config.image_token_id)

    @abstractmethod
    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image as the model's input, and the placeholder text that replaces the marker in the prompt.

        Args:
            image: uint8[height, width, 3].
            key: Identifies the content; equal keys mean equal content.
        """

    @abstractmethod
    def limit_pixels(self, max_pixels: int) -> None:
        """Scales down larger images, through the image processor's own setting, which is saved with a checkpoint.

        Args:
            max_pixels: Most pixels of one image in the tower's input, over all of its tiles.

        Raises:
            ConfigError: If the limit is below the size of the smallest image.
        """

    def processed(self, image: npt.NDArray[np.uint8], **settings: Any) -> Any:
        """Returns the image processor's output for an image."""
        # The channel axis must be specified: the layout of an image with one or three rows is ambiguous
        return self.image_processor(images=[image], return_tensors="np", input_data_format="channels_last", **settings)


_NO_MASK = torch.empty(1, 1, 0, 0)
"""The attention mask of passes with other masking: transformers takes four axes for a finished mask."""


class Family:
    """A model family: a vision tower, and a causal language model over its features and the text tokens.

    `model` has the backbone as `.model`, whether it is a policy or a critic.

    Attributes:
        model_types: The `model_type`s in `config.json` of this family.
        keeps_images_whole: Whether the tokens of an image attend to each other in both directions, so that they must
            be fed together.
        image_processor_class: Loads a checkpoint's image processor; does not need torchvision.
        reader_class: Its `ImageReader`.
    """

    model_types: tuple[str, ...]
    keeps_images_whole = False
    image_processor_class: Any
    reader_class: type[ImageReader]

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of at least one image; the tower returns equally many for each tile."""
        tower = model.model.vision_tower
        shown = model.model.get_image_features(**vision_inputs(images, tower.device, tower.dtype), return_dict=True)
        return ImageFeatures(tokens_ND=shown.pooler_output.flatten(0, 1))

    def positions(self, model: Any, ids_BT: Tensor, mask_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
        """Returns positions in padded rows, starting at 0 in each; int64, with rows and tokens as the last two axes.

        By default the number of tokens before each; padding after a row continues counting.

        Args:
            model: Computes positions as in its training.
            ids_BT: int64, tokens.
            mask_BT: int64, 1 for tokens that are not padding, anywhere in the row.
            images: The images of all rows in the order of their placeholders.
        """
        # transformers treats a drop in positions as the start of another sequence packed into the row
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
        """Returns the last hidden states, float[B, T, D].

        Args:
            model: With its backbone.
            ids_BT: int64, tokens.
            features: Features of the placeholders among the tokens, row by row; None without any.
            positions: Positions of the tokens, as `positions` returns them.
            mask: int64 `(B, past + T)`, 1 for tokens that may be attended to; None if all earlier tokens may.
            cache: Keys and values of the earlier tokens; extended in place.
            tree: `agents.hf.row_passes.PrefixTree` whose N nodes are the tokens, `(1, N)`, for a model that supports
                it.
        """
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
        """Returns the backbone's `attention_mask`: the mask of `hidden_states`, unless attention is not only causal."""
        return mask

    def tower_output(self, features: ImageFeatures) -> Any:
        """Returns features in the format of the backbone's own tower."""
        return BaseModelOutputWithPooling(pooler_output=features.tokens_ND)

    def logits(self, model: Any, hidden_ND: Tensor) -> Tensor:
        """Returns the next token's logits in the model's own type, `(N, vocabulary)`."""
        logits_NV: Tensor = model.lm_head(hidden_ND)
        return logits_NV
