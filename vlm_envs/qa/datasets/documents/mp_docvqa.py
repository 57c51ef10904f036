"""MP-DocVQA: questions about windows of up to 20 pages of scanned documents, as page pictures."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from vlm_envs.qa.datasets.documents.files import PageFiles
from vlm_envs.qa.datasets.documents.rows import DocumentRow, document_name, is_file_name
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, answer_key, broken, each_row, text, texts, whole
from vlm_envs.qa.datasets.source import Copy, Dataset
from vlm_envs.splits import SPLITS
from vlm_envs.tools.files import FileRoot

_MP_DOCVQA_FILES = tuple(f"{split}.json" for split in SPLITS)
_MP_DOCVQA_QUESTIONS = "question_answers"
"""Folder of the download that holds the files of questions."""


def _mp_docvqa_files(root: FileRoot) -> list[str]:
    return root.existing(_MP_DOCVQA_FILES) or root.existing(
        f"{_MP_DOCVQA_QUESTIONS}/{name}" for name in _MP_DOCVQA_FILES
    )


def _mp_docvqa_rows(copy: Copy) -> Iterator[DocumentRow | BrokenRowError]:
    for file in copy.files:
        split = file.rpartition("/")[2].removesuffix(".json")

        def row(fields: Fields, where: str, number: int, split: str = split) -> DocumentRow | None:
            return (
                answered_row(fields, where, copy.root.folder, split)
                if split != "test" or fields.get("answers")
                else None
            )

        yield from filter(None, each_row(copy.root, file, row, under="data"))


@dataclass(frozen=True, kw_only=True, slots=True)
class PagesRow(DocumentRow):
    """One question about a window of pages."""

    document: PageFiles


def answered_row(fields: Fields, where: str, folder: str, split: str) -> PagesRow:
    """Returns a row that has answers.

    Args:
        fields: What it holds.
        where: Its file and place, for messages.
        folder: The folder of the download, with the pages' pictures in `images`.
        split: Whose it is.

    Raises:
        BrokenRowError: If it is not what the data set's rows are.
    """
    number = fields.get("questionId")
    if isinstance(number, bool) or not isinstance(number, int | str):
        raise broken(where, "a number or a text as 'questionId'", number)
    pages = texts(fields, "page_ids", where)
    if not all(map(is_file_name, pages)):
        raise broken(where, "as 'page_ids' files inside the folder, without '..' or any of \\ : < >", pages)
    index = whole(fields, "answer_page_idx", where)
    if index >= len(pages):
        raise broken(where, f"an index of the {len(pages)} 'page_ids' as 'answer_page_idx'", index)
    return PagesRow(
        key=str(number),
        where=where,
        split=split,
        answer=answer_key(where, "anls", *texts(fields, "answers", where), question=text(fields, "question", where)),
        category="document",
        document=PageFiles(folder, document_name(fields, "doc_id", where), pages),
        pages=(index + 1,),
    )


MP_DOCVQA = Dataset(
    expected=f"a folder with any of {', '.join(_MP_DOCVQA_FILES)}, or a folder {_MP_DOCVQA_QUESTIONS} with them",
    files=_mp_docvqa_files,
    rows=_mp_docvqa_rows,
)
"""MP-DocVQA: questions about windows of up to 20 pages of scanned documents, as page pictures.

Not run on the original data here; the layout is that of its download: `train.json` and `val.json` (one of them may be
missing), in the folder or in its folder `question_answers`, each an object whose `data` is a list of `questionId`,
`question`, `doc_id`, `page_ids`, `answers`, `answer_page_idx`; pictures `images/<page id>.jpg`. `test.json` is read if
its rows have answers; the published ones have none and are left out. Text is searched if there is OCR
(`ocr/<page id>.json`, Textract). Splits are the data set's own. Answers are compared by ANLS.
"""
