"""Images of a dataset: files or cells of a table, read on demand; and placeholders for media in questions."""

from __future__ import annotations

import base64
import binascii
import functools
import hashlib
import importlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from typing import Any, BinaryIO

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.tools.data_files import MAX_FILE_BYTES, BoundedCache, FileRoot, decode_image, image_size
from vlm_envs.tools.pictures import Picture
from vlm_envs.tools.tool_errors import ToolError, ToolErrorKind, quoted

CACHE_BYTES = 256 * 1024 * 1024
"""Maximum bytes of decoded images cached per process."""


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredImage:
    """Location of an image's bytes: a file, or base64 text within one.

    Attributes:
        folder: Folder of the dataset.
        name: File name, relative to the folder.
        start: First byte of the base64 text; -1 if the whole file is the image.
        length: Bytes of the base64 text.
        upright: Whether to apply its EXIF orientation; False if the dataset's boxes refer to the stored
            pixels.
    """

    folder: str
    name: str
    start: int = -1
    length: int = 0
    upright: bool = True

    def read(self) -> bytes:
        """Returns the image's bytes, as encoded.

        Raises:
            ToolError: As `FileRoot.read`; `UNREADABLE_FILE` if the text is not valid base64.
        """
        root = _root(self.folder)
        if self.start < 0:
            return root.read(self.name)
        if self.length > MAX_FILE_BYTES:
            raise ToolError(ToolErrorKind.TOO_LARGE, f"An image of {quoted(self.name)} takes {self.length} bytes.")
        with root.opened(self.name) as file:
            file.seek(self.start)
            return base64_bytes(file.read(self.length), self.name)


@dataclass(frozen=True, kw_only=True, slots=True)
class TableImage:
    """A cell of a parquet table that holds an image: bytes, base64, or a struct with `bytes` of either kind.

    Attributes:
        folder: Folder of the dataset.
        name: Name of the table, relative to the folder.
        group: Row group.
        place: Row in the group.
        column: Name of the column.
        digest: Hash of the cell's content, as stored.
        upright: As in `StoredImage`.
    """

    folder: str
    name: str
    group: int
    place: int
    column: str
    digest: str
    upright: bool = True

    def read(self) -> bytes:
        """Returns the image's bytes, as encoded.

        Raises:
            ToolError: `UNREADABLE_FILE` if the table cannot be read, or the cell contains no image.
        """
        return _table_bytes(self)


@functools.lru_cache(maxsize=4)
def _table_bytes(image: TableImage) -> bytes:
    try:
        value = _cell(image)
    except ConfigError as error:
        raise ToolError(ToolErrorKind.UNREADABLE_FILE, str(error)) from error
    content = image_content(value)
    if isinstance(content, str):
        return base64_bytes(content, image.name)
    if not isinstance(content, bytes):
        expected = f"Expected bytes or base64 in {quoted(image.name)}; got {quoted(value)}."
        raise ToolError(ToolErrorKind.UNREADABLE_FILE, expected)
    return content


def _cell(image: TableImage) -> Any:
    with opened_table(_root(image.folder).opened(image.name), image.name) as table:
        index = image.place
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[image.group], columns=[image.column]):
            if index < batch.num_rows:
                return batch.column(0)[index].as_py()
            index -= batch.num_rows
    raise ConfigError(
        f"{image.name} has no row {image.place} in row group {image.group}. It has changed; reopen the dataset."
    )


@contextmanager
def opened_table(source: AbstractContextManager[BinaryIO], name: str) -> Iterator[Any]:
    """Opens a table as `pyarrow.parquet.ParquetFile`.

    Args:
        source: Its file, as `FileRoot.opened` returns it.
        name: Name of the table, for messages.

    Raises:
        ConfigError: If it is missing or not parquet.
        EngineUnavailableError: If pyarrow is not installed.
    """
    try:
        pyarrow, parquet = (importlib.import_module(module) for module in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise EngineUnavailableError(
            f"Reading {name} needs pyarrow, which cannot be imported ({error}). Install it with "
            f"{install_command('parquet')}, or convert the table to JSON lines."
        ) from error
    try:
        with source as file:
            yield parquet.ParquetFile(file)
    except (pyarrow.ArrowException, ToolError) as error:
        raise ConfigError(f"Cannot read {name}: {error}") from error


_BATCH_ROWS = 16
"""Rows decoded at a time, because the images of a whole row group may not fit into memory."""


def table_rows(root: FileRoot, name: str, *, base64_columns: Sequence[str] = ()) -> Iterator[dict[str, Any]]:
    """Yields the fields of each row of a table; raises as `opened_table`.

    Images are returned as `TableImage`, to save memory: cells with the bytes of an image, and in
    `base64_columns` also cells with text.
    """
    with opened_table(root.opened(name), name) as table:
        for group in range(table.num_row_groups):
            batches = table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group])
            for index, fields in enumerate(row for batch in batches for row in batch.to_pylist()):
                for column, value in fields.items():
                    content = image_content(value)
                    if isinstance(content, str) and content and column in base64_columns:
                        content = content.encode("utf-8", "surrogatepass")
                    if isinstance(content, bytes):
                        fields[column] = TableImage(
                            folder=root.folder,
                            name=name,
                            group=group,
                            place=index,
                            column=column,
                            digest=hashlib.blake2b(content, digest_size=16).hexdigest(),
                        )
                yield fields


