"""VSR: is a statement about where things are in a photograph true?"""

from __future__ import annotations

from collections.abc import Iterator

from vlm_envs.qa.datasets.picture_rows import PictureRow
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, broken, category, each_row, text
from vlm_envs.qa.datasets.source import Copy, Dataset

_VSR_FILES = {"train.jsonl": "train", "dev.jsonl": "val", "test.jsonl": "test"}
_VSR_FOLDERS = ("images/", "", "images/train2017/", "images/val2017/", "train2017/", "val2017/", "trainval2017/")


def _vsr_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    for name in copy.files:
        stem, split = name.removesuffix(".jsonl"), _VSR_FILES[name]

        def row(fields: Fields, where: str, number: int, stem: str = stem, split: str = split) -> PictureRow:
            return _vsr_row(copy, fields, where, key=f"{stem}/{number}", split=split)

        yield from each_row(copy.root, name, row)


def _vsr_row(copy: Copy, fields: Fields, where: str, *, key: str, split: str) -> PictureRow:
    caption, label, image = text(fields, "caption", where), fields.get("label"), text(fields, "image", where)
    if label not in (0, 1):
        raise broken(where, "0 or 1 as 'label'", label)
    question = f'Is this statement about the picture true? "{caption}"'
    return PictureRow(
        key=key,
        where=where,
        split=split,
        answer=answer_key(where, "exact", *(("yes", "true") if label else ("no", "false")), question=question),
        category=category(text(fields, "relation", where)),
        images=tuple(copy.image(start + image) for start in _VSR_FOLDERS),
        facts=caption if label else f'It is not so that "{caption}"',
    )


VSR = Dataset(
    expected=f"a folder with {', '.join(_VSR_FILES)} and a folder images",
    files=lambda root: root.existing(_VSR_FILES),
    rows=_vsr_rows,
)
"""VSR: is a statement about where things are in a photograph true?

Layout: `train.jsonl`, `dev.jsonl` and `test.jsonl`, each line with `image` (a file name), `caption`, `label` (0 or 1)
and `relation`; the images in a folder `images` beside them, or in one of COCO's inside it. The files are the splits.

All published statements of both its divisions, random and zero-shot, were read here; the images were not at hand.
"""
