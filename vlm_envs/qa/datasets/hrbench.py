"""HR-Bench: questions about images of 4,096 or 7,680 pixels, each four times with its options turned on by one.

Layout: tables such as `hr_bench_4k.tsv`, tab-separated with a line of names: `index`, `question`, `answer` (a letter),
`category` (`single` or `cross`), `A` to `D`, `cycle_category`, `image` (base64). A field that holds tabs, quotes or
line breaks is quoted as in CSV. All of it is one evaluation set, so it is all `test`; if it is told to be no benchmark,
it is divided by a hash of the base64 text, and the four turns of a question stay together.
Tables have gigabytes: they are read once from end to end, images stay where they are.

Not run on the original data here.
"""

from __future__ import annotations

import codecs
import csv
import hashlib
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.rows import Row, broken, category
from vlm_envs.qa.datasets.table import DatasetSource, Entry, benchmark_split, folder_root
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.files import MAX_FILE_BYTES, FileRoot

NAME = "hrbench"
LETTERS = "ABCD"
_NEEDED = ("index", "question", "answer", "category", *LETTERS, "image")
_EXPECTED = "a folder with hr_bench_4k.tsv or hr_bench_8k.tsv"


def hrbench(folder: str | Path, *, is_benchmark: bool = True) -> DatasetSource:
    """Returns a user's copy of HR-Bench, all tables of a folder together.

    Args:
        folder: The one with the `.tsv` files.
        is_benchmark: Whether all of it is `test`.

    Raises:
        ConfigError: If it is none, or a row of a table is broken.
    """
    root = folder_root(folder, _EXPECTED)
    names = root.names(".tsv")
    if not names:
        raise ConfigError(f"{folder} holds no table. Expected {_EXPECTED}.")
    return DatasetSource(NAME, (entry for name in names for entry in _entries(root, str(folder), name, is_benchmark)))


def _entries(root: FileRoot, folder: str, name: str, is_benchmark: bool) -> Iterator[Entry]:
    """Yields the rows of a table. A row's image is its last column, and found by its place in the file."""
    columns: list[str] = []
    for number, start, record in _records(root, name):
        where = f"{name}, row {number}"
        if not columns:
            columns = _columns(record.removeprefix(codecs.BOM_UTF8), name)
            continue
        head, _, image = record.rpartition(b"\t")
        fields = dict(zip(columns, _fields(head + b"\t", where), strict=False))
        if len(fields) < len(columns) or not image:
            raise broken(where, f"{len(columns)} columns", f"{len(fields)} columns")
        quotes = 1 if image.startswith(b'"') else 0
        stored = StoredImage(
            folder=folder, name=name, start=start + len(head) + 1 + quotes, length=len(image) - 2 * quotes
        )
        key = f"{name.removesuffix('.tsv')}/{fields['index']}"
        split = benchmark_split(is_benchmark, hashlib.blake2b(image.strip(b'"'), digest_size=16).hexdigest())
        yield Entry(key=key, split=split, build=partial(_row, fields, key, where, stored))


def _records(root: FileRoot, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Yields number, first byte and text of each row of a table; quoted fields may hold line breaks."""
    with root.opened(name) as file:
        number, start, pending = 0, 0, b""
        for line in file:
            pending += line
            if len(pending) > MAX_FILE_BYTES:
                raise ConfigError(f"{name}, row {number}: expected at most {MAX_FILE_BYTES} bytes. Check its quotes.")
            if pending.count(b'"') % 2 == 0:
                if pending.strip():
                    yield number, start, pending.rstrip(b"\r\n")
                number, start, pending = number + 1, start + len(pending), b""
        if pending.strip():
            raise broken(f"{name}, row {number}", "quotes that are closed", pending[:40].decode("utf-8", "replace"))


def _columns(record: bytes, name: str) -> list[str]:
    columns = _fields(record, f"{name}, row 0")
    if missing := [column for column in _NEEDED if column not in columns]:
        raise broken(f"{name}, row 0", f"the columns {', '.join(_NEEDED)}", f"none called {', '.join(missing)}")
    if columns[-1] != "image":
        raise broken(f"{name}, row 0", "image as the last column", columns[-1])
    return columns


def _fields(record: bytes, where: str) -> list[str]:
    try:
        return next(csv.reader([record.decode("utf-8")], delimiter="\t"))
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        raise broken(where, "tab-separated UTF-8", str(error)) from error


def _row(fields: dict[str, str], key: str, where: str, stored: StoredImage) -> Row:
    if missing := [name for name in ("question", *LETTERS) if not fields[name].strip()]:
        raise broken(where, f"something in column {missing[0]}", fields[missing[0]])
    if not fields["index"].isdecimal():
        raise broken(where, "a whole number as index", fields["index"])
    if fields["answer"].strip() not in tuple(LETTERS):
        raise broken(where, "A, B, C or D as answer", fields["answer"])
    question = fields["question"].strip()
    return Row(
        key=key,
        where=where,
        question=question,
        answer=AnswerKey(
            kind="choice",
            answers=(fields["answer"].strip(),),
            options=tuple(fields[letter].strip() for letter in LETTERS),
            question=question,
        ),
        category=category(fields["category"]),
        images=(stored,),
    )
