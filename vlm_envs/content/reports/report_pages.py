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
from vlm_envs.content.reports.subjects import MONTHS, QUARTERS, grouped

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


REGION = (
    "Demand was carried by returning customers, while the number of new ones stayed below what had been hoped for.",
    "The weather of the first weeks kept many people at home, which is felt in every line.",
    "Deliveries arrived on time throughout the year, so that shelves were seldom empty.",
    "Two neighbouring towns moved their market days, and the opening hours followed.",
    "A survey among visitors praised the staff and found fault with the parking space.",
    "The table counts what left the premises; what was ordered and not yet handed over appears in the next year.",
    "Prices were left unchanged in spite of higher costs of transport.",
    "Some of the movement between the quarters is owed to the date of the spring holidays.",
    "The region took part in the trial of the new planning method and will keep it.",
    "Road works on the main route made the third quarter harder than the plan had assumed.",
    "Stocks at the end of the year were of the usual size and in good order.",
    "The regional council was kept informed at four meetings, the minutes of which are public.",
)
PLANS = (
    "Two smaller premises are to be brought together under one roof, with no loss of opening hours.",
    "The entrance of the main building is being made free of steps.",
    "A second team for the evenings will be trained before the busy season begins.",
    "The contract for transport is to be put out to tender again.",
    "Customers will be able to see from home what is in stock.",
    "The oldest vans are to be replaced, one at a time, by electric ones.",
    "An exchange of staff with a neighbouring region has been agreed.",
    "The signs along the access roads will be renewed.",
)
DEPARTMENT = (
    "Most of the work reaches the department through the common entry form, the remainder by telephone.",
    "Three vacancies were filled from within, which kept knowledge in the house.",
    "The chart counts every case once, in the month in which it was opened.",
    "A new handbook describes each step and has shortened the time until newcomers work on their own.",
    "Cases that concern several departments are led by the one that heard of them first.",
    "The peak of the year came as expected and was met with overtime agreed in advance.",
    "Feedback is collected after each closed case and discussed once a month.",
    "The department shares its meeting rooms with its neighbours and has given up part of its archive.",
    "Savings on paper and postage were passed on to the training budget.",
    "Where cases stay open for long, the reason is in most instances a missing document.",
)
SITE = (
    "Electricity is read from the main meter on the last working day of each month.",
    "Heating is supplied by the district network and is not part of the chart.",
    "The lamps of the stairwells were replaced, and the ventilation now follows the number of people present.",
    "Visitors find the entrance on the side of the yard; the former gate serves deliveries only.",
    "The roof was inspected after the storms and needed small repairs.",
    "Noise from the neighbouring works was measured again and stayed within the limits.",
    "A plan for the renewal of the windows has been drawn up and waits for approval.",
    "Part of the ground floor is let to a nursery until its own building is ready.",
    "Waste is sorted into five kinds, and the contract for its collection was renewed.",
)
BUDGET = (
    "The shares follow from the plans that the departments handed in before the summer.",
    "Amounts that were not spent by the end of the year were returned to the common reserve.",
    "Departments that are not shown are paid for by those that use them and have no budget of their own.",
    "The chart leaves out buildings, which are paid for from a fund with its own accounts.",
    "A shift between departments needs the consent of both and is entered in the books within a week.",
    "The auditors looked at the division of shared costs and had no objection.",
    "Shares are rounded to whole percent.",
)
PROJECT = (
    "Budgets cover the whole life of a project and include the work of our own staff.",
    "A project counts as delayed when a milestone is missed by more than a month.",
    "Leads report to the steering group every six weeks on a single page.",
    "Projects that were merged are listed under the name that was kept.",
    "Lessons from finished projects are collected in a short note that everybody can read.",
    "No project may begin before its purpose can be said in one sentence.",
)
POLICY = (
    "This policy replaces all earlier rules on the same matter.",
    "It was discussed with the staff council and put into plain words after the first readings.",
    "The rules are few on purpose: what they leave open is decided by common sense and by those concerned.",
    "A copy hangs at every site, and the current wording is found on the internal pages.",
)
GOVERNANCE = (
    "The board met in every month but one and twice together with the committees.",
    "Members declare their other offices in writing, and the list is open to inspection.",
    "Each committee has one spokesperson, who is named in the table with the year of the first election.",
    "Minutes are approved at the following meeting and kept without a limit of time.",
)
RISK = (
    "Risks are assessed in spring and in autumn by those who would have to deal with them.",
    "The register names what may happen, who watches it and how likely it is held to be.",
    "Measures are described in a separate plan, which is confidential in parts.",
)
LETTER = (
    "The years behind us asked for patience, and I wish to thank all who had it with us.",
    "We have kept our promises where we could and said so early where we could not.",
    "What you find on the following pages was put together by many hands and checked by others.",
    "We report by region, since that is how our work is organised and how our readers know us.",
    "You will find more tables than adjectives, and that is intended.",
    "Behind each figure stand people who unlocked a door in the morning and were there when somebody came in.",
    "We have changed less than the talk of change suggests, and some of what stayed the same is our strength.",
    "Criticism reaches us in letters and at meetings, and it has made several chapters of this report better.",
    "The next years will bring a new planning system and, we hope, fewer forms.",
)


def paragraphs(rng: np.random.Generator, sentences: tuple[str, ...], *counts: int) -> list[str]:
    """Returns paragraphs of so many sentences each; no sentence comes twice.

    Args:
        rng: Chooses them.
        sentences: At least as many as all paragraphs have together.
        counts: Sentences of each paragraph.
    """
    chosen = iter(pick_several(rng, sentences, sum(counts)))
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
    opening, middle, closing = paragraphs(rng, LETTER, 2, 4, 3)
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
    before, after, last = paragraphs(rng, REGION, 4, 4, 3)
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
        *map(Paragraph, paragraphs(rng, PLANS, 4)),
    )


@blocks_of.register
def _department(subject: subjects.Department, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    year = organisation.years[-1]
    opening, below, outlook = paragraphs(rng, DEPARTMENT, 2, 4, 3)
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
    above, below = paragraphs(rng, BUDGET, 3, 3)
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
    above, below = paragraphs(rng, SITE, 3, 4)
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
    above, below = paragraphs(rng, PROJECT, 3, 3)
    table = Table(
        caption=f"Projects that began in {subject.year}",
        columns=("Project", "Lead", "Budget (thousand crowns)", "Start", f"Status {NOTE_MARK}"),
        rows=tuple((row.name, row.lead, grouped(row.budget), row.start, row.status) for row in subject.projects),
    )
    return (Paragraph(above), table, Paragraph(below))


@blocks_of.register
def _policy(subject: subjects.Policy, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, POLICY, 2, 2)
    return (
        Paragraph(above, "lead"),
        Heading("Rules"),
        Clauses(subject.number, subject.rules),
        Heading("Review"),
        Paragraph(f"This policy is kept up to date by {subject.owner}, who also answers questions about it. {below}"),
    )


@blocks_of.register
def _board(subject: subjects.Board, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    above, below = paragraphs(rng, GOVERNANCE, 2, 2)
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
    return (*map(Paragraph, paragraphs(rng, RISK, 3)), table)


@blocks_of.register
def _glossary(subject: subjects.Glossary, organisation: Organisation, rng: np.random.Generator) -> Blocks:
    blocks: list[Block] = [Paragraph("Words that this report uses in a sense of its own.", "lead")]
    for term, meaning in subject.terms:
        blocks += [Heading(term), Paragraph(f"{meaning[0].upper()}{meaning[1:]}.")]
    return tuple(blocks)
