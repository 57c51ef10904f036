"""Questions about single pages of a report, and questions that the report does not answer.

An unanswerable question is about an invented page that is missing from the report: a region in a year without
a page, a crop that a region does not grow, a policy that does not exist. Its wording therefore does not
reveal that it has no answer.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from typing import Any, TypeVar

import numpy as np

from vlm_envs.content.random_choice import pick, pick_by_group
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.composition import Page, Report, SubjectT
from vlm_envs.content.reports.report_contents import COMMITTEES, TOPICS, Organisation, draw_policy, told_of
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
"""The expected answer if the report does not contain one."""

_REFUSALS = (NOT_ANSWERABLE, "Unanswerable", "Cannot be answered", "The report does not say", "Not in the report")
_NUMBER_WORDS = (
    "zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten", "eleven", "twelve",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True, slots=True)
class Asked:
    """A question with its answer.

    Attributes:
        category: One of `vlm_envs.content.reports.report_questions.CATEGORIES`.
        template: Kind of question within the category.
        question: The question text.
        key: The answer, and how to compare answers with it.
        pages: Pages with the answer, counted from 1; empty if there are none, or outside a report.
        facts: Sentences with the facts on these pages.
        terms: The terms that the question asks about, in the template's order; each occurs in the question.
    """

    category: str
    template: str
    question: str
    key: AnswerKey
    pages: tuple[int, ...] = ()
    facts: str
    terms: tuple[str, ...]


def count_key(value: int, units: Sequence[str] = ()) -> AnswerKey:
    """Returns the key of a printed integer: no tolerance, in any common notation.

    Args:
        value: The number, not negative.
        units: Words that may follow it.
    """
    written = dict.fromkeys([grouped(value), str(value)])
    if value < len(_NUMBER_WORDS):
        written[_NUMBER_WORDS[value]] = None
    return AnswerKey(kind="exact", answers=(*written, *(f"{number} {unit}" for number in written for unit in units)))


def reading_key(value: int) -> AnswerKey:
    """Returns the key of a value read off a chart, with a tolerance of 5%."""
    return AnswerKey(kind="number", answers=(str(value),), tolerance=RELATIVE_TOLERANCE)


def name_key(name: str) -> AnswerKey:
    """Returns the key of a name, which must match exactly because a similar name is another name."""
    return AnswerKey(kind="anls", answers=(name,), tolerance=0.0)


def exact_key(*answers: str) -> AnswerKey:
    """Returns the key of an answer with several equivalent spellings."""
    return AnswerKey(kind="exact", answers=tuple(dict.fromkeys(answers)))


def key_of(kind: str, answer: str, *, year: object = "", units: Sequence[str] = ()) -> AnswerKey:
    """Returns the key of an answer from a question table.

    Args:
        kind: Kind of answer in the table.
        answer: The answer.
        year: Year of an answer that is a month.
        units: Words that may follow a count.
    """
    match kind:
        case "name":
            return name_key(answer)
        case "phrase":  # no other phrase resembles it, so character similarity (ANLS) is safe
            return AnswerKey(kind="anls", answers=(answer,))
        case "reading":
            return reading_key(int(answer))
        case "count":
            return count_key(int(answer), units)
        case "year":
            return exact_key(answer, f"in {answer}")
        case "month":
            return exact_key(answer, answer[:3], f"{answer} {year}", f"{answer[:3]} {year}", f"in {answer}")
        case "region" | "department":
            return exact_key(answer, f"{answer} {kind}", f"the {answer} {kind}")
        case "project":
            return exact_key(answer, f"Project {answer}")
    return exact_key(answer)


def refusal_key(kind: AnswerKind) -> AnswerKey:
    """Returns the key of a question that the report does not answer.

    Args:
        kind: Kind of the same question if it were answerable. Prompts explain the answer format by kind and
            must not reveal that there is no answer.
    """
    return AnswerKey(kind=kind, answers=_REFUSALS)


TABLE, CHART, TEXT = "table_lookup", "chart_reading", "text_fact"
_FACTS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("report_facts.toml").read_text("utf-8"))


def facts_of(subject: subjects.Subject, organisation: Organisation) -> Iterator[Asked]:
    """Yields the facts that can be asked about a subject from its own page alone.

    Args:
        subject: Subject of a page, which may be missing from every report to make unanswerable questions.
        organisation: The reporting organization.

    Yields:
        Questions without `pages`, whose answers are on no other page of a report; none for a `Front`.
    """
    told = told_of(subject, organisation)
    for group, more in _groups(subject, organisation):
        yield from _facts(_FACTS[group], told | more)


def _facts(group: Mapping[str, Any], told: Mapping[str, Any]) -> Iterator[Asked]:
    """Yields the facts of a group of `report_facts.toml`, whose texts are filled in from `told`."""
    units = told.get("units") or [unit.format_map(told) for unit in group.get("units", ())]
    terms = tuple(term.format_map(told) for term in group["terms"])
    for row in group["rows"]:
        template, kind, answer, question, sentence = (text.format_map(told) for text in row)
        key = key_of(kind, answer, year=told["year"], units=units)
        yield Asked(
            category=group["category"], template=template, question=question, key=key, facts=sentence, terms=terms
        )


def _groups(subject: subjects.Subject, organisation: Organisation) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yields the groups of facts about a subject, with values for their texts beyond the fields of the subject."""
    match subject:
        case subjects.Letter():
            yield "letter", {}
        case subjects.RegionYear():
            for line, counts in zip(subject.lines, subject.counts, strict=True):
                for quarter, count in zip(QUARTERS, counts, strict=True):
                    yield "region_cell", _row(organisation, line) | {"quarter": quarter, "value": count}
            noted = subject.lines[subject.noted]
            yield "region_note", _row(organisation, noted) | {"quarter": QUARTERS[subject.noted_quarter]}
            yield "region", {}
        case subjects.Department():
            for month, value in zip(subject.months, subject.values, strict=True):
                yield "department_month", {"month": month, "value": value}
            for word, month in _extremes(("most", "fewest"), subject.months, subject.values):
                yield "department_extreme", {"word": word, "month": month}
            yield "department", {}
        case subjects.BudgetYear():
            for name, share in zip(subject.names, subject.shares, strict=True):
                yield "budget_share", {"name": name, "share": share}
            largest = max(subject.shares)
            if subject.shares.count(largest) == 1:
                yield "budget_largest", {"name": subject.names[subject.shares.index(largest)]}
            yield "budget", {}
        case subjects.SiteYear():
            for word, month in _extremes(("most", "least"), MONTHS, subject.usage_mwh):
                yield "site_extreme", {"word": word, "month": month}
            yield "site", {}
        case subjects.ProjectList():
            for project in subject.projects:
                yield "project", {"project": project, "month": project.start.partition(" ")[0]}
        case subjects.Policy():
            about = {"about": subject.topic.lower()}
            for rule, question, answer in zip(subject.rules, subject.questions, subject.answers, strict=True):
                if question:
                    asked = {"lowered": question[0].lower(), "rest": question[1:]}
                    yield "rule", about | asked | {"said": rule, "answer": answer}
            yield "policy", about
        case subjects.Board():
            for person, committee, since in subject.members:
                yield "committee", {"person": person, "committee": committee, "since": since}
        case subjects.Risks():
            for code, risk, person, _ in subject.entries:
                yield "risk", {"code": code, "risk": risk, "person": person}
        case subjects.Glossary():
            for term, meaning in subject.terms:
                yield "term", {"term": term, "lowered": term.lower(), "meaning": meaning}


