"""Questions about single pages of a report, and questions that the report does not answer.

Each unanswerable question is about an invented page that is not in the report: a region in a year that is left out, a
crop that a region does not grow, a policy nobody wrote. So the wording does not reveal whether a question can be
answered.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import singledispatch
from typing import TypeVar

import numpy as np

from vlm_envs.content.random_choice import pick, pick_by_group
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.composition import Page, Report, SubjectT
from vlm_envs.content.reports.report_contents import COMMITTEES, TOPICS, Organisation, draw_policy
from vlm_envs.content.reports.subjects import (
    DEPARTMENTS,
    FIRST_NAMES,
    LAST_NAMES,
    MONTHS,
    PROJECTS,
    QUARTERS,
    SITES,
    grouped,
    listing,
)
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, AnswerKind

NOT_ANSWERABLE = "Not answerable"
"""What is to be answered where the report does not say."""

_REFUSALS = (NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", "The report does not say", "Not in the report")
_NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question with its answer.

    Attributes:
        category: One of `vlm_envs.content.reports.report_questions.CATEGORIES`.
        template: Which of the kinds of question within the category.
        question: What is asked.
        key: The answer and how to compare with it.
        pages: Pages that hold the answer, counted from 1; none where nothing does, or no report is given.
        facts: Sentences that a careful look at these pages tells.
        terms: What the question is about, in the order of the template; each is a part of the question.
    """

    category: str
    template: str
    question: str
    key: AnswerKey
    pages: tuple[int, ...] = ()
    facts: str
    terms: tuple[str, ...]


def count_key(value: int, units: Sequence[str] = ()) -> AnswerKey:
    """Returns the key of a whole number that is printed: no tolerance, any of the usual ways to write it.

    Args:
        value: The number, not negative.
        units: Words that may follow it.
    """
    written = dict.fromkeys([grouped(value), str(value)])
    if value < len(_NUMBER_WORDS):
        written[_NUMBER_WORDS[value]] = None
    return AnswerKey(kind="exact", answers=(*written, *(f"{number} {unit}" for number in written for unit in units)))


def reading_key(value: int) -> AnswerKey:
    """Returns the key of a value read off a chart: right within 5 %."""
    return AnswerKey(kind="number", answers=(str(value),), tolerance=RELATIVE_TOLERANCE)


def name_key(name: str) -> AnswerKey:
    """Returns the key of a name: equal, since a similar name is another name."""
    return AnswerKey(kind="anls", answers=(name,), tolerance=0.0)


def phrase_key(phrase: str) -> AnswerKey:
    """Returns the key of a phrase that no other phrase resembles: similarity by characters (ANLS)."""
    return AnswerKey(kind="anls", answers=(phrase,))


def exact_key(*answers: str) -> AnswerKey:
    """Returns the key of an answer with a few equal ways to write it."""
    return AnswerKey(kind="exact", answers=tuple(dict.fromkeys(answers)))


def refusal_key(kind: AnswerKind) -> AnswerKey:
    """Returns the key of a question that the report does not answer.

    Args:
        kind: That of the same question about something that the report holds; prompts tell how to answer by it, and
            must not tell that there is no answer.
    """
    return AnswerKey(kind=kind, answers=_REFUSALS)


TABLE, CHART, TEXT = "table_lookup", "chart_reading", "text_fact"

_Row = tuple[str, str, AnswerKey, str]


@singledispatch
def facts_of(subject: subjects.Subject, organisation: Organisation) -> Iterator[Asked]:
    """Yields what can be asked about a subject from its own page alone.

    Args:
        subject: What a page is about. It need not be in any report: questions about one that is not have no answer.
        organisation: Who reports.

    Yields:
        Questions whose answers no other page of a report tells, without `pages`; none about a `Front`.
    """
    yield from ()


def _facts(category: str, terms: tuple[str, ...], *rows: _Row) -> Iterator[Asked]:
    """Yields facts of one category about the same terms, each a row of template, question, key and sentence."""
    for template, question, key, sentence in rows:
        yield Asked(category=category, template=template, question=question, key=key, facts=sentence, terms=terms)


@facts_of.register
def _letter(letter: subjects.Letter, organisation: Organisation) -> Iterator[Asked]:
    name = organisation.name
    return _facts(
        TEXT, (name,),
        ("founded", f"In which year was {name} founded?", count_year(letter.founded),
         f"{name} was founded in {letter.founded}."),
        ("headquarters", f"In which town does {name} have its headquarters?", name_key(letter.town),
         f"{name} is based in {letter.town}."),
        ("chair", f"Who chairs the board of {name}?", name_key(letter.chair), f"{name} is chaired by {letter.chair}."),
    )  # fmt: skip


