"""Rows of JSON, CSV, and Parquet tables, checked while they are read: errors name the file and the row."""

from __future__ import annotations

import csv
import difflib
import functools
import importlib
import io
import json
import math
import re
import string
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence, Set
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from typing import Any, BinaryIO, TypeGuard, TypeVar

from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.responses.answers import AnswerKey, AnswerKind, normalise
from vlm_envs.responses.numbers import read_number
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError, quoted

MAX_TABLE_BYTES = 4 * 1024**3
"""Largest file of questions that is read; one of GQA has over half a gigabyte."""

LabelledBox = tuple[str, tuple[float, float, float, float]]
"""What is in a box, and its x1, y1, x2, y2 in pixels of the original."""

LabelledPoint = tuple[str, tuple[float, float]]
"""What is at a point, and its x, y in pixels of the original."""

Fields = Mapping[str, Any]
RowT = TypeVar("RowT")


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


def plain_text(value: str | float) -> str:
    """Returns a text or number as text; a table column with missing numbers holds whole ones as floats, and NaN."""
    if isinstance(value, float) and (value.is_integer() or math.isnan(value)):
        return "" if math.isnan(value) else str(int(value))
    return str(value).strip()


def answer_texts(fields: Fields, where: str) -> tuple[str, ...]:
    """Returns the accepted answers of a row, which are texts or numbers, as texts."""
    value: Any = fields.get("answer")
    answers = value if isinstance(value, list) else [value]
    if not answers or not all(isinstance(answer, str | int | float) and plain_text(answer) for answer in answers):
        raise broken(where, "a text, a number, or a list of them as 'answer'", value)
    return tuple(map(plain_text, answers))


def whole(fields: Fields, name: str, where: str) -> int:
    """Returns a field that is a whole number of at least 0."""
    value = fields.get(name)
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise broken(where, f"a whole number from 0 as {name!r}", value)
    return value


def one_of(fields: Fields, name: str, choices: Sequence[str], where: str) -> str:
    """Returns a field that is one of a few words; empty where it is missing."""
    value = fields.get(name)
    if value is not None and value not in choices:
        raise broken(where, f"one of {', '.join(choices)} as {name!r}", value)
    return "" if value is None else str(value)


def box(value: object, where: str, *, corners: bool) -> tuple[float, float, float, float]:
    """Returns a box as its corners, from four numbers: x1, y1, x2, y2, or (without `corners`) x, y, width, height."""
    numbers: list[float] = []
    if _is_list(value) and len(value) == 4:
        numbers = [float(n) for n in value if isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e9]
    if len(numbers) != 4:
        raise broken(where, "a box of four numbers", value)
    x, y, across, down = numbers
    return (x, y, across, down) if corners else (x, y, x + across, y + down)


def answer_key(
    where: str,
    kind: AnswerKind,
    *answers: str,
    question: str,
    options: Sequence[str] = (),
    tolerance: float | None = None,
) -> AnswerKey:
    """Returns a key; an answer that nothing could equal is the row's fault."""
    try:
        return AnswerKey(kind=kind, answers=answers, options=tuple(options), question=question, tolerance=tolerance)
    except ConfigError as error:
        raise BrokenRowError(f"{where}: {error}") from error


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


def each_row(
    root: FileRoot, file: str, read: Callable[[Fields, str, int], RowT], *, under: str | None = None
) -> Iterator[RowT | BrokenRowError]:
    """Yields what is made of each row of a file; in place of a broken row, what is wrong.

    Args:
        root: The folder.
        file: Name of the file: `.jsonl` (one object per line, empty lines are left out), `.parquet`, `.csv` (UTF-8,
            commas, a header), or `.json`.
        read: Makes something of a row's fields, its file and place, and its number from 0; may raise `BrokenRowError`.
        under: Key of the list, where a `.json` file holds an object around it.

    Raises:
        ConfigError: If the file as a whole cannot be read.
        EngineUnavailableError: If it is parquet and pyarrow is not installed.
    """
    for number, (where, fields) in enumerate(_raw_rows(root, file, under)):
        yield row_or_error(functools.partial(_made, read, fields, where, number))


def _made(read: Callable[[Fields, str, int], RowT], fields: Callable[[], Fields], where: str, number: int) -> RowT:
    return read(fields(), where, number)


