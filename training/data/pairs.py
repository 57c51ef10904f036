"""Responses to be judged, built from questions with a right response: ARM-Thinker's preference data.

    question, picture, right response ── wrong ones: the row's own, or a model's ── filter ──> judged.jsonl

Source: ARM-Thinker, section 3.2 and equation 2 (wrong responses of a language model, then overly similar pairs are
removed); section 4.2 (negatives that contain the right answer are removed). Choices: the paper does not say how
similarity is measured; here it is of words, by edit distance. Broken rows are named and counted, and end nothing.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from agents.api.client import ChatClient
from agents.api.failures import Unavailable
from judges.llm.wrong_responses import write_wrong_responses
from training.config.pairs import JUDGED, PairsConfig
from training.data.pair_questions import Question, read_questions
from vlm_envs.content.judging.preference_rows import picture_of
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.rows import BrokenRowError
from vlm_envs.records.json_lines import replace_file
from vlm_envs.responses.answers import normalise
from vlm_envs.tools.files import FileRoot

_MAX_SHOWN_PIXELS = 1_048_576
"""Larger pictures are scaled down for the model that writes wrong responses."""


@dataclass(frozen=True, kw_only=True)
class Built:
    """What came of a file of questions.

    Attributes:
        rows: To be judged, in the order of the questions.
        num_questions: Rows of the file, broken ones included.
        broken: What is wrong with each broken one, with its file and row.
        dropped_wrong: Wrong responses that were dropped, by the reason.
        dropped_questions: Questions left out, by the reason.
    """

    rows: tuple[Mapping[str, Any], ...]
    num_questions: int
    broken: tuple[str, ...]
    dropped_wrong: Mapping[str, int]
    dropped_questions: Mapping[str, int]

    def __str__(self) -> str:
        lines = [f"left out: {each}" for each in self.broken[:10]]
        if len(self.broken) > 10:
            lines.append(f"left out: {len(self.broken) - 10} more broken rows")
        return "\n".join(
            [
                *lines,
                f"{len(self.rows)} rows to be judged, of {self.num_questions} questions; left out: "
                f"{_told({'broken': len(self.broken), **self.dropped_questions})}; wrong responses dropped: "
                f"{_told(self.dropped_wrong)}",
            ]
        )


def build_pairs(config: PairsConfig) -> tuple[Path, Built]:
    """Writes the rows to be judged; returns their file, and what came of the questions.

    Raises:
        ConfigError: If there is no such folder or file, the result is there already, a model is needed and cannot be
            asked, or nothing is left.
    """
    root = FileRoot(config.folder, follows_links=True)
    out = Path(root.folder) / JUDGED
    if out.exists():
        raise ConfigError(f"{out} is there already. Move it away; questions of another kind belong in another folder.")
    read = read_questions(config)
    questions = [each for each in read if isinstance(each, Question)]
    with ExitStack() as opened:
        client = opened.enter_context(ChatClient(config.endpoint)) if config.asks_model else None
        asked = [each if len(each.wrong) >= config.num_wrong else None for each in questions]
        if client is not None:
            missing = [each for each, known in zip(questions, asked, strict=True) if known is None]
            written = iter(client.map(lambda each: _with_wrong(each, client, root, config.num_wrong), missing))
            questions = [next(written) if known is None else known for known in asked]
    built = replace(_built(questions, config), num_questions=len(read), broken=tuple(_broken_of(read)))
    if not built.rows:
        raise ConfigError(
            f"Nothing is left of {config.folder}/{config.rows}. {built}. Give rows a list 'wrong', name a model that "
            "writes them (--endpoint.model NAME --endpoint.base-url URL), or raise --max-similarity."
        )
    replace_file(out, "".join(json.dumps(row, ensure_ascii=False) + "\n" for row in built.rows).encode())
    return out, built


def similarity(first: str, second: str) -> float:
    """Returns how alike the words of two texts are: 1 less the edits that turn one into the other over the longer one.

    Args:
        first: A text; case and punctuation around words do not matter.
        second: Another one.

    Returns:
        From 0 to 1; 1 where all words are the same, or there are none.
    """
    one, other = (normalise(each).split() for each in (first, second))
    longest = max(len(one), len(other))
    return 1.0 - _edits(one, other) / longest if longest else 1.0


def _edits(first: Sequence[str], second: Sequence[str]) -> int:
    """Returns the fewest words inserted, deleted or replaced."""
    codes = {word: number for number, word in enumerate({*first, *second})}
    wanted, columns = np.array([codes[word] for word in second], dtype=np.int64), np.arange(len(second) + 1)
    row = columns
    for number, word in enumerate(first, start=1):
        upper = np.minimum(row[1:] + 1, row[:-1] + (wanted != codes[word]))
        row = np.minimum.accumulate(np.concatenate(([number], upper)) - columns) + columns
    return int(row[-1])


def _with_wrong(question: Question, client: ChatClient, root: FileRoot, number: int) -> Question:
    """Returns a question with the wrong responses that a model writes beside its own; without where it does not."""
    needed, pictures = number - len(question.wrong), _pictures(question, root)
    written = write_wrong_responses(client, question.request, question.right, needed, images=pictures)
    return question if isinstance(written, Unavailable) else replace(question, wrong=(*question.wrong, *written))


def _pictures(question: Question, root: FileRoot) -> list[Any]:
    """Returns the question's picture, if it has one; without, the model goes by the words."""
    image = question.fields.get("image")
    return [] if image is None else [_scaled(picture_of(root, image, question.where).pixels)]


