"""HR-Bench and V*Bench: questions about small things in large images."""

from __future__ import annotations

import codecs
import csv
import hashlib
import string
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import StoredImage, TableImage
from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    Row,
    category,
    json_object,
    read_json_file,
    read_rows,
    rows_of,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, PictureRow, Rows
from vlm_envs.tools.data_files import MAX_FILE_BYTES, FileRoot
from vlm_envs.tools.tool_errors import ToolError

_LETTERS = "ABCD"
_NEEDED = ("index", "question", "answer", "category", *_LETTERS, "image")


def _hrbench_rows(copy: Copy) -> Rows:
    """Yields the rows of all tables, and an error if a table cannot be read to its end."""
    for name in copy.files:
        try:
            if name.endswith(".parquet"):
                rows = rows_of(copy.root, name, base64_columns=("image",))
                yield from read_rows(rows, partial(_hrbench_row, copy))
            else:
                yield from read_rows(_hrbench_records(copy.root, name), partial(_hrbench_row, copy))
        except BrokenRowError as error:
            yield error
        except ToolError as error:
            raise ConfigError(f"{name} cannot be read: {error}") from error


def _hrbench_files(root: FileRoot) -> list[str]:
    """Returns the tables without duplicates, since the same rows are published in two formats."""
    tables = root.names(".tsv")
    stems = {name.removesuffix(".tsv") for name in tables}
    return [*tables, *(name for name in root.names(".parquet") if name.removesuffix(".parquet") not in stems)]


def _hrbench_records(root: FileRoot, name: str) -> Iterator[Row | BrokenRowError]:
    """Yields the rows of a table, each with its image, the last column, as a part of the file."""
    lines = _hrbench_lines(root, name)
    for head, _, record in lines:
        columns = _hrbench_cells(head, record.removeprefix(codecs.BOM_UTF8))
        _check_columns(head, columns)
        if columns[-1] != "image":
            head.broken("image as the last column", columns[-1])
        for row, start, line in lines:
            try:
                yield _hrbench_record(root, row, columns, start, line)
            except BrokenRowError as error:
                yield error


def _hrbench_lines(root: FileRoot, name: str) -> Iterator[tuple[Row, int, bytes]]:
    """Yields an empty row, first byte, and text of each record of a table; quoted fields may contain line breaks."""
    with root.opened(name) as file:
        number, start, pending = 0, 0, b""
        for line in file:
            pending += line
            if len(pending) > MAX_FILE_BYTES:
                raise BrokenRowError(
                    f"{name}, row {number}: expected at most {MAX_FILE_BYTES} bytes. Check its quotes; the rows "
                    "after it are not read."
                )
            if pending.count(b'"') % 2 == 0:
                if pending.strip():
                    yield Row({}, f"{name}, row {number}", file=name), start, pending.rstrip(b"\r\n")
                number, start, pending = number + 1, start + len(pending), b""
        if pending.strip():
            Row({}, f"{name}, row {number}").broken("quotes that are closed", pending[:40].decode("utf-8", "replace"))


def _hrbench_cells(row: Row, record: bytes) -> list[str]:
    try:
        return next(csv.reader([record.decode("utf-8")], delimiter="\t"))
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        row.broken("tab-separated UTF-8", str(error))


def _hrbench_record(root: FileRoot, row: Row, columns: list[str], start: int, record: bytes) -> Row:
    head, _, image = record.rpartition(b"\t")
    fields: dict[str, object] = dict(zip(columns, _hrbench_cells(row, head + b"\t"), strict=False))
    if len(fields) < len(columns) or not image:
        row.broken(f"{len(columns)} columns", f"{len(fields)} columns")
    quotes = int(image.startswith(b'"'))
    start += len(head) + 1 + quotes
    fields["image"] = StoredImage(folder=root.folder, name=row.file, start=start, length=len(image) - 2 * quotes)
    fields["digest"] = hashlib.blake2b(image.strip(b'"'), digest_size=16).hexdigest()
    return replace(row, fields=fields)


def _check_columns(row: Row, columns: Sequence[str]) -> None:
    if missing := [column for column in _NEEDED if column not in columns]:
        row.broken(f"the columns {', '.join(_NEEDED)}", f"a table without {', '.join(missing)}")