def row_or_error(read: Callable[[], RowT]) -> RowT | BrokenRowError:
    """Returns what is made of a row, or what is wrong with it."""
    try:
        return read()
    except BrokenRowError as error:
        return error


def _raw_rows(root: FileRoot, file: str, under: str | None) -> Iterator[tuple[str, Callable[[], Fields]]]:
    """Yields file and place of each row, and what reads it."""
    if file.lower().endswith(".jsonl"):
        for number, line in enumerate(_lines(root, file), start=1):
            if line.strip():
                where = f"{file}, line {number}"
                yield where, functools.partial(_json_object, line, where)
        return
    values: Iterable[Any]
    if is_csv := file.lower().endswith(".csv"):
        values = _csv_rows(root, file)
    elif file.lower().endswith(".parquet"):
        values = (fields for _, _, fields in table_rows(root, file))
    else:
        values = _json_list(root, file, under)
    for number, value in enumerate(values, start=1):
        where = f"{file}, row {number}"
        yield where, functools.partial(_cells if is_csv else objects, value, where)


def _cells(row: Mapping[Any, Any], where: str) -> Fields:
    """Returns a row of a CSV file; refuses one that has more cells than the header."""
    if None in row:
        raise broken(where, f"{len(row) - 1} cells, as the header has", f"{row[None]} behind them")
    return row


def _csv_rows(root: FileRoot, name: str) -> Iterator[Any]:
    """Yields the cells of each row by column, without empty ones; None as a column has further cells."""
    try:
        with root.opened(name) as file, io.TextIOWrapper(file, "utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines, strict=True)
            _require_commas(table.fieldnames or (), name)
            for row in table:
                yield {column: value for column, value in row.items() if value}
    except (UnicodeDecodeError, csv.Error, ToolError) as error:
        if "field limit" in str(error):
            raise ConfigError(
                f"{name} cannot be read as CSV: a cell has more than {csv.field_size_limit()} characters. Close its "
                "quotes, or save the table as JSON lines."
            ) from error
        raise ConfigError(f"{name} cannot be read as CSV: {error}. Save it as UTF-8 with commas.") from error


def _require_commas(header: Sequence[str], name: str) -> None:
    """Raises `ConfigError` for a table whose cells are divided by something else."""
    if len(header) == 1 and (";" in header[0] or "\t" in header[0]):
        raise ConfigError(f"{name}: the header is one column {header[0]!r}. Save it with commas between the columns.")


def _json_list(root: FileRoot, file: str, under: str | None) -> list[Any]:
    values = read_json_file(root, file)
    if under is not None:
        values = values.get(under) if isinstance(values, dict) else None
    if not isinstance(values, list):
        expected = "a list of rows" if under is None else f"an object whose {under!r} is a list of rows"
        raise broken(file, expected, values)
    return values


def json_lines(lines: Iterable[bytes], name: str) -> Iterator[tuple[str, Fields]]:
    """Yields file and place of each row, and the row, of a file with an object a line.

    Args:
        lines: UTF-8; empty ones are left out.
        name: What messages call the file.

    Raises:
        BrokenRowError: If a line is no JSON object.
    """
    for number, line in enumerate(lines, start=1):
        if line.strip():
            where = f"{name}, line {number}"
            yield where, _json_object(line, where)


def _json_object(line: bytes, where: str) -> Fields:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError) as error:
        raise broken(where, "a JSON object", line[:60].decode("utf-8", "replace")) from error
    return objects(value, where)


def objects(value: object, where: str) -> Fields:
    """Returns a value that is a JSON object."""
    if not isinstance(value, dict):
        raise broken(where, "a JSON object", value)
    return value


def _lines(root: FileRoot, name: str) -> Iterator[bytes]:
    try:
        with root.opened(name) as file:
            yield from file
    except ToolError as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


def _is_list(value: Any) -> TypeGuard[Sequence[Any]]:
    return isinstance(value, Sequence) and not isinstance(value, str | bytes | bytearray)


