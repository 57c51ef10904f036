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

from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import BrokenRowError, answer_key, broken, category, row_or_error
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.tools.files import MAX_FILE_BYTES, FileRoot

LETTERS = "ABCD"
_NEEDED = ("index", "question", "answer", "category", *LETTERS, "image")


def _rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    """Yields the rows of all tables together, and what is wrong with a table from some row on."""
    for name in copy.files:
        try:
            yield from _of_table(copy, name)
        except BrokenRowError as error:
            yield error


def _of_table(copy: Copy, name: str) -> Iterator[PictureRow | BrokenRowError]:
    columns: list[str] = []
    for number, start, record in _records(copy.root, name):
        if columns:
            yield row_or_error(partial(_row, copy, name, columns, start, record, f"{name}, row {number}"))
        else:
            columns = _columns(record.removeprefix(codecs.BOM_UTF8), name)


def _records(root: FileRoot, name: str) -> Iterator[tuple[int, int, bytes]]:
    """Yields number, first byte and text of each row of a table; quoted fields may hold line breaks."""
    with root.opened(name) as file:
        number, start, pending = 0, 0, b""
        for line in file:
            pending += line
            if len(pending) > MAX_FILE_BYTES:
                raise BrokenRowError(
                    f"{name}, row {number}: expected at most {MAX_FILE_BYTES} bytes. Check its quotes; no row "
                    "behind it is read."
                )
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


def _row(copy: Copy, name: str, columns: list[str], start: int, record: bytes, where: str) -> PictureRow:
    """Returns a row of a table; its image is its last column, and found by its place in the file."""
    head, _, image = record.rpartition(b"\t")
    fields = dict(zip(columns, _fields(head + b"\t", where), strict=False))
    if len(fields) < len(columns) or not image:
        raise broken(where, f"{len(columns)} columns", f"{len(fields)} columns")
    if missing := [column for column in ("question", *LETTERS) if not fields[column].strip()]:
        raise broken(where, f"something in column {missing[0]}", fields[missing[0]])
    if not fields["index"].isdecimal():
        raise broken(where, "a whole number as index", fields["index"])
    if fields["answer"].strip() not in tuple(LETTERS):
        raise broken(where, "A, B, C or D as answer", fields["answer"])
    quotes = 1 if image.startswith(b'"') else 0
    place = start + len(head) + 1 + quotes
    return PictureRow(
        key=f"{name.removesuffix('.tsv')}/{fields['index']}",
        where=where,
        split=copy.split_by(hashlib.blake2b(image.strip(b'"'), digest_size=16).hexdigest()),
        answer=answer_key(
            where,
            "choice",
            fields["answer"].strip(),
            options=[fields[letter].strip() for letter in LETTERS],
            question=fields["question"].strip(),
        ),
        category=category(fields["category"]),
        images=(StoredImage(folder=copy.root.folder, name=name, start=place, length=len(image) - 2 * quotes),),
    )


HRBENCH = Dataset(
    expected="a folder with hr_bench_4k.tsv or hr_bench_8k.tsv",
    files=lambda root: root.names(".tsv"),
    rows=_rows,
    is_benchmark=True,
)
