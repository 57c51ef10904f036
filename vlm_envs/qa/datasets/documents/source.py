"""Samples from rows of a file and the documents that they name."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from vlm_envs.errors import ConfigError, GenerationError, LevelError, require_choice
from vlm_envs.qa.datasets.rows import BrokenRowError, broken
from vlm_envs.qa.datasets.splitting import remedy_of
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.splits import SPLITS
from vlm_envs.tools.documents import Document
from vlm_envs.tools.errors import ToolError


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """One row that was read.

    Attributes:
        where: File and row, for messages.
        number: What names it within the data set; letters, digits and `_ . -`.
        split: `"train"`, `"val"` or `"test"`.
        question: What is asked.
        key: The answer.
        category: Kind of question.
        document: What it is about.
        pages: Pages that hold the answer, from 1; none where nobody annotated them, or nothing is there.
        has_exact_pages: Whether a page that the document does not have is the row's fault; otherwise it is left out,
            as in published data that nobody can correct.
    """

    where: str
    number: str
    split: str
    question: str
    key: AnswerKey
    category: str
    document: Document
    pages: tuple[int, ...] = ()
    has_exact_pages: bool = True


class DocumentQuestions:
    """Questions of a user's own copy of a data set.

    Args:
        name: What begins the ids.
        questions: The rows.

    Raises:
        ConfigError: If there is none, or two have the same number.
    """

    def __init__(self, name: str, questions: Iterable[Question]) -> None:
        self._name = name
        self._by_number: dict[str, Question] = {}
        for question in questions:
            if not re.fullmatch(r"[\w.-]{1,80}", question.number):
                raise broken(question.where, "an id of letters, digits and _ . -", question.number)
            if known := self._by_number.get(question.number):
                raise broken(question.where, f"an id other than that of {known.where}", question.number)
            self._by_number[question.number] = question
        if not self._by_number:
            raise ConfigError(f"The data for {name} hold no question.")
        self.answer_kinds = frozenset(question.key.kind for question in self._by_number.values())
        """How answers are compared; a semantic one needs a judge."""
        self._by_split = {
            split: [question for question in self._by_number.values() if question.split == split] for split in SPLITS
        }

    @property
    def name(self) -> str:
        """What begins the ids of its samples."""
        return self._name

    def num_samples(self, split: str) -> int:
        """Returns how many questions a split has."""
        return len(self._by_split[require_choice("split", split, SPLITS)])

    def ids(self, split: str) -> tuple[str, ...]:
        """Returns the ids of a split, in the order of the files: for evaluations of all of it."""
        questions = self._by_split[require_choice("split", split, SPLITS)]
        return tuple(f"{self._name}:{question.number}" for question in questions)

    def sample_at(self, index: int, split: str) -> Sample:
        """Returns a question of a split by its place in the files, from 0.

        Raises:
            ConfigError: If its document cannot be read; it names file and row.
        """
        return self._sample(self._by_split[require_choice("split", split, SPLITS)][index])

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a question of a split, each as likely.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`.

        Raises:
            GenerationError: If there is none of the split.
            ConfigError: If its document cannot be read; it names file and row.
        """
        questions = self._by_split[require_choice("split", split, SPLITS)]
        if not questions:
            counts = ", ".join(f"{len(rows)} of {name}" for name, rows in self._by_split.items())
            raise GenerationError(
                f"The data for {self._name} hold no question of the split {split!r}, but {counts}. "
                + remedy_of(self._name, False if self._by_split["train"] or self._by_split["val"] else None)
            )
        return self._sample(questions[int(rng.integers(len(questions)))])

    def find(self, sample_id: str) -> Sample:
        """Returns the question of an id, such as `mp_docvqa:49153`.

        Raises:
            LevelError: If there is none.
            ConfigError: If its document cannot be read; it names file and row.
        """
        name, _, number = sample_id.partition(":")
        if name != self._name or number not in self._by_number:
            example = next(iter(self._by_number))
            raise LevelError(
                f"An id is {self._name}:<number of one of its {len(self._by_number)} questions>, such as "
                f"'{self._name}:{example}'; got {sample_id[:80]!r}."
            )
        return self._sample(self._by_number[number])

    def _sample(self, row: Question) -> Sample:
        try:
            num_pages, digest = row.document.num_pages, row.document.digest
        except ToolError as error:
            raise BrokenRowError(f"{row.where}: {error.message}") from error
        pages = tuple(page for page in row.pages if 1 <= page <= num_pages)
        if row.has_exact_pages and pages != row.pages:
            raise broken(row.where, f"pages from 1 to the document's {num_pages}", list(row.pages))
        content = "\n".join((digest, row.question, *row.key.answers))
        return Sample(
            sample_id=f"{self._name}:{row.number}",
            question=row.question,
            key=replace(row.key, question=row.question),
            category=row.category,
            digest=hashlib.blake2b(content.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest(),
            document=row.document,
            evidence_pages=pages,
            facts=f"The document says: {row.key.answers[0]}." if pages else "",
        )
