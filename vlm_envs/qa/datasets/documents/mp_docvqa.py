"""MP-DocVQA: questions about windows of up to 20 pages of scanned documents, as page pictures."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.documents.files import PageFiles
from vlm_envs.qa.datasets.documents.rows import answer_key, document_name, is_file_name
from vlm_envs.qa.datasets.documents.source import DocumentQuestions, Question
from vlm_envs.qa.datasets.rows import Fields, broken, read_rows, text, texts, whole
from vlm_envs.splits import SPLITS
from vlm_envs.tools.files import FileRoot

NAME = "mp_docvqa"
_QUESTIONS = "question_answers"
"""Folder of the download that holds the files of questions."""


def load_mp_docvqa(folder: str | Path) -> DocumentQuestions:
    """Returns the questions of a local copy of MP-DocVQA.

    Not run on the original data here; the layout is that of its download: `train.json` and `val.json` (one of them
    may be missing), in the folder or in its folder `question_answers`, each an object whose `data` is a list of
    `questionId`, `question`, `doc_id`, `page_ids`, `answers`, `answer_page_idx`; pictures `images/<page id>.jpg`.
    `test.json` is read if its rows have answers; the published ones have none and are left out. Text is searched if
    there is OCR (`ocr/<page id>.json`, Textract). Splits are the data set's own. Answers are compared by ANLS.

    Args:
        folder: Where the files are.

    Raises:
        ConfigError: If there is no such file, or a row is broken; it names file and row.
    """
    root = FileRoot(folder)
    below = Path(folder) / _QUESTIONS
    files = [name for name in root.names(".json") if name.removesuffix(".json") in SPLITS]
    if not files and below.is_dir():
        found = FileRoot(below).names(".json")
        files = [f"{_QUESTIONS}/{name}" for name in found if name.removesuffix(".json") in SPLITS]
    if not files:
        raise ConfigError(
            f"{folder} holds none of {', '.join(f'{split}.json' for split in SPLITS)}, as MP-DocVQA does."
        )
    return DocumentQuestions(NAME, _questions(root, str(Path(folder).resolve()), files))


def _questions(root: FileRoot, folder: str, files: list[str]) -> Iterator[Question]:
    for file in files:
        split = file.rpartition("/")[2].removesuffix(".json")
        for where, fields in read_rows(root, file, under="data"):
            if split != "test" or fields.get("answers"):
                yield _question(fields, where, folder, split)


def _question(fields: Fields, where: str, folder: str, split: str) -> Question:
    number = fields.get("questionId")
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise broken(where, "a number or a text as 'questionId'", number)
    pages = texts(fields, "page_ids", where)
    if not all(map(is_file_name, pages)):
        raise broken(where, "as 'page_ids' files inside the folder, without '..' or any of \\ : < >", pages)
    index = whole(fields, "answer_page_idx", where)
    if index >= len(pages):
        raise broken(where, f"an index of the {len(pages)} 'page_ids' as 'answer_page_idx'", index)
    return Question(
        where=where,
        number=str(number),
        split=split,
        question=text(fields, "question", where),
        key=answer_key("anls", texts(fields, "answers", where), where),
        category="document",
        document=PageFiles(folder, document_name(fields, "doc_id", where), pages),
        pages=(index + 1,),
    )
