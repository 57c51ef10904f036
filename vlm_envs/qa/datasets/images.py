"""Images of a user's data set: files, or columns of a table; read when somebody looks."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
from dataclasses import dataclass

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
            text = file.read(self.length)
        try:
            return base64.b64decode(text, validate=True)
        except (binascii.Error, ValueError) as error:
            raise ToolError(
                ToolErrorKind.UNREADABLE_FILE, f"An image in {quoted(self.name)} is no base64: {error}."
            ) from error


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredImageRef:
    """A reference to an image of a data set: size and hash are known before it is decoded.

    Attributes:
        stored: Where it is.
        width: Columns, as its header declares.
        height: Rows.
        digest: Hash of its bytes, as encoded.
    """

    stored: StoredImage
    width: int
    height: int
    digest: str

    def picture(self) -> Picture:
        """Returns the decoded image."""
        stored = self.stored
        return _pictures.get(stored, lambda: decode_image(stored.read(), name=stored.name, upright=stored.upright))


def image_ref(stored: StoredImage) -> StoredImageRef:
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
