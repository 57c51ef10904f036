"""Pages of a report before rendering: blocks of text, tables, and charts for every kind of subject."""

from __future__ import annotations

import tomllib
from collections.abc import Iterator
from dataclasses import dataclass
from importlib.resources import files
from typing import Any, Literal

import numpy as np

from vlm_envs.content.random_choice import pick_several
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.report_contents import Organisation, told_of
from vlm_envs.content.reports.subjects import MONTHS, QUARTERS, WORDS, grouped

_LAYOUT: dict[str, Any] = tomllib.loads(files(__package__).joinpath("report_layout.toml").read_text("utf-8"))

ChartKind = Literal["bar", "line", "pie"]
ParagraphStyle = Literal["lead", "body", "quote"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a page."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: str
    style: ParagraphStyle = "body"


@dataclass(frozen=True, slots=True)
class Clauses:
    """Numbered sentences, such as the rules of a policy.

    Attributes:
        number: Prefix of the sentences' numbers: 4 gives 4.1, 4.2, and so on.
        texts: The sentences.
    """

    number: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtAGlance:
    """A box with a few labeled values."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under column headings; the first column names the rows.

    Attributes:
        caption: Text above the table.
        columns: Headings, as many as cells in a row.
        rows: Cells as printed.
        has_total: Whether the last row is the sum of the others, set in bold.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart. Everything but its caption is only in the image, so that text search finds no values.

    Attributes:
        kind: Chart type.
        caption: Text above the chart.
        labels: Names of the values.
        values: Not negative. Those of a pie are whole percentages that add up to 100.
        unit: Unit of the values, shown along the axis.
        shows_values: Whether each value is written next to its mark.
    """

    kind: ChartKind
    caption: str
    labels: tuple[str, ...]
    values: tuple[int, ...]
    unit: str
    shows_values: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """Lines of a table of contents: title, printed label, and whether it is a chapter."""

    entries: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """The first page.

    Attributes:
        organisation: Name of the reporting organization.
        title: Title of the report.
        period: The years it covers.
    """

    organisation: str
    title: str
    period: str


Block = Heading | Paragraph | Clauses | AtAGlance | Table | Chart | Contents | Cover


def texts_of(block: Block) -> Iterator[str]:
    """Yields the texts of a block that belong to the page's text layer."""
    match block:
        case Heading(text) | Paragraph(text):
            yield text
        case Clauses(number, texts):
            for index, text in enumerate(texts, start=1):
                yield f"{number}.{index}"
                yield text
        case AtAGlance(entries):
            for label, value in entries:
                yield label
                yield value
        case Table():
            yield from (block.caption, *block.columns)
            for row in block.rows:
                yield from row
        case Chart():
            yield block.caption
        case Contents(entries):
            for title, label, _ in entries:
                yield title
                yield label
        case Cover():
            yield from (block.organisation, block.title, block.period)


NOTE_MARK = "*"


def chapter_of(subject: subjects.Subject, organisation: Organisation) -> str:
    """Returns the chapter of a page; empty in the front matter."""
    chapter: str = _LAYOUT[type(subject).__name__].get("chapter", "")
    return chapter.format(trade=organisation.trade)


def title_of(subject: subjects.Subject, organisation: Organisation) -> str:
    """Returns the title of a page."""
    if subject == subjects.Front("cover"):
        return ""
    return str(_LAYOUT[type(subject).__name__]["title"].format_map(told_of(subject, organisation)))


def notes_of(subject: subjects.Subject, organisation: Organisation) -> tuple[str, ...]:
    """Returns the footnotes of a page."""
    note = _LAYOUT[type(subject).__name__].get("note")
    told = told_of(subject, organisation) | _figures(subject, organisation)
    return () if note is None else (note.format_map(told),)


def blocks_of(subject: subjects.Subject, organisation: Organisation, rng: np.random.Generator) -> tuple[Block, ...]:
    """Returns the content of a page below its title.

    Args:
        subject: Subject of the page; a `Front` has no blocks.
        organisation: The reporting organization.
        rng: Chooses the text between the facts.

    Returns:
        Blocks from top to bottom.
    """
    layout = _LAYOUT[type(subject).__name__]
    said = [text for kind, *counts in layout.get("sentences", ()) for text in _paragraphs(rng, kind, counts)]
    told = told_of(subject, organisation) | _figures(subject, organisation) | {"said": said}
    blocks = [_block(block, told) for block in layout.get("blocks", ())]
    if isinstance(subject, subjects.Glossary):
        for term, meaning in subject.terms:
            blocks += [Heading(term), Paragraph(f"{meaning[0].upper()}{meaning[1:]}.")]
    return tuple(blocks)


def _paragraphs(rng: np.random.Generator, kind: str, counts: list[int]) -> list[str]:
    """Returns paragraphs with the given numbers of sentences; no sentence is repeated."""
    chosen = iter(pick_several(rng, WORDS["sentences"][kind], sum(counts)))
    return [" ".join(next(chosen) for _ in range(count)) for count in counts]


def _block(block: Any, told: dict[str, Any]) -> Block:
    """Builds a block defined in `report_layout.toml`."""
    match block:
        case {"heading": text}:
            return Heading(text)
        case {"glance": entries}:
            return AtAGlance(tuple((label, value.format_map(told)) for label, value in entries))
        case {"clauses": _}:
            return Clauses(told["number"], told["rules"])
        case {"table": caption, "columns": columns}:
            return Table(
                caption=caption.format_map(told),
                columns=tuple(column.format_map(told) for column in columns),
                rows=told["rows"],
                has_total=block.get("has_total", False),
            )
        case {"chart": caption, "kind": kind, "unit": unit, "shows_values": shows_values}:
            return Chart(
                kind=kind,
                caption=caption.format_map(told),
                labels=told["labels"],
                values=told["values"],
                unit=unit.format_map(told),
                shows_values=shows_values,
            )
    ((style, text),) = block.items()
    return Paragraph(text.format_map(told), style)


def _figures(subject: subjects.Subject, organisation: Organisation) -> dict[str, Any]:
    """Returns the figures of a page, and other values for its texts beyond the subject's fields."""
    match subject:
        case subjects.RegionYear():
            return _region_figures(subject, organisation)
        case subjects.Department():
            return {
                "labels": tuple(month[:3] for month in subject.months),
                "last_month": subject.months[-1],
                "cases": subject.counted.capitalize(),
            }
        case subjects.BudgetYear():
            return {"labels": subject.names, "values": subject.shares}
        case subjects.SiteYear():
            return {"labels": tuple(month[:3] for month in MONTHS), "values": subject.usage_mwh}
        case subjects.ProjectList():
            projects = subject.projects
            return {"rows": tuple((row.name, row.lead, grouped(row.budget), row.start, row.status) for row in projects)}
        case subjects.Board():
            return {"rows": tuple((committee, name, str(since)) for name, committee, since in subject.members)}
        case subjects.Risks():
            return {"rows": subject.entries}
    return {}


def _region_figures(subject: subjects.RegionYear, organisation: Organisation) -> dict[str, Any]:
    trade = organisation.trade
    rows = [
        (f"{line} {NOTE_MARK}" if index == subject.noted else line, *map(grouped, counts), grouped(sum(counts)))
        for index, (line, counts) in enumerate(zip(subject.lines, subject.counts, strict=True))
    ]
    totals = [sum(column) for column in zip(*subject.counts, strict=True)]
    return {
        "rows": (*rows, ("Total", *map(grouped, totals), grouped(sum(totals)))),
        "rows_are": "Crop" if trade.of else "Line",
        "unit": "in tonnes" if trade.of else "in pieces",
        "moved": trade.chapter.split()[0],
        "quarter": QUARTERS[subject.noted_quarter],
        "counted": trade.counted(subject.lines[subject.noted]),
    }
