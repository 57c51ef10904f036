"""TallyQA: how many are there? Simple questions, and complex ones that need relations or attributes.

Layout: `train.json` and `test.json`, each a list of objects with `image` (a path such as `train2014/COCO_….jpg` or
`VG_100K/….jpg`), `question`, `answer` (a whole number) and, in the test file, `issimple`; the images' folders beside
them or in a folder `images`. The test file is the test split; rows of the other are val where a hash of the image's
name says so, one in ten, so that the questions of an image stay together.

Not run on the original data here.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.rows import Fields, Row, broken, objects, read_json_file, text, whole
from vlm_envs.qa.datasets.table import DatasetSource, Entry, content_split, folder_root
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.files import FileRoot

NAME = "tallyqa"
_FILES = ("train.json", "test.json")
_CATEGORIES = {True: "count_simple", False: "count_complex"}
_EXPECTED = "a folder with train.json or test.json and the folders of their images"


def tallyqa(folder: str | Path) -> DatasetSource:
    """Returns a user's copy of TallyQA.

    Args:
        folder: The one with `train.json` or `test.json`.

    Raises:
        ConfigError: If it is none, or a row of a file is broken.
    """
    root = folder_root(folder, _EXPECTED)
    names = [name for name in root.names(".json") if name in _FILES]
    if not names:
        raise ConfigError(f"{folder} holds no questions. Expected {_EXPECTED}.")
    return DatasetSource(NAME, (entry for name in names for entry in _entries(root, str(folder), name)))


def _entries(root: FileRoot, folder: str, name: str) -> Iterator[Entry]:
    rows = read_json_file(root, name)
    if not isinstance(rows, list):
        raise broken(name, "a list of questions", rows)
    for number, value in enumerate(rows):
        where, key = f"{name}, row {number}", f"{name.removesuffix('.json')}/{number}"
        fields = objects(value, where)
        split = "test" if name == "test.json" else _train_or_val(text(fields, "image", where))
        yield Entry(key=key, split=split, build=partial(_row, folder, fields, key, where))


def _train_or_val(image: str) -> str:
    """Returns `val` for one image in ten; what the hash calls test is for training, since there is a test file."""
    return "val" if content_split(image) == "val" else "train"


def _row(folder: str, fields: Fields, key: str, where: str) -> Row:
    question, image = text(fields, "question", where), text(fields, "image", where)
    simple = fields.get("issimple")
    return Row(
        key=key,
        where=where,
        question=question,
        answer=AnswerKey(kind="number", answers=(str(whole(fields, "answer", where)),), question=question),
        category=_CATEGORIES[simple] if isinstance(simple, bool) else "count",
        images=tuple(StoredImage(folder=folder, name=name) for name in (image, f"images/{image}")),
    )
