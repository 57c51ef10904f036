"""Coordinate spaces as types, conversion between them, validity of boxes, and parsing of boxes written by a model.

All spaces are continuous, with the origin at the image's top left corner, x to the right, and y down. The
whole image is the box from (0, 0) to the space's `extent`: a pixel covers the unit square whose top left
corner is its index, so the right and lower edges of a box are exclusive. Conversion is therefore a plain
scaling of each axis.

Rounding happens only where integers are required:

- a box becomes a rectangle of pixels *outward* (floor of x1 and y1, ceiling of x2 and y2), so that it covers
  the whole box; an edge less than `EDGE_TOLERANCE` beyond an integer counts as that integer, because scaling
  by anything but powers of two is inexact;
- a box is rounded outward to integers of its own space in the same way (`outward_whole`);
- a point becomes the index of the pixel that contains it (floor); the far edge belongs to the last pixel.

A written box (`WrittenBox`) is four numbers x1, y1, x2, y2 with the origin at the top left. A box from a
model may contain any floats: NaN, 1e30, corners in the wrong order. Such a box is kept as written and is not
proper; callers decide how to handle it.

Source: iVGR, section 3.2 (lenient reading); Mags-RL, appendix A.1 and B (strict reading, validity of zoom
boxes).
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar, Generic, Literal, NamedTuple, Protocol, TypeVar, get_args

from vlm_envs.errors import ConfigError
from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted

Coordinates = Literal["thousandths", "pixels"]
"""Units that a world may request for boxes and points, overriding the default of its response format."""

COORDINATES: tuple[str, ...] = get_args(Coordinates)

UNRESIZED_PX = 224
"""Multiples of it are multiples of 28 and 32, to which Qwen2.5-VL and Qwen3-VL round sides."""

MIN_UNRESIZED_PIXELS = 2 * UNRESIZED_PX**2
"""Minimum area of an image that no processor enlarges: Qwen3-VL enlarges images below 65,536 pixels."""

_NAMES_PIXELS = re.compile(r"\bin pixels of the \w+ as shown\b")

EDGE_TOLERANCE = 1e-6
"""Distance beyond an integer, in units of the space, at which an edge still counts as that integer."""


class Space(Protocol):
    """A coordinate system for positions in an image."""

    @property
    def width(self) -> float:
        """Position of the right edge, in units of the space."""

    @property
    def height(self) -> float:
        """Position of the lower edge."""

    @property
    def unit(self) -> str:
        """Description of the unit, for messages."""


@dataclass(frozen=True)
class _Pixels:
    """Pixels of an image with a known size."""

    _UNIT: ClassVar[str]
    width: int
    height: int

    def __post_init__(self) -> None:
        for size in (self.width, self.height):
            if isinstance(size, bool) or not isinstance(size, int) or size < 1:
                raise ConfigError(f"The sides of an image must be at least 1 pixel; got {self.width} x {self.height}.")

    @property
    def unit(self) -> str:
        """Description of the unit."""
        return self._UNIT.format(self)


@dataclass(frozen=True)
class OriginalPixels(_Pixels):
    """Pixels of the image as stored."""

    _UNIT = "pixels of the original {0.width} x {0.height} picture"


@dataclass(frozen=True)
class ShownPixels(_Pixels):
    """Pixels of the image as shown to the model, scaled to a budget."""

    _UNIT = "pixels of the {0.width} x {0.height} picture as shown"


@dataclass(frozen=True)
class Thousandths:
    """0 to 1000 along each axis (ARM-Thinker, Qwen-VL)."""

    width: ClassVar[float] = 1000.0
    height: ClassVar[float] = 1000.0
    unit: ClassVar[str] = "thousandths of the picture's sides"


@dataclass(frozen=True)
class Percents:
    """0 to 100 along each axis."""

    width: ClassVar[float] = 100.0
    height: ClassVar[float] = 100.0
    unit: ClassVar[str] = "percents of the picture's sides"


SpaceT = TypeVar("SpaceT", bound=Space)
ToT = TypeVar("ToT", bound=Space)


@dataclass(frozen=True, slots=True)
class Point(Generic[SpaceT]):
    """A position in a space."""

    x: float
    y: float
    space: SpaceT


@dataclass(frozen=True, slots=True)
class Box(Generic[SpaceT]):
    """An axis-aligned rectangle in a space; after validation, x1 < x2 and y1 < y2."""

    x1: float
    y1: float
    x2: float
    y2: float
    space: SpaceT

    def outward_whole(self) -> Box[SpaceT]:
        """Returns the smallest box with integer coordinates that contains this one, at least one unit wide and high."""
        (x1, x2), (y1, y2) = (
            _outwards(self.x1, self.x2, self.space.width),
            _outwards(self.y1, self.y2, self.space.height),
        )
        return replace(self, x1=x1, y1=y1, x2=x2, y2=y2)


@dataclass(frozen=True, slots=True)
class PixelRectangle:
    """A rectangle of pixels: rows `top` to `bottom` and columns `left` to `right`, the latter of each exclusive."""

    left: int
    top: int
    right: int
    bottom: int

    @property
    def width(self) -> int:
        """Columns."""
        return self.right - self.left

    @property
    def height(self) -> int:
        """Rows."""
        return self.bottom - self.top

    def overlap(self, other: PixelRectangle) -> PixelRectangle | None:
        """Returns the intersection, or None if it is empty."""
        left, top = max(self.left, other.left), max(self.top, other.top)
        right, bottom = min(self.right, other.right), min(self.bottom, other.bottom)
        return PixelRectangle(left, top, right, bottom) if left < right and top < bottom else None

    def slices(self, origin: PixelRectangle | None = None) -> tuple[slice, slice]:
        """Returns its row and column slices, relative to an enclosing rectangle or to the image."""
        top, left = (origin.top, origin.left) if origin else (0, 0)
        return slice(self.top - top, self.bottom - top), slice(self.left - left, self.right - left)


def convert(box: Box[SpaceT], to: ToT) -> Box[ToT]:
    """Converts a box to another space of the same image, without rounding.

    Args:
        box: The box.
        to: The target space. For pixels, the caller must ensure that they belong to the same image.

    Returns:
        The same box; `to.width` where the box had its space's width.
    """
    x_from, y_from = box.space.width, box.space.height
    # Multiplication first, so that integers with an integer quotient stay exact
    return Box(
        box.x1 * to.width / x_from, box.y1 * to.height / y_from, box.x2 * to.width / x_from,
        box.y2 * to.height / y_from, to,
    )  # fmt: skip


def convert_point(point: Point[SpaceT], to: ToT) -> Point[ToT]:
    """Converts a point to another space, consistently with `convert`."""
    corner = convert(Box(point.x, point.y, point.x, point.y, point.space), to)
    return Point(corner.x1, corner.y1, to)


def pixel_rectangle(box: Box[OriginalPixels]) -> PixelRectangle:
    """Returns the pixels a box touches, rounded outward and clamped to the image; at least one.

    Args:
        box: A validated box; it may extend beyond the image but must overlap it.
    """
    width, height = box.space.width, box.space.height
    left, top = (_within(_floor(start), 0, size - 1) for start, size in ((box.x1, width), (box.y1, height)))
    return PixelRectangle(
        left, top, _within(_ceiling(box.x2), left + 1, width), _within(_ceiling(box.y2), top + 1, height)
    )


def shown_space(original: OriginalPixels, max_pixels: int) -> ShownPixels:
    """Returns the space of an image scaled down to at most `max_pixels` pixels, with its aspect ratio.

    Sides are rounded down and are at least 1; an image within the budget keeps its size.
    """
    return ShownPixels(*size_within(original.width, original.height, max_pixels))


def size_within(width: int, height: int, max_pixels: int) -> tuple[int, int]:
    """Returns width and height scaled down to at most `max_pixels` pixels, each side rounded down, at least 1.

    Raises:
        ConfigError: If `max_pixels` is less than 1.
    """
    if max_pixels < 1:
        raise ConfigError(f"A pixel budget must be at least 1; got {max_pixels}.")
    if width * height <= max_pixels:
        return width, height
    scale = math.sqrt(max_pixels / (width * height))
    new_width, new_height = max(1, math.floor(width * scale)), max(1, math.floor(height * scale))
    # If the shorter side was raised to one pixel, the longer one alone must not exceed the budget
    return min(new_width, max_pixels), min(new_height, max_pixels)


def unresized_space(original: OriginalPixels, max_pixels: int) -> ShownPixels:
    """Returns the space of an image scaled down until its `padded_size` is within a budget, with its aspect ratio.

    Raises:
        ConfigError: If the budget is below `MIN_UNRESIZED_PIXELS`.
    """
    if max_pixels < MIN_UNRESIZED_PIXELS:
        raise ConfigError(
            f"coordinates='pixels' needs max_pixels of at least {MIN_UNRESIZED_PIXELS} (two squares of {UNRESIZED_PX} "
            f"pixels), so that no image processor resizes images; got {max_pixels}."
        )
    width, height = original.width, original.height
    num_squares = max_pixels // UNRESIZED_PX**2
    if math.prod(padded_size(width, height)) <= max_pixels:
        return ShownPixels(width, height)
    fitted = (_fitted(width, height, columns, num_squares // columns) for columns in range(1, num_squares + 1))
    return ShownPixels(*max(fitted, key=math.prod))


def _fitted(width: int, height: int, columns: int, rows: int) -> tuple[int, int]:
    """Scales width and height, keeping their ratio, to fill a rectangle of squares in one direction."""
    most_across, most_down = columns * UNRESIZED_PX, rows * UNRESIZED_PX
    if height * most_across <= width * most_down:
        return most_across, max(1, height * most_across // width)
    return max(1, width * most_down // height), most_down


def padded_size(width: int, height: int) -> tuple[int, int]:
    """Rounds width and height up to a size that no supported image processor changes."""
    columns, rows = (-(-side // UNRESIZED_PX) for side in (width, height))
    if columns * rows == 1:
        columns, rows = (2, 1) if width >= height else (1, 2)
    return columns * UNRESIZED_PX, rows * UNRESIZED_PX


def names_pixels(text: str) -> bool:
    """Returns whether a prompt requests boxes or points in pixels of an image as shown."""
    return _NAMES_PIXELS.search(text) is not None


def written_extent(state: Mapping[str, Any]) -> tuple[float, float] | None:
    """Returns the size of the first image in the units of the model's coordinates.

    Args:
        state: `info["state"]` of a question-answering world, recorded by any version.

    Returns:
        Width and height; None without an image or for an unknown state.
    """
    if state.get("coordinates") == "thousandths":
        return Thousandths.width, Thousandths.height
    if state.get("strategy") == "points" and state.get("coordinates") is None:
        return Percents.width, Percents.height
    size = state.get("shown_size")
    return (size[0], size[1]) if isinstance(size, list) and len(size) == 2 and all(size) else None


def check_box(values: object, space: SpaceT, *, whole: bool = False) -> Box[SpaceT]:
    """Validates an untrusted box.

    Args:
        values: Any value; expected is a sequence of four numbers x1, y1, x2, y2.
        space: Space of the numbers.
        whole: Whether only integers are accepted; 500.0 is one.

    Returns:
        A box inside the space with x1 < x2 and y1 < y2.

    Raises:
        ToolError: `BOX_NOT_FOUR_NUMBERS`, `BOX_NOT_FINITE` (NaN, infinity), `BOX_OUT_OF_RANGE`,
            `BOX_NOT_WHOLE_NUMBERS` or `BOX_REVERSED`, tested in this order.
    """
    x1, y1, x2, y2 = _four_finite_numbers(values)
    numbers = (x1, y1, x2, y2)
    if not all(0 <= number <= limit for number, limit in zip(numbers, (space.width, space.height) * 2, strict=True)):
        raise ToolError(
            ToolErrorKind.BOX_OUT_OF_RANGE,
            f"A box is written in {space.unit}: x from 0 to {space.width:g}, y from 0 to {space.height:g}; "
            f"got {quoted(values)}.",
        )
    if whole and not all(float(number).is_integer() for number in numbers):
        raise ToolError(
            ToolErrorKind.BOX_NOT_WHOLE_NUMBERS,
            f"A box here is four whole numbers, in {space.unit} (0 to {space.width:g}); got {quoted(values)}.",
        )
    if x1 >= x2 or y1 >= y2:
        raise ToolError(
            ToolErrorKind.BOX_REVERSED,
            f"A box is [x1, y1, x2, y2] with x1 < x2 and y1 < y2; got {quoted(values)}.",
        )
    return Box(float(x1), float(y1), float(x2), float(y2), space)


def _four_finite_numbers(values: object) -> Sequence[float]:
    """Returns the four numbers unconverted, because a huge integer has no float."""
    numbers: list[Any] = []
    if isinstance(values, Sequence) and not isinstance(values, str | bytes | bytearray) and len(values) == 4:
        numbers = list(values)
    if not numbers or any(isinstance(number, bool) or not isinstance(number, int | float) for number in numbers):
        raise ToolError(
            ToolErrorKind.BOX_NOT_FOUR_NUMBERS, f"A box is four numbers [x1, y1, x2, y2]; got {_shape_of(values)}."
        )
    if any(isinstance(number, float) and not math.isfinite(number) for number in numbers):
        raise ToolError(ToolErrorKind.BOX_NOT_FINITE, f"The numbers of a box must be finite; got {quoted(values)}.")
    return numbers


def _shape_of(values: object) -> str:
    """Returns a value for a message; a long sequence is replaced by its length."""
    if isinstance(values, Sequence) and not isinstance(values, str) and len(values) > 8:
        return f"{len(values)} values"
    return quoted(values)


def _outwards(start: float, stop: float, size: float) -> tuple[int, int]:
    """Rounds an interval outward to integers, at least one unit apart."""
    first, last = _floor(start), _ceiling(stop)
    if last > first:
        return first, last
    return (first, first + 1) if first + 1 <= size else (first - 1, first)


def _floor(value: float) -> int:
    return math.floor(value + EDGE_TOLERANCE)


def _ceiling(value: float) -> int:
    return math.ceil(value - EDGE_TOLERANCE)


def _within(value: int, low: int, high: int) -> int:
    return min(max(value, low), high)


MAX_BOXES = 256
"""Maximum number of boxes parsed from a text; further ones are ignored, which bounds the time."""

MAX_COORDINATE = 1e6
"""A box with a larger coordinate is improper."""

MAX_AREA_FRACTION = 0.4
"""Exclusive limit on the area of a zoom box, relative to its image; Mags-RL, appendix A.1."""

_MAX_LIST_CHARS = 16_000
_NUMBER = r"([-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|infinity|inf)))"
_GAP = r"\s{0,4}"
_COMMA = rf"(?:{_GAP},{_GAP}|\s{{1,4}})"
_FOUR = rf"{_NUMBER}{_COMMA}{_NUMBER}{_COMMA}{_NUMBER}{_COMMA}{_NUMBER}"
_CORNER = rf"[(\[]{_GAP}{_NUMBER}{_COMMA}{_NUMBER}{_GAP}[)\]]"
_LENIENT = re.compile(rf"[\[(>]{_GAP}{_FOUR}{_GAP}[\])<]|{_CORNER}{_GAP},?{_GAP}{_CORNER}")


class WrittenBox(NamedTuple):
    """A rectangle as written.

    Attributes:
        x1: Left side.
        y1: Top side.
        x2: Right side.
        y2: Bottom side.
    """

    x1: float
    y1: float
    x2: float
    y2: float

    @property
    def is_proper(self) -> bool:
        """Whether all sides are finite and in order, the area is positive, and no coordinate is too large."""
        return (
            all(math.isfinite(side) and abs(side) <= MAX_COORDINATE for side in self)
            and self.x1 < self.x2
            and self.y1 < self.y2
        )

    @property
    def area(self) -> float:
        """The area; 0 for an improper box."""
        return (self.x2 - self.x1) * (self.y2 - self.y1) if self.is_proper else 0.0

    def is_zoomable(self, width: float, height: float, *, max_area: float = MAX_AREA_FRACTION) -> bool:
        """Returns whether the box is proper, inside a space of this size, and covers less than a fraction of it.

        Source: Mags-RL, appendix A.1 (order, 40 %) and B ("validation of coordinates and size limitation").
        """
        is_inside = self.x1 >= 0 and self.y1 >= 0 and self.x2 <= width and self.y2 <= height
        return self.is_proper and is_inside and self.area < max_area * width * height


def find_boxes(text: str) -> tuple[WrittenBox, ...]:
    """Returns every box in a text, in any notation: the lenient reading of iVGR.

    Accepted are `[x1, y1, x2, y2]` and `(x1, y1, x2, y2)`, alone, in lists, or in tags of any name; four
    numbers that make up a whole tag; and two corners `(x1, y1), (x2, y2)`; commas are optional. NaN and
    infinities count as numbers, so that they cannot hide a box.

    Args:
        text: The model's own text.

    Returns:
        At most `MAX_BOXES` boxes in order, proper or not; empty for a text that is too long.
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
    """Parses a text that is a single list of boxes, `[[x1, y1, x2, y2], …]`: the strict reading of Mags-RL.

    Args:
        text: Content of the model's `<zoom>`.

    Returns:
        The boxes, proper or not; None if the text is anything else, is empty, or lists more than `MAX_BOXES`.
    """
    compact = "".join(text.split()) if len(text) <= _MAX_LIST_CHARS else ""
    # JSON allows more than lists of numbers, and deep nesting would exhaust the stack
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
