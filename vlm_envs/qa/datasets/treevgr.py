"""TreeVGR-RL: questions of V*'s training set and of VisDrone with the boxes of what they are about (iVGR, table 11).

Layout, as users of the set describe it: one table `vstar30k_visdrone6k_x1y1x2y2.parquet` with the columns `problem`
(the question after a mark `<image>`, options included where there are some), `answer` (a letter for VisDrone, words for
V*), `images` (one path each) and `target_instances` (each with `name` and `bbox`: x1, y1, x2, y2 in pixels); the images
at those paths below the table's folder. Tables of the same columns as JSON lines are read too. Splits are by a hash of
the image's path, so the questions of an image stay together.

Answers in words are to be compared by a judge; by rule alone only the same words are right. Reading parquet needs
pyarrow: `pip install 'vlm-envs[parquet]'`.

Not run on the original data here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.parquet import table_rows
from vlm_envs.qa.datasets.rows import (
    Fields,
    LabelledBox,
    Row,
    box,
    broken,
    objects,
    read_json_lines,
    text,
    texts,
)
from vlm_envs.qa.datasets.table import DatasetSource, Entry, benchmark_split, folder_root
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.files import FileRoot

NAME = "treevgr"
_MARK = "<image>"
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")
_EXPECTED = "a folder with a .parquet or .jsonl table of problem, answer, images and target_instances"


def treevgr(folder: str | Path, *, is_benchmark: bool = False) -> DatasetSource:
    """Returns a user's copy of TreeVGR-RL.

    Args:
        folder: The one with the table; the images' paths begin here.
        is_benchmark: Whether all of it is `test`.

    Raises:
        ConfigError: If it is none, or a row is broken.
        EngineUnavailableError: If the table is parquet and pyarrow is not installed.
    """
    root = folder_root(folder, _EXPECTED)
    names = [*root.names(".jsonl"), *root.names(".parquet")]
    if not names:
        raise ConfigError(f"{folder} holds no table. Expected {_EXPECTED}.")
    return DatasetSource(NAME, (entry for name in names for entry in _entries(root, str(folder), name, is_benchmark)))


def _entries(root: FileRoot, folder: str, name: str, is_benchmark: bool) -> Iterator[Entry]:
    rows = _parquet_rows(root, name) if name.endswith(".parquet") else read_json_lines(root, name)
    for number, (where, fields) in enumerate(rows):
        images = texts(fields, "images", where)
        if len(images) != 1:
            raise broken(where, "one image", images)
        key = f"{name.rsplit('.', 1)[0]}/{number}"
        build = partial(_row, fields, key, where, StoredImage(folder=folder, name=images[0]))
        yield Entry(key=key, split=benchmark_split(is_benchmark, images[0]), build=build)


def _parquet_rows(root: FileRoot, name: str) -> Iterator[tuple[str, Fields]]:
    for number, (_, _, fields) in enumerate(table_rows(root, name)):
        yield f"{name}, row {number}", fields


def _row(fields: Fields, key: str, where: str, stored: StoredImage) -> Row:
    question = text(fields, "problem", where).replace(_MARK, "").strip()
    if not question:
        raise broken(where, "a question as 'problem'", fields.get("problem"))
    answer = text(fields, "answer", where)
    letter = _LETTER.fullmatch(answer)
    return Row(
        key=key,
        where=where,
        question=question,
        answer=AnswerKey(
            kind="choice" if letter else "semantic",
            answers=(letter[1] if letter else answer,),
            question=question,
        ),
        category="choice" if letter else "open",
        images=(stored,),
        boxes=_boxes(fields, where),
    )


def _boxes(fields: Fields, where: str) -> tuple[LabelledBox, ...]:
    instances = fields.get("target_instances")
    if not isinstance(instances, list):
        raise broken(where, "a list as 'target_instances'", instances)
    found = []
    for instance in instances:
        thing = objects(instance, where)
        name = thing.get("name")
        label = name.strip() if isinstance(name, str) and name.strip() else "target"
        found.append((label, box(thing.get("bbox"), where, corners=True)))
    return tuple(found)
