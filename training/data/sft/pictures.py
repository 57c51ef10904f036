"""Pictures of data sets in files: looked at once, in the beginning, and loaded when they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt
from PIL import Image, ImageOps

_FORMATS = ("PNG", "JPEG", "WEBP")
_NUM_THREADS = 8
"""That look at pictures side by side: decoding one holds no lock."""


class BrokenPictureError(ValueError):
    """A picture is not there or cannot be read; the message names its file."""


def load_picture(path: Path) -> npt.NDArray[np.uint8]:
    """Returns a picture upright, uint8[height, width, 3]; transparency is dropped.

    Raises:
        BrokenPictureError: If there is none, or it is no whole PNG, JPEG or WebP.
    """
    try:
        with Image.open(path, formats=_FORMATS) as image:
            return np.asarray(ImageOps.exif_transpose(image).convert("RGB"))
    except FileNotFoundError as error:
        raise BrokenPictureError(f"there is no picture {path}") from error
    except (OSError, ValueError, SyntaxError, Image.DecompressionBombError) as error:
        raise BrokenPictureError(f"{path} is no whole PNG, JPEG or WebP picture ({error})") from error


def picture_sizes(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | BrokenPictureError]:
    """Returns height and width of each picture, or what is wrong with it; all of each is decoded."""
    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return dict(zip(distinct, threads.map(_size, distinct), strict=True))


def _size(path: Path) -> tuple[int, int] | BrokenPictureError:
    try:
        height, width = load_picture(path).shape[:2]
    except BrokenPictureError as error:
        return error
    return height, width
