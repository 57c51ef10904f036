"""A folder of images with a table of questions: the layout for data of one's own.

The folder holds the images and `questions.jsonl` (one object per line), `questions.json` (a list of objects),
`questions.csv` (UTF-8, commas, a header), or `questions.parquet`, with the columns `image` (a file of the folder, or in
parquet the image itself), `question`, `answer` (a text, a number, or a list of accepted ones), and, where there are
options, `options` (a list of texts or numbers, in CSV written as JSON) or the columns `A`, `B` and so on. The answer of
a row with options is a letter, the text of an option, or both.

`kind` says how other answers are compared: `number` (the default for numbers), `exact` (the default for texts), `anls`,
`list`, or `semantic`. `category` and `split` are optional, too. Rows without `split` are divided by a hash of the
image's name or content, so the questions of an image stay together. Other columns are not read and are reported once; a
row with one that stands for a missing column, such as `choices` for `options`, is broken. For boxes use the columns of
`treevgr`.
"""

from __future__ import annotations

import string
from collections.abc import Iterator
from functools import partial
from typing import Any, get_args

from vlm_envs.qa.datasets.dataset_images import (
    IMAGE_COLUMNS,
    StoredImage,
    TableImage,
    media_fault,
    row_image,
    with_table_images,
    without_marks,
)
from vlm_envs.qa.datasets.dataset_rows import (
    BrokenRowError,
    Columns,
    Fields,
    answer_key,
    answer_texts,
    broken,
    category,
    checked_columns,
    choice_key,
    each_row,
    one_of,
    option_texts,
    row_or_error,
    table_rows,
    text,
)
from vlm_envs.qa.datasets.dataset_source import Copy, Dataset, PictureRow
from vlm_envs.responses.answers import AnswerKey, AnswerKind
from vlm_envs.responses.numbers import read_number
from vlm_envs.splits import SPLITS

FILES = ("questions.jsonl", "questions.json", "questions.csv", "questions.parquet")
KINDS: tuple[AnswerKind, ...] = tuple(kind for kind in get_args(AnswerKind) if kind not in ("choice", "verdict"))
COLUMNS = (*IMAGE_COLUMNS, "question", "answer", "options", "kind", "category", "split", *string.ascii_uppercase)
OTHER_NAMES = dict.fromkeys(("choices", "candidates", "alternatives"), "options") | {"label": "answer"}


def _rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    file = copy.files[0]
    with checked_columns(file, COLUMNS, OTHER_NAMES) as columns:
        if not file.endswith(".parquet"):
            yield from each_row(copy.root, file, partial(_row, copy, columns))
            return
        for number, (group, place, fields) in enumerate(table_rows(copy.root, file)):
            values = with_table_images(copy.root, file, group, place, fields)
            yield row_or_error(partial(_row, copy, columns, values, f"{file}, row {number + 1}", number))


def _row(copy: Copy, columns: Columns, fields: Fields, where: str, number: int) -> PictureRow:
    columns.check(fields, where)
    stored, content = _image(copy, fields, where)
    return PictureRow(
        key=str(number + 1),
        where=where,
        split=one_of(fields, "split", SPLITS, where) or copy.split_by(content),
        answer=_answer(fields, where),
        category=category(text(fields, "category", where)) if fields.get("category") else "image",
        images=(stored,),
    )


def _image(copy: Copy, fields: Fields, where: str) -> tuple[StoredImage | TableImage, str]:
    """Returns where the image of a row is, and what rows that show the same one have in common."""
    image = row_image(fields, where)
    if isinstance(image, TableImage):
        return image, image.digest
    if not isinstance(image, str) or not copy.has(image):
        raise broken(where, "the name of an image file in the folder as 'image'", image)
    return copy.image(image), image


def _answer(fields: Fields, where: str) -> AnswerKey:
    question = text(fields, "question", where)
    if fault := media_fault(fields, question, (), 1):
        raise BrokenRowError(f"{where}: {fault}. Correct the row or remove it.")
    question, answers, options = without_marks(question), answer_texts(fields, where), option_texts(fields, where)
    if options:
        if len(answers) > 1:
            raise broken(where, "one answer of a row with options", list(answers))
        return choice_key(answers[0], options, question, where)
    are_numbers = all(read_number(answer) is not None for answer in answers)
    kind: Any = one_of(fields, "kind", KINDS, where) or ("number" if are_numbers else "exact")
    return answer_key(where, kind, *answers, question=question)


IMAGE_FOLDER = Dataset(
    expected=f"a folder of images with one of {', '.join(FILES)}, one question per row",
    files=lambda root: root.existing(FILES),
    rows=_rows,
    is_benchmark=False,
)
