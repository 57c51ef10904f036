"""Turns subjects into pages: blocks, printed labels, chapters, front matter. Nothing is drawn yet."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from itertools import groupby
from typing import TypeVar

import numpy as np

from vlm_envs.content.random_choice import pick
from vlm_envs.content.reports.report_contents import Organisation, generate_contents
from vlm_envs.content.reports.report_pages import (
    Block,
    Contents,
    Cover,
    blocks_of,
    chapter_of,
    notes_of,
    texts_of,
    title_of,
)
from vlm_envs.content.reports.report_style import ReportStyle, draw_style
from vlm_envs.content.reports.subjects import Front, Glossary, Letter, Risks, Subject
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_positive, require_range

MAX_FIRST_LABEL = 900
MIN_LABEL_SIZE, MAX_LABEL_SIZE = 24, 160

_STREAM = 0x1ABE1
"""Makes the first number's chance another than that of what the report says."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Numbers of a report's pages.

    Attributes:
        first_label: What is printed on the first page of the body.
        label_size: Of large numbers beside the titles, in points; None for the usual ones at the foot.
    """

    first_label: int = 1
    label_size: int | None = None


PLAIN = Numbering()


@dataclass(frozen=True, slots=True)
class Numberings:
    """The numberings that reports may have.

    Attributes:
        lowest: The least number that the body may begin with.
        highest: The largest one.
        label_size: As of `Numbering`.
    """

    lowest: int = 1
    highest: int = 1
    label_size: int | None = None

    @classmethod
    def of(cls, first_label: int | tuple[int, int], label_size: int | None) -> Numberings:
        """Returns those that two arguments ask for.

        Args:
            first_label: What the body begins with, or the least and the largest.
            label_size: Of large numbers, in points, from 24 to 160; None for the usual ones.

        Raises:
            ConfigError: If one of them is not usable.
        """
        lowest, highest = require_range("first_label", first_label)
        if not 1 <= lowest <= highest <= MAX_FIRST_LABEL:
            raise ConfigError(f"first_label must lie between 1 and {MAX_FIRST_LABEL}; got {first_label!r}.")
        if label_size is not None:
            require_positive("label_size", label_size, minimum=MIN_LABEL_SIZE, maximum=MAX_LABEL_SIZE)
        return cls(lowest, highest, label_size)

    def drawn(self, num_pages: int, seed: int) -> Numbering:
        """Returns that of a report, each first number as likely, whatever the report says."""
        rng = np.random.default_rng((_STREAM, num_pages, seed))
        return Numbering(int(rng.integers(self.lowest, self.highest + 1)), self.label_size)


MIN_PAGES, MAX_PAGES = 5, 60

SubjectT = TypeVar("SubjectT", bound=Subject)

_SCHEME = 1
"""Raised whenever the same recipe gives another report, so that digests and splits change with it."""

_ENTRIES_PER_CONTENTS_PAGE = 42
_NUM_CHAPTERS = 8
_TITLES = ("Annual Report", "Report to Members", "Review of the Year", "Facts and Figures", "Activities and Accounts")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A page as it is printed.

    Attributes:
        label: What is printed as its number, such as `iv`, `12` or `A-2`; empty on the cover.
        chapter: Printed at the head; empty in the front matter.
        title: Heading of the page.
        blocks: Content from top to bottom.
        notes: Footnotes, as many as marks in the blocks.
        subject: What it is about.
    """

    label: str
    chapter: str
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    subject: Subject

    @property
    def text(self) -> str:
        """Everything that its text layer holds, except what stands at head and foot."""
        parts = [self.title, *(text for block in self.blocks for text in texts_of(block)), *self.notes]
        return "\n".join(parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A whole report.

    Attributes:
        organisation: Who reports.
        title: Title on the cover.
        style: How it is set.
        pages: Pages in order; page numbers of questions count them from 1.
    """

    organisation: Organisation
    title: str
    style: ReportStyle
    pages: tuple[Page, ...]

    @property
    def file_name(self) -> str:
        """Name of the PDF, such as `kelford_ferries_2019.pdf`."""
        words = "".join(c if c.isalnum() else " " for c in self.organisation.name.replace("'", "")).split()
        return f"{'_'.join(words).lower()}_{self.organisation.years[-1]}.pdf"

    def pages_about(self, kind: type[SubjectT]) -> list[tuple[int, SubjectT]]:
        """Returns the numbers, from 1, and the subjects of the pages about one kind of subject."""
        pages = enumerate(self.pages, start=1)
        return [(number, page.subject) for number, page in pages if isinstance(page.subject, kind)]

    @property
    def digest(self) -> str:
        """Hash of everything that is printed and of how it is set, 32 hexadecimal digits."""
        # Splits go by this hash, so its keys stay as they were first written.
        fields = {"look" if name == "style" else name: value for name, value in asdict(self).items()}
        if self.style.label_size is None:
            del fields["look"]["label_size"]
        content = json.dumps([_SCHEME, fields], sort_keys=True).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def compose_report(num_pages: int, seed: int, numbering: Numbering = PLAIN) -> Report:
    """Returns the report of a seed.

    Args:
        num_pages: `MIN_PAGES` to `MAX_PAGES`, the cover included.
        seed: Not negative.
        numbering: How pages are numbered; nothing else depends on it.

    Returns:
        The same report for the same arguments, on every machine.
    """
    rng = np.random.default_rng((_SCHEME, num_pages, seed))
    num_letters = int(num_pages >= 8)
    num_contents = 2 if num_pages - 3 + _NUM_CHAPTERS > _ENTRIES_PER_CONTENTS_PAGE else 1
    organisation, body = generate_contents(rng, num_pages - 1 - num_contents - num_letters)
    style = replace(draw_style(rng), label_size=numbering.label_size)
    fronts: list[Subject] = [Front("cover"), *(Front("contents", part + 1) for part in range(num_contents))]
    if num_letters:
        fronts.append(organisation.letter)
    subjects = (*fronts, *body)
    labels = _labels(len(fronts), body, style, numbering.first_label)
    title = pick(rng, _TITLES)
    entries = tuple(_entries(subjects, labels, organisation))
    pages = []
    for subject, label in zip(subjects, labels, strict=True):
        pages.append(
            Page(
                label=label,
                chapter=chapter_of(subject, organisation),
                title=title_of(subject, organisation),
                blocks=_front_blocks(subject, organisation, title, entries) or blocks_of(subject, organisation, rng),
                notes=notes_of(subject, organisation),
                subject=subject,
            )
        )
    return Report(organisation=organisation, title=title, style=style, pages=tuple(pages))


def _front_blocks(
    subject: Subject, organisation: Organisation, title: str, entries: Sequence[tuple[str, str, bool]]
) -> tuple[Block, ...]:
    if not isinstance(subject, Front):
        return ()
    if subject.kind == "cover":
        first, last = organisation.years[0], organisation.years[-1]
        return (Cover(organisation=organisation.name, title=title, period=f"{first} to {last}"),)
    begin = (subject.part - 1) * _ENTRIES_PER_CONTENTS_PAGE
    return (Contents(tuple(entries[begin : begin + _ENTRIES_PER_CONTENTS_PAGE])),)


def _labels(num_fronts: int, body: Sequence[Subject], style: ReportStyle, first: int) -> list[str]:
    """Returns the printed label of every page: none, Roman, Arabic, and those of the appendix."""
    labels = ["", "ii", "iii", "iv", "v", "vi"][:num_fronts]
    num_plain = sum(not (style.letters_appendix and isinstance(subject, (Risks, Glossary))) for subject in body)
    labels += [str(number) for number in range(first, first + num_plain)]
    return labels + [f"A-{number}" for number in range(1, len(body) - num_plain + 1)]


def _entries(
    subjects: Sequence[Subject], labels: Sequence[str], organisation: Organisation
) -> Iterator[tuple[str, str, bool]]:
    """Yields the lines of the contents: chapters, and the pages in them."""
    listed = [pair for pair in zip(subjects, labels, strict=True) if not isinstance(pair[0], Front)]
    for chapter, pairs in groupby(listed, key=lambda pair: chapter_of(pair[0], organisation)):
        for index, (subject, label) in enumerate(pairs):
            if isinstance(subject, Letter):
                yield title_of(subject, organisation), label, True
                continue
            if index == 0:
                yield chapter, label, True
            yield title_of(subject, organisation), label, False
