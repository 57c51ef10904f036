"""Images of a user's dataset: files, or cells of a table; read when they are shown."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from dataclasses import dataclass
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.parquet import cell
from vlm_envs.tools.cache import BoundedCache
from vlm_envs.tools.errors import ToolError, ToolErrorKind, quoted
from vlm_envs.tools.files import MAX_FILE_BYTES, FileRoot, decode_image, image_size
from vlm_envs.tools.pictures import Picture

CACHE_BYTES = 256 * 1024 * 1024
"""Most bytes of decoded images that a process keeps."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredImage:
    """Where an image's bytes are: a file, or base64 in a part of one.

    Attributes:
        folder: The data set's.
        name: The file's, relative to the folder.
        start: First byte of the base64 text; -1 where the whole file is the image.
        length: Bytes of the base64 text.
        upright: Whether its EXIF orientation is applied; False where the dataset's boxes refer to the stored pixels.
    """

    folder: str
    name: str
    start: int = -1
    length: int = 0
    upright: bool = True

    def read(self) -> bytes:
        """Returns the image's bytes, as encoded.

        Raises:
            ToolError: As `FileRoot.read`; `UNREADABLE_FILE` if the text is no base64.
        """
        root = _root(self.folder)
        if self.start < 0:
            return root.read(self.name)
        if self.length > MAX_FILE_BYTES:
            raise ToolError(ToolErrorKind.TOO_LARGE, f"An image of {quoted(self.name)} takes {self.length} bytes.")
        with root.opened(self.name) as file:
            file.seek(self.start)
            return _decoded(file.read(self.length), self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableImage:
    """A cell of a parquet table that holds an image, as `image_bytes` reads it.

    Attributes:
        folder: The dataset's.
        name: The table's, relative to the folder.
        group: Row group.
        place: Row in the group.
        column: Name of the column.
        upright: As in `StoredImage`.
    """

    folder: str
    name: str
    group: int
    place: int
    column: str
    upright: bool = True

    def read(self) -> bytes:
        """Returns the image's bytes, as encoded.

        Raises:
            ToolError: `UNREADABLE_FILE` if the table cannot be read, or the cell holds no image.
        """
        return _table_bytes(self)


@functools.lru_cache(maxsize=4)
def _table_bytes(image: TableImage) -> bytes:
    try:
        value = cell(_root(image.folder), image.name, group=image.group, place=image.place, column=image.column)
    except ConfigError as error:
        raise ToolError(ToolErrorKind.UNREADABLE_FILE, str(error)) from error
    return image_bytes(value, image.name)


def image_bytes(value: Any, name: str) -> bytes:
    """Returns the bytes of an image in a table: bytes, base64, or an object with `bytes` of either kind.

    Args:
        value: The cell.
        name: What messages call its file.

    Raises:
        ToolError: `UNREADABLE_FILE` if it is anything else.
    """
    content = value.get("bytes") if isinstance(value, dict) else value
    if isinstance(content, str):
        return _decoded(content.partition(";base64,")[2] if content.startswith("data:") else content, name)
    if not isinstance(content, bytes):
        raise ToolError(
            ToolErrorKind.UNREADABLE_FILE, f"Expected bytes or base64 in {quoted(name)}; got {quoted(value)}."
        )
    return content


def _decoded(text: str | bytes, name: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(ToolErrorKind.UNREADABLE_FILE, f"An image in {quoted(name)} is no base64: {error}.") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredImageRef:
    """A reference to an image of a data set: size and hash are known before it is decoded.

    Attributes:
        stored: Where it is.
        width: Columns, as its header declares.
        height: Rows.
        digest: Hash of its bytes, as encoded.
    """

    stored: StoredImage | TableImage
    width: int
    height: int
    digest: str

    def picture(self) -> Picture:
        """Returns the decoded image."""
        stored = self.stored
        return _pictures.get(stored, lambda: decode_image(stored.read(), name=stored.name, upright=stored.upright))


def image_ref(stored: StoredImage | TableImage) -> StoredImageRef:
    """Reads an image's bytes and header, and decodes nothing.

    Raises:
        ToolError: If it is missing, no image, or too large.
    """
    content = stored.read()
    width, height = image_size(content, name=stored.name, upright=stored.upright)
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return StoredImageRef(stored=stored, width=width, height=height, digest=digest)


_pictures: BoundedCache[Picture] = BoundedCache(CACHE_BYTES, size_of=lambda picture: picture.pixels.nbytes)


@functools.lru_cache(maxsize=16)
def _root(folder: str) -> FileRoot:
    return FileRoot(folder, follows_links=True)