def _row(organisation: Organisation, line: str) -> dict[str, Any]:
    counted = organisation.trade.counted(line)
    return {"row": line.lower(), "counted": counted, "units": unit_words(organisation, line)}


def _extremes(words: Iterable[str], months: Sequence[str], values: Sequence[int]) -> Iterator[tuple[str, str]]:
    """Yields the words for the largest and smallest value, each with its month."""
    for word, extreme in zip(words, (max, min), strict=True):
        yield word, months[values.index(extreme(values))]


def unit_words(organisation: Organisation, line: str) -> tuple[str, ...]:
    """Returns the words that may follow a count of a line in an answer."""
    counted = organisation.trade.counted(line)
    return (counted, "tonnes") if organisation.trade.of else (counted,)


PAGE_LABEL = "page_label"


def ask_label(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question about the printed label of the page that mentions a person, project, or risk.

    The name is on one page only, and not in the table of contents.
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
    """Returns the question about the label of the page that names a person, a project, or a risk."""
    name = _SUBJECTS[template].format(what)
    name = name if template == "person" else name[0].lower() + name[1:]
    return (
        f"Which page number is printed on the page that names {name}? "
        "Give the number as printed, not the position in the file."
    )


def says(page: Page, what: str) -> bool:
    """Returns whether a page's text contains a name as whole words."""
    return re.search(rf"(?<![\w-]){re.escape(what)}(?![\w-])", page.text) is not None


def mentions(subject: subjects.Subject) -> Iterator[tuple[str, str]]:
    """Yields the people, projects, and risks that a page names, each with its template."""
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
    """A page missing from the report.

    Attributes:
        subject: Its hypothetical subject.
        reason: Why the report has no such page, as a sentence.
        templates: Templates of its facts that are absent as a result; all if empty.
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
    """Returns a fact of a page missing from the report, and a sentence on why it cannot be found.

    The fact is made up. None if the drawn page cannot be missing.
    """
    absent = pick(rng, _makers(report))(report, rng)
    return None if absent is None else (_draw_fact(absent, report, rng), absent.reason)


def _makers(report: Report) -> list[Callable[[Report, np.random.Generator], _Absent | None]]:
    """Returns the functions that draw missing pages for a report."""
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
    """Returns a fact of an absent page; templates are equally likely."""
    facts = [
        fact
        for fact in facts_of(absent.subject, report.organisation)
        if not absent.templates or fact.template in absent.templates
    ]
    return pick_by_group(rng, facts, lambda fact: fact.template)


def _nobody(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question about the page that names a nonexistent person."""
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
    """Returns a region in a year without a page, within or next to the years of the report."""
    pages = _pages(report, subjects.RegionYear)
    shown = pick(rng, pages)
    years = range(report.organisation.years[0] - 1, report.organisation.years[-1] + 2)
    known = {subject.year for subject in pages if subject.region == shown.region}
    year = pick(rng, [year for year in years if year not in known])
    listed = listing([str(number) for number in sorted(known)])
    reason = f"The report has pages about the {shown.region} region in {listed}, none about {year}."
    return _Absent(replace(shown, year=year), reason, ("count", "manager", "outlets"))


def _other_line(report: Report, rng: np.random.Generator) -> _Absent | None:
    """Returns a line missing from a region's table."""
    shown = pick(rng, _pages(report, subjects.RegionYear))
    trade = report.organisation.trade
    line = pick(rng, [line for line in trade.lines if line not in shown.lines])
    listed = listing([line.lower() for line in shown.lines])
    reason = f"The table of the {shown.region} region in {shown.year} lists {listed}, not {line.lower()}."
    return _Absent(replace(shown, lines=(line,), counts=((1, 1, 1, 1),), noted=0), reason, ("count",))


def _other_department(report: Report, rng: np.random.Generator) -> _Absent | None:
    pages = _pages(report, subjects.Department)
    name, counted = pick(rng, _others(DEPARTMENTS, [(page.name, page.counted) for page in pages]))
    absent = replace(pick(rng, pages), name=name, counted=counted)
    return _Absent(absent, f"The report has no page about a department named {name}.")


def _other_month(report: Report, rng: np.random.Generator) -> _Absent | None:
    """Returns a month missing from a department's chart."""
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
    """Returns the subjects of one kind in page order."""
    return [subject for _, subject in report.pages_about(kind)]


def _others(items: Sequence[ItemT], known: Sequence[ItemT]) -> list[ItemT]:
    """Returns the items that are not in `known`."""
    return [item for item in items if item not in known]
