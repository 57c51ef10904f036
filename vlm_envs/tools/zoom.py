"""`image_zoom_in_tool`: a region of a stored image, cropped from its original pixels (ARM-Thinker, appendix E).

Choices where the paper is not specific:

- The box is four *integers* from 0 to 1000. The paper requires numeric values in this range and calls them
  integers; a box with fractions of 1 would pass that test and zoom into the top left corner.
- The box is rounded outward to pixels, see `vlm_envs.tools.coordinates`.
- The paper has no limit on the aspect ratio; ours is 100, tested on pixels before the box grows.
- A box that must grow by an odd number of pixels grows one more to the right or downward.
- The paper optionally enlarges "very small" crops; ours are those whose shorter side is under 224 pixels.

Upscalers enlarge a crop. Mags-RL uses a super-resolution agent. The default is Lanczos resampling, which
needs no weights; `agents.perception.super_resolution` has the paper's network, which needs torch, with the
same protocol.
"""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Annotated, Any, ClassVar, Protocol

from PIL import Image

from vlm_envs.tools.coordinates import OriginalPixels, PixelRectangle, Thousandths, check_box, convert, pixel_rectangle
from vlm_envs.tools.pictures import Picture, blank, crop, resized, within_budget
from vlm_envs.tools.tool_arguments import Arguments, Field, WithJsonSchema
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind
from vlm_envs.tools.tool_memory import Memory
from vlm_envs.tools.tool_registry import Tool, ToolOutput
from vlm_envs.validation import require_positive


class Upscaler(Protocol):
    """Enlarges images."""

    @property
    def factor(self) -> int:
        """Factor by which width and height grow."""

    def upscale(self, picture: Picture) -> Picture:
        """Returns an image `factor` times as wide and as high. Never raises for any image."""


@dataclass(frozen=True)
class _Resampling:
    """Enlarges by interpolation.

    Attributes:
        factor: Factor by which width and height grow; at least 1.
    """

    _METHOD: ClassVar[Image.Resampling]
    factor: int = 2

    def __post_init__(self) -> None:
        require_positive("factor", self.factor)

    def upscale(self, picture: Picture) -> Picture:
        """Returns the enlarged image."""
        return resized(picture, picture.width * self.factor, picture.height * self.factor, self._METHOD)


@dataclass(frozen=True)
class LanczosUpscaler(_Resampling):
    """Lanczos resampling; the default super-resolution agent."""

    _METHOD = Image.Resampling.LANCZOS


@dataclass(frozen=True)
class BicubicUpscaler(_Resampling):
    """Bicubic resampling; ARM-Thinker's zoom-in tool."""

    _METHOD = Image.Resampling.BICUBIC


@dataclass(frozen=True, kw_only=True)
class ZoomSettings:
    """Settings for cropping regions.

    Attributes:
        min_side_px: Minimum side to which a region grows (paper: 28, one patch of Qwen2.5-VL).
        max_aspect_ratio: Maximum ratio of the longer to the shorter side of a region.
        upscale_below_px: Crops whose shorter side is smaller are enlarged; 0 for never, None for always.
        upscaler: Enlarges them.
        max_upscaled_pixels: Larger crops are scaled down to this number of pixels before they are enlarged,
            which bounds the cost; None for no limit.
        blank: Whether crops are replaced by a uniform color, a control that shows whether their content
            matters. It is the whole image's mean color, because the crop's own would reveal the color of the
            target.
    """

    min_side_px: int = 28
    max_aspect_ratio: int = 100
    upscale_below_px: int | None = 224
    upscaler: Upscaler = field(default_factory=BicubicUpscaler)
    max_upscaled_pixels: int | None = None
    blank: bool = False

    def __post_init__(self) -> None:
        require_positive("min_side_px", self.min_side_px)
        require_positive("max_aspect_ratio", self.max_aspect_ratio)
        require_positive("upscale_below_px", self.upscale_below_px or 0, minimum=0)
        require_positive("max_upscaled_pixels", 1 if self.max_upscaled_pixels is None else self.max_upscaled_pixels)

    def is_enlarged(self, rectangle: PixelRectangle) -> bool:
        """Returns whether the crop of a region is enlarged."""
        return self.upscale_below_px is None or min(rectangle.width, rectangle.height) < self.upscale_below_px


class ZoomArguments(Arguments):
    """Arguments of `image_zoom_in_tool`."""

    image: Annotated[str, Field(description="Name of a stored image, such as original_image or observation_1.")]
    # The tool validates the box itself, so that each kind of error has its own name
    bbox_2d: Annotated[
        Any,
        WithJsonSchema(
            {
                "type": "array",
                "items": {"type": "integer", "minimum": 0, "maximum": 1000},
                "minItems": 4,
                "maxItems": 4,
                "description": "Region [x1, y1, x2, y2] in thousandths of the image's width and height, x1 < x2 and "
                "y1 < y2; [0, 0, 1000, 1000] is the whole image.",
            }
        ),
    ]


