"""V*Bench: small things in large photographs, with their boxes.

Layout: a folder for each kind of question, `direct_attributes` and `relative_position`; in each, for every image such
as `sa_4690.jpg`, a file `sa_4690.json` with `question`, `options` (the first is the right one), `target_object` (names)
and `bbox` (x, y, width, height for each name). All of it is one evaluation set, so it is all `test`; told that it is no
benchmark, it is divided by a hash of the image's bytes. The options are shuffled, for each question in its own fixed
order.

Not run on the original data here.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.rows import (
    Fields,
    Row,
    box,
    broken,
    first_file,
    objects,
    read_json_file,
    text,
    texts,
)
from vlm_envs.qa.datasets.table import DatasetSource, Entry, benchmark_split, folder_root, shuffled
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.errors import ToolError
from vlm_envs.tools.files import FileRoot

NAME = "vstar"
KINDS = ("direct_attributes", "relative_position")
_ENDINGS = (".jpg", ".jpeg", ".png", ".JPG", ".webp")
_EXPECTED = f"a copy of V*Bench with the folders {' and '.join(KINDS)}"


def vstar(folder: str | Path, *, is_benchmark: bool = True) -> DatasetSource:
    """Returns a user's copy of V*Bench.

    Args:
        folder: The one with `direct_attributes` and `relative_position`.
        is_benchmark: Whether all of it is `test`.

    Raises:
        ConfigError: If it is none, or a file of it is broken.
    """
    root = folder_root(folder, _EXPECTED)
    kinds = [kind for kind in KINDS if (Path(folder) / kind).is_dir()]
    if not kinds:
        raise ConfigError(f"{folder} holds no questions of V*Bench. Expected {_EXPECTED}.")
    return DatasetSource(NAME, (entry for kind in kinds for entry in _entries(root, Path(folder), kind, is_benchmark)))


def _entries(root: FileRoot, folder: Path, kind: str, is_benchmark: bool) -> Iterator[Entry]:
    for name in FileRoot(folder / kind).names(".json"):
        path = f"{kind}/{name}"
        stem = path.removesuffix(".json")
        image = first_file(root, [stem + ending for ending in _ENDINGS])
        if image is None:
            raise broken(path, f"an image {stem}.jpg beside it", "none")
        stored = StoredImage(folder=str(folder), name=image)
        yield Entry(
            key=stem,
            split=_split(stored, path, is_benchmark),
            build=partial(_row, objects(read_json_file(root, path), path), stored),
        )


def _split(stored: StoredImage, where: str, is_benchmark: bool) -> str:
    try:
        return benchmark_split(is_benchmark, "" if is_benchmark else stored.read().hex())
    except ToolError as error:
        raise ConfigError(f"{where}: {error}") from error


def _row(fields: Fields, stored: StoredImage) -> Row:
    key = stored.name.rsplit(".", 1)[0]
    where = f"{key}.json"
    options, names, places = texts(fields, "options", where), texts(fields, "target_object", where), fields.get("bbox")
    if not isinstance(places, list) or len(places) != len(names):
        raise broken(where, f"a box for each of {len(names)} target objects as 'bbox'", places)
    order = shuffled(key, len(options))
    return Row(
        key=key,
        where=where,
        question=text(fields, "question", where),
        answer=AnswerKey(
            kind="choice",
            answers=(string.ascii_uppercase[order.index(0)],),
            options=tuple(options[index] for index in order),
            question=text(fields, "question", where),
        ),
        category=key.split("/")[0],
        images=(stored,),
        boxes=tuple((name, box(place, where, corners=False)) for name, place in zip(names, places, strict=True)),
        facts=options[0],
    )