def _hrbench_row(copy: Copy, row: Row) -> PictureRow:
    _check_columns(row, [*row.fields])
    image = row.fields["image"]
    if not isinstance(image, StoredImage | TableImage):
        row.broken("an image as base64 text", image)
    fields = {name: "" if value is None else str(value) for name, value in row.fields.items() if name != "image"}
    if missing := [column for column in ("question", *_LETTERS) if not fields[column].strip()]:
        row.broken(f"something in column {missing[0]}", fields[missing[0]])
    if not fields["index"].isdecimal():
        row.broken("a whole number as index", fields["index"])
    if fields["answer"].strip() not in tuple(_LETTERS):
        row.broken("A, B, C or D as answer", fields["answer"])
    options = [fields[letter].strip() for letter in _LETTERS]
    return PictureRow(
        key=f"{row.file.rpartition('.')[0]}/{fields['index']}",
        where=row.where,
        split=copy.split_by(image.digest if isinstance(image, TableImage) else fields["digest"]),
        answer=row.answer_key("choice", fields["answer"].strip(), options=options, question=fields["question"].strip()),
        category=category(fields["category"]),
        images=(image,),
    )


HRBENCH = Dataset(
    expected="a folder with hr_bench_4k or hr_bench_8k, as .tsv or .parquet",
    files=_hrbench_files,
    rows=_hrbench_rows,
    is_benchmark=True,
)
"""HR-Bench: questions about images of 4,096 or 7,680 pixels, each in four rotations of its options.

Layout: tables such as `hr_bench_4k.tsv`, tab-separated with a header: `index`, `question`, `answer` (a
letter), `category` (`single` or `cross`), `A` to `D`, `cycle_category`, `image` (base64). A field with tabs,
quotes, or line breaks is quoted as in CSV. The same rows are published as `hr_bench_4k.parquet`, with the
same columns and images as base64 text; such a table is read if there is no `.tsv` with its name, and needs
pyarrow. The whole dataset is an evaluation set, so all of it is `test`; with `is_benchmark=False` it is split
by a hash of the base64 text, and the four rotations of a question stay together. Tables are gigabytes large:
they are read once from end to end. Images are read on demand, which takes longer in parquet because the
preceding images of the row group are read as well.

Not tested on the original data. The parquet columns are those that public readers use.
"""


_VSTAR_KINDS = ("direct_attributes", "relative_position")
_VSTAR_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


def _vstar_files(root: FileRoot) -> list[str]:
    kinds = [kind for kind in _VSTAR_KINDS if Path(root.folder, kind).is_dir()]
    return [f"{kind}/{name}" for kind in kinds for name in FileRoot(Path(root.folder, kind)).names(".json")]


def _vstar_rows(copy: Copy) -> Rows:
    """Yields the rows, one per file."""
    return read_rows((Row({}, name, key=name.removesuffix(".json")) for name in copy.files), partial(_vstar_row, copy))


def _vstar_row(copy: Copy, file: Row) -> PictureRow:
    found = next((file.key + ending for ending in _VSTAR_ENDINGS if copy.has(file.key + ending)), None)
    if found is None:
        file.broken(f"an image {file.key}.jpg next to it", "none")
    stored = copy.image(found)
    try:
        split = copy.whole_split or copy.split_by(stored.read().hex())
        row = Row(json_object(read_json_file(copy.root, file.where), file.where), file.where)
    except (ToolError, ConfigError) as error:
        raise BrokenRowError(f"{file.where}: {error}") from error
    options, names, places = row.texts("options"), row.texts("target_object"), row.fields.get("bbox")
    if not isinstance(places, list) or len(places) != len(names):
        row.broken(f"a box for each of {len(names)} target objects as 'bbox'", places)
    order = _vstar_order(file.key, len(options))
    return PictureRow(
        key=file.key,
        where=row.where,
        split=split,
        answer=row.answer_key(
            "choice",
            string.ascii_uppercase[order.index(0)],
            options=[options[index] for index in order],
            question=row.text("question"),
        ),
        category=file.key.split("/")[0],
        images=(stored,),
        boxes=tuple((name, row.box(column, corners=False)) for name, column in zip(names, places, strict=True)),
        facts=options[0],
    )


def _vstar_order(key: str, count: int) -> Sequence[int]:
    """Returns a permutation that depends only on a key."""
    seed = int.from_bytes(hashlib.blake2b(key.encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little")
    return [int(index) for index in np.random.default_rng(seed).permutation(count)]


VSTAR = Dataset(
    expected=f"a copy of V*Bench with the folders {' and '.join(_VSTAR_KINDS)}",
    files=_vstar_files,
    rows=_vstar_rows,
    is_benchmark=True,
    has_boxes=True,
)
"""V*Bench: small things in large photographs, with their boxes.

Layout: a folder for each kind of question, `direct_attributes` and `relative_position`; in each, for every
image such as `sa_4690.jpg`, a file `sa_4690.json` with `question`, `options` (the first is the right one),
`target_object` (names) and `bbox` (x, y, width, height for each name). The whole dataset is an evaluation
set, so all of it is `test`; with `is_benchmark=False` it is split by a hash of the image's bytes. The options
of each question are shuffled in a fixed order.

Not tested on the original data.
"""
