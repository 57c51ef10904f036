"""HR-Bench and V*Bench: questions about small things in large images."""

from __future__ import annotations

import codecs
import csv
import hashlib
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import StoredImage, TableImage, image_content, table_image
from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    Fields,
    answer_key,
    box,
    broken,
    category,
    objects,
    read_json_file,
    row_or_error,
    table_rows,
    text,
    texts,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, PictureRow
from vlm_envs.tools.data_files import MAX_FILE_BYTES, FileRoot
from vlm_envs.tools.tool_errors import ToolError

_HRBENCH_LETTERS = "ABCD"
_HRBENCH_NEEDED = ("index", "question", "answer", "category", *_HRBENCH_LETTERS, "image")


def _hrbench_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    """Yields the rows of all tables together, and what is wrong with a table from some row on."""
    for name in copy.files:
        try:
            yield from (_hrbench_parquet_rows if name.endswith(".parquet") else _hrbench_tsv_rows)(copy, name)
        except BrokenRowError as error:
            yield error
        except ToolError as error:
            raise ConfigError(f"{name} cannot be read: {error}") from error


def _hrbench_files(root: FileRoot) -> list[str]:
    """Returns the tables, each once: the same rows are published in two formats."""
    tables = root.names(".tsv")
    stems = {name.removesuffix(".tsv") for name in tables}
    return [*tables, *(name for name in root.names(".parquet") if name.removesuffix(".parquet") not in stems)]


def _hrbench_parquet_rows(copy: Copy, name: str) -> Iterator[PictureRow | BrokenRowError]:
    for number, (group, place, fields) in enumerate(table_rows(copy.root, name), start=1):
        stored = partial(table_image, copy.root, name, group, place, "image")
        yield row_or_error(partial(_hrbench_parquet_row, copy, fields, stored, f"{name}, row {number}"))


def _hrbench_parquet_row(
    copy: Copy, fields: Fields, stored: Callable[[str | bytes], TableImage], where: str
) -> PictureRow:
    """Returns a row of a table; `stored` returns where the content of its image is."""
    if missing := [column for column in _HRBENCH_NEEDED if column not in fields]:
        raise broken(where, f"the columns {', '.join(_HRBENCH_NEEDED)}", f"none called {', '.join(missing)}")
    content = image_content(fields["image"])
    if not isinstance(content, str | bytes) or not content:
        raise broken(where, "an image as base64 text", fields["image"])
    texts = {column: "" if (value := fields[column]) is None else str(value) for column in _HRBENCH_NEEDED[:-1]}
    image = stored(content)
    return _hrbench_row(
        copy, texts, image, image.digest, f"{image.name.removesuffix('.parquet')}/{texts['index']}", where
    )


def _hrbench_tsv_rows(copy: Copy, name: str) -> Iterator[PictureRow | BrokenRowError]:
    columns: list[str] = []
    for number, start, record in _hrbench_records(copy.root, name):
        if columns:
            yield row_or_error(partial(_hrbench_tsv_row, copy, name, columns, start, record, f"{name}, row {number}"))
        else:
            columns = _hrbench_columns(record.removeprefix(codecs.BOM_UTF8), name)


def _hrbench_records(root: FileRoot, name: str) -> Iterator[tuple[int, int, bytes]]:
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


def _hrbench_columns(record: bytes, name: str) -> list[str]:
    columns = _hrbench_fields(record, f"{name}, row 0")
    if missing := [column for column in _HRBENCH_NEEDED if column not in columns]:
        raise broken(f"{name}, row 0", f"the columns {', '.join(_HRBENCH_NEEDED)}", f"none called {', '.join(missing)}")
    if columns[-1] != "image":
        raise broken(f"{name}, row 0", "image as the last column", columns[-1])
    return columns


def _hrbench_fields(record: bytes, where: str) -> list[str]:
    try:
        return next(csv.reader([record.decode("utf-8")], delimiter="\t"))
    except (UnicodeDecodeError, csv.Error, StopIteration) as error:
        raise broken(where, "tab-separated UTF-8", str(error)) from error


def _hrbench_tsv_row(copy: Copy, name: str, columns: list[str], start: int, record: bytes, where: str) -> PictureRow:
    """Returns a row of a table; its image is its last column, and found by its place in the file."""
    head, _, image = record.rpartition(b"\t")
    fields = dict(zip(columns, _hrbench_fields(head + b"\t", where), strict=False))
    if len(fields) < len(columns) or not image:
        raise broken(where, f"{len(columns)} columns", f"{len(fields)} columns")
    quotes = 1 if image.startswith(b'"') else 0
    place = start + len(head) + 1 + quotes
    stored = StoredImage(folder=copy.root.folder, name=name, start=place, length=len(image) - 2 * quotes)
    digest = hashlib.blake2b(image.strip(b'"'), digest_size=16).hexdigest()
    return _hrbench_row(copy, fields, stored, digest, f"{name.removesuffix('.tsv')}/{fields['index']}", where)


