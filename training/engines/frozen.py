"""What is frozen is held once: its weights by all models that have them, and what it makes of a picture."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from typing import Any, TypeVar

import torch
from torch import nn

from agents.hf.family import ImageFeatures, ProcessedImage
from agents.hf.model_families import family_of, vision_parts
from vlm_envs.errors import ConfigError

Module = TypeVar("Module", bound=nn.Module)


def freeze_vision_tower(model: Any) -> None:
    """Leaves out of training what pictures go through before the language model: tower and projector alike."""
    for part in vision_parts(model):
        part.requires_grad_(False)


def has_frozen_vision_tower(model: Any) -> bool:
    """Returns whether what a model makes of a picture stays the same in training."""
    return not any(weight.requires_grad for part in vision_parts(model) for weight in part.parameters())


def frozen_tower(model: Any) -> list[nn.Parameter]:
    """Returns the weights of a vision tower that is not trained, which every copy of the model shares; else none."""
    if not has_frozen_vision_tower(model):
        return []
    return [weight for part in vision_parts(model) for weight in part.parameters()]


def copied_but_frozen(module: Module) -> Module:
    """Returns a copy of a module with weights of its own, but for frozen ones, which are shared."""
    return copy.deepcopy(module, {id(weight): weight for weight in module.parameters() if not weight.requires_grad})


def share_frozen(module: Module, owner: nn.Module) -> Module:
    """Returns a module after giving it another one's frozen weights in place of its own, which have the same values."""
    for name, weight in owner.named_parameters(remove_duplicate=False):
        if not weight.requires_grad:
            parent, _, leaf = name.rpartition(".")
            setattr(module.get_submodule(parent), leaf, weight)
    return module


def require_same_frozen(module: nn.Module, owner: nn.Module) -> None:
    """Refuses a module that cannot be given another one's frozen weights, because its own are others.

    Raises:
        ConfigError: If one differs.
    """
    for name, weight in owner.named_parameters(remove_duplicate=False):
        own = module.get_parameter(name)
        if not weight.requires_grad and not torch.equal(own.to(weight.device, weight.dtype), weight):
            raise ConfigError(
                f"The reference's {name} is not the policy's, and --memory.freeze-vision-tower has both look through "
                "one vision tower. Train without it, or hold the policy to the model that it starts from (no "
                "--reference; of a stage, reference reset)."
            )


class SeenPictures:
    """What a frozen vision tower makes of pictures, each shown to it once, whoever asks for it and how often.

    They wait in the host's memory, in the tower's type.

    Args:
        model: A model of a known family.
    """

    def __init__(self, model: Any) -> None:
        self._model, self._family = model, family_of(model)
        self._features: dict[bytes, ImageFeatures] = {}

    @torch.no_grad()
    def features(self, images: Sequence[ProcessedImage]) -> tuple[ImageFeatures, ...]:
        """Returns the features of each picture."""
        unseen = list({image.key: image for image in images if image.key not in self._features}.values())
        if unseen:
            seen, start = self._family.image_features(self._model, unseen).to("cpu"), 0
            for image in unseen:
                self._features[image.key] = seen.select(slice(start, start + image.num_tokens))
                start += image.num_tokens
        return tuple(self._features[image.key] for image in images)

    def forget(self) -> None:
        """Lets go of all pictures."""
        self._features.clear()
