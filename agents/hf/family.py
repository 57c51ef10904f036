"""What a family of vision-language models is to us: pictures to features, tokens to positions and hidden states.

Pictures become features in a step of their own, so that whoever needs them several times computes them once:
siblings that are shown the same picture, the passes over one batch, a policy and its reference that share a
frozen tower.

A family of `agents.hf.model_families` overrides what is its own.
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
    """A picture as a family's image processor gives it.

    Attributes:
        inputs: Arguments of the vision tower by name. Along their first axis pictures are put one behind the other.
        num_tokens: Placeholders it takes in the prompt, one per feature vector.
        key: What tells its content from others'.
        size_px: Height and width to which the image processor scaled the whole picture; None where that is not known.
    """

    inputs: Mapping[str, npt.NDArray[Any]]
    num_tokens: int
    key: bytes
    size_px: tuple[int, int] | None = None

    @property
    def nbytes(self) -> int:
        """Bytes it takes in memory."""
        return sum(value.nbytes for value in self.inputs.values())


@dataclass(frozen=True, kw_only=True)
class ImageFeatures:
    """What a vision tower makes of pictures: N vectors, one per placeholder, in the order of the placeholders.

    Attributes:
        tokens_ND: What takes the place of the placeholders' embeddings.
        layers: `(N, D)` each, what is added behind the first layers of the language model (DeepStack); often none.
    """

    tokens_ND: Tensor
    layers: tuple[Tensor, ...] = ()

    @property
    def nbytes(self) -> int:
        """Bytes they take in memory."""
        return sum(each.nbytes for each in (self.tokens_ND, *self.layers))

    def copied(self) -> ImageFeatures:
        """Returns features that hold no more memory than they show."""
        return ImageFeatures(tokens_ND=self.tokens_ND.clone(), layers=tuple(each.clone() for each in self.layers))

    def select(self, index: Tensor | slice) -> ImageFeatures:
        """Returns some of the vectors, in the order of the index."""
        return ImageFeatures(tokens_ND=self.tokens_ND[index], layers=tuple(each[index] for each in self.layers))

    def to(self, device: torch.device | str) -> ImageFeatures:
        """Returns the features on another device, without gradients."""
        layers = tuple(each.detach().to(device) for each in self.layers)
        return ImageFeatures(tokens_ND=self.tokens_ND.detach().to(device), layers=layers)


def placeholder_order(is_image_BT: Tensor) -> Tensor:
    """Returns for each placeholder which feature it takes, row by row, int64[B, T]; elsewhere it means nothing."""
    return (is_image_BT.flatten().cumsum(0) - 1).view_as(is_image_BT)


def joined(features: Sequence[ImageFeatures]) -> ImageFeatures:
    """Returns the features of several pictures, or groups of them, one behind the other; there must be one at least."""
    layers = tuple(torch.cat(each) for each in zip(*(each.layers for each in features), strict=True))
    return ImageFeatures(tokens_ND=torch.cat([each.tokens_ND for each in features]), layers=layers)


def vision_inputs(images: Sequence[ProcessedImage], device: torch.device, dtype: torch.dtype) -> dict[str, Tensor]:
    """Returns the vision tower's arguments for pictures, one behind the other; empty without pictures.

    Args:
        images: Pictures of one family.
        device: Where to.
        dtype: Type of what is floating point.
    """
    inputs = {}
    for name in images[0].inputs if images else ():
        value = torch.from_numpy(np.concatenate([image.inputs[name] for image in images]))
        inputs[name] = value.to(device, dtype if value.is_floating_point() else value.dtype)
    return inputs


def image_token(tokenizer: PreTrainedTokenizerBase, token_id: int) -> str:
    """Returns the token that a model's configuration names by its id.

    Raises:
        ValueError: If the tokenizer has none.
    """
    token: Any = tokenizer.convert_ids_to_tokens(token_id)
    if token is None:
        raise ValueError(
            f"The tokenizer has no token {token_id}, which config.json names for pictures. Tokenizer and model have to "
            "come from one checkpoint."
        )
    return str(token)


def require_pixels(max_pixels: int, smallest: int) -> None:
    """Raises `ConfigError` if the limit of a picture is below what the smallest one has."""
    if max_pixels < smallest:
        raise ConfigError(
            f"max_image_pixels must be at least {smallest}, which this checkpoint makes of the smallest picture; got "
            f"{max_pixels}."
        )


class ImageReader(ABC):
    """How a checkpoint takes images: what its vision tower is given, and what stands for one in the prompt.

    Args:
        tokenizer: The checkpoint's tokenizer.
        image_processor: The checkpoint's own, of those that need no torchvision.
        config: The model's.

    Attributes:
        marker: What the chat template writes where an image goes.
        placeholder: The token that feature vectors take the place of.
        max_aspect_ratio: Longer side by shorter side of the most elongated image that it takes.
        trims_text: Whether the family's chat templates strip white space from texts and answers. Texts are then
            stripped here, too; answers stay as they were sampled.

    Raises:
        ValueError: If the tokenizer lacks a token that the family writes images with.
    """

    max_aspect_ratio = 200
    trims_text = False

    def __init__(self, tokenizer: PreTrainedTokenizerBase, image_processor: Any, config: Any) -> None:
        self.image_processor = image_processor
        self.marker = self.placeholder = image_token(tokenizer, config.image_token_id)

    @abstractmethod
    def read(self, image: npt.NDArray[np.uint8], key: bytes) -> tuple[ProcessedImage, str]:
        """Returns an image as the model takes it, and what stands in the prompt in the marker's place.

        Args:
            image: uint8[height, width, 3].
            key: What tells its content from others'.
        """

    @abstractmethod
    def limit_pixels(self, max_pixels: int) -> None:
        """Has larger images scaled down, by the image processor's own setting, which a checkpoint then keeps.

        Args:
            max_pixels: Most pixels that the tower is shown of one image, in all of its tiles.

        Raises:
            ConfigError: If that is less than the smallest image has.
        """

    def processed(self, image: npt.NDArray[np.uint8], **settings: Any) -> Any:
        """Returns what the image processor makes of an image."""
        # Where channels are has to be said: an image of one or three rows could be read either way
        return self.image_processor(images=[image], return_tensors="np", input_data_format="channels_last", **settings)


_NO_MASK = torch.empty(1, 1, 0, 0)
"""The attention mask of passes that mask in another way: transformers takes four axes for a finished mask."""


class Family:
    """A model family: a vision tower, then a causal language model over its features and the tokens between them.

    `model` has the backbone as `.model`, be it a policy or a critic.

    Attributes:
        model_types: The `model_type`s of `config.json` that are of this family.
        keeps_images_whole: Whether the tokens of an image attend to each other in both directions, so that they have
            to be fed at once.
        image_processor_class: Reads a checkpoint's image processor, and needs no torchvision.
        reader_class: Its `ImageReader`.
    """

    model_types: tuple[str, ...]
    keeps_images_whole = False
    image_processor_class: Any
    reader_class: type[ImageReader]

    def image_features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of images, of which the tower gives as many for each tile; at least one image."""
        tower = model.model.vision_tower
        shown = model.model.get_image_features(**vision_inputs(images, tower.device, tower.dtype), return_dict=True)
        return ImageFeatures(tokens_ND=shown.pooler_output.flatten(0, 1))

    def positions(self, model: Any, ids_BT: Tensor, mask_BT: Tensor, images: Sequence[ProcessedImage]) -> Tensor:
        """Returns positions in padded rows, starting at 0 in each, int64 with rows and tokens as its last two axes.

        Here the number of tokens before each; padding behind a row goes on counting.

        Args:
            model: Computes them as it was trained to.
            ids_BT: int64, tokens.
            mask_BT: int64, 1 for tokens that are not padding, anywhere in the row.
            images: The images of all rows in the order of their placeholders.
        """
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
        """Returns the last hidden states, float[B, T, D].

        Args:
            model: With its backbone.
            ids_BT: int64, tokens.
            features: Of the placeholders among them, row by row; None without any.
            positions: Of the tokens, as `positions` gives them.
            mask: int64 `(B, past + T)`, 1 for tokens that may be attended to; None where all before a token may.
            cache: Keys and values of the tokens before; they are appended to.
            tree: `agents.hf.row_passes.PrefixTree` whose N nodes the tokens are, `(1, N)`; of a model that
                takes them.
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
        """Returns the backbone's `attention_mask`: the mask of `hidden_states`, unless it is more than causal."""
        return mask

    def tower_output(self, features: ImageFeatures) -> Any:
        """Returns features in the form in which the backbone has them from its own tower."""
        return BaseModelOutputWithPooling(pooler_output=features.tokens_ND)

    def logits(self, model: Any, hidden_ND: Tensor) -> Tensor:
        """Returns the next token's logits in the model's own type, `(N, vocabulary)`."""
        logits_NV: Tensor = model.lm_head(hidden_ND)
        return logits_NV
