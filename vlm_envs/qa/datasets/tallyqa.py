"""TallyQA: how many are there? Simple questions, and complex ones that need relations or attributes."""

from __future__ import annotations

from collections.abc import Iterator

from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, each_row, text, whole
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.qa.datasets.splitting import content_split

_TALLYQA_CATEGORIES = {True: "count_simple", False: "count_complex"}


def _tallyqa_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    for name in copy.files:
        stem, is_test = name.removesuffix(".json"), name == "test.json"

        def row(fields: Fields, where: str, number: int, stem: str = stem, is_test: bool = is_test) -> PictureRow:
            return _tallyqa_row(copy, fields, where, key=f"{stem}/{number}", is_test=is_test)

        yield from each_row(copy.root, name, row)


def _tallyqa_row(copy: Copy, fields: Fields, where: str, *, key: str, is_test: bool) -> PictureRow:
    question, image, simple = text(fields, "question", where), text(fields, "image", where), fields.get("issimple")
    return PictureRow(
        key=key,
        where=where,
        split="test" if is_test else _tallyqa_train_or_val(image),
        answer=answer_key(where, "number", str(whole(fields, "answer", where)), question=question),
        category=_TALLYQA_CATEGORIES[simple] if isinstance(simple, bool) else "count",
        images=tuple(copy.image(name) for name in (image, f"images/{image}")),
    )


def _tallyqa_train_or_val(image: str) -> str:
    """Returns `val` for one image in ten; what the hash calls test is for training, since there is a test file."""
    return "val" if content_split(image) == "val" else "train"


TALLYQA = Dataset(
    expected="a folder with train.json or test.json and the folders of their images",
    files=lambda root: root.existing(("train.json", "test.json")),
    rows=_tallyqa_rows,
)
"""TallyQA: how many are there? Simple questions, and complex ones that need relations or attributes.

Layout: `train.json` and `test.json`, each a list of objects with `image` (a path such as `train2014/COCO_….jpg` or
`VG_100K/….jpg`), `question`, `answer` (a whole number) and, in the test file, `issimple`; the images' folders beside
them or in a folder `images`. The test file is the test split; rows of the other are val where a hash of the image's
name says so, one in ten, so that the questions of an image stay together.

Not run on the original data here.
"""
