"""Rows of JSON, CSV, and Parquet tables, validated while they are read: errors name the file and the row."""

from __future__ import annotations

import csv
import difflib
import io
import json
import math
import re
import string
import warnings
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, NoReturn, TypeVar

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import IMAGE_COLUMNS, TableImage, media_fault, row_images, table_rows
from vlm_envs.responses.answers import AnswerKey, AnswerKind, normalise
from vlm_envs.responses.numbers import read_number
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError, quoted

MAX_TABLE_BYTES = 4 * 1024**3
"""Maximum size of a question file; one of GQA has over half a gigabyte."""

Corners = tuple[float, float, float, float]
LabelledBox = tuple[str, Corners]
"""A label and the x1, y1, x2, y2 of its box, in pixels of the original."""

LabelledPoint = tuple[str, tuple[float, float]]
"""A label and the x, y of its point, in pixels of the original."""

Fields = Mapping[str, Any]
RowT = TypeVar("RowT")


class BrokenRowError(ConfigError):
    """A row of a user's file that does not have the layout of its dataset."""


@dataclass(frozen=True, slots=True)
class Row:
    """A row of a file, or an object within one.

    Attributes:
        fields: Its values by name.
        where: Its file and position, for messages.
        number: Its number in the file, from 0.
        file: Name of the file.
        key: Its id among the rows of all files.
    """

    fields: Fields
    where: str
    number: int = 0
    file: str = ""
    key: str = ""

    def fault(self, reason: object) -> NoReturn:
        """Raises the error for a broken row."""
        raise BrokenRowError(f"{self.where}: {str(reason).rstrip('.')}. Correct the row or remove it.")

    def broken(self, expected: str, came: object) -> NoReturn:
        """Raises the error for a value that differs from the expected one."""
        self.fault(f"expected {expected}; got {quoted(came)}")

    def has(self, name: str) -> bool:
        """Returns whether a field is present; tables fill missing ones with None."""
        return self.fields.get(name) is not None

    def get(self, name: str, *kinds: type) -> Any:
        """Returns a field after checking its type; a bool does not count as an int."""
        value = self.fields.get(name)
        if not isinstance(value, kinds) or (isinstance(value, bool) and bool not in kinds):
            self.broken(f"{' or '.join(_KINDS.get(kind, kind.__name__) for kind in kinds)} as {name!r}", value)
        return value

    def raw(self, name: str) -> str:
        """Returns a non-blank text field unchanged."""
        value = self.get(name, str)
        if not value.strip():
            self.broken(f"a text as {name!r}", value)
        return str(value)

    def text(self, name: str) -> str:
        """Returns a non-blank text field without surrounding white space."""
        return self.raw(name).strip()

    def raw_texts(self, name: str, counts: Collection[int] = ()) -> tuple[str, ...]:
        """Returns a list of non-blank texts unchanged: at least one, or one of the given counts."""
        value = self.fields.get(name)
        texts = value if isinstance(value, list | tuple) else ()
        is_counted = len(texts) in counts if counts else bool(texts)
        if not is_counted or not all(isinstance(text, str) and text.strip() for text in texts):
            few = f"{' or '.join(map(str, counts))} " if 0 < len(counts) < 5 else ""
            self.broken(f"a list of {few}texts as {name!r}", value)
        return tuple(texts)

    def texts(self, name: str) -> tuple[str, ...]:
        """Returns a list of at least one non-blank text, without surrounding white space."""
        return tuple(item.strip() for item in self.raw_texts(name))

    def whole(self, name: str) -> int:
        """Returns a field that is an integer of at least 0."""
        value = self.fields.get(name)
        if type(value) is not int or value < 0:
            self.broken(f"a whole number from 0 as {name!r}", value)
        return value

    def one_of(self, name: str, choices: Sequence[str]) -> str:
        """Returns a field that is one of several words; empty if it is missing."""
        value = self.fields.get(name)
        if value is not None and value not in choices:
            self.broken(f"one of {', '.join(choices)} as {name!r}", value)
        return value or ""

    def item(self, value: object, name: str = "") -> Row:
        """Returns an object within the row as a row of its own; `name` identifies it in messages."""
        return Row(json_object(value, where := f"{self.where}, {name}" if name else self.where), where)

    def page_numbers(self, value: object, name: str) -> tuple[int, ...]:
        """Returns a list of page numbers, counted from 1, without duplicates."""
        if not isinstance(value, list) or not all(type(page) is int and page >= 1 for page in value):
            self.broken(f"a list of page numbers from 1 as {name!r}", value)
        return tuple(dict.fromkeys(value))

    def box(self, value: object, *, corners: bool) -> Corners:
        """Returns a box as its corners, given x1, y1, x2, y2 or (without `corners`) x, y, width, height."""
        if not isinstance(value, list | tuple) or len(value) != 4 or not all(map(is_coordinate, value)):
            self.broken("a box of four numbers", value)
        x, y, across, down = map(float, value)
        return (x, y, across, down) if corners else (x, y, x + across, y + down)

    def image(self) -> Any:
        """Returns the only image of the row: its text, bytes, or `TableImage`; None if it has none."""
        images = row_images(self.fields)
        given = {column: self.fields[column] for column in IMAGE_COLUMNS if self.fields.get(column) not in (None, [])}
        if len(images) > 1:
            self.broken("one image", list(given.values()))
        image = images[0] if images else None
        is_blank = isinstance(image, str) and not image.strip()
        if given and (is_blank or not isinstance(image, str | bytes | TableImage)):
            self.broken(f"the name or bytes of an image as {next(iter(given))!r}", next(iter(given.values())))
        return image

    def check_media(self, prompt: str, answers: Iterable[str] = (), num_images: int = 1) -> None:
        """Rejects a row whose media would be lost; see `media_fault`."""
        if fault := media_fault(self.fields, prompt, answers, num_images):
            self.fault(fault)

    def answer_texts(self) -> tuple[str, ...]:
        """Returns the accepted answers, which are texts or numbers, as texts."""
        value: Any = self.fields.get("answer")
        answers = value if isinstance(value, list) else [value]
        if not answers or not all(isinstance(answer, str | int | float) and plain_text(answer) for answer in answers):
            self.broken("a text, a number, or a list of them as 'answer'", value)
        return tuple(map(plain_text, answers))

    def answer_key(
        self,
        kind: AnswerKind,
        *answers: str,
        question: str,
        options: Sequence[str] = (),
        tolerance: float | None = None,
    ) -> AnswerKey:
        """Returns a key; an answer that cannot be matched makes the row broken."""
        try:
            return AnswerKey(kind=kind, answers=answers, options=tuple(options), question=question, tolerance=tolerance)
        except ConfigError as error:
            raise BrokenRowError(f"{self.where}: {error}") from error

    def option_texts(self) -> tuple[str, ...]:
        """Returns the texts of the row's options without their letters; empty if it has no options.

        They are a list in `options` (or a JSON list, in a table cell), or the fields `A`, `B`, and so on of
        `options` or of the row.
        """
        value: Any = self.fields.get("options")
        if isinstance(value, str) and value.lstrip().startswith("["):
            try:
                value = json.loads(value)
            except (ValueError, RecursionError):
                self.broken("a list of texts as 'options'", value)
        if isinstance(value, dict) or value in (None, "", []):
            value = self._lettered_columns(value or self.fields)
        if not isinstance(value, list) or not all(isinstance(option, str | int | float) for option in value):
            self.broken("a list of texts as 'options'", value)
        texts = [plain_text(option) for option in value]
        if len(texts) == 1 or len(texts) > len(string.ascii_uppercase) or not all(texts) or len({*texts}) < len(texts):
            self.broken("2 to 26 different texts as 'options'", value)
        return without_letters(texts) or tuple(texts)

    def _lettered_columns(self, fields: Fields) -> list[Any]:
        """Returns the values of the columns A, B, and so on, up to the last one that has a value."""
        cells = [fields.get(letter) for letter in string.ascii_uppercase]
        values = ["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]
        count = max((index + 1 for index, value in enumerate(values) if value not in (None, "")), default=0)
        if any(value in (None, "") for value in values[:count]):
            self.broken(f"options in all columns from A to {string.ascii_uppercase[count - 1]}", values[:count])
        return values[:count]

    def choice_key(self, answer: str, options: Sequence[str], question: str) -> AnswerKey:
        """Returns the key of a choice whose answer is a letter, the text of an option, or both.

        Lettered lines at the end of the question are removed if they repeat the options.
        """
        asked, stated = split_question(question)
        if len(stated) == len(options) and all(map(_is_same, stated, options)):
            question = asked
        letters = string.ascii_uppercase[: len(options)]
        match = _LETTER.fullmatch(answer.upper())
        if answer not in options and match and (match[1] in letters or not options):
            return self.answer_key("choice", match[1], options=options, question=question)
        tests: tuple[Callable[[str, str], bool], ...] = (
            lambda letter, option: option == answer,
            lambda letter, option: normalise(option) == normalise(answer),
            lambda letter, option: _is_option(answer, letter, option),
        )
        for is_meant in tests:
            if matching := [
                letter for letter, option in zip(letters, options, strict=True) if is_meant(letter, option)
            ]:
                break
        if len(matching) != 1:
            self.broken(f"a letter from A to {letters[-1]} or the text of an option as 'answer'", answer)
        return self.answer_key("choice", matching[0], options=options, question=question)


_KINDS: dict[type, str] = {str: "a text", list: "a list", int: "a number", bool: "true or false"}


def is_coordinate(value: object) -> bool:
    """Returns whether a value is a number in the range of pixel coordinates."""
    return isinstance(value, int | float) and not isinstance(value, bool) and abs(value) < 1e9


def plain_text(value: str | float) -> str:
    """Formats a text or number; a table column with missing numbers holds floats, and NaN for missing ones."""
    if isinstance(value, float) and (value.is_integer() or math.isnan(value)):
        return "" if math.isnan(value) else str(int(value))
    return str(value).strip()


def category(words: str) -> str:
    """Returns words as a category name: lower case with underscores."""
    return re.sub(r"[^a-z0-9]+", "_", words.casefold()).strip("_") or "other"


def read_rows(
    rows: Iterable[Row | BrokenRowError], read: Callable[[Row], RowT | None]
) -> Iterator[RowT | BrokenRowError]:
    """Yields the result of `read` for each row, or the error of a broken row; omits results that are None."""
    for row in rows:
        try:
            made = row if isinstance(row, BrokenRowError) else read(row)
        except BrokenRowError as error:
            made = error
        if made is not None:
            yield made


def rows_of(
    root: FileRoot, file: str, *, under: str | None = None, base64_columns: Sequence[str] = ()
) -> Iterator[Row | BrokenRowError]:
    """Yields the rows of a file, or the error of a broken row.

    Args:
        root: The folder.
        file: Name of the file: `.jsonl` (one object per line; empty lines are skipped), `.parquet`, `.csv`
            (UTF-8, commas, a header), or `.json`.
        under: Key of the list, if a `.json` file contains an object around it.
        base64_columns: Columns of a table whose texts are images.

    Raises:
        ConfigError: If the file as a whole cannot be read.
        EngineUnavailableError: If it is parquet and pyarrow is not installed.
    """
    values: Iterable[tuple[str, Any]]
    if file.lower().endswith(".jsonl"):
        values = numbered_lines(_lines(root, file))
    elif file.lower().endswith(".csv"):
        values = _numbered(_csv_rows(root, file))
    elif file.lower().endswith(".parquet"):
        values = _numbered(table_rows(root, file, base64_columns=base64_columns))
    else:
        values = _numbered(_json_list(root, file, under))
    stem = file.rsplit(".", 1)[0]
    for number, (where_in_file, value) in enumerate(values):
        where = f"{file}, {where_in_file}"
        try:
            yield Row(json_object(value, where), where, number, file, f"{stem}/{number}")
        except BrokenRowError as error:
            yield error


def _numbered(values: Iterable[Any]) -> Iterator[tuple[str, Any]]:
    return ((f"row {number}", value) for number, value in enumerate(values, start=1))


def numbered_lines(lines: Iterable[bytes]) -> Iterator[tuple[str, bytes]]:
    """Yields the non-empty lines, each with its position, such as `line 3`."""
    return ((f"line {number}", line) for number, line in enumerate(lines, start=1) if line.strip())


def json_object(value: object, where: str) -> Fields:
    """Returns a JSON object, given its text or an already parsed value.

    Raises:
        BrokenRowError: If it is not an object.
    """
    came = value
    if isinstance(value, bytes):
        came = value[:60].decode("utf-8", "replace")
        try:
            value = came = json.loads(value)
        except (ValueError, RecursionError):
            value = None
    row = Row({}, where)
    if not isinstance(value, dict):
        row.broken("a JSON object", came)
    if None in value:
        row.broken(f"{len(value) - 1} cells, as in the header", f"{value[None]} after them")
    return value


def read_json_file(root: FileRoot, name: str) -> Any:
    """Parses a JSON file of the user.

    Raises:
        ConfigError: If it cannot be read.
    """
    try:
        return json.loads(root.read(name, max_bytes=MAX_TABLE_BYTES))
    except (ToolError, ValueError, RecursionError) as error:
        raise ConfigError(f"Cannot read {name} as JSON: {error}. Copy the dataset again.") from error


def _json_list(root: FileRoot, file: str, under: str | None) -> list[Any]:
    values = read_json_file(root, file)
    if under is not None:
        values = values.get(under) if isinstance(values, dict) else None
    if not isinstance(values, list):
        expected = "a list of rows" if under is None else f"an object whose {under!r} is a list of rows"
        Row({}, file).broken(expected, values)
    return values


def _csv_rows(root: FileRoot, name: str) -> Iterator[Any]:
    """Yields the non-empty cells of each row by column; the key None holds cells beyond the header."""
    try:
        with root.opened(name) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, strict=True)
            header = table.fieldnames or ()
            if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
                raise ConfigError(
                    f"{name}: the header is a single column {header[0]!r}. Save it with commas as separators."
                )
            for row in table:
                yield {column: value for column, value in row.items() if value}
    except (UnicodeDecodeError, csv.Error, ToolError) as error:
        raise ConfigError(f"Cannot read {name} as CSV: {error}. Save it as UTF-8 with commas as separators.") from error


