"""Any folder of PDF files with a file of questions."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import cast

from vlm_envs.errors import ConfigError, require_choice
from vlm_envs.qa.datasets.documents.files import PdfFile
from vlm_envs.qa.datasets.documents.rows import answer_key, document_name, pages
from vlm_envs.qa.datasets.documents.source import DocumentQuestions, Question
from vlm_envs.qa.datasets.rows import Fields, broken, category, read_rows, text, texts
from vlm_envs.qa.datasets.table import content_split
from vlm_envs.responses.answers import AnswerKind
from vlm_envs.splits import SPLITS
from vlm_envs.tools.files import FileRoot

NAME = "pdf_folder"
FILES = ("questions.jsonl", "questions.json")
KINDS = ("anls", "exact", "number", "semantic")


def load_pdf_folder(folder: str | Path, split: str | None = None) -> DocumentQuestions:
    """Returns the questions about PDF files of a user's own.

    Args:
        folder: Holds the PDF files and `questions.jsonl` (one object a line) or `questions.json` (a list of objects)
            with the keys `document` (a file name), `question`, `answer` (a text or a list of accepted ones), and, if
            wanted, `pages` (those that hold the answer, from 1), `kind` (`anls` if left out, `exact`, `number` or
            `semantic`), `category` and `split`.
        split: The split of questions that name none; None divides them by a hash of the document's name.

    Raises:
        ConfigError: If there is no such file, or a row is broken; it names file and row.
    """
    if split is not None:
        require_choice("split", split, SPLITS)
    root = FileRoot(folder)
    file = next((name for name in FILES if name in root.names()), None)
    if file is None:
        raise ConfigError(f"{folder} holds neither {' nor '.join(FILES)}. Write one, with a question a row.")
    return DocumentQuestions(NAME, _questions(root, str(Path(folder).resolve()), file, split))


def _questions(root: FileRoot, folder: str, file: str, split: str | None) -> Iterator[Question]:
    for number, (where, fields) in enumerate(read_rows(root, file), start=1):
        name = document_name(fields, "document", where)
        answers = fields.get("answer")
        yield Question(
            where=where,
            number=str(number),
            split=_choice(fields, "split", split or content_split(name), SPLITS, where),
            question=text(fields, "question", where),
            key=answer_key(
                cast("AnswerKind", _choice(fields, "kind", "anls", KINDS, where)),
                texts(fields, "answer", where) if isinstance(answers, list) else (text(fields, "answer", where),),
                where,
            ),
            category=category(text(fields, "category", where)) if "category" in fields else "document",
            document=PdfFile(folder, name),
            pages=pages(fields.get("pages", []), "pages", where),
        )


def _choice(fields: Fields, name: str, default: str, choices: tuple[str, ...], where: str) -> str:
    """Returns a field that is one of a few words, or what stands for it where it is missing."""
    value = fields.get(name, default)
    if value not in choices:
        raise broken(where, f"one of {', '.join(choices)} as {name!r}", value)
    return str(value)
