"""TreeVGR-RL: questions of V*'s training set and of VisDrone with the boxes of what they are about (iVGR, table 11)."""

from __future__ import annotations

import string
from collections.abc import Iterator

from vlm_envs.qa.datasets.choices import choice_key, is_letter, option_texts, split_question
from vlm_envs.qa.datasets.images import row_image
from vlm_envs.qa.datasets.media import media_fault, without_marks
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
    plain_text,
    text,
)
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.responses.answers import AnswerKey


def _treevgr_rows(copy: Copy) -> Iterator[PictureRow | BrokenRowError]:
    for name in copy.files:
        stem = name.rsplit(".", 1)[0]

        def row(fields: Fields, where: str, number: int, stem: str = stem) -> PictureRow:
            return _treevgr_row(copy, fields, where, key=f"{stem}/{number}")

        yield from each_row(copy.root, name, row)


def _treevgr_row(copy: Copy, fields: Fields, where: str, *, key: str) -> PictureRow:
    image = row_image(fields, where)
    if not isinstance(image, str):
        raise broken(where, "the name of an image file as 'images'", image)
    problem = text(fields, "problem", where)
    if fault := media_fault(fields, problem, (), 1):
        raise BrokenRowError(f"{where}: {fault}. Correct the row or remove it.")
    question = without_marks(problem)
    if not question:
        raise broken(where, "a question as 'problem'", fields.get("problem"))
    answer = _treevgr_answer(fields, question, where)
    return PictureRow(
        key=key,
        where=where,
        split=copy.split_by(image),
        answer=answer,
        category="choice" if answer.kind == "choice" else "open",
        images=(copy.image(image),),
        boxes=_treevgr_boxes(fields, where),
    )


def _treevgr_answer(fields: Fields, question: str, where: str) -> AnswerKey:
    """Returns the key of a choice where there are options or the answer is a letter, else one for a judge."""
    options, value = option_texts(fields, where), fields.get("answer")
    answer = plain_text(value) if options and isinstance(value, int | float) else text(fields, "answer", where)
    if options:
        return choice_key(answer, options, question, where)
    if is_letter(answer):
        return choice_key(answer, *_treevgr_options(question, answer), where)
    return answer_key(where, "semantic", answer, question=question)


def _treevgr_options(question: str, answer: str) -> tuple[tuple[str, ...], str]:
    """Returns the options that a question ends in and the question itself; none unless the answer is one of them."""
    asked, options = split_question(question)
    is_among = answer.strip("().") in string.ascii_uppercase[: len(options)]
    return (options, asked) if options and is_among else ((), question)


def _treevgr_boxes(fields: Fields, where: str) -> tuple[LabelledBox, ...]:
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
    rows=_treevgr_rows,
    is_benchmark=False,
    has_boxes=True,
)
"""TreeVGR-RL: questions of V*'s training set and of VisDrone with the boxes of what they are about (iVGR, table 11).

Layout, as users of the set describe it: one table `vstar30k_visdrone6k_x1y1x2y2.parquet` with the columns `problem`
(the question after a mark `<image>`; options may be lettered lines at its end), `answer` (a letter for VisDrone, words
for V*), `images` (one path each) and `target_instances` (each with `name` and `bbox`: x1, y1, x2, y2 in pixels); the
images at those paths below the table's folder. Tables of the same columns as JSON lines are read too, and those with a
column `options`, a list of texts or numbers, where the answer is a letter or one of them. Rows with videos or sound are
broken. Splits are by a hash of the image's path, so the questions of an image stay together.

Answers in words are to be compared by a judge; by rule alone only the same words are right. Reading parquet needs
pyarrow, the extra `parquet`.

Not run on the original data here.
"""
