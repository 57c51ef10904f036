"""Samples from generated reports."""

from __future__ import annotations

import functools
import hashlib
import re
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from vlm_envs.content.random_choice import pick
from vlm_envs.content.reports.composition import MAX_PAGES, MIN_PAGES, Numbering, Numberings
from vlm_envs.content.reports.page_questions import UNANSWERABLE
from vlm_envs.content.reports.report_questions import CATEGORIES, ask
from vlm_envs.content.reports.report_rendering import ReportDocument
from vlm_envs.errors import ConfigError, GenerationError, LevelError
from vlm_envs.qa.sample import Sample
from vlm_envs.splits import SPLITS, split_of
from vlm_envs.validation import as_names, require_choice, require_range

UNANSWERABLE_SHARE = 0.2
"""How many of the questions have no answer, where other categories are asked too."""

_MAX_TRIES = 1_000
_MAX_SEED = 2**63 - 1
_FILE_NAME = re.compile(r"[\w-]{1,60}\.pdf")
_ID = re.compile(r"report:([0-9]{1,2}):([a-z_]{1,40}):([0-9]{1,19})")


class ReportSource:
    """Questions about generated reports: one report a question, generated anew for each.

    Args:
        num_pages: How many pages a report has, or the fewest and the most; each number is as likely.
        categories: Of `vlm_envs.content.reports.report_questions.CATEGORIES`. `unanswerable` is one question in five if
            there are others, and the others are equally frequent.
        file_name: What every report is called; None for the names of who publishes it.
        first_label: The number printed on the first page of the body, or the least and the largest, each as likely in
            each report.
        label_size: In points, from 24 to 160: printed numbers are so large, stand beside the titles, and are shapes,
            which no text layer tells; None for the usual ones at the foot.

    Raises:
        ConfigError: If a number of pages or a category does not exist, the file's name is no PDF's, or pages cannot be
            numbered so.
    """

    name = "report"

    def __init__(
        self,
        num_pages: int | tuple[int, int] = (MIN_PAGES, MAX_PAGES),
        categories: Sequence[str] = CATEGORIES,
        file_name: str | None = None,
        *,
        first_label: int | tuple[int, int] = 1,
        label_size: int | None = None,
    ) -> None:
        fewest, most = require_range("num_pages", num_pages)
        categories = as_names(categories)
        if not MIN_PAGES <= fewest <= most <= MAX_PAGES:
            raise ConfigError(f"num_pages must lie between {MIN_PAGES} and {MAX_PAGES}; got {num_pages!r}.")
        if not categories:
            raise ConfigError(f"categories must hold at least one of {', '.join(CATEGORIES)}; got none.")
        for category in categories:
            require_choice("categories", category, CATEGORIES)
        if file_name is not None and not (isinstance(file_name, str) and _FILE_NAME.fullmatch(file_name)):
            raise ConfigError(f"file_name must be such as 'report.pdf', or None; got {file_name!r}.")
        self.num_pages, self.file_name = (fewest, most), file_name
        self.categories = tuple(dict.fromkeys(categories))
        self.numberings = Numberings.of(first_label, label_size)

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split.

        Args:
            rng: The only source of chance.
            split: `"train"`, `"val"` or `"test"`; it is decided by a hash of the report and the question.

        Raises:
            ConfigError: If there is no such split.
            GenerationError: If none of 1,000 samples belonged to it.
        """
        require_choice("split", split, SPLITS)
        for _ in range(_MAX_TRIES):
            num_pages = int(rng.integers(self.num_pages[0], self.num_pages[1] + 1))
            sample = self._sample(num_pages, self._category(rng), int(rng.integers(_MAX_SEED)))
            if split_of(sample.digest.encode()) == split:
                return self._named(sample)
        raise GenerationError(f"None of {_MAX_TRIES} reports belongs to the split {split!r}.")

    def find(self, sample_id: str) -> Sample:
        """Returns the sample of an id, numbered as here, whatever numbers of pages and categories this source has.

        Args:
            sample_id: Such as `report:12:chart_reading:834`: pages, category, seed.

        Raises:
            LevelError: If it is none.
        """
        match = _ID.fullmatch(sample_id)
        if match and MIN_PAGES <= int(match[1]) <= MAX_PAGES and match[2] in CATEGORIES and int(match[3]) <= _MAX_SEED:
            sample = self._sample(int(match[1]), match[2], int(match[3]))
            if sample.sample_id == sample_id:
                return self._named(sample)
        raise LevelError(
            f"An id of a generated report is report:<pages>:<category>:<seed>, such as 'report:12:chart_reading:834', "
            f"with {MIN_PAGES} to {MAX_PAGES} pages and one of the categories {', '.join(CATEGORIES)}; "
            f"got {sample_id[:80]!r}."
        )

    def split_of(self, sample_id: str) -> str:
        """Returns the split of an id, by a hash of the report and the question; raises as `find`."""
        return split_of(self.find(sample_id).digest.encode())

    def _sample(self, num_pages: int, category: str, seed: int) -> Sample:
        return _sample(num_pages, category, seed, self.numberings.drawn(num_pages, seed))

    def _named(self, sample: Sample) -> Sample:
        if self.file_name is None:
            return sample
        assert isinstance(sample.document, ReportDocument), "samples of this source are of reports"
        return replace(sample, document=replace(sample.document, name=self.file_name))

    def _category(self, rng: np.random.Generator) -> str:
        others = [category for category in self.categories if category != UNANSWERABLE]
        if UNANSWERABLE in self.categories and (not others or rng.random() < UNANSWERABLE_SHARE):
            return UNANSWERABLE
        return pick(rng, others)


@functools.lru_cache(maxsize=64)
def _sample(num_pages: int, category: str, seed: int, numbering: Numbering) -> Sample:
    """Returns the sample of an id's parts, of a report whose pages are numbered in a way."""
    document = ReportDocument.of(num_pages, seed, numbering)
    # The question has a stream of its own: one seed is one report, whatever is asked about it.
    rng = np.random.default_rng((CATEGORIES.index(category), seed))
    asked = ask(document.report, category, rng)
    content = "\n".join((document.digest, asked.question, *asked.key.answers))
    return Sample(
        sample_id=f"report:{num_pages}:{category}:{seed}",
        question=asked.question,
        key=replace(asked.key, question=asked.question),
        category=category,
        digest=hashlib.blake2b(content.encode(), digest_size=16).hexdigest(),
        document=document,
        evidence_pages=asked.pages,
        facts=asked.facts,
    )