def _scaled(pixels: Any) -> Any:
    step = int(np.ceil(np.sqrt(pixels.shape[0] * pixels.shape[1] / _MAX_SHOWN_PIXELS)))
    return np.ascontiguousarray(pixels[::step, ::step])


def _built(questions: Sequence[Question], config: PairsConfig) -> Built:
    dropped: Counter[str] = Counter()
    left_out: Counter[str] = Counter()
    rows: list[Mapping[str, Any]] = []
    for number, question in enumerate(questions, start=1):
        wrong = _kept_wrong(question, config.max_similarity, dropped)[: config.num_wrong]
        if len(wrong) < config.num_wrong:
            left_out["too few wrong responses"] += 1
            continue
        rows += _rows(question, wrong, number, config)
    return Built(
        rows=tuple(rows), num_questions=0, broken=(), dropped_wrong=dict(dropped), dropped_questions=dict(left_out)
    )


def _kept_wrong(question: Question, max_similarity: float, dropped: Counter[str]) -> list[str]:
    """Returns the wrong responses that may stay, and counts the others by the reason."""
    kept: list[str] = []
    for wrong in question.wrong:
        alike = similarity(wrong, question.right)
        if any(f" {normalise(answer)} " in f" {normalise(wrong)} " for answer in question.answers):
            dropped["holds the right answer"] += 1
        elif alike > max_similarity or alike == 1.0:
            dropped["too similar"] += 1
        elif any(normalise(wrong) == normalise(each) for each in kept):
            dropped["said twice"] += 1
        else:
            kept.append(wrong)
    return kept


def _rows(question: Question, wrong: Sequence[str], number: int, config: PairsConfig) -> list[Mapping[str, Any]]:
    """Returns a row of several responses, or, to be judged alone, the right one and a wrong one in a row each."""
    row = question.row(number)
    if config.num_candidates > 1:
        return [row | {"responses": [question.right, *wrong], "answer": 1}]
    return [
        row | {"responses": [each], "answer": is_right}
        for each, is_right in ((question.right, True), (wrong[0], False))
    ]


def _broken_of(read: Sequence[Question | BrokenRowError]) -> list[str]:
    return [str(each) for each in read if isinstance(each, BrokenRowError)]


def _told(counts: Mapping[str, int]) -> str:
    return ", ".join(f"{count} {reason}" for reason, count in counts.items() if count) or "none"