def _hrbench_row(
    copy: Copy, fields: Mapping[str, str], image: StoredImage | TableImage, digest: str, key: str, where: str
) -> PictureRow:
    """Returns a row; `digest` is of the base64 text of its image."""
    if missing := [column for column in ("question", *_HRBENCH_LETTERS) if not fields[column].strip()]:
        raise broken(where, f"something in column {missing[0]}", fields[missing[0]])
    if not fields["index"].isdecimal():
        raise broken(where, "a whole number as index", fields["index"])
    if fields["answer"].strip() not in tuple(_HRBENCH_LETTERS):
        raise broken(where, "A, B, C or D as answer", fields["answer"])
    return PictureRow(
        key=key,
        where=where,
        split=copy.split_by(digest),
        answer=answer_key(
            where,
            "choice",
            fields["answer"].strip(),
            options=[fields[letter].strip() for letter in _HRBENCH_LETTERS],
            question=fields["question"].strip(),
        ),
        category=category(fields["category"]),
        images=(image,),
    )


HRBENCH = Dataset(
    expected="a folder with hr_bench_4k or hr_bench_8k, as .tsv or .parquet",
    files=_hrbench_files,
    rows=_hrbench_rows,
    is_benchmark=True,
)
"""HR-Bench: questions about images of 4,096 or 7,680 pixels, each four times with its options turned on by one.

Layout: tables such as `hr_bench_4k.tsv`, tab-separated with a line of names: `index`, `question`, `answer` (a letter),
`category` (`single` or `cross`), `A` to `D`, `cycle_category`, `image` (base64). A field that holds tabs, quotes or
line breaks is quoted as in CSV. The same rows are published as `hr_bench_4k.parquet`, with the same columns and the
images as base64 text, too; such a table is read where there is no `.tsv` of its name, and needs pyarrow. All of it is
one evaluation set, so it is all `test`; with `is_benchmark=False` it is divided by a hash of the base64 text, and the
four turns of a question stay together. Tables have gigabytes: they are read once from end to end, and images when they
are shown, in parquet after those before them in their row group, which takes longer.

Not run on the original data here. The parquet's columns are those that public readers of it use.
"""


_VSTAR_KINDS = ("direct_attributes", "relative_position")
_VSTAR_ENDINGS = (".jpg", ".jpeg", ".png", ".webp")


def _vstar_files(root: FileRoot) -> list[str]:
    kinds = [kind for kind in _VSTAR_KINDS if Path(root.folder, kind).is_dir()]
    return [f"{kind}/{name}" for kind in kinds for name in FileRoot(Path(root.folder, kind)).names(".json")]


def _vstar_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    return (row_or_error(partial(_vstar_of_file, copy, name)) for name in copy.files)


def _vstar_of_file(copy: Copy, name: str) -> PictureRow:
    """Returns the row that a file is."""
    key = name.removesuffix(".json")
    stored = _vstar_image(copy, key, name)
    try:
        split = copy.whole_split or copy.split_by(stored.read().hex())
        fields = objects(read_json_file(copy.root, name), name)
    except (ToolError, ConfigError) as error:
        raise BrokenRowError(f"{name}: {error}") from error
    return _vstar_row(fields, stored, name, key=key, split=split)


def _vstar_image(copy: Copy, stem: str, where: str) -> StoredImage:
    """Returns the image beside a file, whichever of the endings it has."""
    for ending in _VSTAR_ENDINGS:
        if copy.has(stem + ending):
            return copy.image(stem + ending)
    raise broken(where, f"an image {stem}.jpg beside it", "none")


def _vstar_row(fields: Fields, stored: StoredImage, where: str, *, key: str, split: str) -> PictureRow:
    options, names, places = texts(fields, "options", where), texts(fields, "target_object", where), fields.get("bbox")
    if not isinstance(places, list) or len(places) != len(names):
        raise broken(where, f"a box for each of {len(names)} target objects as 'bbox'", places)
    order = _vstar_order(key, len(options))
    return PictureRow(
        key=key,
        where=where,
        split=split,
        answer=answer_key(
            where,
            "choice",
            string.ascii_uppercase[order.index(0)],
            options=[options[index] for index in order],
            question=text(fields, "question", where),
        ),
        category=key.split("/")[0],
        images=(stored,),
        boxes=tuple((name, box(place, where, corners=False)) for name, place in zip(names, places, strict=True)),
        facts=options[0],
    )


def _vstar_order(key: str, count: int) -> Sequence[int]:
    """Returns an order of things that depends on a key alone."""
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

Layout: a folder for each kind of question, `direct_attributes` and `relative_position`; in each, for every image such
as `sa_4690.jpg`, a file `sa_4690.json` with `question`, `options` (the first is the right one), `target_object` (names)
and `bbox` (x, y, width, height for each name). All of it is one evaluation set, so it is all `test`; told that it is no
benchmark, it is divided by a hash of the image's bytes. The options are shuffled, for each question in its own fixed
order.

Not run on the original data here.
"""