def _lines(root: FileRoot, name: str) -> Iterator[bytes]:
    try:
        with root.opened(name) as file:
            yield from file
    except ToolError as error:
        raise ConfigError(f"Cannot read {name}: {error}") from error


_CLOSE = 0.8
_LABEL = "category"
"""A column that affects no answer or split, so that a similar name, such as `subcategory`, does not break a row."""


@contextmanager
def checked_columns(names: Sequence[str], other_names: Mapping[str, str], file: str) -> Iterator[Callable[[Row], None]]:
    """Yields a check of the columns of a table's rows; afterwards warns about columns that are ignored.

    Args:
        names: The columns that are read; an empty list disables the check.
        other_names: Names of these columns in other datasets, in lower case.
        file: The table, for messages.
    """
    unread: set[str] = set()

    def check(row: Row) -> None:
        """Rejects a row that lacks a column but has a value under a similar name."""
        if not names:
            return
        given = {name for name, value in row.fields.items() if value not in (None, "", [])}
        for name in sorted(given - {*names}):
            meant = _meant_column(name, names, other_names, has_options={"a", "b"} <= given)
            if meant is not None and meant not in given:
                raise BrokenRowError(f"{row.where}: there is no column {name!r}. Did you mean {meant!r}?")
            unread.add(name)

    yield check
    if unread:
        ignored = ", ".join(map(repr, sorted(unread)))
        warnings.warn(f"{file}: ignored columns: {ignored}. The columns are {', '.join(names)}.", stacklevel=2)


