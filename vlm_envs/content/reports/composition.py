"""Composition of subjects into pages: blocks, printed labels, chapters, and front matter, without rendering."""

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
"""Separates the random stream of the first page number from that of the report's content."""


@dataclass(frozen=True, slots=True)
class Numbering:
    """Page numbering of a report.

    Attributes:
        first_label: Number printed on the first page of the body.
        label_size: Size of large numbers next to the titles, in points; None for normal ones in the footer.
    """

    first_label: int = 1
    label_size: int | None = None


PLAIN = Numbering()


@dataclass(frozen=True, slots=True)
class Numberings:
    """Possible page numberings of a source's reports.

    Attributes:
        lowest: Smallest first number of the body.
        highest: Largest first number of the body.
        label_size: See `Numbering`.
    """

    lowest: int = 1
    highest: int = 1
    label_size: int | None = None

    @classmethod
    def of(cls, first_label: int | tuple[int, int], label_size: int | None) -> Numberings:
        """Validates arguments and returns the numberings they specify.

        Args:
            first_label: First number of the body, or the smallest and the largest.
            label_size: Size of large numbers, in points, from 24 to 160; None for normal ones.

        Raises:
            ConfigError: If an argument is not valid.
        """
        lowest, highest = require_range("first_label", first_label)
        if not 1 <= lowest <= highest <= MAX_FIRST_LABEL:
            raise ConfigError(f"first_label must lie between 1 and {MAX_FIRST_LABEL}; got {first_label!r}.")
        if label_size is not None:
            require_positive("label_size", label_size, minimum=MIN_LABEL_SIZE, maximum=MAX_LABEL_SIZE)
        return cls(lowest, highest, label_size)

    def drawn(self, num_pages: int, seed: int) -> Numbering:
        """Returns a report's numbering; its first number is uniform and independent of the report's content."""
        rng = np.random.default_rng((_STREAM, num_pages, seed))
        return Numbering(int(rng.integers(self.lowest, self.highest + 1)), self.label_size)


MIN_PAGES, MAX_PAGES = 5, 60

SubjectT = TypeVar("SubjectT", bound=Subject)

_SCHEME = 1
"""Incremented when the same seed gives a different report, so that digests and splits change as well."""

_ENTRIES_PER_CONTENTS_PAGE = 42
_NUM_CHAPTERS = 8
_TITLES = ("Annual Report", "Report to Members", "Review of the Year", "Facts and Figures", "Activities and Accounts")


@dataclass(frozen=True, kw_only=True, slots=True)
class Page:
    """A printed page.

    Attributes:
        label: Printed page number, such as `iv`, `12` or `A-2`; empty on the cover.
        chapter: Chapter printed in the header; empty in the front matter.
        title: Heading of the page.
        blocks: Content from top to bottom.
        notes: Footnotes, one for each mark in the blocks.
        subject: Subject of the page.
    """

    label: str
    chapter: str
    title: str
    blocks: tuple[Block, ...]
    notes: tuple[str, ...]
    subject: Subject

    @property
    def text(self) -> str:
        """Everything in its text layer, except header and footer."""
        parts = [self.title, *(text for block in self.blocks for text in texts_of(block)), *self.notes]
        return "\n".join(parts)


@dataclass(frozen=True, kw_only=True, slots=True)
class Report:
    """A complete report.

    Attributes:
        organisation: The reporting organization.
        title: Title on the cover.
        style: Its typography and layout.
        pages: Pages in order; questions count them from 1.
    """

    organisation: Organisation
    title: str
    style: ReportStyle
    pages: tuple[Page, ...]

    @property
    def file_name(self) -> str:
        """File name of the PDF, such as `kelford_ferries_2019.pdf`."""
        words = "".join(c if c.isalnum() else " " for c in self.organisation.name.replace("'", "")).split()
        return f"{'_'.join(words).lower()}_{self.organisation.years[-1]}.pdf"

    def pages_about(self, kind: type[SubjectT]) -> list[tuple[int, SubjectT]]:
        """Returns the page numbers, from 1, and subjects of the pages with one kind of subject."""
        pages = enumerate(self.pages, start=1)
        return [(number, page.subject) for number, page in pages if isinstance(page.subject, kind)]

    @property
    def digest(self) -> str:
        """Hash of everything printed and its style, 32 hexadecimal digits."""
        # This hash decides splits and must not change, so fields keep their original keys
        fields = {"look" if name == "style" else name: value for name, value in asdict(self).items()}
        if self.style.label_size is None:
            del fields["look"]["label_size"]
        content = json.dumps([_SCHEME, fields], sort_keys=True).encode()
        return hashlib.blake2b(content, digest_size=16).hexdigest()


def compose_report(num_pages: int, seed: int, numbering: Numbering = PLAIN) -> Report:
    """Composes the report of a seed; deterministic on every machine.

    Args:
        num_pages: `MIN_PAGES` to `MAX_PAGES`, including the cover.
        seed: Not negative.
        numbering: Page numbering; it affects nothing else.
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
    """Returns the printed labels of all pages: none, Roman, Arabic, and those of the appendix."""
    labels = ["", "ii", "iii", "iv", "v", "vi"][:num_fronts]
    num_plain = sum(not (style.letters_appendix and isinstance(subject, (Risks, Glossary))) for subject in body)
    labels += [str(number) for number in range(first, first + num_plain)]
    return labels + [f"A-{number}" for number in range(1, len(body) - num_plain + 1)]


def _entries(
    subjects: Sequence[Subject], labels: Sequence[str], organisation: Organisation
) -> Iterator[tuple[str, str, bool]]:
    """Yields the entries of the table of contents: chapters and their pages."""
    listed = [pair for pair in zip(subjects, labels, strict=True) if not isinstance(pair[0], Front)]
    for chapter, pairs in groupby(listed, key=lambda pair: chapter_of(pair[0], organisation)):
        for index, (subject, label) in enumerate(pairs):
            if isinstance(subject, Letter):
                yield title_of(subject, organisation), label, True
                continue
            if index == 0:
                yield chapter, label, True
            yield title_of(subject, organisation), label, False
