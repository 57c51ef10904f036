"""Rows of a data set, checked while they are read: a broken one is named by its file and its place in it."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeGuard

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.errors import ToolError, quoted
from vlm_envs.tools.files import FileRoot

MAX_TABLE_BYTES = 4 * 1024**3
"""Largest file of questions that is read; one of GQA has over half a gigabyte."""

LabelledBox = tuple[str, tuple[float, float, float, float]]
"""What is in a box, and its x1, y1, x2, y2 in pixels of the original."""

Fields = Mapping[str, Any]


@dataclass(frozen=True, kw_only=True, slots=True)
class Row:
    """One question of a data set, before its image is read.

    Attributes:
        key: What tells it from the others of its data set; one line without colons.
        where: Its file and place, for messages.
        question: What is asked.
        answer: The key.
        category: Kind of question, lower case with underscores.
        images: Where its image may be; the first that exists is it.
        boxes: What it is about in the image.
        facts: True sentences, where the data set has some.
    """

    key: str
    where: str
    question: str
    answer: AnswerKey
    category: str
    images: tuple[StoredImage, ...]
    boxes: tuple[LabelledBox, ...] = ()
    facts: str = ""


class BrokenRowError(ConfigError):
    """A row of a user's file is not what its data set's rows are."""


def broken(where: str, expected: str, came: object) -> BrokenRowError:
    """Returns the error of a broken row."""
    return BrokenRowError(f"{where}: expected {expected}; got {quoted(came)}. Correct the row or remove it.")


def text(fields: Fields, name: str, where: str) -> str:
    """Returns a field that is a text with something in it."""
    value = fields.get(name)
    if not isinstance(value, str) or not value.strip():
        raise broken(where, f"a text as {name!r}", value)
    return value.strip()


def texts(fields: Fields, name: str, where: str) -> tuple[str, ...]:
    """Returns a field that is a list of texts, at least one."""
    value = fields.get(name)
    if not _is_list(value) or not value or not all(isinstance(item, str) and item.strip() for item in value):
        raise broken(where, f"a list of texts as {name!r}", value)
    return tuple(item.strip() for item in value)


def whole(fields: Fields, name: str, where: str) -> int:
    """Returns a field that is a whole number of at least 0."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise broken(where, f"a whole number from 0 as {name!r}", value)
    return value


def box(value: object, where: str, *, corners: bool) -> tuple[float, float, float, float]:
    """Returns a box as its corners.

    Args:
        value: Four numbers: x1, y1, x2, y2, or x, y, width, height.
        where: For messages.
        corners: Whether they are corners.
    """
    numbers: list[float] = []
    if _is_list(value) and len(value) == 4:
        numbers = [float(n) for n in value if isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e9]
    if len(numbers) != 4:
        raise broken(where, "a box of four numbers", value)
    x, y, across, down = numbers
    return (x, y, across, down) if corners else (x, y, x + across, y + down)


def category(words: str) -> str:
    """Returns words as a category: lower case with underscores."""
    return re.sub(r"[^a-z0-9]+", "_", words.casefold()).strip("_") or "other"


def read_json_file(root: FileRoot, name: str) -> Any:
    """Returns what a JSON file of the user holds.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        return json.loads(root.read(name, max_bytes=MAX_TABLE_BYTES))
    except (ToolError, ValueError, RecursionError) as error:
        raise ConfigError(f"{name} cannot be read as JSON: {error}. Copy the data set again.") from error


def read_json_lines(root: FileRoot, name: str) -> Iterator[tuple[str, Fields]]:
    """Yields where each object of a file of JSON lines stands, and the object. Empty lines are left out."""
    for number, line in enumerate(_lines(root, name), start=1):
        if line.strip():
            where = f"{name}, line {number}"
            try:
                value = json.loads(line)
            except (ValueError, RecursionError) as error:
                raise broken(where, "a JSON object", line[:60].decode("utf-8", "replace")) from error
            yield where, objects(value, where)


def read_rows(root: FileRoot, file: str, *, under: str | None = None) -> Iterator[tuple[str, Fields]]:
    """Yields file and place of each row, and the row, of a `.jsonl` file or of a `.json` file that holds a list.

    Args:
        root: The folder.
        file: Name of the file.
        under: Key of the list, where a `.json` file holds an object around it.

    Raises:
        ConfigError: If the file cannot be read, or holds something else.
    """
    if file.endswith(".jsonl"):
        yield from read_json_lines(root, file)
        return
    values = read_json_file(root, file)
    if under is not None:
        values = values.get(under) if isinstance(values, dict) else None
    if not isinstance(values, list):
        raise broken(
            file, "a list of rows" if under is None else f"an object whose {under!r} is a list of rows", values
        )
    for number, value in enumerate(values, start=1):
        where = f"{file}, row {number}"
        yield where, objects(value, where)


def objects(value: object, where: str) -> Fields:
    """Returns a value that is a JSON object."""
    if not isinstance(value, dict):
        raise broken(where, "a JSON object", value)
    return value


def first_file(root: FileRoot, names: Sequence[str]) -> str | None:
    """Returns the first of several names that is a file of the folder."""
    for name in names:
        try:
            with root.opened(name):
                return name
        except ToolError:
            continue
    return None


def _lines(root: FileRoot, name: str) -> Iterator[bytes]:
    try:
        with root.opened(name) as file:
            yield from file
    except ToolError as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)
