"""PixMo-Count: how many things of a kind are there in a photograph from the web, with a point on each?"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import (
    BrokenRowError,
    Fields,
    LabelledPoint,
    answer_key,
    broken,
    each_row,
    text,
    whole,
)
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.tools.files import FileRoot

_PIXMO_SPLITS = {"train": "train", "validation": "val", "test": "test"}
_PIXMO_ENDINGS = (".jpg", ".jpeg", ".png", ".webp", "")


def _pixmo_files(root: FileRoot) -> list[str]:
    below = FileRoot(data) if (data := Path(root.folder, "data")).is_dir() else None
    names = [*_pixmo_tables(root), *(f"data/{name}" for name in (_pixmo_tables(below) if below else ()))]
    return [name for name in names if _pixmo_split(name) in _PIXMO_SPLITS]


def _pixmo_tables(root: FileRoot) -> list[str]:
    return sorted([*root.names(".parquet"), *root.names(".jsonl")])


def _pixmo_split(name: str) -> str:
    """Returns what the name of a file begins with, such as `validation`."""
    return PurePosixPath(name).name.split("-")[0].split(".")[0]


def _pixmo_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    for name in copy.files:
        stem, split = name.rsplit(".", 1)[0], _PIXMO_SPLITS[_pixmo_split(name)]

        def row(fields: Fields, where: str, number: int, stem: str = stem, split: str = split) -> PictureRow:
            return _pixmo_row(copy, fields, where, key=f"{stem}/{number}", split=split)

        yield from each_row(copy.root, name, row)


def _pixmo_row(copy: Copy, fields: Fields, where: str, *, key: str, split: str) -> PictureRow:
    label, count = text(fields, "label", where), whole(fields, "count", where)
    question = f"How many {label} are there in the picture?"
    return PictureRow(
        key=key,
        where=where,
        split=split,
        answer=answer_key(where, "number", str(count), question=question),
        category="count",
        images=(_pixmo_image(copy, fields, where),),
        points=_pixmo_points(fields, label, where),
        facts=f"Number of {label} in the picture: {count}.",
    )


def _pixmo_image(copy: Copy, fields: Fields, where: str) -> StoredImage:
    if fields.get("image") is not None:
        names = [text(fields, "image", where)]
    else:
        sha256 = text(fields, "image_sha256", where)
        own = PurePosixPath(str(fields.get("image_url") or "").split("?")[0]).suffix.lower()
        names = [f"images/{sha256}{ending}" for ending in dict.fromkeys((own, *_PIXMO_ENDINGS))]
    found = next((name for name in names if copy.has(name)), None)
    if found is None:
        raise broken(where, f"a file {names[0]}, downloaded from its image_url", "none")
    return copy.image(found)


def _pixmo_points(fields: Fields, label: str, where: str) -> tuple[LabelledPoint, ...]:
    points = fields.get("points")
    if isinstance(points, list) and all(isinstance(point, dict) for point in points):
        points = {axis: [point.get(axis) for point in points] for axis in "xy"}
    columns, rows = (points.get(axis) for axis in "xy") if isinstance(points, dict) else (None, None)
    if not isinstance(columns, list) or not isinstance(rows, list) or len(columns) != len(rows):
        raise broken(where, "as many x as y in 'points'", fields.get("points"))
    numbers = [*columns, *rows]
    if not all(isinstance(n, int | float) and not isinstance(n, bool) and abs(n) < 1e9 for n in numbers):
        raise broken(where, "numbers in 'points'", fields.get("points"))
    return tuple((label, (float(x), float(y))) for x, y in zip(columns, rows, strict=True))


PIXMO_COUNT = Dataset(
    expected="a folder with tables such as train-00000-of-00001.parquet, or a folder data of them, and a folder images",
    files=_pixmo_files,
    rows=_pixmo_rows,
    has_boxes=True,
)
"""PixMo-Count: how many things of a kind are there in a photograph from the web, with a point on each?

Layout: tables `train-*.parquet`, `validation-*.parquet` and `test-*.parquet` (or the same columns as `.jsonl`), beside
the images or in a folder `data`, with the columns `image_url`, `image_sha256`, `count` (a whole number), `label` (what
is counted, such as `people`, as a plural) and `points` (`x` and `y`, two lists of the same length, in pixels of the
image; a list of objects with `x` and `y`, as PixMo-Points has it, is read too). The files' names are the splits.

Assumed, for the set holds addresses in place of images: whoever downloads them names each `images/<image_sha256>`, with
the ending of its address, another usual one, or none; or adds a column `image` with its path. Labels do not say a
singular, so every point has the label as it stands. Hosts encode images anew, so hashes are not compared. Rows without
an image are left out, as are points outside it.

Not run on the original data here.
"""
