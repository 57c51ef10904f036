"""Questions with a right response, out of which responses to be judged are built.

They are checked by the reader of what is built, before a model is asked about any: what it would leave out is broken
here already.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from training.config.pairs import PairsConfig
from training.data.pair_layouts import LAYOUTS, Layout
from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.content.judging.judging_datasets import judged_rows_of
from vlm_envs.content.judging.preference_rows import FileRow, document_of, picture_of
from vlm_envs.qa.datasets.media import media_fault, without_marks
from vlm_envs.qa.datasets.rows import BrokenRowError, Fields, broken, each_row, text
from vlm_envs.records.json_lines import replace_file
from vlm_envs.responses.encodable import encodable
from vlm_envs.tools.errors import ToolError
from vlm_envs.tools.files import FileRoot, decode_image

PICTURES = "pictures"
"""Folder beside the rows in which pictures of a table are saved, each once, by a hash of their bytes."""

_KEPT = ("image", "document", "pages", "evidence_pages")
"""Fields that are handed on as they are."""


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its right response.

    Attributes:
        where: File and row.
        fields: What the row holds.
        request: The question.
        right: The right response.
        wrong: Wrong ones that the row has.
        answers: What the right response comes to in short, each in words of its own; none where the row does not say.
    """

    where: str
    fields: Fields
    request: str
    right: str
    wrong: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    def row(self, number: int) -> dict[str, Any]:
        """Returns the fields of the rows that are built of it, but for the responses.

        Args:
            number: Its id, where the row has none.
        """
        about = {name: self.fields[name] for name in _KEPT if name in self.fields}
        track = self.fields.get("track", "document" if "document" in about else "fine_grained")
        row_id = encodable(str(self.fields.get("id", number)))
        return {"id": row_id, "track": track, "question": self.request, **about}


def read_questions(config: PairsConfig) -> list[Question | BrokenRowError]:
    """Returns the questions of a file, and what is wrong with each broken one; a table's pictures are saved.

    Raises:
        ConfigError: If there is no such folder or file, or it cannot be read.
    """
    root, layout = FileRoot(config.folder, follows_links=True), LAYOUTS[config.layout]
    read = partial(_question, root, layout, set())
    return list(each_row(root, config.rows, read, under=layout.under))


def _question(root: FileRoot, layout: Layout, known: set[str], values: Fields, where: str, number: int) -> Question:
    """Returns a row as a question; `known` are names of documents and pages that can be read, and is added to."""
    own = layout.own(root, values, where)
    fields = {name: value for name, value in own.items() if value is not None}
    wrong = fields.get("wrong", [])
    if not isinstance(wrong, list) or not all(isinstance(each, str) and each.strip() for each in wrong):
        raise broken(where, "a list of texts as 'wrong'", wrong)
    if fields.get("track", TRACKS[0]) not in TRACKS:
        raise broken(where, f"one of {', '.join(TRACKS)} as 'track'", fields["track"])
    answers = fields.get("answer", [])
    answers = [answers] if isinstance(answers, str) else answers
    if not isinstance(answers, list) or not all(isinstance(each, str) for each in answers):
        raise broken(where, "a text as 'answer', or a list of them", answers)
    request, right, pages = text(fields, "question", where), text(fields, "response", where), fields.get("pages")
    num_images = ("image" in fields) + (len(pages) if isinstance(pages, list) else 0)
    if fault := media_fault(values, request, (right, *wrong), num_images):
        raise BrokenRowError(f"{where}: {fault}. Correct the row or remove it.")
    question = Question(
        where=where,
        fields=_with_saved_picture(root, fields, where),
        request=encodable(without_marks(request)),
        right=encodable(right),
        wrong=tuple(encodable(each.strip()) for each in wrong),
        answers=tuple(encodable(each.strip()) for each in answers if each.strip()),
    )
    _require_usable(root, question, number, known)
    return question


def _require_usable(root: FileRoot, question: Question, number: int, known: set[str]) -> None:
    """Refuses what the reader of what is built would leave out, its picture or its document included.

    Many questions are about one document, so that each of its files is read once.
    """
    row = question.row(number + 1) | {"responses": [question.right], "answer": True}
    (judged,) = judged_rows_of([FileRow(question.where, number + 1, row)])
    if isinstance(judged, BrokenRowError):
        raise judged
    if judged.image:
        picture_of(root, judged.image, question.where)
    files = [name for name in judged.pages or filter(None, [judged.document]) if name not in known]
    if files:
        document_of(root, judged.document, files if judged.pages else (), question.where)
        known.update(files)


def _with_saved_picture(root: FileRoot, fields: Fields, where: str) -> Mapping[str, Any]:
    """Returns fields whose `image` is the name of a file, where it was a picture of a table."""
    image = fields.get("image")
    if not isinstance(image, bytes):
        return fields
    try:
        decode_image(image, name="image")
    except ToolError as error:
        raise BrokenRowError(f"{where}: the picture cannot be read: {error}") from error
    name = f"{PICTURES}/{hashlib.blake2b(image, digest_size=16).hexdigest()}.{_ending(image)}"
    path = Path(root.folder, name)
    if not path.exists():
        replace_file(path, image)
    return {**fields, "image": name}


def _ending(content: bytes) -> str:
    """Returns how the names of such pictures end; readers go by what is in them."""
    endings = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"RIFF": "webp"}
    return next((ending for start, ending in endings.items() if content.startswith(start)), "image")