IMAGE_COLUMNS = ("image", "images", "image_path")


def row_images(fields: Mapping[str, Any], content: Callable[[Any], Any] | None = None) -> list[Any]:
    """Returns the images of a row in order, converted by `content` or, by default, `image_content`.

    They are in the columns `image`, `images`, and `image_path`, single or as lists. Duplicate columns are
    ignored.
    """
    found: list[Any] = []
    for column in IMAGE_COLUMNS:
        value = fields.get(column)
        images = [(content or image_content)(image) for image in (value if isinstance(value, list) else [value])]
        if value is not None and images not in ([""], found):
            found += images
    return found


def image_content(value: Any) -> Any:
    """Returns the content of an image cell: the value, the only item of a list, or `bytes` or `path` of a struct."""
    if isinstance(value, list) and len(value) == 1:
        (value,) = value
    return (value.get("bytes") or value.get("path")) if isinstance(value, Mapping) else value


def base64_bytes(text: str | bytes, name: str) -> bytes:
    """Decodes base64, with or without a `data:image/…;base64,` prefix.

    Raises:
        ToolError: `UNREADABLE_FILE` if it is not valid base64.
    """
    if isinstance(text, str) and text.startswith("data:"):
        text = text.partition(";base64,")[2]
    try:
        return base64.b64decode(text, validate=True)
    except (binascii.Error, ValueError) as error:
        raise ToolError(ToolErrorKind.UNREADABLE_FILE, f"An image in {quoted(name)} is no base64: {error}.") from error


@dataclass(frozen=True, kw_only=True, slots=True)
class StoredImageRef:
    """A reference to an image of a dataset, with a size and hash that are known before it is decoded.

    Attributes:
        stored: Its location.
        width: Columns, according to its header.
        height: Rows.
        digest: Hash of its encoded bytes.
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
    """Reads an image's bytes and header without decoding it.

    Raises:
        ToolError: If it is missing, not an image, or too large.
    """
    content = stored.read()
    width, height = image_size(content, name=stored.name, upright=stored.upright)
    digest = hashlib.blake2b(content, digest_size=16).hexdigest()
    return StoredImageRef(stored=stored, width=width, height=height, digest=digest)


_pictures: BoundedCache[Picture] = BoundedCache(CACHE_BYTES, size_of=lambda picture: picture.pixels.nbytes)


@functools.lru_cache(maxsize=16)
def _root(folder: str) -> FileRoot:
    return FileRoot(folder, follows_links=True)


_COLUMNS = ("videos", "video", "audios", "audio", "objects")
_GROUNDING_MARKS = ("<ref-object>", "<bbox>")
_MARKS = ("<video>", "<audio>", *_GROUNDING_MARKS)
"""Placeholders that LLaMA-Factory and ms-swift replace."""

IMAGE_MARK = "<image>"
"""Placeholder of an image."""


def without_marks(text: str) -> str:
    """Returns a text without the placeholders of its images."""
    return text.replace(IMAGE_MARK, "").strip()


def media_fault(row: Mapping[str, Any], prompt: str, answers: Iterable[str], num_images: int) -> str:
    """Returns which media of a row with one prompt would be lost, as the end of a sentence; empty if none.

    Args:
        row: The row.
        prompt: Its prompt; it may have fewer image placeholders than images.
        answers: Its answers, which cannot contain images.
        num_images: Number of images.
    """
    answers = tuple(answers)
    if unread := unread_media(row, [prompt], answers):
        return unread
    if any(IMAGE_MARK in answer for answer in answers):
        return f"there is a placeholder {IMAGE_MARK} in an answer"
    count = prompt.count(IMAGE_MARK)
    return f"there are {count} placeholders {IMAGE_MARK} for {num_images} images" if count > num_images else ""


def unread_media(row: Mapping[str, Any], prompts: Iterable[str] = (), answers: Iterable[str] = ()) -> str:
    """Returns which media of a row are not supported, as the end of a sentence; empty for only texts and images.

    Args:
        row: The row; ms-swift puts names and boxes into `objects`.
        prompts: Texts that a model reads. Placeholders in them would be learned literally.
        answers: Texts that a model writes, in which `<video>` and `<audio>` are HTML.
    """
    prompts, answers = tuple(prompts), tuple(answers)
    columns = [name for name in _COLUMNS if _holds(row.get(name))]
    marks = [mark for mark in _MARKS if any(mark in text for text in prompts)]
    marks += [mark for mark in _GROUNDING_MARKS if mark not in marks and any(mark in text for text in answers)]
    found = [*(f"`{name}`" for name in columns), *(f"the placeholder {mark}" for mark in marks)]
    return f"the row has {' and '.join(found)}; only texts and images are read" if found else ""


def _holds(value: Any) -> bool:
    """Returns whether a column has any content; tables fill missing lists with empty ones or None."""
    if isinstance(value, Mapping):
        return any(map(_holds, value.values()))
    return any(map(_holds, value)) if isinstance(value, list | tuple) else bool(value)
