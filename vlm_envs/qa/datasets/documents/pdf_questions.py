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
from typing import Any

from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import DocumentRow, document_name, page_numbers
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, category, each_row, one_of, text, texts
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.splits import SPLITS

FILES = ("questions.jsonl", "questions.json")
KINDS = ("anls", "exact", "number", "semantic")


def _rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    return each_row(copy.root, copy.files[0], partial(_row, copy))


def _row(copy: Copy, fields: Fields, where: str, number: int) -> DocumentRow:
    name = document_name(fields, "document", where)
    is_list = isinstance(fields.get("answer"), list)
    answers = texts(fields, "answer", where) if is_list else (text(fields, "answer", where),)
    kind: Any = one_of(fields, "kind", KINDS, where) or "anls"
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=one_of(fields, "split", SPLITS, where) or copy.split_by(name),
        answer=answer_key(where, kind, *answers, question=text(fields, "question", where)),
        category=category(text(fields, "category", where)) if "category" in fields else "document",
        document=PdfFile(copy.root.folder, name),
        pages=page_numbers(fields.get("pages", []), "pages", where),
    )


PDF_FOLDER = Dataset(
    expected=f"a folder of PDF files with {' or '.join(FILES)}, a question a row",
    files=lambda root: root.existing(FILES),
    rows=_rows,
    is_benchmark=False,
)
