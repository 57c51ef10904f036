"""Any folder of PDF files with a file of questions."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

from vlm_envs.qa.datasets.columns import Columns, checked_columns
from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import DocumentRow, document_name, page_numbers
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, answer_texts, category, each_row, one_of, text
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.splits import SPLITS

_PDF_FILES = ("questions.jsonl", "questions.json")
_PDF_KINDS = ("anls", "exact", "number", "semantic")
_PDF_COLUMNS = ("document", "question", "answer", "pages", "kind", "category", "split")
_PDF_OTHER_NAMES = {"label": "answer", "pdf": "document", "file": "document"}


def _pdf_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    with checked_columns(copy.files[0], _PDF_COLUMNS, _PDF_OTHER_NAMES) as columns:
        yield from each_row(copy.root, copy.files[0], partial(_pdf_row, copy, columns))


def _pdf_row(copy: Copy, columns: Columns, fields: Fields, where: str, number: int) -> DocumentRow:
    columns.check(fields, where)
    name = document_name(fields, "document", where)
    kind: Any = one_of(fields, "kind", _PDF_KINDS, where) or "anls"
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=one_of(fields, "split", SPLITS, where) or copy.split_by(name),
        answer=answer_key(where, kind, *answer_texts(fields, where), question=text(fields, "question", where)),
        category=category(text(fields, "category", where)) if "category" in fields else "document",
        document=PdfFile(copy.root.folder, name),
        pages=page_numbers(fields.get("pages", []), "pages", where),
    )


PDF_FOLDER = Dataset(
    expected=f"a folder of PDF files with {' or '.join(_PDF_FILES)}, a question a row",
    files=lambda root: root.existing(_PDF_FILES),
    rows=_pdf_rows,
    is_benchmark=False,
)
"""Any folder of PDF files with a file of questions.

The folder holds the PDF files and `questions.jsonl` (one object per line) or `questions.json` (a list of objects) with
the keys `document` (a file name), `question`, `answer` (a text, a number, or a list of accepted ones), and, if wanted,
`pages` (those that hold the answer, from 1), `kind` (`anls` if left out, `exact`, `number` or `semantic`), `category`
and `split`. Other columns are not read and are reported once; a misspelled one breaks its row.

Questions that name no split are divided by a hash of the document's name; told that they are a benchmark, they are all
`test`.
"""
