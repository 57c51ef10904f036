"""How well a model's boxes and the true ones overlap: the box reward of iVGR, and what Mags-RL counts.

Every function here takes all its boxes in one common coordinate space, whichever that is; converting between spaces
is `vlm_envs.tools.coordinates`' part, before. A box that is not proper is kept as a prediction that overlaps with
nothing, for a prediction that can be taken back by writing nonsense costs nothing.

Source: iVGR, section 3.2, equation 2 (R_box); Mags-RL, appendix A.1 and B (validity of zoom boxes).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

from vlm_envs.errors import ConfigError
from vlm_envs.tools.coordinates import MAX_AREA_FRACTION, MAX_BOXES, WrittenBox


def intersection_over_union(first: WrittenBox, second: WrittenBox) -> float:
    """Returns the area that two boxes share over the area that they cover, in [0, 1]; 0 where one is not proper."""
    if not (first.is_proper and second.is_proper):
        return 0.0
    width = min(first.x2, second.x2) - max(first.x1, second.x1)
    height = min(first.y2, second.y2) - max(first.y1, second.y1)
    if width <= 0.0 or height <= 0.0:
        return 0.0
    # Tiny differences of large coordinates can make the quotient exceed 1 by a rounding error.
    return min(1.0, width * height / (first.area + second.area - width * height))


def box_reward(predicted: Sequence[WrittenBox], true: Sequence[WrittenBox]) -> float | None:
    """Returns how well predicted boxes and true boxes cover each other: R_box.

    Args:
        predicted: The model's boxes, proper or not; beyond `MAX_BOXES` they are ignored.
        true: The true boxes, in the same coordinate space.

    Returns:
        ½ (mean over true boxes of their best IoU + mean over predicted boxes of theirs), in [0, 1]; 0 without
        predictions; None without true boxes, for then there is nothing to say and the term is left out.

    Raises:
        ConfigError: A true box is not proper.

    Source: iVGR, equation 2. Choice: the two empty cases, which the equation leaves undefined.
    """
    if improper := [box for box in true if not box.is_proper]:
        raise ConfigError(f"True boxes need x1 < x2, y1 < y2 and finite coordinates; got {improper[0]}.")
    predicted = predicted[:MAX_BOXES]
    if not true:
        return None
    if not predicted:
        return 0.0
    table = [[intersection_over_union(box, truth) for truth in true] for box in predicted]
    precision = math.fsum(max(row) for row in table) / len(predicted)
    recall = math.fsum(max(column) for column in zip(*table, strict=True)) / len(true)
    return 0.5 * (recall + precision)


def count_zoomable(
    boxes: Sequence[WrittenBox], width_px: int, height_px: int, *, max_area: float = MAX_AREA_FRACTION
) -> int:
    """Returns how many boxes may be zoomed into: k of Mags-RL.

    A box is valid when its corners are in order, it lies inside the image, and it covers less than 40 % of it.
    Choice: a box that repeats an earlier one to the digit is not counted again, or one box written ten times would
    count as ten objects found.

    Args:
        boxes: The model's boxes, in pixels of the image that it was shown.
        width_px: Width of that image.
        height_px: Height of that image.
        max_area: Part of the image that a box stays below, in (0, 1].

    Source: Mags-RL, appendix A.1 (order, 40 %) and B ("validation of coordinates and size limitation").
    """
    return sum(box.is_zoomable(width_px, height_px, max_area=max_area) for box in set(boxes))
