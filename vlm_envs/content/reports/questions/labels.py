"""Questions for the number that is printed on a page, which differs from the page's position in the file."""

from __future__ import annotations

import re
from collections.abc import Iterator

import numpy as np

from vlm_envs.content.drawing import pick
from vlm_envs.content.reports import subjects
from vlm_envs.content.reports.composition import Page, Report
from vlm_envs.content.reports.questions.asked import Asked, exact_key

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
