"""Published layouts of questions with their true answers, row by row as `python -m training pairs` has its own.

Neither was run on the original data here. MP-DocVQA's is that of its loader
(`vlm_envs.qa.datasets.documents.mp_docvqa`); DeepEyes' is read off the public code that writes its tables
(`create_train_dataset.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from vlm_envs.content.judging.datasets.preferences import without_marks
from vlm_envs.qa.datasets.documents.files import page_file
from vlm_envs.qa.datasets.documents.mp_docvqa import answered_row
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, broken, text
from vlm_envs.tools.errors import ToolError
from vlm_envs.tools.files import FileRoot


@dataclass(frozen=True, kw_only=True)
class Layout:
    """How a file has its questions.

    Attributes:
        own: Returns a row's fields by this project's own names, from the folder, the row, and its file and place; may
            raise `BrokenRowError`.
        under: Key of the list of rows, where a `.json` file holds an object around it.
    """

    own: Callable[[FileRoot, Fields, str], Fields]
    under: str | None = None


def _mp_docvqa(root: FileRoot, fields: Fields, where: str) -> Fields:
    """Returns a question about a window of pages; its first accepted answer is the response."""
    row = answered_row(fields, where, root.folder, "train")
    try:
        pages = [page_file(root, page) for page in row.document.pages]
    except ToolError as error:
        raise BrokenRowError(f"{where}: {error}") from error
    return {
        "id": row.key,
        "track": "document",
        "question": row.answer.question,
        "response": row.answer.answers[0],
        "answer": list(row.answer.answers),
        "document": row.document.name,
        "pages": pages,
        "evidence_pages": list(row.pages),
    }


def _deepeyes(root: FileRoot, fields: Fields, where: str) -> Fields:
    """Returns a question about one picture: `extra_info` has question and answer, `images` the picture.

    Rows without `extra_info` have `question` or `problem`, and `answer` or `solution`, themselves.
    """
    told: Any = fields.get("extra_info") or fields
    if not isinstance(told, Mapping):
        raise broken(where, "an object as 'extra_info'", told)
    images = fields.get("images")
    if not isinstance(images, list) or len(images) != 1:
        raise broken(where, "a list of one picture as 'images'", images)
    answer = text(told, "answer" if told.get("answer") is not None else "solution", where)
    return {
        "track": "fine_grained",
        "question": without_marks(text(told, "question" if told.get("question") is not None else "problem", where)),
        "response": answer,
        "answer": answer,
        "image": images[0],
    }


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "own": Layout(own=lambda root, fields, where: fields),
        "mp_docvqa": Layout(own=_mp_docvqa, under="data"),
        "deepeyes": Layout(own=_deepeyes),
    }
)
