"""Published layouts of questions with their true answers, row by row as `python -m training pairs` has its own.

None was run on the original data here. MP-DocVQA's is that of its loader
(`vlm_envs.qa.datasets.document_datasets`); DeepEyes' is read off the public code that writes its tables
(`create_train_dataset.py`); MM-IFEngine's is how LLaMA-Factory, with which its public code trains, reads conversations
and preferences.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any

from vlm_envs.qa.datasets.dataset_images import row_image, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Fields, broken, text
from vlm_envs.qa.datasets.document_datasets import answered_row, page_file
from vlm_envs.tools.data_files import FileRoot
from vlm_envs.tools.tool_errors import ToolError


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
    image = row_image(fields, where)
    if image is None:
        raise broken(where, "one image as 'images'", fields.get("images"))
    answer = text(told, "answer" if told.get("answer") is not None else "solution", where)
    return {
        "track": "fine_grained",
        "question": without_marks(text(told, "question" if told.get("question") is not None else "problem", where)),
        "response": answer,
        "answer": answer,
        "image": image,
    }


def _mm_ifengine(root: FileRoot, fields: Fields, where: str) -> Fields:
    """Returns an instruction with the response that keeps to it, and the one that does not, where the row has one.

    `conversations` (`from` and `value`) or `messages` (`role` and `content`) end in the instruction, and `chosen` and
    `rejected` are messages or texts; without them the conversation ends in the response. One picture, in `images` or as
    `image`, or none.
    """
    name = "conversations" if fields.get("conversations") is not None else "messages"
    told: Any = fields.get(name)
    if not isinstance(told, list) or not told:
        raise broken(where, f"a list of messages as {name!r}", told)
    said = [_message(each, name, where) for each in told]
    said = said[1:] if said[0][0] == "system" else said
    chosen, rejected = (_response(fields, which, where) for which in ("chosen", "rejected"))
    if chosen is None and len(said) == 2 and said[1][0] == "assistant":
        chosen = said.pop()[1]
    if [role for role, _ in said] != ["user"] or chosen is None:
        raise broken(where, f"one instruction in {name!r} and its response, there or as 'chosen'", told)
    image, question = row_image(fields, where), said[0][1]
    if question.count("<image>") > (image is not None):
        raise broken(where, "a picture in 'images' for each <image>", question)
    return {
        "id": fields.get("id"),
        "track": "instruction_following",
        "question": without_marks(question),
        "response": chosen,
        "wrong": [] if rejected is None else [rejected],
        "image": image,
    }


def _own(root: FileRoot, fields: Fields, where: str) -> Fields:
    return {**fields, "image": row_image(fields, where)}


_ROLES = {"human": "user", "gpt": "assistant"}


def _response(fields: Fields, which: str, where: str) -> str | None:
    """Returns a response, a message or a text; None where there is none."""
    value: Any = fields.get(which)
    return value if value is None or isinstance(value, str) else _message(value, which, where)[1]


def _message(message: Any, name: str, where: str) -> tuple[str, str]:
    """Returns role and text of a message in either of the usual layouts."""
    told = message if isinstance(message, Mapping) else {}
    role, content = told.get("from", told.get("role")), told.get("value", told.get("content"))
    if not isinstance(role, str) or not isinstance(content, str):
        raise broken(where, f"messages of role and text in {name!r}", message)
    return _ROLES.get(role, role), content


LAYOUTS: Mapping[str, Layout] = MappingProxyType(
    {
        "own": Layout(own=_own),
        "mp_docvqa": Layout(own=_mp_docvqa, under="data"),
        "deepeyes": Layout(own=_deepeyes),
        "mm_ifengine": Layout(own=_mm_ifengine),
    }
)
