"""Pictures in a folder, each once, named by the hash of its file."""

from __future__ import annotations

import hashlib
import io
import re
from pathlib import Path

import numpy as np
import numpy.typing as npt
import PIL
from PIL import Image

from vlm_envs.records.json_lines import TEMPORARY, BrokenRunDataError, MissingRunDataError, replace_file
from vlm_envs.trajectory import require_image


class ImageStore:
    """The folder `images` of a run or a board.

    Args:
        directory: Of the run or the board; made when the first picture is saved.
        sync: Whether what was saved shall also survive the loss of power.
    """

    def __init__(self, directory: Path, *, sync: bool = False) -> None:
        self._folder = directory / "images"
        self._sync = sync

    def save(self, image: npt.NDArray[np.uint8]) -> str:
        """Writes a picture, uint8[H, W, 3], unless it is there already, and returns its name."""
        return self.add(_encoded(image))

    def add(self, png: bytes) -> str:
        """Writes a PNG file as it is unless it is there already, and returns its name."""
        name = hashlib.sha256(png).hexdigest()
        path = self._path(name)
        if not path.exists() or path.stat().st_size != len(png):
            replace_file(path, png, sync=self._sync)
        return name

    def restore(self, name: str, image: npt.NDArray[np.uint8]) -> bytes:
        """Writes an image that is missing, drawn again as uint8[H, W, 3], and returns its PNG file.

        Raises:
            BrokenRunDataError: If its file is not the one that was named; nothing is written.
        """
        png = _encoded(image)
        if hashlib.sha256(png).hexdigest() != name:
            raise BrokenRunDataError(f"the image drawn now, encoded by Pillow {PIL.__version__}, is not {name}")
        replace_file(self._path(name), png)  # without a sync: what is lost once more is drawn once more
        return png

    def clean(self) -> None:
        """Takes away what a kill left half-written. Nobody else may be writing."""
        for path in self._folder.glob(f"*/.*{TEMPORARY}"):
            path.unlink(missing_ok=True)

    def holds(self, name: str) -> bool:
        """Returns whether there is a picture of that name."""
        return self._path(name).is_file()

    def load(self, name: str) -> bytes:
        """Returns the PNG file of a picture.

        Args:
            name: Its SHA-256, as episodes name it.

        Raises:
            MissingRunDataError: If there is no such picture.
            BrokenRunDataError: If the name is none.
        """
        path = self._path(name)
        if not path.is_file():
            raise MissingRunDataError(f"Expected picture {name} at {path}; was the folder copied without images/?")
        return path.read_bytes()

    def _path(self, name: str) -> Path:
        """Returns where a picture lies; a name that is not a hash never becomes a path."""
        if not re.fullmatch(r"[0-9a-f]{64}", name):
            raise BrokenRunDataError(f"A picture is named by 64 hexadecimal digits; got {name!r}.")
        return self._folder / name[:2] / f"{name}.png"


def _encoded(image: npt.NDArray[np.uint8]) -> bytes:
    buffer = io.BytesIO()
    Image.fromarray(require_image(image)).save(buffer, format="PNG")
    return buffer.getvalue()