_CLOSE = 0.8
_LABEL = "category"
"""A column whose absence changes no answer or split, so that a similar name, such as `subcategory`, breaks no row."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of one table.

    Attributes:
        names: Those that are read.
        other_names: What other datasets call some of them, in lower case.
        unread: Columns found so far that are neither.
    """

    names: Sequence[str]
    other_names: Mapping[str, str]
    unread: dict[str, None] = field(default_factory=dict)

    def check(self, fields: Fields, where: str) -> None:
        """Raises `BrokenRowError` if a row has a value under a wrong name for a column that it lacks."""
        given = {name for name, value in fields.items() if not _is_empty(value)}
        for name in sorted(given - {*self.names}):
            meant = self._meant(name, given)
            if meant is not None and meant not in given:
                raise BrokenRowError(f"{where}: there is no column {name!r}. Did you mean {meant!r}?")
            self.unread[name] = None

    def _meant(self, name: str, given: Set[str]) -> str | None:
        plain = name.strip().casefold()
        by_plain = {known.casefold(): known for known in self.names}
        if plain in by_plain and (len(plain) > 1 or {"a", "b"} <= given):  # x or w alone is no option
            return by_plain[plain]
        close = difflib.get_close_matches(plain, [known for known in by_plain if known != _LABEL], n=1, cutoff=_CLOSE)
        return self.other_names.get(plain) or (by_plain[close[0]] if close and len(plain) > 1 else None)


@contextmanager
def checked_columns(file: str, names: Sequence[str], other_names: Mapping[str, str]) -> Iterator[Columns]:
    """Yields the check of a table's rows; warns afterwards of columns that are not read."""
    columns = Columns(names=names, other_names=other_names)
    yield columns
    if columns.unread:
        unread = ", ".join(map(repr, sorted(columns.unread)))
        warnings.warn(f"{file}: not read: {unread}. The columns are {', '.join(names)}.", stacklevel=2)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list) and not value)


@contextmanager
def opened_table(source: AbstractContextManager[BinaryIO], name: str) -> Iterator[Any]:
    """Opens a table as `pyarrow.parquet.ParquetFile`.

    Args:
        source: Its file, as `FileRoot.opened` gives it.
        name: What messages call it.

    Raises:
        ConfigError: If it is missing or no parquet.
        EngineUnavailableError: If pyarrow is not installed.
    """
    try:
        pyarrow, parquet = (importlib.import_module(module) for module in ("pyarrow", "pyarrow.parquet"))
    except ImportError as error:
        raise EngineUnavailableError(
            f"Reading {name} needs pyarrow, which cannot be imported ({error}). Install it: "
            f"{install_command('parquet')}; or write the table as JSON lines."
        ) from error
    try:
        with source as file:
            yield parquet.ParquetFile(file)
    except (pyarrow.ArrowException, ToolError) as error:
        raise ConfigError(f"{name} cannot be read: {error}") from error


_BATCH_ROWS = 16
"""Rows decoded at a time: the images of a whole row group can exceed the memory."""


