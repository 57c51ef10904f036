"""Similarity of two drawings on white backgrounds: a structural score without weights, and the registry of scorers.

The structural score combines four terms at several resolutions, so that a misplaced shape still earns
something, and more the closer it is to its place:

* coverage: is there ink where there should be ink?
* color: do the colors match?
* edges: do outlines match?
* structure: do small neighborhoods vary alike (SSIM, Wang et al. 2004)?

Coverage, color, and edges are ratios of the shared amount to the total, so white background, which covers
most of an icon, earns nothing. Structure is averaged over places with ink and measured relative to the score
of an empty sheet. The combination is this project's own; its weights were chosen so that larger mistakes
lower the score (tests measure it).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray
from PIL import Image

from vlm_envs.errors import ConfigError
from vlm_envs.user_code import resolved

Planes: TypeAlias = NDArray[np.floating[Any]]

FINEST_PX = 96
LEVEL_WEIGHTS = (0.1, 0.2, 0.2, 0.2, 0.15, 0.15)
"""Weight of each resolution, from 96 pixels on a side down to 3."""

TERM_WEIGHTS = {"coverage": 0.3, "color": 0.3, "edges": 0.2, "structure": 0.2}
"""Weight of each term; they sum to 1."""

_WINDOW = 5
_INK_GAIN = 4.0
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
_TINY = 1e-6


class StructuralScorer:
    """Similarity by coverage, color, edges, and structure at six resolutions; 1 for equal, 0 for an empty drawing."""

    name = "structural"

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns the similarity of two drawings on white, uint8[H, W, 3]: 1 if equal, 0 without any ink."""
        if np.array_equal(target, drawing):
            return 1.0
        levels = zip(_pyramid(target), _pyramid(drawing), LEVEL_WEIGHTS, strict=True)
        return float(np.clip(sum(weight * _level_score(*pair) for *pair, weight in levels), 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class _Level:
    """An image at one resolution.

    Attributes:
        dye: float32[3, S, S], the amount of each color channel that the ink removes from white, 0 to 1.
        ink: float32[S, S], the presence of ink, 0 to 1.
    """

    dye: Planes
    ink: Planes


def _pyramid(picture: NDArray[np.uint8]) -> list[_Level]:
    """Returns an image at each resolution, the finest first."""
    small = Image.fromarray(picture).resize((FINEST_PX, FINEST_PX), Image.Resampling.BOX)
    dye = np.ascontiguousarray((255 - np.asarray(small)).astype(np.float32).transpose(2, 0, 1)) / 255
    levels = []
    for level in range(len(LEVEL_WEIGHTS)):
        if level > 0:
            rows = dye[:, ::2] + dye[:, 1::2]
            dye = (rows[:, :, ::2] + rows[:, :, 1::2]) / 4
        ink = np.minimum(dye.max(axis=0) * _INK_GAIN, 1)
        levels.append(_Level(dye, ink))
    return levels


def _level_score(target: _Level, drawing: _Level) -> float:
    """Returns the weighted score of one resolution, 0 to 1."""
    scores = {
        "coverage": _shared(target.ink, drawing.ink),
        "color": _shared(target.dye, drawing.dye),
        "edges": (_shared(*_slopes(target, drawing, 1)) + _shared(*_slopes(target, drawing, 2))) / 2,
    }
    if _WINDOW <= len(target.ink) < FINEST_PX:  # the finest level costs most and adds least
        scores["structure"] = _structure(target, drawing)
    return sum(TERM_WEIGHTS[name] * score for name, score in scores.items()) / sum(
        TERM_WEIGHTS[name] for name in scores
    )


def _shared(first: Planes, second: Planes) -> float:
    """Returns the overlap of two nonnegative arrays: sum(min) / sum(max)."""
    return float(np.minimum(first, second).sum() / (np.maximum(first, second).sum() + _TINY))


def _slopes(target: _Level, drawing: _Level, axis: int) -> tuple[Planes, Planes]:
    """Returns the absolute change of the dye of both images along an axis."""
    return np.abs(np.diff(target.dye, axis=axis)), np.abs(np.diff(drawing.dye, axis=axis))


def _structure(target: _Level, drawing: _Level) -> float:
    """Returns the mean SSIM over places with ink, relative to that of an empty drawing, 0 to 1."""
    ink = _box_mean(np.maximum(target.ink, drawing.ink)) + _TINY
    weight = ink / (ink.sum() * len(target.dye))
    found = float((_ssim(target.dye, drawing.dye) * weight).sum())
    blank = float((_ssim(target.dye, np.zeros_like(target.dye)) * weight).sum())
    return max(0.0, (found - blank) / (1 - blank + _TINY))


def _ssim(first: Planes, second: Planes) -> Planes:
    """Returns the structural similarity of every window of two planes with values from 0 to 1.

    Source: Wang et al., 2004, equation 13, with the paper's constants; a square window replaces the Gaussian.
    """
    mean_1, mean_2 = _box_mean(first), _box_mean(second)
    variance_1 = _box_mean(first * first) - mean_1 * mean_1
    variance_2 = _box_mean(second * second) - mean_2 * mean_2
    covariance = _box_mean(first * second) - mean_1 * mean_2
    alike = (2 * mean_1 * mean_2 + _SSIM_C1) * (2 * covariance + _SSIM_C2)
    total = (mean_1**2 + mean_2**2 + _SSIM_C1) * (variance_1 + variance_2 + _SSIM_C2)
    quotient: Planes = alike / total
    return quotient


def _box_mean(planes: Planes) -> Planes:
    """Returns the mean over each window within the last two axes."""
    size = planes.shape[-1] - _WINDOW + 1
    rows = planes[..., :size, :].copy()
    for start in range(1, _WINDOW):
        rows += planes[..., start : start + size, :]
    means = rows[..., :size].copy()
    for start in range(1, _WINDOW):
        means += rows[..., start : start + size]
    return means / _WINDOW**2


BUILT_IN = {"structural": StructuralScorer()}
"""Scorers without weights, by name."""

LEARNED = {"dreamsim": "agents.perception.similarity:dreamsim", "dino": "agents.perception.similarity:dino"}
"""Scorers of this project's checkout that need weights and torch, for use as `module:factory`."""


@runtime_checkable
class Scorer(Protocol):
    """A similarity measure of two images.

    Attributes:
        name: Name of the score.
    """

    name: str

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns the similarity of two images, from 0 (nothing in common) to 1 (equal).

        Args:
            target: uint8[H, W, 3], the image to reproduce.
            drawing: uint8[H, W, 3], the drawn image.
        """
        ...


def resolve_scorer(what: str, scorer: object) -> Scorer:
    """Returns the scorer that an argument specifies.

    Args:
        what: The argument's name, for messages.
        scorer: A scorer; the name of a built-in one; or `"module:factory"`, a callable without arguments that
            returns one. Names and module paths can always be sent to worker processes.

    Raises:
        ConfigError: If it is anything else. Exceptions of a factory propagate.
    """
    if isinstance(scorer, str) and scorer in LEARNED:
        raise ConfigError(
            f"The scorer {scorer!r} needs weights and torch, and is part of the project's checkout; "
            f"there, use {what}={LEARNED[scorer]!r}."
        )
    found: Scorer = resolved(what, scorer, "name", "similarity", known=BUILT_IN)
    return found
