"""Preference pairs for judging: responses built from questions with a right response (ARM-Thinker).

    question, image, right response ── wrong ones: the row's own, or a model's ── filter ──> judged.jsonl

Source: ARM-Thinker, section 3.2 and equation 2 (wrong responses of a language model, then overly similar pairs are
removed); section 4.2 (negatives that contain the right answer are removed). Choices: the paper does not specify the
similarity measure; here it is word-level edit distance. Broken rows are reported and skipped. All rows are checked
with the reader of the result before any request to a model.

No layout was tested on the original data. MP-DocVQA's is that of its loader
(`vlm_envs.qa.datasets.document_datasets`); DeepEyes' is taken from the public code that writes its tables
(`create_train_dataset.py`); MM-IFEngine's follows LLaMA-Factory, with which its public code trains.
"""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from agents.api.client import ChatClient
from agents.api.failures import Unavailable
from agents.event_loop import run_blocking
from judges.asking import gather
from judges.llm.llm_graders import write_wrong_responses
from training.curation.curation_config import JUDGED, PairsConfig
from vlm_envs.content.judging.judging_cases import TRACKS
from vlm_envs.content.judging.judging_datasets import judged_row
from vlm_envs.content.judging.preference_rows import document_of, picture_of
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.dataset_images import TableImage, without_marks
from vlm_envs.qa.datasets.dataset_rows import BrokenRowError, Fields, Row, read_rows, rows_of
from vlm_envs.qa.datasets.document_datasets import answered_row, page_file
from vlm_envs.records.json_lines import replace_file
from vlm_envs.responses.answers import normalise
from vlm_envs.responses.formats import encodable
from vlm_envs.tools.data_files import FileRoot, decode_image
from vlm_envs.tools.tool_errors import ToolError

_MAX_SHOWN_PIXELS = 1_048_576
"""Maximum image size for the model that writes wrong responses; larger images are downscaled."""
PICTURES = "pictures"
"""Folder for images extracted from a table, next to the rows; file names are hashes of the content."""

_KEPT = ("image", "document", "pages", "evidence_pages")
"""Fields that are copied unchanged."""
Layout = Callable[[FileRoot, Row], Fields]
"""Converts a row, given its folder, to fields with this project's names; may raise `BrokenRowError`."""

_ROLES = {"human": "user", "gpt": "assistant"}


@dataclass(frozen=True, kw_only=True)
class Built:
    """The rows built from a file of questions.

    Attributes:
        rows: Rows to judge, in the order of the questions.
        num_questions: Number of rows of the file, including broken ones.
        broken: Error message for each broken row, with file and row.
        num_short: Questions left out for lack of wrong responses.
        dropped_wrong: Number of dropped wrong responses by reason.
    """

    rows: tuple[Mapping[str, Any], ...]
    num_questions: int
    broken: tuple[str, ...]
    num_short: int
    dropped_wrong: Mapping[str, int]

    def __str__(self) -> str:
        lines = [f"left out: {fault}" for fault in self.broken[:10]]
        if len(self.broken) > 10:
            lines.append(f"left out: {len(self.broken) - 10} more broken rows")
        dropped = ", ".join(f"{count} {reason}" for reason, count in self.dropped_wrong.items()) or "none"
        short = f", {self.num_short} too few wrong responses" if self.num_short else ""
        lines.append(
            f"{len(self.rows)} rows to be judged, of {self.num_questions} questions; left out: {len(self.broken)} "
            f"broken{short}; wrong responses dropped: {dropped}"
        )
        return "\n".join(lines)


