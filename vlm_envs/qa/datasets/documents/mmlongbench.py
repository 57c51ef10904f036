"""MMLongBench-Doc: questions about long PDF files, one in five without an answer."""

from __future__ import annotations

import json
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any

from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import DocumentRow, document_name, literal, page_numbers
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, broken, category, each_row, text
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.qa.documents import NOT_ANSWERABLE
from vlm_envs.responses.answers import AnswerKey, is_exact_text
from vlm_envs.responses.numbers import read_number

_MMLONGBENCH_FILE, _MMLONGBENCH_FOLDER = "samples.json", "documents"
_MMLONGBENCH_FORMATS = ("Int", "Float", "Str", "List", "None")
_MMLONGBENCH_TOLERANCE = 0.01
"""How far a float may be off."""
_NO_ITEMS = ("[]", "empty list", "an empty list", "none")
"""What says that a list has no items."""


def _mmlongbench_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    return each_row(copy.root, _MMLONGBENCH_FILE, partial(_mmlongbench_row, copy))


def _mmlongbench_row(copy: Copy, fields: Fields, where: str, number: int) -> DocumentRow:
    name = document_name(fields, "doc_id", where)
    return DocumentRow(
        key=str(number + 1),
        where=where,
        split=copy.split_by(name),
        answer=_mmlongbench_key(fields, where),
        category=_mmlongbench_category(fields, where),
        document=PdfFile(f"{copy.root.folder}/{_MMLONGBENCH_FOLDER}", name),
        pages=_mmlongbench_pages(fields, where),
        has_exact_pages=False,
    )


def _mmlongbench_pages(fields: Fields, where: str) -> tuple[int, ...]:
    """Returns the pages with evidence, from 1; page 0, which three published rows name, is none."""
    value = literal(fields, "evidence_pages", where)
    named = [page for page in value if type(page) is not int or page != 0] if isinstance(value, list) else value
    return page_numbers(named, "evidence_pages", where)


def _mmlongbench_key(fields: Fields, where: str) -> AnswerKey:
    """Returns the key that the format of the answer asks for."""
    question, answer_format = text(fields, "question", where), text(fields, "answer_format", where)
    if answer_format not in _MMLONGBENCH_FORMATS:
        raise broken(where, f"one of {', '.join(_MMLONGBENCH_FORMATS)} as 'answer_format'", answer_format)
    if answer_format == "List":
        items = [str(item) for item in _mmlongbench_items(fields, where)]
        if not items:
            return answer_key(where, "exact", *_NO_ITEMS, question=question)
        return answer_key(where, "list", json.dumps(items, ensure_ascii=False), question=question)
    answer = _mmlongbench_answer(fields, where)
    if answer_format == "None":
        return answer_key(where, "exact", NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", question=question)
    number = read_number(answer)
    if answer_format == "Int" and number is not None and number.is_integer():
        return answer_key(where, "number", answer, question=question, tolerance=0.0)
    if answer_format == "Float" and number is not None:
        return answer_key(
            where, "number", *_as_percentage(answer, number), question=question, tolerance=_MMLONGBENCH_TOLERANCE
        )
    return answer_key(where, "exact" if is_exact_text(answer) else "anls", answer, question=question)


def _as_percentage(answer: str, number: float) -> tuple[str, str]:
    """Returns a number as it is written, and the percentage or fraction that is the same."""
    is_fraction = abs(number) <= 1 and "%" not in answer
    return answer, f"{100 * number:.10g}%" if is_fraction else f"{number / 100:.10g}"


def _mmlongbench_answer(fields: Fields, where: str) -> str:
    """Returns the answer. Numbers may stand without quotation marks."""
    value = fields.get("answer")
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return str(value) if is_number else text(fields, "answer", where)


def _mmlongbench_items(fields: Fields, where: str) -> list[Any]:
    """Returns the items of a list; a number without brackets is one item."""
    value = fields.get("answer")
    items: Any = value if isinstance(value, list | int | float) else literal(fields, "answer", where)
    if isinstance(items, int | float) and not isinstance(items, bool):
        return [items]
    if not isinstance(items, list):
        raise broken(where, "a list as 'answer'", items)
    return items


def _mmlongbench_category(fields: Fields, where: str) -> str:
    """Returns where the evidence is, such as `chart`; several sources are one category."""
    if fields.get("answer_format") == "None":
        return "unanswerable"
    sources = literal(fields, "evidence_sources", where) if fields.get("evidence_sources") else []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise broken(where, "a list of texts as 'evidence_sources'", sources)
    if not sources:
        return "other"
    return category(sources[0]) if len(sources) == 1 else "several_sources"


MMLONGBENCH_DOC = Dataset(
    expected=f"a folder with {_MMLONGBENCH_FILE} and the PDF files in a folder {_MMLONGBENCH_FOLDER}",
    files=lambda root: [_MMLONGBENCH_FILE] if Path(root.folder, _MMLONGBENCH_FOLDER).is_dir() else [],
    rows=_mmlongbench_rows,
    is_benchmark=True,
)
"""MMLongBench-Doc: questions about long PDF files, one in five without an answer.

The layout is that of the `data` folder of its repository: `samples.json`, a list of `doc_id` (a file name), `question`,
`answer`, `answer_format` and `evidence_pages` (a Python literal in a text), `evidence_sources` (the same), and the PDF
files in `documents/`; `doc_type` is ignored. It is a benchmark, so all of it is `test`; told that it is none, it is
divided by a hash of the document's name. All 1,082 published rows were read here, their PDF files were not at hand.
Among them are a list without items as the right answer, lists of one item without brackets, and evidence on page 0:
pages that a document does not have are left out.

Answers are compared by the rules of the benchmark's `eval/eval_score.py` for each format: whole numbers must be equal;
floats may be 1 % off, and a percentage and its fraction are one number; texts are compared by ANLS, except that pages,
dates in digits (`2024-05-06`), times with a.m. or p.m., URLs, `.py` and `.ipynb` files, telephone numbers, and email
addresses must be equal; lists are sorted and compared item by item, lists of numbers exactly. As in the benchmark,
dates in words ("May 6, 2024") and other files are compared by ANLS. Deviations: no model shortens answers first, so
numbers may be written in words and with a unit, a list without brackets is cut at commas, and any sentence that says
so is right where there is no answer; a float has no second reading that rounds to two decimals; text in brackets
counts.
"""
