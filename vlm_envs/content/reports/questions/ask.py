"""Draws a question of a category."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlm_envs.content.drawing import pick_by_group
from vlm_envs.content.reports.composition import Report
from vlm_envs.content.reports.questions.across import COMPARISON, CROSS_PAGE, ask_comparison, ask_cross_page
from vlm_envs.content.reports.questions.asked import Asked
from vlm_envs.content.reports.questions.labels import PAGE_LABEL, ask_label
from vlm_envs.content.reports.questions.missing import UNANSWERABLE, ask_missing
from vlm_envs.content.reports.questions.page_facts import CHART, TABLE, TEXT, facts_of
from vlm_envs.errors import GenerationError
from vlm_envs.validation import require_choice

CATEGORIES = (TABLE, CHART, TEXT, COMPARISON, CROSS_PAGE, PAGE_LABEL, UNANSWERABLE)
"""What questions there are: a cell of a table; a value of a chart, which no text holds; a fact in running text; which
of several look-alike pages has the most; sums and differences over two pages; the number printed on a page; what the
report does not hold."""

_ASKERS = {
    COMPARISON: ask_comparison,
    CROSS_PAGE: ask_cross_page,
    PAGE_LABEL: ask_label,
    UNANSWERABLE: ask_missing,
}
"""What asks about more than one page's facts, by category."""

_MAX_TRIES = 200


def ask(report: Report, category: str, rng: np.random.Generator) -> Asked:
    """Returns a question about a report.

    Args:
        report: What is asked about.
        category: One of `CATEGORIES`.
        rng: The only source of chance.

    Returns:
        A question with one right answer.

    Raises:
        ConfigError: If there is no such category.
        GenerationError: If the report has nothing to ask about in this category.
    """
    require_choice("category", category, CATEGORIES)
    for _ in range(_MAX_TRIES):
        asked = _ASKERS[category](report, rng) if category in _ASKERS else _ask_page(report, category, rng)
        if asked is not None:
            return asked
    raise GenerationError(f"The report has no question of the category {category!r} in {_MAX_TRIES} tries.")


def _ask_page(report: Report, category: str, rng: np.random.Generator) -> Asked | None:
    """Returns a question about one page, each template that the report has as likely."""
    found = [
        (number, fact)
        for number, page in enumerate(report.pages, start=1)
        for fact in facts_of(page.subject, report.organisation)
        if fact.category == category
    ]
    if not found:
        return None
    number, fact = pick_by_group(rng, found, lambda entry: entry[1].template)
    return replace(fact, pages=(number,))