def build_pairs(config: PairsConfig) -> tuple[Path, Built]:
    """Writes the rows to judge; returns their file and the result.

    Raises:
        ConfigError: If the folder or file does not exist, the result already exists, a required model cannot be
            asked, or no rows are left.
    """
    root = FileRoot(config.folder, follows_links=True)
    out = Path(root.folder) / JUDGED
    if out.exists():
        raise ConfigError(f"{out} already exists. Move it away, or use another folder.")
    read = read_questions(config)
    questions = [question for question in read if isinstance(question, Question)]
    if config.asks_model:
        with ChatClient(config.endpoint) as client:
            asked = (_with_wrong(question, client, root, config.num_wrong) for question in questions)
            questions = run_blocking(gather(asked, num_parallel=config.endpoint.max_parallel))
    rows: list[Mapping[str, Any]] = []
    dropped: Counter[str] = Counter()
    num_short = 0
    for number, question in enumerate(questions, start=1):
        wrong = _kept_wrong(question, config.max_similarity, dropped)[: config.num_wrong]
        if len(wrong) < config.num_wrong:
            num_short += 1
        elif config.num_candidates > 1:
            rows.append(question.row(number) | {"responses": [question.right, *wrong], "answer": 1})
        else:
            for response, is_right in ((question.right, True), (wrong[0], False)):
                rows.append(question.row(number) | {"responses": [response], "answer": is_right})
    built = Built(
        rows=tuple(rows),
        num_questions=len(read),
        broken=tuple(str(fault) for fault in read if isinstance(fault, BrokenRowError)),
        num_short=num_short,
        dropped_wrong=dropped,
    )
    if not rows:
        raise ConfigError(
            f"Nothing is left of {config.folder}/{config.rows}. {built}. Give rows a list 'wrong', name a model that "
            "writes them (--endpoint.model NAME --endpoint.base-url URL), or raise --max-similarity."
        )
    replace_file(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows).encode())
    return out, built


def similarity(first: str, second: str) -> float:
    """Returns the word similarity of two texts: 1 - word edit distance / number of words of the longer text.

    Args:
        first: A text; case and punctuation around words are ignored.
        second: Another text.

    Returns:
        In `[0, 1]`; 1 if all words are equal or both texts are empty.
    """
    one, other = (normalise(text).split() for text in (first, second))
    longest = max(len(one), len(other))
    return 1.0 - _edits(one, other) / longest if longest else 1.0


