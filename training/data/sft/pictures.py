"""Images of datasets in files: checked once at the beginning, and loaded when they are shown."""

from __future__ import annotations

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import numpy.typing as npt

from vlm_envs.errors import ConfigError
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError

_NUM_THREADS = 8
"""Threads that check images: decoding holds no lock."""


class BrokenPictureError(ValueError):
    """An image is missing or cannot be read; the message names its file."""


def load_picture(path: Path) -> npt.NDArray[np.uint8]:
    """Returns an image as worlds show it, uint8[height, width, 3]: upright, and transparent pixels on white.

    Raises:
        BrokenPictureError: If it is missing, or no whole image that worlds can read.
    """
    try:
        root = FileRoot(path.parent, follows_links=True)
        if not root.has(path.name):
            raise BrokenPictureError(f"there is no picture {path}")
        return root.picture(path.name).pixels
    except ConfigError as error:
        raise BrokenPictureError(f"there is no picture {path}: {error}") from error
    except ToolError as error:
        raise BrokenPictureError(f"{path} cannot be read: {error}") from error


def picture_sizes(paths: Iterable[Path]) -> dict[Path, tuple[int, int] | BrokenPictureError]:
    """Returns height and width of each image, or what is wrong with it; all of each is decoded."""
    distinct = list(dict.fromkeys(paths))
    with ThreadPoolExecutor(_NUM_THREADS) as threads:
        return dict(zip(distinct, threads.map(_size, distinct), strict=True))


def _size(path: Path) -> tuple[int, int] | BrokenPictureError:
    try:
        height, width = load_picture(path).shape[:2]
    except BrokenPictureError as error:
        return error
    return height, width
