"""The pages of a report before anything is drawn: blocks of text, tables, and charts for every kind of subject."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import singledispatch
from typing import Literal

import numpy as np

from vlm_envs.content.random_choice import pick_several
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.report_contents import Organisation
from vlm_envs.content.reports.subjects import MONTHS, QUARTERS, WORDS, grouped

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
        number: What stands before each one's own number: 4 makes 4.1, 4.2 and so on.
        texts: The sentences.
    """

    number: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtAGlance:
    """A box of a few labelled values."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under column headings; the first column names the rows.

    Attributes:
        caption: Above the table.
        columns: Headings, as many as cells in a row.
        rows: Cells as printed.
        has_total: Whether the last row adds up the others and is set in bold.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart; everything but its caption is in the picture only, so that no search of the text finds a value.

    Attributes:
        kind: How the values are drawn.
        caption: Above the chart, as text.
        labels: Names of the values.
        values: Not negative. Those of a pie are whole percents that add up to 100.
        unit: What the values count, along the axis.
        shows_values: Whether each value is written beside its mark.
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
        organisation: Who reports.
        title: Name of the report.
        period: The years it covers.
    """

    organisation: str
    title: str
    period: str


Block = Heading | Paragraph | Clauses | AtAGlance | Table | Chart | Contents | Cover


def texts_of(block: Block) -> Iterator[str]:
    """Yields every text of a block that is in the page's text layer."""
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


def paragraphs(rng: np.random.Generator, kind: str, *counts: int) -> list[str]:
    """Returns paragraphs of so many sentences each; no sentence comes twice.

    Args:
        rng: Chooses them.
        kind: Of the sentences of `report_words.toml`.
        counts: Sentences of each paragraph.
    """
    chosen = iter(pick_several(rng, WORDS["sentences"][kind], sum(counts)))
    return [" ".join(next(chosen) for _ in range(count)) for count in counts]


NOTE_MARK = "*"
Blocks = tuple[Block, ...]


_CHAPTERS: dict[type[subjects.Subject], str] = {
    subjects.Department: "Departments",
    subjects.BudgetYear: "Budget",
    subjects.SiteYear: "Buildings",
    subjects.ProjectList: "Projects",
    subjects.Policy: "Policies",
    subjects.Board: "Governance",
    subjects.Risks: "Appendix",
    subjects.Glossary: "Appendix",
}
_TITLES: dict[type[subjects.Subject], str] = {
    subjects.Front: "Contents",
    subjects.Letter: "To our readers",
    subjects.RegionYear: "{0.region} region, {0.year}",
    subjects.Department: "{0.name} department",
    subjects.BudgetYear: "Division of the budget, {0.year}",
    subjects.SiteYear: "{0.site}, {0.year}",
    subjects.ProjectList: "Projects begun in {0.year}",
    subjects.Policy: "Policy {0.number}: {0.topic}",
    subjects.Board: "The board",
    subjects.Risks: "Register of risks, part {0.part}",
    subjects.Glossary: "Glossary",
}


def chapter_of(subject: subjects.Subject, organisation: Organisation) -> str:
    """Returns the chapter that a page belongs to; empty in the front matter."""
    return organisation.trade.chapter if isinstance(subject, subjects.RegionYear) else _CHAPTERS.get(type(subject), "")


def title_of(subject: subjects.Subject) -> str:
    """Returns the title of a page."""
    return "" if subject == subjects.Front("cover") else _TITLES[type(subject)].format(subject)


def notes_of(subject: subjects.Subject, organisation: Organisation) -> tuple[str, ...]:
    """Returns the footnotes of a page."""
    match subject:
        case subjects.RegionYear():
            line, quarter = subject.lines[subject.noted], QUARTERS[subject.noted_quarter]
            counted = organisation.trade.counted(line)
            return (f"Late count: the {quarter} figure includes {subject.corrected} {counted} of the quarter before.",)
        case subjects.ProjectList():
            return ("As decided by the steering group at its last meeting of the period.",)
        case _:
            return ()