def _edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the Levenshtein distance between two lists of words."""
    codes = {word: number for number, word in enumerate({*first, *second})}
    wanted, columns = np.array([codes[word] for word in second], dtype=np.int64), np.arange(len(second) + 1)
    row = columns
    for number, word in enumerate(first, start=1):
        upper = np.minimum(row[1:] + 1, row[:-1] + (wanted != codes[word]))
        row = np.minimum.accumulate(np.concatenate(([number], upper)) - columns) + columns
    return int(row[-1])


async def _with_wrong(question: Question, client: ChatClient, root: FileRoot, number: int) -> Question:
    """Returns a question with enough wrong responses, asking a model for missing ones."""
    needed, pictures, image = number - len(question.wrong), [], question.fields.get("image")
    if needed <= 0:
        return question
    if image is not None:
        pixels = picture_of(root, image, question.where).pixels
        step = int(np.ceil(np.sqrt(pixels.shape[0] * pixels.shape[1] / _MAX_SHOWN_PIXELS)))
        pictures = [np.ascontiguousarray(pixels[::step, ::step])]
    written = await write_wrong_responses(client, question.request, question.right, needed, images=pictures)
    return question if isinstance(written, Unavailable) else replace(question, wrong=(*question.wrong, *written))


def _kept_wrong(question: Question, max_similarity: float, dropped: Counter[str]) -> list[str]:
    """Returns the valid wrong responses, and counts the dropped ones by reason in `dropped`."""
    kept: list[str] = []
    for wrong in question.wrong:
        alike = similarity(wrong, question.right)
        if any(f" {normalise(answer)} " in f" {normalise(wrong)} " for answer in question.answers):
            dropped["holds the right answer"] += 1
        elif alike > max_similarity or alike == 1.0:
            dropped["too similar"] += 1
        elif any(normalise(wrong) == normalise(other) for other in kept):
            dropped["said twice"] += 1
        else:
            kept.append(wrong)
    return kept


@dataclass(frozen=True, kw_only=True)
class Question:
    """A question with its right response.

    Attributes:
        where: File and row.
        fields: Fields of the row.
        request: The question.
        right: The right response.
        wrong: Wrong responses in the row.
        answers: Short forms of the right answer; empty if the row has none.
    """

    where: str
    fields: Fields
    request: str
    right: str
    wrong: tuple[str, ...] = ()
    answers: tuple[str, ...] = ()

    def row(self, number: int) -> dict[str, Any]:
        """Returns the fields of the rows built from the question, except the responses.

        Args:
            number: Id for a row without one.
        """
        about = {name: self.fields[name] for name in _KEPT if name in self.fields}
        track = self.fields.get("track", "document" if "document" in about else "fine_grained")
        row_id = encodable(str(self.fields.get("id", number)))
        return {"id": row_id, "track": track, "question": self.request, **about}


def read_questions(config: PairsConfig) -> list[Question | BrokenRowError]:
    """Returns the questions of a file, or an error for each broken one, and saves a table's images as files.

    Raises:
        ConfigError: If the folder or file does not exist or cannot be read.
    """
    root, (layout, under) = FileRoot(config.folder, follows_links=True), LAYOUTS[config.layout]
    read = partial(_question, root, layout, set())
    return list(read_rows(rows_of(root, config.rows, under=under), read))


def _question(root: FileRoot, layout: Layout, readable: set[str], row: Row) -> Question:
    """Returns a row as a question, and adds the names of its readable documents and pages to `readable`."""
    fields = {name: value for name, value in layout(root, row).items() if value is not None}
    own = replace(row, fields=fields)
    wrong = fields.get("wrong", [])
    if not isinstance(wrong, list) or not all(isinstance(text, str) and text.strip() for text in wrong):
        row.broken("a list of texts as 'wrong'", wrong)
    own.one_of("track", TRACKS)
    answers = fields.get("answer", [])
    answers = [answers] if isinstance(answers, str) else answers
    if not isinstance(answers, list) or not all(isinstance(text, str) for text in answers):
        row.broken("a text as 'answer', or a list of them", answers)
    request, right, pages = own.text("question"), own.text("response"), fields.get("pages")
    row.check_media(request, (right, *wrong), ("image" in fields) + (len(pages) if isinstance(pages, list) else 0))
    question = Question(
        where=row.where,
        fields=_with_saved_picture(root, fields, row.where),
        request=encodable(without_marks(request)),
        right=encodable(right),
        wrong=tuple(encodable(text.strip()) for text in wrong),
        answers=tuple(encodable(text.strip()) for text in answers if text.strip()),
    )
    _require_usable(root, question, row.number, readable)
    return question


def _require_usable(root: FileRoot, question: Question, number: int, readable: set[str]) -> None:
    """Checks that the reader of the built rows will accept them, including the image or document.

    Files in `readable` are not read again, because many questions share a document.
    """
    row = question.row(number + 1) | {"responses": [question.right], "answer": True}
    judged = judged_row(Row(row, question.where))
    if judged.image:
        picture_of(root, judged.image, question.where)
    files = [name for name in judged.pages or filter(None, [judged.document]) if name not in readable]
    if files:
        document_of(root, judged.document, files if judged.pages else (), question.where)
        readable.update(files)


def _with_saved_picture(root: FileRoot, fields: Fields, where: str) -> Mapping[str, Any]:
    """Returns the fields with an image from a table replaced by the name of its saved file."""
    image = fields.get("image")
    if not isinstance(image, bytes | TableImage):
        return fields
    try:
        image = image.read() if isinstance(image, TableImage) else image
        decode_image(image, name="image")
    except ToolError as error:
        raise BrokenRowError(f"{where}: the image cannot be read: {error}") from error
    name = f"{PICTURES}/{hashlib.blake2b(image, digest_size=16).hexdigest()}.{_ending(image)}"
    path = Path(root.folder, name)
    if not path.exists():
        replace_file(path, image)
    return {**fields, "image": name}


def _ending(content: bytes) -> str:
    """Returns the file extension of an image; readers ignore it."""
    endings = {b"\x89PNG": "png", b"\xff\xd8\xff": "jpg", b"GIF8": "gif", b"RIFF": "webp"}
    return next((ending for start, ending in endings.items() if content.startswith(start)), "image")


def _mp_docvqa(root: FileRoot, row: Row) -> Fields:
    """Returns a question about a window of pages; its first accepted answer is the response."""
    asked = answered_row(row, root.folder, "train")
    try:
        pages = [page_file(root, page) for page in asked.document.pages]
    except ToolError as error:
        raise BrokenRowError(f"{row.where}: {error}") from error
    return {
        "id": asked.key,
        "track": "document",
        "question": asked.answer.question,
        "response": asked.answer.answers[0],
        "answer": list(asked.answer.answers),
        "document": asked.document.name,
        "pages": pages,
        "evidence_pages": list(asked.pages),
    }


def _deepeyes(root: FileRoot, row: Row) -> Fields:
    """Returns a question about one image: `extra_info` has question and answer, `images` the image.

    Rows without `extra_info` have top-level `question` or `problem`, and `answer` or `solution`.
    """
    info: Any = row.fields.get("extra_info") or row.fields
    if not isinstance(info, Mapping):
        row.broken("an object as 'extra_info'", info)
    inner, image = replace(row, fields=info), row.image()
    if image is None:
        row.broken("one image as 'images'", row.fields.get("images"))
    answer = inner.text("answer" if inner.has("answer") else "solution")
    return {
        "track": "fine_grained",
        "question": without_marks(inner.text("question" if inner.has("question") else "problem")),
        "response": answer,
        "answer": answer,
        "image": image,
    }


def _mm_ifengine(root: FileRoot, row: Row) -> Fields:
    """Returns an instruction with the response that follows it, and the one that does not, if present.

    `conversations` (`from` and `value`) or `messages` (`role` and `content`) end in the instruction, and `chosen` and
    `rejected` are messages or texts; without them the conversation ends in the response. There is at most one image,
    in `images` or as `image`.
    """
    name = "conversations" if row.has("conversations") else "messages"
    messages: Any = row.fields.get(name)
    if not isinstance(messages, list) or not messages:
        row.broken(f"a list of messages as {name!r}", messages)
    texts = [_message(row, message, name) for message in messages]
    texts = texts[1:] if texts[0][0] == "system" else texts
    chosen, rejected = (_response(row, which) for which in ("chosen", "rejected"))
    if chosen is None and len(texts) == 2 and texts[1][0] == "assistant":
        chosen = texts.pop()[1]
    if [role for role, _ in texts] != ["user"] or chosen is None:
        row.broken(f"one instruction in {name!r} and its response, there or as 'chosen'", messages)
    image, question = row.image(), texts[0][1]
    if question.count("<image>") > (image is not None):
        row.broken("an image in 'images' for each <image>", question)
    return {
        "id": row.fields.get("id"),
        "track": "instruction_following",
        "question": without_marks(question),
        "response": chosen,
        "wrong": [] if rejected is None else [rejected],
        "image": image,
    }


def _own(root: FileRoot, row: Row) -> Fields:
    return {**row.fields, "image": row.image()}


def _response(row: Row, which: str) -> str | None:
    """Returns the text of a response, which is a message or a string; None if absent."""
    value: Any = row.fields.get(which)
    return value if value is None or isinstance(value, str) else _message(row, value, which)[1]


def _message(row: Row, message: Any, name: str) -> tuple[str, str]:
    """Returns role and text of a message with `from` and `value`, or `role` and `content`."""
    fields = message if isinstance(message, Mapping) else {}
    role, content = fields.get("from", fields.get("role")), fields.get("value", fields.get("content"))
    if not isinstance(role, str) or not isinstance(content, str):
        row.broken(f"messages of role and text in {name!r}", message)
    return _ROLES.get(role, role), content


LAYOUTS: Mapping[str, tuple[Layout, str | None]] = {
    "own": (_own, None),
    "mp_docvqa": (_mp_docvqa, "data"),
    "deepeyes": (_deepeyes, None),
    "mm_ifengine": (_mm_ifengine, None),
}
"""Row converter of each layout, and the key of the row list in `.json` files that hold an object."""
