"""Pictures as values: immutable pixels with a content hash, and what tools do with them."""

from __future__ import annotations

import hashlib
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.tools.coordinates import OriginalPixels, PixelRectangle, size_within
from vlm_envs.trajectory import require_image

PixelArray = npt.NDArray[np.uint8]


class ImageRef(Protocol):
    """A picture that is made or read only when somebody looks at it; large ones cost seconds and memory.

    Image references are values: hashable, comparable, small to pickle. A `Picture` is one that is there already.
    """

    @property
    def width(self) -> int:
        """Columns of the original."""
        ...

    @property
    def height(self) -> int:
        """Rows of the original."""
        ...

    @property
    def digest(self) -> str:
        """Names the content; equal for equal content, on every machine."""
        ...

    def __hash__(self) -> int:
        """Returns a hash, the same for equal images."""
        ...

    def picture(self) -> Picture:
        """Returns the pixels, the same at every call; implementations keep the last few they made."""
        ...


class Picture:
    """A picture as a value: its pixels never change, equal pixels are equal pictures, and copies share them.

    Args:
        pixels: uint8[H, W, 3], RGB. Copied unless it is read-only and owns its memory, so a caller cannot change the
            picture afterwards.

    Raises:
        ConfigError: If the array has another type or shape, or no pixels.
    """

    __slots__ = ("_digest", "pixels")
    _digest: str
    pixels: PixelArray

    def __init__(self, pixels: PixelArray) -> None:
        require_image(pixels)
        if pixels.flags.writeable or pixels.base is not None or not pixels.flags.c_contiguous:
            pixels = np.array(pixels, order="C")
            pixels.flags.writeable = False
        object.__setattr__(self, "pixels", pixels)
        object.__setattr__(self, "_digest", "")

    @classmethod
    def from_image(cls, image: Image.Image) -> Picture:
        """Returns a PIL image's pixels in 8 bits a channel; transparent ones lie on white."""
        if image.mode.startswith("I"):  # Pillow would cut 16 bits at 255, which leaves a white picture.
            image = Image.fromarray(np.rint(np.clip(np.asarray(image), 0, 65535) / 257).astype(np.uint8))
        if image.has_transparency_data:
            image = Image.alpha_composite(Image.new("RGBA", image.size, "white"), image.convert("RGBA"))
        return cls(np.asarray(image.convert("RGB")))

    def picture(self) -> Picture:
        """Returns itself."""
        return self

    def image(self) -> Image.Image:
        """Returns a PIL image of its own, free to be changed."""
        return Image.fromarray(self.pixels)

    @property
    def width(self) -> int:
        """Columns."""
        return int(self.pixels.shape[1])

    @property
    def height(self) -> int:
        """Rows."""
        return int(self.pixels.shape[0])

    @property
    def num_pixels(self) -> int:
        """Rows times columns."""
        return self.width * self.height

    @property
    def space(self) -> OriginalPixels:
        """The coordinate space of its pixels."""
        return OriginalPixels(self.width, self.height)

    @property
    def digest(self) -> str:
        """BLAKE2 of size and pixels, 32 hexadecimal digits; the same on every machine. Worked out when first asked."""
        if not self._digest:
            content = hashlib.blake2b(f"{self.width}x{self.height}:".encode(), digest_size=16)
            content.update(self.pixels.data)
            object.__setattr__(self, "_digest", content.hexdigest())
        return self._digest

    def __setattr__(self, name: str, value: Any) -> None:
        raise AttributeError(f"A picture is a value; {name} cannot be set. Make another picture.")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Picture):
            return NotImplemented
        return self is other or (self.pixels.shape == other.pixels.shape and self.digest == other.digest)

    def __hash__(self) -> int:
        return int(self.digest[:15], 16)

    def __reduce__(self) -> tuple[type[Picture], tuple[PixelArray]]:
        return Picture, (self.pixels,)

    def __repr__(self) -> str:
        return f"Picture({self.width} x {self.height})"


def crop(picture: Picture, rectangle: PixelRectangle) -> Picture:
    """Returns the pixels of a rectangle inside a picture."""
    return Picture(picture.pixels[rectangle.top : rectangle.bottom, rectangle.left : rectangle.right])


def resized(picture: Picture, width: int, height: int, resample: Image.Resampling) -> Picture:
    """Returns a picture at another size."""
    if (width, height) == (picture.width, picture.height):
        return picture
    return Picture.from_image(picture.image().resize((width, height), resample))


def within_budget(picture: Picture, max_pixels: int) -> Picture:
    """Returns a picture scaled down, with its shape kept, to at most `max_pixels` pixels."""
    width, height = size_within(picture.width, picture.height, max_pixels)
    return resized(picture, width, height, Image.Resampling.LANCZOS)


def padded(picture: Picture, width: int, height: int) -> Picture:
    """Returns a picture in the top left corner of a black one; its pixels keep their coordinates."""
    down, across = height - picture.height, width - picture.width
    return Picture(np.pad(picture.pixels, ((0, down), (0, across), (0, 0)))) if down or across else picture


def within_long_side(picture: Picture, long_side_px: int) -> Picture:
    """Returns a picture scaled down, with its shape kept, to a longer side of at most `long_side_px`."""
    longest = max(picture.width, picture.height)
    if longest <= long_side_px:
        return picture
    width, height = (max(1, round(side * long_side_px / longest)) for side in (picture.width, picture.height))
    return resized(picture, width, height, Image.Resampling.LANCZOS)


def blank(picture: Picture, width: int, height: int) -> Picture:
    """Returns a picture of one colour, the mean of another picture.

    Args:
        picture: Whose mean colour, each channel rounded to the nearest, halves to even.
        width: In pixels.
        height: In pixels.

    Returns:
        The control picture.
    """
    mean = np.rint(picture.pixels.mean(axis=(0, 1))).astype(np.uint8)
    return Picture(np.broadcast_to(mean, (height, width, 3)))
