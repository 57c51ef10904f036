"""Samples about generated reports."""

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
"""Share of questions without an answer if there are other categories."""

_MAX_TRIES = 1_000
_MAX_SEED = 2**63 - 1
_FILE_NAME = re.compile(r"[\w-]{1,60}\.pdf")
_ID = re.compile(r"report:([0-9]{1,2}):([a-z_]{1,40}):([0-9]{1,19})")


class ReportSource:
    """Questions about generated reports, each with a report of its own.

    Args:
        num_pages: Number of pages of a report, or the minimum and maximum, drawn uniformly.
        categories: Categories from `vlm_envs.content.reports.report_questions.CATEGORIES`. If there are
            several, 20% of the questions are `unanswerable`, and the other categories are equally likely.
        file_name: Name of every report; None for names derived from the organization.
        first_label: Number printed on the first page of the body, or the smallest and largest, drawn
            uniformly per report.
        label_size: Size of page numbers in points, from 24 to 160. Such numbers stand next to the titles and
            are drawn as shapes outside the text layer. None for normal ones in the footer.

    Raises:
        ConfigError: If the number of pages, a category, the file name, or the numbering is not valid.
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
            raise ConfigError(f"num_pages must be from {MIN_PAGES} to {MAX_PAGES}; got {num_pages!r}.")
        if not categories:
            raise ConfigError(f"categories must list at least one of {', '.join(CATEGORIES)}; got an empty list.")
        for category in categories:
            require_choice("categories", category, CATEGORIES)
        if file_name is not None and not (isinstance(file_name, str) and _FILE_NAME.fullmatch(file_name)):
            raise ConfigError(f"file_name must be a PDF name such as 'report.pdf', or None; got {file_name!r}.")
        self.num_pages, self.file_name = (fewest, most), file_name
        self.categories = tuple(dict.fromkeys(categories))
        self.numberings = Numberings.of(first_label, label_size)

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        """Returns a sample of a split.

        Args:
            rng: The only source of randomness.
            split: `"train"`, `"val"` or `"test"`, decided by a hash of the report and the question.

        Raises:
            ConfigError: If the split does not exist.
            GenerationError: If none of 1,000 samples belonged to it.
        """
        require_choice("split", split, SPLITS)
        for _ in range(_MAX_TRIES):
            num_pages = int(rng.integers(self.num_pages[0], self.num_pages[1] + 1))
            sample = self._sample(num_pages, self._category(rng), int(rng.integers(_MAX_SEED)))
            if split_of(sample.digest.encode()) == split:
                return self._named(sample)
        raise GenerationError(f"None of {_MAX_TRIES} reports belongs to split {split!r}.")

    def find(self, sample_id: str) -> Sample:
        """Returns the sample with an id, with this source's numbering; its other settings do not matter.

        Args:
            sample_id: Pages, category, and seed, such as `report:12:chart_reading:834`.

        Raises:
            LevelError: If the id is not valid.
        """
        match = _ID.fullmatch(sample_id)
        if match and MIN_PAGES <= int(match[1]) <= MAX_PAGES and match[2] in CATEGORIES and int(match[3]) <= _MAX_SEED:
            sample = self._sample(int(match[1]), match[2], int(match[3]))
            if sample.sample_id == sample_id:
                return self._named(sample)
        raise LevelError(
            "The id of a generated report is report:<pages>:<category>:<seed>, such as "
            "'report:12:chart_reading:834', "
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
    """Returns the sample with the parts of an id and a page numbering."""
    document = ReportDocument.of(num_pages, seed, numbering)
    # The question has its own random stream, so a seed gives the same report for every category
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