def count_year(year: int) -> AnswerKey:
    """Returns the key of a year."""
    return exact_key(str(year), f"in {year}")


@facts_of.register
def _region_year(subject: subjects.RegionYear, organisation: Organisation) -> Iterator[Asked]:
    trade, region, year = organisation.trade, subject.region, str(subject.year)
    where = f"the {region} region"
    for line, counts in zip(subject.lines, subject.counts, strict=True):
        counted = trade.counted(line)
        for quarter, count in zip(QUARTERS, counts, strict=True):
            yield from _facts(
                TABLE, (region, year, line.lower(), quarter),
                ("count", f"How many {counted} did {where} {trade.verb} in {quarter} {year}?",
                 count_key(count, unit_words(organisation, line)),
                 f"In {quarter} {year} {where} {trade.past} {grouped(count)} {counted}."),
            )  # fmt: skip
    noted, quarter = subject.lines[subject.noted], QUARTERS[subject.noted_quarter]
    counted = trade.counted(noted)
    yield from _facts(
        TEXT, (region, year, noted.lower(), quarter),
        ("footnote",
         f"How many {counted} of the quarter before are included in the {quarter} {year} figure of {where}?",
         count_key(subject.corrected, unit_words(organisation, noted)),
         f"A footnote says that the {quarter} {year} figure of {where} includes {subject.corrected} {counted} "
         "of the quarter before."),
    )  # fmt: skip
    yield from _facts(
        TEXT, (region, year),
        ("manager", f"Who led {where} in {year}?", name_key(subject.manager),
         f"In {year} {where} was led by {subject.manager}."),
        ("outlets", f"How many new {trade.outlets} did {where} open in {year}?",
         count_key(subject.new_outlets, (trade.outlets, f"new {trade.outlets}")),
         f"In {year} {where} opened {subject.new_outlets} new {trade.outlets}."),
    )  # fmt: skip


def unit_words(organisation: Organisation, line: str) -> tuple[str, ...]:
    """Returns what may follow a count of a line in an answer."""
    counted = organisation.trade.counted(line)
    return (counted, "tonnes") if organisation.trade.of else (counted,)