def table_rows(root: FileRoot, name: str) -> Iterator[tuple[int, int, dict[str, Any]]]:
    """Yields row group, index in the group, and fields of each row; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        for group in range(table.num_row_groups):
            batches = table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group])
            for place, fields in enumerate(row for batch in batches for row in batch.to_pylist()):
                yield group, place, fields


def cell(root: FileRoot, name: str, *, group: int, place: int, column: str) -> Any:
    """Returns one value of a table; raises as `opened_table`."""
    with opened_table(root.opened(name), name) as table:
        index = place
        for batch in table.iter_batches(batch_size=_BATCH_ROWS, row_groups=[group], columns=[column]):
            if index < batch.num_rows:
                return batch.column(0)[index].as_py()
            index -= batch.num_rows
    raise ConfigError(f"{name} has no row {place} in its row group {group}. It has changed; open the dataset again.")


_LETTERED = re.compile(r"\s*\(?([A-Z])\s*[.:)]\s*(.*\S)\s*", re.DOTALL)
_BOTH = re.compile(_LETTERED.pattern, re.DOTALL | re.IGNORECASE | re.ASCII)
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")
_HEADINGS = ("options:", "choices:")


def option_texts(fields: Fields, where: str) -> tuple[str, ...]:
    """Returns the texts of a row's options without their letters; none where the row has none.

    They are a list as `options` (or JSON of one, as a cell of a table holds it), or the fields `A`, `B` and so on of
    `options` or of the row.
    """
    value: Any = fields.get("options")
    if isinstance(value, str) and value.lstrip().startswith("["):
        try:
            value = json.loads(value)
        except (ValueError, RecursionError) as error:
            raise broken(where, "a list of texts as 'options'", value) from error
    if isinstance(value, dict) or value in (None, "", []):
        value = _columns(value or fields, where)
    if not isinstance(value, list) or not all(isinstance(option, str | int | float) for option in value):
        raise broken(where, "a list of texts as 'options'", value)
    texts = [plain_text(option) for option in value]
    if len(texts) == 1 or len(texts) > len(string.ascii_uppercase) or not all(texts) or len({*texts}) < len(texts):
        raise broken(where, "2 to 26 different texts as 'options'", value)
    return _without_letters(texts) or tuple(texts)


def choice_key(answer: str, options: Sequence[str], question: str, where: str) -> AnswerKey:
    """Returns the key of a choice, whose answer is a letter, the text of an option, or both.

    Lettered lines at the end of the question that repeat the options are removed from it.
    """
    question = _without_options(question, options)
    letters = string.ascii_uppercase[: len(options)]
    if answer not in options and (match := _LETTER.fullmatch(answer.upper())) and (match[1] in letters or not options):
        return answer_key(where, "choice", match[1], options=options, question=question)
    lettered = [*zip(letters, options, strict=True)]
    matching = [letter for letter, text in lettered if text == answer]
    matching = matching or [letter for letter, text in lettered if normalise(text) == normalise(answer)]
    matching = matching or [letter for letter, text in lettered if _is_option(answer, letter, text)]
    if len(matching) != 1:
        raise broken(where, f"a letter from A to {letters[-1]} or the text of an option as 'answer'", answer)
    return answer_key(where, "choice", matching[0], options=options, question=question)


def _is_option(answer: str, letter: str, text: str) -> bool:
    """Returns whether an answer is an option, or its letter, in either case, and the option."""
    both = _BOTH.fullmatch(answer)
    return _is_same(answer, text) or (both is not None and both[1].upper() == letter and _is_same(both[2], text))


def _without_options(question: str, options: Sequence[str]) -> str:
    asked, stated = split_question(question)
    is_repeated = len(stated) == len(options) and all(map(_is_same, stated, options))
    return asked if is_repeated else question


def _is_same(first: str, second: str) -> bool:
    """Returns whether two texts are the same words or the same number."""
    number = read_number(first)
    return normalise(first) == normalise(second) or (number is not None and number == read_number(second))


def split_question(question: str) -> tuple[str, tuple[str, ...]]:
    """Returns a question without the lettered lines that end it, and the options in these lines."""
    lines = question.strip().splitlines()
    first = next((index for index, line in enumerate(lines) if _LETTERED.fullmatch(line)), len(lines))
    options = _without_letters(lines[first:])
    head = lines[:first]
    if head and head[-1].strip().casefold() in _HEADINGS:
        head.pop()
    if len(options) < 2 or not (text := "\n".join(head).strip()):
        return question, ()
    return text, options


def is_letter(answer: str) -> bool:
    """Returns whether an answer is the letter of an option."""
    return _LETTER.fullmatch(answer) is not None


def _columns(fields: Fields, where: str) -> list[Any]:
    """Returns the values of the columns A, B and so on up to the last one that has a value."""
    cells = [fields.get(letter) for letter in string.ascii_uppercase]
    values = ["" if isinstance(cell, float) and math.isnan(cell) else cell for cell in cells]
    count = max((index + 1 for index, value in enumerate(values) if value not in (None, "")), default=0)
    if any(value in (None, "") for value in values[:count]):
        raise broken(where, f"options in all columns from A to {string.ascii_uppercase[count - 1]}", values[:count])
    return values[:count]


def _without_letters(options: Sequence[str]) -> tuple[str, ...]:
    """Returns options without the letters A, B and so on that they begin with; none if any begins otherwise."""
    matches = [match for option in options if (match := _LETTERED.fullmatch(option))]
    if [match[1] for match in matches] != list(string.ascii_uppercase[: len(options)]):
        return ()
    return tuple(match[2] for match in matches)
