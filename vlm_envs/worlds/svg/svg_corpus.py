"""Icons from your own data: a folder of .svg files, or a table such as a copy of svg-icons-simple."""

from __future__ import annotations

import csv
import os
import re
from collections.abc import Iterable, Iterator
from functools import lru_cache
from os import PathLike
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import opened_table
from vlm_envs.qa.datasets.dataset_rows import json_object, numbered_lines
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.worlds.svg.svg_markup import MAX_BYTES

COLUMN = "Svg"
"""The table column with the markup; case is ignored."""

_TABLES = (".parquet", ".csv", ".jsonl")
_MAX_FIELD_CHARS = 1 << 30
# Text that drawing programs write before the drawing; a document type with entities stays and is rejected
# later
_PROLOG = re.compile(
    r"\ufeff?\s*(?:<\?xml\b[^>]*\?>\s*)?(?:<!--(?:(?!-->).)*-->\s*)*(?:<!DOCTYPE\b[^>\[]*>\s*)?", re.DOTALL
)
_EXPECTED = (
    f"Expected a folder of .svg files, a .parquet or .csv file with a column {COLUMN!r}, a .jsonl file of objects with "
    f"a key {COLUMN!r}, or a folder of such files"
)


@lru_cache(maxsize=4)
def load_icons(path: str) -> dict[str, tuple[str, ...]]:
    """Returns the icons of a folder or table, by split.

    A hash of its markup decides an icon's split, so copies of an icon are never in two splits. Icons above
    the size limit of a drawing are omitted, and so is everything before `<svg`: XML declaration, comments,
    and a document type. Results are cached in this process.

    Args:
        path: A folder, searched recursively for .svg files and, if it has none, for tables; or a table: a
            `.parquet`, `.csv` or `.jsonl` file with the columns of svg-icons-simple, `Filename` and `Svg`;
            other columns are ignored. UTF-8.

    Returns:
        Markup of each split in a fixed order, without duplicates.

    Raises:
        ConfigError: If the path does not exist, is of another kind, or contains no icons.
        EngineUnavailableError: If a table is parquet and pyarrow is not installed.
    """
    if not isinstance(path, str | PathLike) or not str(path).strip():
        raise ConfigError(f"data must be a path; got {path!r}. {_EXPECTED}.")
    source = Path(os.path.expanduser(path))
    if not source.exists():
        raise ConfigError(f"data={str(path)!r} does not exist. {_EXPECTED}.")
    found = dict.fromkeys(_PROLOG.sub("", text, count=1).strip() for text in _read(source))
    icons: dict[str, list[str]] = {split: [] for split in SPLITS}
    for markup in found:
        if "<svg" in markup and len(markup.encode(errors="replace")) <= MAX_BYTES:
            icons[split_of(markup.encode(errors="replace"))].append(markup)
    if not any(icons.values()):
        raise ConfigError(f"data={str(path)!r} contains no icons of at most {MAX_BYTES} bytes. {_EXPECTED}.")
    return {split: tuple(markups) for split, markups in icons.items()}


def _read(source: Path) -> Iterator[str]:
    """Yields the markup of each icon of a source; its errors name the file."""
    if source.is_dir():
        files = sorted(file for file in source.rglob("*") if file.is_file())
        drawings = [file for file in files if file.suffix.lower() == ".svg"]
        chosen = drawings or [file for file in files if file.suffix.lower() in _TABLES]
    else:
        chosen = [source]
    for file in chosen:
        try:
            yield from _READERS.get(file.suffix.lower(), _read_unknown)(file)
        except (OSError, ValueError, RecursionError, csv.Error) as error:
            if isinstance(error, ConfigError):
                raise
            raise ConfigError(f"Cannot read data={str(file)!r}: {error}. {_EXPECTED}.") from error


def _read_svg(file: Path) -> Iterator[str]:
    yield file.read_text("utf-8-sig")


def _read_csv(file: Path) -> Iterator[str]:
    limit = csv.field_size_limit(_MAX_FIELD_CHARS)  # an oversized drawing must not make the others unreadable
    try:
        with file.open(encoding="utf-8-sig", newline="") as lines:
            table = csv.DictReader(lines)
            column = _column(table.fieldnames or (), file)
            markups = [row[column] or "" for row in table]
    finally:
        csv.field_size_limit(limit)
    yield from markups


def _read_json_lines(file: Path) -> Iterator[str]:
    with file.open("rb") as lines:
        for position, line in numbered_lines(lines):
            row = json_object(line, f"data={str(file)!r}, {position}")
            yield str(row[_column(row, file)])


def _read_parquet(file: Path) -> Iterator[str]:
    with opened_table(file.open("rb"), f"data={str(file)!r}") as table:
        column = _column(table.schema_arrow.names, file)
        yield from (str(value or "") for value in table.read(columns=[column])[column].to_pylist())


def _read_unknown(file: Path) -> Iterator[str]:
    raise ConfigError(f"data={str(file)!r} has the unknown extension {file.suffix!r}. {_EXPECTED}.")


_READERS = {".svg": _read_svg, ".csv": _read_csv, ".jsonl": _read_json_lines, ".parquet": _read_parquet}


def _column(names: Iterable[str], source: Path) -> str:
    """Returns the name of the column with the markup."""
    known = list(names)
    for name in known:
        if str(name).lower() == COLUMN.lower():
            return name
    raise ConfigError(
        f"data={str(source)!r} has no column {COLUMN!r}; its columns: {', '.join(known)[:200] or 'none'}. {_EXPECTED}."
    )
