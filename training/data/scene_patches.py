"""Pairs of pictures for super-resolution: a generated scene, and the same scaled down."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt
from PIL import Image

from training.config.supervised.upscaler import UpscalerConfig
from vlm_envs.tools.coordinates import PixelRectangle
from vlm_envs.tools.pictures import Picture, crop, resized


class PicturePair(NamedTuple):
    """A picture, and what the network is given of it.

    Attributes:
        small: The picture scaled down by bicubic resampling, as in SMFANet's training.
        large: The picture, of `factor` times its sides.
    """

    small: Picture
    large: Picture


class Patches(NamedTuple):
    """Patches of pictures, cut at the same places.

    Attributes:
        small_BHWC: uint8[B, H, W, 3].
        large_BHWC: uint8[B, H * factor, W * factor, 3].
    """

    small_BHWC: npt.NDArray[np.uint8]
    large_BHWC: npt.NDArray[np.uint8]


def scene_pairs(config: UpscalerConfig, split: str, num_scenes: int) -> list[PicturePair]:
    """Returns scenes of a split, the same at every call."""
    source = config.scenes()
    drawn = (source.draw(np.random.default_rng([config.seed, number]), split) for number in range(num_scenes))
    return [picture_pair(sample.images[0].picture(), config.factor) for sample in drawn]


def picture_pair(picture: Picture, factor: int) -> PicturePair:
    """Returns a picture cut to multiples of the factor, and the same scaled down by it."""
    width, height = picture.width // factor, picture.height // factor
    large = crop(picture, PixelRectangle(0, 0, width * factor, height * factor))
    return PicturePair(resized(large, width, height, Image.Resampling.BICUBIC), large)


def step_patches(pairs: Sequence[PicturePair], config: UpscalerConfig, step: int) -> Patches:
    """Returns the patches of a step, decided by seed and step alone: mirrored and turned at random."""
    rng = np.random.default_rng([config.seed, step, 1])
    cut = [_patch(pairs[int(rng.integers(len(pairs)))], config, rng) for _ in range(config.batch_size)]
    return Patches(*(np.stack(each) for each in zip(*cut, strict=True)))


def _patch(
    pair: PicturePair, config: UpscalerConfig, rng: np.random.Generator
) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.uint8]]:
    side, factor = config.patch_px, config.factor
    top, left = (int(rng.integers(length - side + 1)) for length in (pair.small.height, pair.small.width))
    is_mirrored, num_turns = bool(rng.integers(2)), int(rng.integers(4))

    def cut(pixels: npt.NDArray[np.uint8], scale: int) -> npt.NDArray[np.uint8]:
        rows, columns = (slice(start * scale, (start + side) * scale) for start in (top, left))
        patch = pixels[rows, columns]
        return np.rot90(patch[:, ::-1] if is_mirrored else patch, num_turns)

    return cut(pair.small.pixels, 1), cut(pair.large.pixels, factor)
