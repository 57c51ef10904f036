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

from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import (
    BrokenRowError,
    Fields,
    LabelledBox,
    answer_key,
    box,
    broken,
    each_row,
    objects,
    text,
    texts,
)
from vlm_envs.qa.datasets.source import Copy, Dataset

_MARK = "<image>"
_LETTER = re.compile(r"\(?([A-Z])\)?\.?")


def _rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    for name in copy.files:
        stem = name.rsplit(".", 1)[0]

        def row(fields: Fields, where: str, number: int, stem: str = stem) -> PictureRow:
            return _row(copy, fields, where, key=f"{stem}/{number}")

        yield from each_row(copy.root, name, row)


def _row(copy: Copy, fields: Fields, where: str, *, key: str) -> PictureRow:
    images = texts(fields, "images", where)
    if len(images) != 1:
        raise broken(where, "one image", images)
    question = text(fields, "problem", where).replace(_MARK, "").strip()
    if not question:
        raise broken(where, "a question as 'problem'", fields.get("problem"))
    answer = text(fields, "answer", where)
    letter = _LETTER.fullmatch(answer)
    return PictureRow(
        key=key,
        where=where,
        split=copy.split_by(images[0]),
        answer=answer_key(
            where, "choice" if letter else "semantic", letter[1] if letter else answer, question=question
        ),
        category="choice" if letter else "open",
        images=(copy.image(images[0]),),
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


TREEVGR = Dataset(
    expected="a folder with a .parquet or .jsonl table of problem, answer, images and target_instances",
    files=lambda root: [*root.names(".jsonl"), *root.names(".parquet")],
    rows=_rows,
    is_benchmark=False,
    has_boxes=True,
)
