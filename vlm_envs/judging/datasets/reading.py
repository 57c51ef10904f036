"""Rows of a data file, and what is wrong with them in words that name file and row."""

from __future__ import annotations

import base64
import binascii
import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.tools.documents import Document, PdfDocument, PictureDocument
from vlm_envs.tools.errors import ToolError, quoted
from vlm_envs.tools.files import FileRoot, decode_image
from vlm_envs.tools.pictures import Picture

ValueT = TypeVar("ValueT")


@dataclass(frozen=True)
class Row:
    """One row of a file.

    Attributes:
        file: The file's name.
        number: Counted from 1; for `.jsonl` the line.
        values: Its fields.
    """

    file: str
    number: int
    values: Mapping[str, Any]

    def broken(self, reason: str) -> ConfigError:
        """Returns the error that says what is wrong with this row."""
        return ConfigError(f"{self.file}, row {self.number}: {reason}")

    def get(self, field: str, kind: type[ValueT] | tuple[type[ValueT], ...]) -> ValueT:
        """Returns a field.

        Args:
            field: Its name.
            kind: What it must be.

        Raises:
            ConfigError: If it is missing or of another type.
        """
        value = self.values.get(field)
        if field not in self.values:
            raise self.broken(f"the field {field!r} is missing; there are {', '.join(sorted(self.values)) or 'none'}.")
        kinds = kind if isinstance(kind, tuple) else (kind,)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            names = " or ".join(each.__name__ for each in kinds)
            raise self.broken(f"{field!r} must be of type {names}; got {quoted(value)}.")
        return value

    def text(self, field: str) -> str:
        """Returns a field that is a text with something in it.

        Raises:
            ConfigError: If it is missing, blank or no text.
        """
        value = self.get(field, str)
        if not value.strip():
            raise self.broken(f"{field!r} is blank.")
        return value

    def texts(self, field: str, counts: Sequence[int]) -> tuple[str, ...]:
        """Returns a field that is a list of texts.

        Args:
            field: Its name.
            counts: How many texts there may be.

        Raises:
            ConfigError: If it is anything else.
        """
        values = self.get(field, list)
        wanted = " or ".join(map(str, counts))
        if len(values) not in counts or not all(isinstance(value, str) and value.strip() for value in values):
            raise self.broken(f"{field!r} must be a list of {wanted} texts; got {quoted(values)}.")
        return tuple(values)


class DataFolder:
    """A user's copy of a data set.

    Args:
        folder: Where it is.
        name: The data set's name, and that of its file without the ending.

    Raises:
        ConfigError: If there is no such folder, or no such file in it.
    """

    def __init__(self, folder: str | Path, name: str) -> None:
        self.name = name
        self._root = FileRoot(folder)
        known = self._root.names()
        files = [f"{name}{suffix}" for suffix in (".jsonl", ".json") if f"{name}{suffix}" in known]
        if not files:
            found = ", ".join(known[:10]) or "nothing"
            raise ConfigError(f"{folder} has no {name}.jsonl or {name}.json; it has {found}.")
        self.file = files[0]

    def rows(self) -> Iterator[Row]:
        """Yields the rows in order.

        Raises:
            ConfigError: If the file cannot be read, or a row is no JSON object.
        """
        try:
            text = self._root.read(self.file).decode("utf-8-sig")  # Windows begins files with a mark.
        except (ToolError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.file} cannot be read: {error}") from error
        if self.file.endswith(".jsonl"):
            lines = enumerate(text.split("\n"), start=1)
            values = ((number, self._json(line, number)) for number, line in lines if line.strip())
        else:
            listed = self._json(text, 1)
            if not isinstance(listed, list):
                raise ConfigError(f"{self.file} must hold a list of rows; got {quoted(listed)}.")
            values = ((number, value) for number, value in enumerate(listed, start=1))
        for number, value in values:
            if not isinstance(value, dict):
                raise ConfigError(f"{self.file}, row {number}: a row is a JSON object; got {quoted(value)}.")
            yield Row(self.file, number, value)

    def _json(self, text: str, number: int) -> Any:
        try:
            return json.loads(text)
        except (ValueError, RecursionError) as error:
            raise ConfigError(f"{self.file}, row {number}: this is no JSON: {error}.") from error

    def picture(self, image: str, where: str) -> Picture:
        """Returns a row's picture.

        Args:
            image: A file of the folder, or base64 with or without `data:image/…;base64,` before it.
            where: File and row, for messages.

        Raises:
            ConfigError: If there is no such picture in the folder, or it cannot be decoded.
        """
        try:
            if is_file_name(image):
                return self._root.picture(image)
            encoded = image.partition(";base64,")[2] if image.startswith("data:") else image
            return decode_image(base64.b64decode(encoded, validate=True), name=where)
        except (ToolError, binascii.Error, ValueError) as error:
            raise ConfigError(f"{where}: the picture cannot be read: {error}") from error

    def document(self, name: str, pages: Sequence[str], where: str) -> Document:
        """Returns a row's document: a PDF of the folder, or pictures of its pages.

        Raises:
            ConfigError: If it cannot be read.
        """
        try:
            if pages:
                return PictureDocument(name, tuple(self._root.picture(page) for page in pages))
            return PdfDocument(name, self._root.read(name))
        except ToolError as error:
            raise ConfigError(f"{where}: the document cannot be read: {error}") from error


def is_file_name(image: str) -> bool:
    """Returns whether an `image` names a file and is none itself: names have an ending, base64 has no dot."""
    return "." in image and not image.startswith("data:")
