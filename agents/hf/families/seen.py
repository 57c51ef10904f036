"""What a vision tower made of pictures, kept as long as it would make the same of them."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

from torch import nn

from agents.hf.families.family import ImageFeatures, ProcessedImage, joined
from agents.hf.families.registry import family_of


def vision_parts(model: Any) -> list[nn.Module]:
    """Returns what pictures go through before the language model: tower, projector and whatever is between."""
    decoder = model.model.get_decoder()
    return [part for part in model.model.children() if part is not decoder]


class SeenImages:
    """Shows each picture to the tower once, however many rows have it.

    Args:
        max_bytes: Most bytes of features kept for later; those of the pictures asked for are given in any case.
    """

    def __init__(self, *, max_bytes: int = 256 * 2**20) -> None:
        self._max_bytes, self._num_bytes = max_bytes, 0
        self._features: OrderedDict[bytes, ImageFeatures] = OrderedDict()

    def features(self, model: Any, images: Sequence[ProcessedImage]) -> ImageFeatures:
        """Returns the features of pictures, in their order; there must be one at least.

        Args:
            model: Whose tower has not changed since `forget`.
            images: Any of them may be there several times.
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
        """Lets go of all pictures."""
        self._features.clear()
        self._num_bytes = 0

    def _keep(self, key: bytes, features: ImageFeatures) -> None:
        self._features[key] = features
        self._num_bytes += features.nbytes
