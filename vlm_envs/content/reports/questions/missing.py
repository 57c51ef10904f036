"""Questions that a report does not answer: asked exactly as others are, about what it does not hold.

Each is a question about an invented page that is not in the report: a region in a year that is left out, a crop that
a region does not grow, a policy nobody wrote. So the words of a question do not tell whether it can be answered.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from vlm_envs.content.drawing import pick, pick_by_group
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.composition import Report, SubjectT
from vlm_envs.content.reports.contents import COMMITTEES
from vlm_envs.content.reports.policies import TOPICS, draw_policy
from vlm_envs.content.reports.questions.asked import Asked, refusal_key
from vlm_envs.content.reports.questions.labels import label_question
from vlm_envs.content.reports.questions.page_facts import facts_of
from vlm_envs.content.reports.words import DEPARTMENTS, FIRST_NAMES, LAST_NAMES, MONTHS, PROJECTS, SITES, listing

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
