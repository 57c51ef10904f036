"""MMLongBench-Doc: questions about long PDF files, one in five without an answer."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import answer_key, document_name, literal, pages
from vlm_envs.qa.datasets.documents.source import DocumentQuestions, Question
from vlm_envs.qa.datasets.rows import Fields, broken, category, read_rows, text
from vlm_envs.qa.datasets.table import content_split
from vlm_envs.qa.documents import NOT_ANSWERABLE
from vlm_envs.responses.answers import AnswerKey, read_number
from vlm_envs.splits import SPLITS
from vlm_envs.tools.files import FileRoot

NAME = "mmlongbench_doc"
FILE, DOCUMENTS = "samples.json", "documents"
FORMATS = ("Int", "Float", "Str", "List", "None")
_NO_ITEMS = ("[]", "empty list", "an empty list", "none")
"""What says that a list has no items."""


def load_mmlongbench_doc(folder: str | Path, split: str | None = "test") -> DocumentQuestions:
    """Returns the questions of a local copy of MMLongBench-Doc.

    The layout is that of the `data` folder of its repository: `samples.json`, a list of `doc_id` (a file name),
    `question`, `answer`, `answer_format` and `evidence_pages` (a Python literal in a text), `evidence_sources` (the
    same), and the PDF files in `documents/`; `doc_type` is ignored. All 1,082 published rows were read here, their PDF
    files were not at hand. Among them are a list without items as the right answer, lists of one item without
    brackets, and evidence on page 0: pages that a document does not have are left out.

    The paper has a model shorten answers and compares by rules of its own. Deviations: whole numbers must be equal,
    written in either of the usual ways; other numbers may be 5 % off, texts and lists are compared by ANLS (a list as
    its items in order with commas), and where there is no answer, `Not answerable` is right.

    Args:
        folder: Where `samples.json` is.
        split: The split of all questions, `test` since it is a benchmark; None divides them by a hash of the
            document's name.

    Raises:
        ConfigError: If a file is missing or a row is broken; it names file and row.
    """
    if split is not None:
        require_choice("split", split, SPLITS)
    documents = Path(folder).resolve() / DOCUMENTS
    if not documents.is_dir():
        raise ConfigError(f"{folder} has no folder {DOCUMENTS!r} with the PDF files of MMLongBench-Doc.")
    return DocumentQuestions(NAME, _questions(FileRoot(folder), str(documents), split))


def _questions(root: FileRoot, documents: str, split: str | None) -> Iterator[Question]:
    for number, (where, fields) in enumerate(read_rows(root, FILE), start=1):
        name = document_name(fields, "doc_id", where)
        yield Question(
            where=where,
            number=str(number),
            split=split or content_split(name),
            question=text(fields, "question", where),
            key=_key(fields, where),
            category=_category(fields, where),
            document=PdfFile(documents, name),
            pages=_pages(fields, where),
            has_exact_pages=False,
        )


def _pages(fields: Fields, where: str) -> tuple[int, ...]:
    """Returns the pages with evidence, from 1; page 0, which three published rows name, is none."""
    value = literal(fields, "evidence_pages", where)
    named = [page for page in value if type(page) is not int or page != 0] if isinstance(value, list) else value
    return pages(named, "evidence_pages", where)


def _key(fields: Fields, where: str) -> AnswerKey:
    """Returns the key that the format of the answer asks for."""
    answer_format = text(fields, "answer_format", where)
    if answer_format not in FORMATS:
        raise broken(where, f"one of {', '.join(FORMATS)} as 'answer_format'", answer_format)
    if answer_format == "List" and _items(fields, where) == []:
        return AnswerKey(kind="exact", answers=_NO_ITEMS)
    answer = _answer_text(fields, answer_format, where)
    if answer_format == "None":
        return AnswerKey(kind="exact", answers=(NOT_ANSWERABLE, "Unanswerable", "Cannot be answered"))
    number = read_number(answer)
    if answer_format == "Int" and number is not None and number.is_integer():
        return answer_key("exact", tuple(dict.fromkeys((answer, f"{int(number)}", f"{int(number):,}"))), where)
    return answer_key("number" if answer_format == "Float" and number is not None else "anls", (answer,), where)


def _answer_text(fields: Fields, answer_format: str, where: str) -> str:
    """Returns the answer; the items of a list with commas between them. Numbers may stand without quotation marks."""
    value = fields.get("answer")
    if isinstance(value, int | float) and not isinstance(value, bool):
        return str(value)
    if answer_format != "List":
        return text(fields, "answer", where)
    return ", ".join(map(str, _items(fields, where)))


def _items(fields: Fields, where: str) -> list[Any]:
    """Returns the items of a list; a number without brackets is one item."""
    value = fields.get("answer")
    items: Any = value if isinstance(value, list | int | float) else literal(fields, "answer", where)
    if isinstance(items, int | float) and not isinstance(items, bool):
        return [items]
    if not isinstance(items, list):
        raise broken(where, "a list as 'answer'", items)
    return items


def _category(fields: Fields, where: str) -> str:
    """Returns where the evidence is, such as `chart`; several sources are one category."""
    if fields.get("answer_format") == "None":
        return "unanswerable"
    sources = literal(fields, "evidence_sources", where) if fields.get("evidence_sources") else []
    if not isinstance(sources, list) or not all(isinstance(source, str) for source in sources):
        raise broken(where, "a list of texts as 'evidence_sources'", sources)
    if not sources:
        return "other"
    return category(sources[0]) if len(sources) == 1 else "several_sources"
