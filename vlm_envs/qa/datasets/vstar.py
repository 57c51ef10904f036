"""V*Bench: small things in large photographs, with their boxes."""

from __future__ import annotations

import hashlib
import string
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path

import numpy as np

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import (
    BrokenRowError,
    Fields,
    answer_key,
    box,
    broken,
    objects,
    read_json_file,
    row_or_error,
    text,
    texts,
)
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.tools.errors import ToolError
from vlm_envs.tools.files import FileRoot

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
