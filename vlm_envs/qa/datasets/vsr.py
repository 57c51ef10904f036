"""VSR: is a statement about where things are in a photograph true?

Layout: `train.jsonl`, `dev.jsonl` and `test.jsonl`, each line with `image` (a file name), `caption`, `label` (0 or 1)
and `relation`; the images in a folder `images` beside them, or in one of COCO's inside it. The files are the splits.

All published statements of both its divisions, random and zero-shot, were read here; the images were not at hand.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.images import StoredImage
from vlm_envs.qa.datasets.rows import Fields, Row, broken, category, read_json_lines, text
from vlm_envs.qa.datasets.table import DatasetSource, Entry, folder_root
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.files import FileRoot

NAME = "vsr"
_FILES = {"train.jsonl": "train", "dev.jsonl": "val", "test.jsonl": "test"}
_FOLDERS = ("images/", "", "images/train2017/", "images/val2017/", "train2017/", "val2017/", "trainval2017/")
_EXPECTED = f"a folder with {', '.join(_FILES)} and a folder images"


def vsr(folder: str | Path) -> DatasetSource:
    """Returns a user's copy of VSR.

    Args:
        folder: The one with the `.jsonl` files.

    Raises:
        ConfigError: If it is none, or a line of a file is broken.
    """
    root = folder_root(folder, _EXPECTED)
    names = [name for name in root.names(".jsonl") if name in _FILES]
    if not names:
        raise ConfigError(f"{folder} holds no statements. Expected {_EXPECTED}.")
    return DatasetSource(NAME, (entry for name in names for entry in _entries(root, str(folder), name)))


def _entries(root: FileRoot, folder: str, name: str) -> Iterator[Entry]:
    for number, (where, fields) in enumerate(read_json_lines(root, name)):
        key = f"{name.removesuffix('.jsonl')}/{number}"
        yield Entry(key=key, split=_FILES[name], build=partial(_row, folder, fields, key, where))


def _row(folder: str, fields: Fields, key: str, where: str) -> Row:
    caption, label, image = text(fields, "caption", where), fields.get("label"), text(fields, "image", where)
    if label not in (0, 1):
        raise broken(where, "0 or 1 as 'label'", label)
    question = f'Is this statement about the picture true? "{caption}"'
    return Row(
        key=key,
        where=where,
        question=question,
        answer=AnswerKey(kind="exact", answers=("yes", "true") if label else ("no", "false"), question=question),
        category=category(text(fields, "relation", where)),
        images=tuple(StoredImage(folder=folder, name=start + image) for start in _FOLDERS),
        facts=caption if label else f'It is not so that "{caption}"',
    )
