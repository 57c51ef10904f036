"""GQA: questions made from scene graphs, with the boxes of what they are about."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import partial
from typing import Any

from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import (
    BrokenRowError,
    Fields,
    LabelledBox,
    answer_key,
    box,
    category,
    objects,
    read_json_file,
    row_or_error,
    text,
)
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.tools.files import FileRoot

_GQA_SPLITS = {"train_": "train", "val_": "val", "testdev_": "test"}
_GQA_QUESTIONS = "_questions.json"
_GQA_GRAPHS = ("train_sceneGraphs.json", "val_sceneGraphs.json")

Graphs = Mapping[str, Any]


def _gqa_files(root: FileRoot) -> list[str]:
    """Returns the files of questions: of each split the balanced one, or all there are."""
    files: list[str] = []
    for start in _GQA_SPLITS:
        names = [name for name in root.names(_GQA_QUESTIONS) if name.startswith(start)]
        balanced = f"{start}balanced{_GQA_QUESTIONS}"
        files += [balanced] if balanced in names else names
    return files


def _gqa_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    graphs: dict[str, Any] = {}
    for name in copy.root.names(".json"):
        if name in _GQA_GRAPHS:
            graphs.update(objects(read_json_file(copy.root, name), name))
    for name in copy.files:
        (split,) = (split for start, split in _GQA_SPLITS.items() if name.startswith(start))
        for number, value in objects(read_json_file(copy.root, name), name).items():
            where, key = f"{name}, question {number}", f"{name.removesuffix(_GQA_QUESTIONS)}/{number}"
            yield row_or_error(partial(_gqa_row, copy, value, where, graphs, key=key, split=split))


def _gqa_row(copy: Copy, value: object, where: str, graphs: Graphs, *, key: str, split: str) -> PictureRow:
    fields = objects(value, where)
    question, image = text(fields, "question", where), text(fields, "imageId", where)
    types = fields.get("types")
    structural = types.get("structural") if isinstance(types, dict) else None
    full = fields.get("fullAnswer")
    return PictureRow(
        key=key,
        where=where,
        split=split,
        answer=answer_key(where, "exact", text(fields, "answer", where), question=question),
        category=category(structural) if isinstance(structural, str) else "other",
        images=(copy.image(f"images/{image}.jpg"),),
        boxes=_gqa_boxes(fields, graphs.get(image), where),
        facts=full.strip() if isinstance(full, str) else "",
    )


def _gqa_boxes(fields: Fields, graph: object, where: str) -> tuple[LabelledBox, ...]:
    """Returns the things that a question's, its answer's and its full answer's words stand for, each once."""
    if graph is None:
        return ()
    things = objects(objects(graph, where).get("objects"), f"{where}, scene graph")
    annotations = fields.get("annotations")
    named: dict[str, None] = {}
    for part in ("question", "answer", "fullAnswer"):
        words = annotations.get(part) if isinstance(annotations, dict) else None
        for numbers in words.values() if isinstance(words, dict) else ():
            named.update(dict.fromkeys(str(numbers).split(",")))
    return tuple(_gqa_thing(things[number], f"{where}, thing {number}") for number in named if number in things)


def _gqa_thing(value: object, where: str) -> LabelledBox:
    thing = objects(value, where)
    return text(thing, "name", where), box([thing.get(side) for side in "xywh"], where, corners=False)


GQA = Dataset(
    expected="a folder with files such as train_balanced_questions.json and a folder images",
    files=_gqa_files,
    rows=_gqa_rows,
    has_boxes=True,
)
"""GQA: questions made from scene graphs, with the boxes of what they are about.

Layout: files such as `train_balanced_questions.json`, `val_balanced_questions.json` and
`testdev_balanced_questions.json`, each an object from a question's number to its fields: `imageId`, `question`,
`answer`, `fullAnswer`, `types` (with `structural`) and `annotations` (from words to numbers of things);
`train_sceneGraphs.json` and `val_sceneGraphs.json`, each an object from an image's number to its `objects` with `name`,
`x`, `y`, `w`, `h`; a folder `images` with `<imageId>.jpg`. Scene graphs may be missing, then there is no evidence. A
file's name tells its split: train, val, or test for `testdev`; files without answers are left out. The download holds
each split twice, balanced and whole (`val_all_questions.json`); where the balanced file is there, it is the split,
since scores are given on it and the other holds its questions again.

Its near million balanced training questions take about a minute and five gigabytes of memory, by a run on a tenth as
many made up ones.

Not run on the original data here.
"""
