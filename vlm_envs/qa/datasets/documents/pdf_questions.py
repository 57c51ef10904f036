"""Any folder of PDF files with a file of questions.

The folder holds the PDF files and `questions.jsonl` (one object a line) or `questions.json` (a list of objects) with
the keys `document` (a file name), `question`, `answer` (a text or a list of accepted ones), and, if wanted, `pages`
(those that hold the answer, from 1), `kind` (`anls` if left out, `exact`, `number` or `semantic`), `category` and
`split`.
Questions that name no split are divided by a hash of the document's name; told that they are a benchmark, they are all
`test`.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import cast

from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import DocumentRow, document_name, page_numbers
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, broken, category, each_row, text, texts
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import SPLITS

FILES = ("questions.jsonl", "questions.json")
KINDS = ("anls", "exact", "number", "semantic")


def _rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    return each_row(copy.root, copy.files[0], partial(_row, copy))


def _row(copy: Copy, fields: Fields, where: str, number: int) -> DocumentRow:
    name = document_name(fields, "document", where)
    is_list = isinstance(fields.get("answer"), list)
    answers = texts(fields, "answer", where) if is_list else (text(fields, "answer", where),)
    kind = cast("AnswerKind", _choice(fields, "kind", "anls", KINDS, where))
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=_choice(fields, "split", copy.split_by(name), SPLITS, where),
        answer=answer_key(where, kind, *answers, question=text(fields, "question", where)),
        category=category(text(fields, "category", where)) if "category" in fields else "document",
        document=PdfFile(copy.root.folder, name),
        pages=page_numbers(fields.get("pages", []), "pages", where),
    )


def _choice(fields: Fields, name: str, default: str, choices: tuple[str, ...], where: str) -> str:
    """Returns a field that is one of a few words, or what stands for it where it is missing."""
    value = fields.get(name, default)
    if value not in choices:
        raise broken(where, f"one of {', '.join(choices)} as {name!r}", value)
    return str(value)


PDF_FOLDER = Dataset(
    expected=f"a folder of PDF files with {' or '.join(FILES)}, a question a row",
    files=lambda root: root.existing(FILES),
    rows=_rows,
    is_benchmark=False,
)
