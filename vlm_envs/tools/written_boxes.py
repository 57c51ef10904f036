"""Boxes as a model writes them, in whatever space it was asked to write.

A box is four numbers x1, y1, x2, y2 with the origin at the top left. A box from a model may hold anything that floats
can be: NaN, 1e30, corners in the wrong order. Such a box is kept as it was written and is not proper; what that means
is the reader's to say. Converting between spaces is `vlm_envs.tools.coordinates`' part.

Source: iVGR, section 3.2 (lenient reading); Mags-RL, appendix A.1 and B (strict reading, validity of zoom boxes).
"""

from __future__ import annotations

import json
import math
import re
from typing import NamedTuple

from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS

MAX_BOXES = 256
"""Boxes read from one text; further ones are ignored, which bounds the time spent on them."""

MAX_COORDINATE = 1e6
"""A box that reaches further in any direction is improper."""

MAX_AREA_FRACTION = 0.4
"""A zoom box must stay below this part of its image; Mags-RL, appendix A.1."""

_MAX_LIST_CHARS = 16_000
_NUMBER = r"([-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|infinity|inf)))"
_GAP = r"\s{0,4}"
_COMMA = rf"(?:{_GAP},{_GAP}|\s{{1,4}})"
_FOUR = rf"{_NUMBER}{_COMMA}{_NUMBER}{_COMMA}{_NUMBER}{_COMMA}{_NUMBER}"
_CORNER = rf"[(\[]{_GAP}{_NUMBER}{_COMMA}{_NUMBER}{_GAP}[)\]]"
_LENIENT = re.compile(rf"[\[(>]{_GAP}{_FOUR}{_GAP}[\])<]|{_CORNER}{_GAP},?{_GAP}{_CORNER}")


class WrittenBox(NamedTuple):
    """A rectangle, as it was written.

    Attributes:
        x1: left side.
        y1: top side.
        x2: right side.
        y2: bottom side.
    """

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def is_proper(self) -> bool:
        """Whether the sides are in order, the area is not 0 and no coordinate is out of this world."""
        return (
            all(math.isfinite(side) and abs(side) <= MAX_COORDINATE for side in self)
            and self.x1 < self.x2
            and self.y1 < self.y2
        )

    @property
    def area(self) -> float:
        """The area; 0 for a box that is not proper."""
        return (self.x2 - self.x1) * (self.y2 - self.y1) if self.is_proper else 0.0

    def is_zoomable(self, width: float, height: float, *, max_area: float = MAX_AREA_FRACTION) -> bool:
        """Returns whether the box is proper, inside a space of this size, and covers less than a part of it, 40 %.

        Source: Mags-RL, appendix A.1 (order, 40 %) and B ("validation of coordinates and size limitation").
        """
        is_inside = self.x1 >= 0 and self.y1 >= 0 and self.x2 <= width and self.y2 <= height
        return self.is_proper and is_inside and self.area < max_area * width * height


def find_boxes(text: str) -> tuple[WrittenBox, ...]:
    """Returns every box in a text, however it is written: the lenient reading of iVGR.

    Read are `[x1, y1, x2, y2]` and `(x1, y1, x2, y2)`, alone, in lists or in tags of any name, four numbers that
    are all of a tag, and two corners `(x1, y1), (x2, y2)`; commas may be missing. NaN and infinities count as
    numbers, so that writing them does not hide a box.

    Args:
        text: The model's own text.

    Returns:
        At most `MAX_BOXES` boxes in order, proper or not; none for a text that is too long.
    """
    if len(text) > MAX_RESPONSE_CHARS:
        return ()
    found: list[WrittenBox] = []
    for match in _LENIENT.finditer(text):
        found.append(WrittenBox(*(float(number) for number in match.groups() if number is not None)))
        if len(found) == MAX_BOXES:
            break
    return tuple(found)


def read_box_list(text: str) -> tuple[WrittenBox, ...] | None:
    """Returns the boxes of a text that is one list of boxes, `[[x1, y1, x2, y2], …]`: the strict reading of Mags-RL.

    Args:
        text: Inside of the model's `<zoom>`.

    Returns:
        The boxes, proper or not; None when the text is anything else, is empty, or lists more than `MAX_BOXES`.
    """
    compact = "".join(text.split()) if len(text) <= _MAX_LIST_CHARS else ""
    # JSON allows more than lists of numbers, and deep nesting would exhaust the stack.
    if not re.fullmatch(r"\[\[[-+.0-9eE,\[\]]*\]\]", compact) or "[[" in compact[1:]:
        return None
    try:
        rows = json.loads(text, parse_int=float)
    except ValueError:
        return None
    if len(rows) > MAX_BOXES or not all(isinstance(row, list) and len(row) == 4 for row in rows):
        return None
    if not all(isinstance(side, float) for row in rows for side in row):
        return None
    return tuple(WrittenBox(*row) for row in rows)