def _meant_column(name: str, names: Sequence[str], other_names: Mapping[str, str], *, has_options: bool) -> str | None:
    plain = name.strip().casefold()
    by_plain = {option.casefold(): option for option in names}
    if len(plain) == 1:  # x or w alone is not an option
        return by_plain.get(plain) if has_options else None
    close = difflib.get_close_matches(plain, [label for label in by_plain if label != _LABEL], n=1, cutoff=_CLOSE)
    return by_plain.get(plain) or other_names.get(plain) or (by_plain[close[0]] if close else None)


_LETTERED = re.compile(r"\s*\(?([A-Z])\s*[.:)]\s*(.*\S)\s*", re.DOTALL)
_BOTH = re.compile(_LETTERED.pattern, re.DOTALL | re.IGNORECASE | re.ASCII)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")
_HEADINGS = ("options:", "choices:")


def _is_option(answer: str, letter: str, text: str) -> bool:
    """Returns whether an answer is an option, optionally preceded by its letter in either case."""
    both = _BOTH.fullmatch(answer)
    return _is_same(answer, text) or (both is not None and both[1].upper() == letter and _is_same(both[2], text))


def _is_same(first: str, second: str) -> bool:
    """Returns whether two texts are the same words or the same number."""
    number = read_number(first)
    return normalise(first) == normalise(second) or (number is not None and number == read_number(second))


def split_question(question: str) -> tuple[str, tuple[str, ...]]:
    """Splits the lettered options at the end of a question from the question."""
    lines = question.strip().splitlines()
    first = next((index for index, line in enumerate(lines) if _LETTERED.fullmatch(line)), len(lines))
    options = without_letters(lines[first:])
    head = lines[:first]
    if head and head[-1].strip().casefold() in _HEADINGS:
        head.pop()
    if len(options) < 2 or not (text := "\n".join(head).strip()):
        return question, ()
    return text, options


def is_letter(answer: str) -> bool:
    """Returns whether an answer is an option letter."""
    return _LETTER.fullmatch(answer) is not None


def without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Removes the letters A, B, and so on from options; returns an empty tuple unless all of them have their letter."""
    matches = [match for option in options if (match := _LETTERED.fullmatch(option))]
    if [match[1] for match in matches] != list(string.ascii_uppercase[: len(options)]):
        return ()
    return tuple(match[2] for match in matches)