@singledispatch
def blocks_of(subject: subjects.Subject, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    """Returns what a page holds below its title.

    Args:
        subject: What the page is about; a `Front` holds nothing.
        organisation: Who reports.
        rng: Chooses the text between the facts.

    Returns:
        Blocks from top to bottom.
    """
    return ()


@blocks_of.register
def _letter(letter: subjects.Letter, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    opening, middle, closing = paragraphs(rng, "letter", 2, 4, 3)
    return (
        Paragraph("Dear readers,", "lead"),
        Paragraph(
            f"{organisation.name} was founded in {letter.founded} and has had its headquarters in {letter.town} ever "
            f"since. Today {grouped(letter.num_people)} people work for us. {opening}"
        ),
        Paragraph(middle),
        Paragraph("We report what can be counted, and we say how it was counted.", "quote"),
        Paragraph(closing),
        Paragraph(f"{letter.town}, {organisation.closing} {organisation.years[-1] + 1}"),
        Paragraph(f"{letter.chair}, chair of the board", "lead"),
    )


@blocks_of.register
def _region_year(subject: subjects.RegionYear, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    trade = organisation.trade
    before, after, last = paragraphs(rng, "region", 4, 4, 3)
    rows = [
        (f"{line} {NOTE_MARK}" if index == subject.noted else line, *map(grouped, counts), grouped(sum(counts)))
        for index, (line, counts) in enumerate(zip(subject.lines, subject.counts, strict=True))
    ]
    totals = [sum(column) for column in zip(*subject.counts, strict=True)]
    what = "in tonnes" if trade.of else "in pieces"
    table = Table(
        caption=f"{trade.chapter.split()[0]} of the {subject.region} region in {subject.year}, {what}",
        columns=("Crop" if trade.of else "Line", *QUARTERS, "Year"),
        rows=(*rows, ("Total", *map(grouped, totals), grouped(sum(totals)))),
        has_total=True,
    )
    return (
        Paragraph(
            f"In {subject.year} the {subject.region} region was led by {subject.manager}. It opened "
            f"{subject.new_outlets} new {trade.outlets} during the year.",
            "lead",
        ),
        Paragraph(before),
        table,
        Heading("Course of the year"),
        Paragraph(after),
        Paragraph(last),
        Heading("Plans"),
        *map(Paragraph, paragraphs(rng, "plans", 4)),
    )


@blocks_of.register
def _department(subject: subjects.Department, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    year = organisation.years[-1]
    opening, below, outlook = paragraphs(rng, "department", 2, 4, 3)
    shown = f"{subject.months[0]} to {subject.months[-1]}"
    chart = Chart(
        kind="bar",
        caption=f"{subject.counted.capitalize()} received by {subject.name}, {shown} {year}",
        labels=tuple(month[:3] for month in subject.months),
        values=subject.values,
        unit=subject.counted,
        shows_values=True,
    )
    return (
        AtAGlance((("Head", subject.head), ("Deputy", subject.deputy), ("Seat", subject.town))),
        Paragraph(
            f"The {subject.name} department was set up in {subject.since}. At the end of {year} it had "
            f"{subject.num_people} staff. {opening}"
        ),
        chart,
        Paragraph(below),
        Heading("Outlook"),
        Paragraph(outlook),
    )


@blocks_of.register
def _budget_year(subject: subjects.BudgetYear, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, "budget", 3, 3)
    chart = Chart(
        kind="pie",
        caption=f"Shares of the departments in the budget of {subject.year}",
        labels=subject.names,
        values=subject.shares,
        unit="percent",
        shows_values=True,
    )
    return (
        Paragraph(
            f"The budget of {subject.year} was approved in {subject.month} by {subject.approved_by} on behalf of the "
            "members.",
            "lead",
        ),
        Paragraph(above),
        chart,
        Paragraph(below),
    )


@blocks_of.register
def _site_year(subject: subjects.SiteYear, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, "site", 3, 4)
    chart = Chart(
        kind="line",
        caption=f"Electricity used at {subject.site} in {subject.year}, by month",
        labels=tuple(month[:3] for month in MONTHS),
        values=subject.usage_mwh,
        unit="megawatt hours",
        shows_values=False,
    )
    facts = (
        ("Floor area", f"{grouped(subject.floor_area_m2)} square metres"),
        ("Opened", str(subject.opened)),
        ("Warden", subject.warden),
    )
    return (
        Paragraph(above),
        AtAGlance(facts),
        chart,
        Paragraph(below),
    )


@blocks_of.register
def _project_list(subject: subjects.ProjectList, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, "project", 3, 3)
    table = Table(
        caption=f"Projects that began in {subject.year}",
        columns=("Project", "Lead", "Budget (thousand crowns)", "Start", f"Status {NOTE_MARK}"),
        rows=tuple((row.name, row.lead, grouped(row.budget), row.start, row.status) for row in subject.projects),
    )
    return (Paragraph(above), table, Paragraph(below))


@blocks_of.register
def _policy(subject: subjects.Policy, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, "policy", 2, 2)
    return (
        Paragraph(above, "lead"),
        Heading("Rules"),
        Clauses(subject.number, subject.rules),
        Heading("Review"),
        Paragraph(f"This policy is kept up to date by {subject.owner}, who also answers questions about it. {below}"),
    )


@blocks_of.register
def _board(subject: subjects.Board, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, "governance", 2, 2)
    table = Table(
        caption=f"Spokespersons of the committees at the end of {organisation.years[-1]}",
        columns=("Committee", "Spokesperson", "First elected"),
        rows=tuple((committee, name, str(since)) for name, committee, since in subject.members),
    )
    return (Paragraph(above), table, Paragraph(below))


@blocks_of.register
def _risks(subject: subjects.Risks, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    table = Table(
        caption="Risks under watch", columns=("Code", "Risk", "Watched by", "Likelihood"), rows=subject.entries
    )
    return (*map(Paragraph, paragraphs(rng, "risk", 3)), table)


@blocks_of.register
def _glossary(subject: subjects.Glossary, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    blocks: list[Block] = [Paragraph("Words that this report uses in a sense of its own.", "lead")]
    for term, meaning in subject.terms:
        blocks += [Heading(term), Paragraph(f"{meaning[0].upper()}{meaning[1:]}.")]
    return tuple(blocks)