@facts_of.register
def _department(subject: subjects.Department, organisation: Organisation) -> Iterator[Asked]:
    name, counted, year = subject.name, subject.counted, organisation.years[-1]
    for month, value in zip(subject.months, subject.values, strict=True):
        yield from _facts(
            CHART, (name, str(year), month),
            ("bar_value", f"How many {counted} did the {name} department receive in {month} {year}?",
             reading_key(value), f"In {month} {year} the {name} department received {grouped(value)} {counted}."),
        )  # fmt: skip
    for word, extreme in (("most", max), ("fewest", min)):
        month = subject.months[subject.values.index(extreme(subject.values))]
        yield from _facts(
            CHART, (name, str(year)),
            (f"bar_{word}",
             f"Of the months that the report shows for {year}, in which did the {name} department receive the "
             f"{word} {counted}?",
             month_key(month, year),
             f"Of the months shown for {year}, the {name} department received the {word} {counted} in {month}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (name,),
        ("head", f"Who heads the {name} department?", name_key(subject.head),
         f"The {name} department is headed by {subject.head}."),
        ("deputy", f"Who is the deputy head of the {name} department?", name_key(subject.deputy),
         f"The {name} department has {subject.deputy} as deputy head."),
        ("seat", f"In which town does the {name} department have its seat?", name_key(subject.town),
         f"The {name} department has its seat in {subject.town}."),
        ("since", f"In which year was the {name} department set up?", count_year(subject.since),
         f"The {name} department was set up in {subject.since}."),
        ("staff", f"How many staff did the {name} department have at the end of {year}?",
         count_key(subject.num_people, ("staff", "people", "employees")),
         f"The {name} department had {subject.num_people} staff at the end of {year}."),
    )  # fmt: skip


def month_key(month: str, year: int) -> AnswerKey:
    """Returns the key of a month."""
    return exact_key(month, month[:3], f"{month} {year}", f"{month[:3]} {year}", f"in {month}")


@facts_of.register
def _budget_year(subject: subjects.BudgetYear, organisation: Organisation) -> Iterator[Asked]:
    year = str(subject.year)
    for name, share in zip(subject.names, subject.shares, strict=True):
        yield from _facts(
            CHART, (year, name),
            ("share", f"What percentage of the budget of {year} went to the {name} department?", reading_key(share),
             f"{share} % of the budget of {year} went to the {name} department."),
        )  # fmt: skip
    largest = max(subject.shares)
    if subject.shares.count(largest) == 1:
        name = subject.names[subject.shares.index(largest)]
        yield from _facts(
            CHART, (year,),
            ("largest_share", f"Which department had the largest share of the budget of {year}?",
             exact_key(name, f"{name} department", f"the {name} department"),
             f"The {name} department had the largest share of the budget of {year}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (year,),
        ("approved_by", f"Who approved the budget of {year}?", name_key(subject.approved_by),
         f"The budget of {year} was approved by {subject.approved_by}."),
        ("approved_in", f"In which month was the budget of {year} approved?", month_key(subject.month, subject.year),
         f"The budget of {year} was approved in {subject.month}."),
    )  # fmt: skip


@facts_of.register
def _site_year(subject: subjects.SiteYear, organisation: Organisation) -> Iterator[Asked]:
    site, year = subject.site, str(subject.year)
    for word, extreme in (("most", max), ("least", min)):
        month = MONTHS[subject.usage_mwh.index(extreme(subject.usage_mwh))]
        yield from _facts(
            CHART, (site, year),
            (f"line_{word}", f"In which month of {year} was the {word} electricity used at {site}?",
             month_key(month, subject.year), f"In {year} the {word} electricity was used at {site} in {month}."),
        )  # fmt: skip
    yield from _facts(
        TEXT, (site, year),
        ("warden", f"Who was the warden of {site} in {year}?", name_key(subject.warden),
         f"In {year} the warden of {site} was {subject.warden}."),
        ("area", f"What floor area, in square metres, did {site} have in {year}?",
         count_key(subject.floor_area_m2, ("square metres", "m²", "m2", "sqm")),
         f"In {year} {site} had a floor area of {grouped(subject.floor_area_m2)} square metres."),
    )  # fmt: skip


@facts_of.register
def _projects(subject: subjects.ProjectList, organisation: Organisation) -> Iterator[Asked]:
    for project in subject.projects:
        name = project.name
        month, _, _ = project.start.partition(" ")
        yield from _facts(
            TABLE, (name,),
            ("project_budget", f"What is the budget of project {name}, in thousand crowns?",
             count_key(project.budget, ("thousand crowns", "thousand")),
             f"Project {name} has a budget of {grouped(project.budget)} thousand crowns."),
            ("project_lead", f"Who leads project {name}?", name_key(project.lead),
             f"Project {name} is led by {project.lead}."),
            ("project_status", f"What is the status of project {name}?", exact_key(project.status),
             f"Project {name} is {project.status}."),
            ("project_start", f"In which month did project {name} begin?", month_key(month, subject.year),
             f"Project {name} began in {project.start}."),
        )  # fmt: skip


@facts_of.register
def _policy(subject: subjects.Policy, organisation: Organisation) -> Iterator[Asked]:
    topic = subject.topic.lower()
    for rule, question, answer in zip(subject.rules, subject.questions, subject.answers, strict=True):
        if question:
            asked = f"According to the policy on {topic}: {question[0].lower()}{question[1:]}"
            said = f"The policy on {topic} says: {rule}"
            yield from _facts(TEXT, (topic, question[1:]), ("rule", asked, count_key(int(answer)), said))
    yield from _facts(
        TEXT, (topic,),
        ("owner", f"Who keeps the policy on {topic} up to date?", name_key(subject.owner),
         f"The policy on {topic} is kept up to date by {subject.owner}."),
    )  # fmt: skip


@facts_of.register
def _board(subject: subjects.Board, organisation: Organisation) -> Iterator[Asked]:
    for name, committee, since in subject.members:
        yield from _facts(
            TABLE, (committee,),
            ("spokesperson", f"Who is the spokesperson of the {committee} committee?", name_key(name),
             f"The spokesperson of the {committee} committee is {name}."),
            ("elected", f"In which year was the spokesperson of the {committee} committee first elected?",
             count_year(since), f"The spokesperson of the {committee} committee was first elected in {since}."),
        )  # fmt: skip


@facts_of.register
def _risks(subject: subjects.Risks, organisation: Organisation) -> Iterator[Asked]:
    for code, text, owner, _ in subject.entries:
        yield from _facts(
            TABLE, (code,),
            ("watcher", f"Who watches risk {code}?", name_key(owner), f"Risk {code} is watched by {owner}."),
            ("risk", f"Which risk has the code {code}?", phrase_key(text), f"Risk {code} is this: {text}."),
        )  # fmt: skip


@facts_of.register
def _glossary(subject: subjects.Glossary, organisation: Organisation) -> Iterator[Asked]:
    for term, meaning in subject.terms:
        yield from _facts(
            TEXT, (meaning,),
            ("term", f'Which term does the glossary explain as "{meaning}"?', name_key(term),
             f"The glossary explains {term.lower()} as {meaning}."),
        )  # fmt: skip


PAGE_LABEL = "page_label"


def ask_label(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question for the printed label of the page that mentions somebody or something.

    What it is about is in no table of contents, and on one page only.
    """
    number = pick(rng, [index for index, page in enumerate(report.pages, start=1) if any(mentions(page.subject))])
    page = report.pages[number - 1]
    label = page.label
    template, what = pick(rng, list(mentions(page.subject)))
    if sum(says(other, what) for other in report.pages) != 1:
        return None
    return Asked(
        category=PAGE_LABEL,
        template=template,
        question=label_question(template, what),
        key=exact_key(label, f"page {label}", f"p. {label}", f"– {label} –", f"- {label} -"),
        pages=(number,),
        facts=f"{_SUBJECTS[template].format(what)} is named on the page on which the number {label} is printed.",
        terms=(what,),
    )


_SUBJECTS = {"person": "{}", "project": "Project {}", "risk": "Risk {}"}


def label_question(template: str, what: str) -> str:
    """Returns the question for the label of the page that names a person, a project or a risk."""
    name = _SUBJECTS[template].format(what)
    name = name if template == "person" else name[0].lower() + name[1:]
    return (
        f"Which page number is printed on the page that names {name}? "
        "Give the number as printed, not the position in the file."
    )


def says(page: Page, what: str) -> bool:
    """Returns whether a page's text holds a name as whole words."""
    return re.search(rf"(?<![\w-]){re.escape(what)}(?![\w-])", page.text) is not None


def mentions(subject: subjects.Subject) -> Iterator[tuple[str, str]]:
    """Yields the people, projects and risks that a page names, each with its template."""
    match subject:
        case (
            subjects.Letter(chair=name)
            | subjects.RegionYear(manager=name)
            | subjects.SiteYear(warden=name)
            | subjects.BudgetYear(approved_by=name)
            | subjects.Policy(owner=name)
        ):
            yield "person", name
        case subjects.Department():
            yield "person", subject.head
            yield "person", subject.deputy
        case subjects.ProjectList():
            for project in subject.projects:
                yield "project", project.name
                yield "person", project.lead
        case subjects.Board():
            for name, _, _ in subject.members:
                yield "person", name
        case subjects.Risks():
            for code, _, owner, _ in subject.entries:
                yield "risk", code
                yield "person", owner


UNANSWERABLE = "unanswerable"

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class _Absent:
    """A page that the report does not have.

    Attributes:
        subject: What it would be about.
        reason: Why nothing about it can be found, as a sentence.
        templates: Those of its facts that are then absent; all if empty.
    """

    subject: subjects.Subject
    reason: str
    templates: tuple[str, ...] = ()


def ask_missing(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question that the report does not answer."""
    makers = _makers(report)
    index = int(rng.integers(len(makers) + 1))
    if index == len(makers):
        return _nobody(report, rng)
    absent = makers[index](report, rng)
    if absent is None:
        return None
    fact = _draw_fact(absent, report, rng)
    return replace(fact, category=UNANSWERABLE, key=refusal_key(fact.key.kind), facts=absent.reason)


def absent_fact(report: Report, rng: np.random.Generator) -> tuple[Asked, str] | None:
    """Returns a fact of a page that the report does not have, and why nothing about it can be found, as a sentence.

    What the fact itself says is made up. None where what was drawn cannot be absent.
    """
    absent = pick(rng, _makers(report))(report, rng)
    return None if absent is None else (_draw_fact(absent, report, rng), absent.reason)


def _makers(report: Report) -> list[Callable[[Report, np.random.Generator], _Absent | None]]:
    """Returns what draws pages that a report does not have."""
    makers: list[Callable[[Report, np.random.Generator], _Absent | None]] = [
        _other_year,
        _other_line,
        _other_department,
        _other_month,
    ]
    optional = (
        (subjects.SiteYear, _other_site),
        (subjects.BudgetYear, _other_budget),
        (subjects.Policy, _other_policy),
        (subjects.ProjectList, _other_project),
        (subjects.Board, _other_committee),
    )
    return makers + [maker for kind, maker in optional if report.pages_about(kind)]


def _draw_fact(absent: _Absent, report: Report, rng: np.random.Generator) -> Asked:
    """Returns a fact of an absent page, each template as likely."""
    facts = [
        fact
        for fact in facts_of(absent.subject, report.organisation)
        if not absent.templates or fact.template in absent.templates
    ]
    return pick_by_group(rng, facts, lambda fact: fact.template)


def _nobody(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question for the page that names somebody who does not occur."""
    name = f"{pick(rng, FIRST_NAMES)} {pick(rng, LAST_NAMES)}"
    if any(name in page.text for page in report.pages):
        return None
    return Asked(
        category=UNANSWERABLE,
        template="person",
        question=label_question("person", name),
        key=refusal_key("exact"),
        facts=f"No page of the report names {name}.",
        terms=(name,),
    )


def _other_year(report: Report, rng: np.random.Generator) -> _Absent | None:
    """Returns a region in a year without a page, within the years of the report or next to them."""
    pages = _pages(report, subjects.RegionYear)
    shown = pick(rng, pages)
    years = range(report.organisation.years[0] - 1, report.organisation.years[-1] + 2)
    known = {subject.year for subject in pages if subject.region == shown.region}
    year = pick(rng, [year for year in years if year not in known])
    listed = listing([str(number) for number in sorted(known)])
    reason = f"The report has pages about the {shown.region} region in {listed}, none about {year}."
    return _Absent(replace(shown, year=year), reason, ("count", "manager", "outlets"))


def _other_line(report: Report, rng: np.random.Generator) -> _Absent | None:
    """Returns a line that the table of a region does not have."""
    shown = pick(rng, _pages(report, subjects.RegionYear))
    trade = report.organisation.trade
    line = pick(rng, [line for line in trade.lines if line not in shown.lines])
    listed = listing([known.lower() for known in shown.lines])
    reason = f"The table of the {shown.region} region in {shown.year} lists {listed}, not {line.lower()}."
    return _Absent(replace(shown, lines=(line,), counts=((1, 1, 1, 1),), noted=0), reason, ("count",))


def _other_department(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.Department)
    name, counted = pick(rng, _others(DEPARTMENTS, [(page.name, page.counted) for page in pages]))
    absent = replace(pick(rng, pages), name=name, counted=counted)
    return _Absent(absent, f"The report has no page about a department named {name}.")


def _other_month(report: Report, rng: np.random.Generator) -> _Absent | None:
    """Returns a month that the chart of a department leaves out."""
    shown = pick(rng, _pages(report, subjects.Department))
    months = _others(MONTHS, shown.months)
    if not months:
        return None
    reason = f"The chart of the {shown.name} department begins with {shown.months[0]} and ends with {shown.months[-1]}."
    return _Absent(replace(shown, months=(pick(rng, months),), values=(1,)), reason, ("bar_value",))


def _other_site(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.SiteYear)
    site = pick(rng, _others(SITES, [page.site for page in pages]))
    return _Absent(replace(pick(rng, pages), site=site), f"The report has no page about a building named {site}.")


def _other_budget(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.BudgetYear)
    years = range(report.organisation.years[0] - 1, report.organisation.years[-1] + 2)
    year = pick(rng, _others(years, [page.year for page in pages]))
    return _Absent(replace(pick(rng, pages), year=year), f"The report has no page about the budget of {year}.")


def _other_policy(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.Policy)
    topic = pick(rng, _others(tuple(TOPICS), [page.topic for page in pages]))
    return _Absent(draw_policy(rng, 1, topic, "nobody"), f"The report has no policy on {topic.lower()}.")


def _other_project(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.ProjectList)
    name = pick(rng, _others(PROJECTS, [project.name for page in pages for project in page.projects]))
    shown = pick(rng, pages)
    absent = replace(shown, projects=(replace(shown.projects[0], name=name),))
    return _Absent(absent, f"No project of the report is called {name}.")


def _other_committee(report: Report, rng: np.random.Generator) -> _Absent | None:
    (board,) = _pages(report, subjects.Board)
    committees = _others(COMMITTEES, [committee for _, committee, _ in board.members])
    if not committees:
        return None
    committee = pick(rng, committees)
    absent = subjects.Board(members=(("nobody", committee, 1),))
    return _Absent(absent, f"The report knows no {committee} committee.")


def _pages(report: Report, kind: type[SubjectT]) -> list[SubjectT]:
    """Returns the subjects of one kind in the order of the pages."""
    return [subject for _, subject in report.pages_about(kind)]


def _others(items: Sequence[ItemT], known: Sequence[ItemT]) -> list[ItemT]:
    """Returns the items that are not known."""
    return [item for item in items if item not in known]