def zoom_rectangle(values: object, space: OriginalPixels, settings: ZoomSettings) -> PixelRectangle:
    """Converts a box to pixels: clamped, not too elongated, grown to the minimum size, inside the image.

    Args:
        values: The box as the model wrote it: [x1, y1, x2, y2], integers from 0 to 1000.
        space: The image's pixels.
        settings: Limits.

    Returns:
        The rectangle.

    Raises:
        ToolError: As `check_box`; `BOX_TOO_ELONGATED`; `BOX_TOO_SMALL` if the image itself is below the
            minimum size.
    """
    touched = pixel_rectangle(convert(check_box(values, Thousandths(), whole=True), space))
    shorter, longer = sorted((touched.width, touched.height))
    if longer > settings.max_aspect_ratio * shorter:
        raise ToolError(
            ToolErrorKind.BOX_TOO_ELONGATED,
            f"The region is {touched.width} x {touched.height} pixels, more than {settings.max_aspect_ratio} times as "
            "long as wide. Ask for a region of more even sides.",
        )
    if min(space.width, space.height) < settings.min_side_px:
        raise ToolError(
            ToolErrorKind.BOX_TOO_SMALL,
            f"The region is {touched.width} x {touched.height} pixels and cannot grow to {settings.min_side_px} a "
            f"side, because the image is {space.width} x {space.height}. Look at the image as it is.",
        )
    return grown(touched, space, settings)


def grown(rectangle: PixelRectangle, space: OriginalPixels, settings: ZoomSettings) -> PixelRectangle:
    """Returns a region enlarged about its center until any model can process it, within the image.

    Image processors reject images more than 200 times as long as wide.

    Args:
        rectangle: The region, inside the image.
        space: The image's pixels.
        settings: Minimum side and maximum aspect ratio.

    Returns:
        The region around it, inside the image.
    """
    longer = max(rectangle.width, rectangle.height)
    minimum = max(settings.min_side_px, math.ceil(longer / settings.max_aspect_ratio))
    left, right = _grown(rectangle.left, rectangle.right, minimum, space.width)
    top, bottom = _grown(rectangle.top, rectangle.bottom, minimum, space.height)
    return PixelRectangle(left, top, right, bottom)


def _grown(start: int, stop: int, minimum: int, limit: int) -> tuple[int, int]:
    """Returns an interval enlarged about its center to at least `minimum` and shifted into [0, limit]."""
    minimum = min(minimum, limit)
    missing = minimum - (stop - start)
    if missing <= 0:
        return start, stop
    start = min(max(start - missing // 2, 0), limit - minimum)
    return start, start + minimum


def zoom(picture: Picture, rectangle: PixelRectangle, settings: ZoomSettings) -> Picture:
    """Crops a region of an image, and enlarges it depending on the settings.

    Args:
        picture: The image.
        rectangle: A region inside it.
        settings: Which crops are enlarged, by which upscaler, and whether they are blanked.
    """
    enlarged = settings.is_enlarged(rectangle)
    cut = crop(picture, rectangle)
    if enlarged and settings.max_upscaled_pixels is not None:
        cut = within_budget(cut, settings.max_upscaled_pixels)
    if settings.blank:
        factor = settings.upscaler.factor if enlarged else 1
        return blank(picture, cut.width * factor, cut.height * factor)
    return settings.upscaler.upscale(cut) if enlarged else cut


def image_zoom_in_tool(settings: ZoomSettings | None = None) -> Tool[ZoomArguments]:
    """Makes the tool.

    Args:
        settings: Settings for cropping regions; by default the paper's and our choices.

    Returns:
        The tool `image_zoom_in_tool(image, bbox_2d)`.
    """
    used = settings or ZoomSettings()

    def run(arguments: ZoomArguments, memory: Memory) -> ToolOutput:
        picture = memory.imgs_map[arguments.image]
        rectangle = zoom_rectangle(arguments.bbox_2d, picture.space, used)
        cut = zoom(picture, rectangle, used)
        return ToolOutput(
            f"The region of {arguments.image} from pixel ({rectangle.left}, {rectangle.top}) to ({rectangle.right}, "
            f"{rectangle.bottom}) of {picture.width} x {picture.height}, shown at {cut.width} x {cut.height} pixels.",
            (cut,),
        )

    return Tool(
        name="image_zoom_in_tool",
        description="Shows a region of an image at full resolution. Use it when something that matters is too small "
        "to be seen in the image as shown.",
        arguments=ZoomArguments,
        run=run,
    )
