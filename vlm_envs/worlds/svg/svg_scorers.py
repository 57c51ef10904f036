"""Similarity of two drawings on white paper: a structural score without weights, and the registry of scorers.

The structural score asks four questions at several resolutions, so that a shape beside its place still earns something
and a shape closer to its place earns more:

* coverage: is there ink where there should be ink?
* color: does the paper have the same color?
* edges: do outlines run where they should?
* structure: do small neighborhoods vary alike (SSIM, Wang et al. 2004)?

Coverage, color, and edges are ratios of what is shared to what exists at all, so white paper, which every icon has
plenty of, earns nothing. Structure is averaged over places with ink and then counted from the score of an empty sheet.
The mixture is this project's own; its weights were chosen so that growing mistakes lower the score (tests measure it).
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
"""Share of each resolution, from 96 pixels a side down to 3."""

TERM_WEIGHTS = {"coverage": 0.3, "color": 0.3, "edges": 0.2, "structure": 0.2}
"""Share of each question; they sum to 1."""

_WINDOW = 5
_INK_GAIN = 4.0
_SSIM_C1, _SSIM_C2 = 0.01**2, 0.03**2
_TINY = 1e-6


class StructuralScorer:
    """Similarity by coverage, colour, edges and structure at six resolutions; 1 for equal, 0 for empty paper."""

    name = "structural"

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns how alike two drawings on white paper, uint8[H, W, 3], are: 1 for equal ones, 0 without any ink."""
        if np.array_equal(target, drawing):
            return 1.0
        levels = zip(_pyramid(target), _pyramid(drawing), LEVEL_WEIGHTS, strict=True)
        return float(np.clip(sum(weight * _level_score(*pair) for *pair, weight in levels), 0.0, 1.0))


@dataclass(frozen=True, slots=True)
class _Level:
    """One picture at one resolution.

    Attributes:
        dye: float32[3, S, S], how much of each colour the ink takes away from white, 0 to 1.
        ink: float32[S, S], whether there is ink, 0 to 1.
    """

    dye: Planes
    ink: Planes


def _pyramid(picture: NDArray[np.uint8]) -> list[_Level]:
    """Returns a picture at each resolution, the finest first."""
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
    if _WINDOW <= len(target.ink) < FINEST_PX:  # up close it costs most and adds least
        scores["structure"] = _structure(target, drawing)
    return sum(TERM_WEIGHTS[name] * score for name, score in scores.items()) / sum(
        TERM_WEIGHTS[name] for name in scores
    )


def _shared(first: Planes, second: Planes) -> float:
    """Returns what two amounts share as a part of what there is of either: sum(min) / sum(max)."""
    return float(np.minimum(first, second).sum() / (np.maximum(first, second).sum() + _TINY))


def _slopes(target: _Level, drawing: _Level, axis: int) -> tuple[Planes, Planes]:
    """Returns how steeply the dye of each picture changes along an axis."""
    return np.abs(np.diff(target.dye, axis=axis)), np.abs(np.diff(drawing.dye, axis=axis))


def _structure(target: _Level, drawing: _Level) -> float:
    """Returns the mean SSIM of places with ink, counted from what empty paper would get, 0 to 1."""
    ink = _box_mean(np.maximum(target.ink, drawing.ink)) + _TINY
    weight = ink / (ink.sum() * len(target.dye))
    found = float((_ssim(target.dye, drawing.dye) * weight).sum())
    blank = float((_ssim(target.dye, np.zeros_like(target.dye)) * weight).sum())
    return max(0.0, (found - blank) / (1 - blank + _TINY))


def _ssim(first: Planes, second: Planes) -> Planes:
    """Returns the structural similarity of every window of two planes with values from 0 to 1.

    Source: Wang et al., 2004, equation 13, with the paper's constants; a square window in place of a Gaussian.
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
    """Returns the mean of each window that lies within the last two axes."""
    size = planes.shape[-1] - _WINDOW + 1
    rows = planes[..., :size, :].copy()
    for start in range(1, _WINDOW):
        rows += planes[..., start : start + size, :]
    means = rows[..., :size].copy()
    for start in range(1, _WINDOW):
        means += rows[..., start : start + size]
    return means / _WINDOW**2


BUILT_IN = {"structural": StructuralScorer()}
"""Scorers that need no weights, by name."""

LEARNED = {"dreamsim": "agents.perception.similarity:dreamsim", "dino": "agents.perception.similarity:dino"}
"""Scorers of this project's checkout that need weights and torch; they are given to a world as `module:factory`."""


@runtime_checkable
class Scorer(Protocol):
    """How alike two pictures are.

    Attributes:
        name: What the score is called.
    """

    name: str

    def similarity(self, target: NDArray[np.uint8], drawing: NDArray[np.uint8]) -> float:
        """Returns how alike two pictures are, from 0 (nothing in common) to 1 (the same).

        Args:
            target: uint8[H, W, 3], what should have been drawn.
            drawing: uint8[H, W, 3], what was drawn.
        """
        ...


def resolve_scorer(what: str, scorer: object) -> Scorer:
    """Returns the scorer that an argument names.

    Args:
        what: The argument's name, for messages.
        scorer: A scorer; the name of a built-in one; or `"module:factory"`, a callable without arguments that
            returns one. Names and module paths can be sent to worker processes whatever the scorer holds.

    Raises:
        ConfigError: If it is none of these. What a factory raises is raised as it is.
    """
    if isinstance(scorer, str) and scorer in LEARNED:
        raise ConfigError(
            f"The scorer {scorer!r} needs weights and torch, and comes with the project's checkout; "
            f"from there, write {what}={LEARNED[scorer]!r}."
        )
    found: Scorer = resolved(what, scorer, "name", "similarity", known=BUILT_IN)
    return found
