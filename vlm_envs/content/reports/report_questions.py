"""Questions across pages of a report, and the entry point for questions of every category."""

from __future__ import annotations

import tomllib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from importlib.resources import files
from itertools import chain, combinations
from typing import Any, NamedTuple

import numpy as np

from vlm_envs.content.random_choice import pick_by_group, pick_several
from vlm_envs.content.reports.composition import Report
from vlm_envs.content.reports.page_questions import (
    CHART,
    PAGE_LABEL,
    TABLE,
    TEXT,
    UNANSWERABLE,
    Asked,
    ask_label,
    ask_missing,
    count_key,
    facts_of,
    key_of,
    unit_words,
)
from vlm_envs.content.reports.report_contents import Organisation
from vlm_envs.content.reports.subjects import grouped, listing
from vlm_envs.errors import GenerationError
from vlm_envs.validation import require_choice

COMPARISON, CROSS_PAGE = "comparison", "cross_page"
_MAX_COMPARED = 4
_KINDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("report_comparisons.toml").read_text("utf-8"))


class _Entry(NamedTuple):
    """A number on a page, and the thing it describes.

    Attributes:
        page: Page number, counted from 1.
        fact: The fact that states the number.
        name: The thing that is compared, such as a region or a year.
    """

    page: int
    fact: Asked
    name: str

    @property
    def value(self) -> int:
        """The number."""
        return int(self.fact.key.answers[0].replace(",", ""))


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    """Numbers that can be compared and added.

    Attributes:
        template: Key of `report_comparisons.toml`.
        entries: Numbers on different pages.
        told: Values for its texts.
    """

    template: str
    entries: Sequence[_Entry]
    told: dict[str, Any]

    @property
    def kind(self) -> Any:
        """The row of its template."""
        return _KINDS[self.template]

    @property
    def terms(self) -> tuple[str, ...]:
        """The terms that all entries share."""
        return tuple(term.format_map(self.told) for term in self.kind["terms"])


def ask_comparison(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question about which of several pages has the most or least; None if there is none to ask."""
    family = _draw_family(report, rng)
    if family is None:
        return None
    count = int(rng.integers(2, min(_MAX_COMPARED, len(family.entries)) + 1))
    chosen = pick_several(rng, family.entries, count)
    index = int(rng.integers(2))
    extreme = (max, min)[index](entry.value for entry in chosen)
    best = [entry for entry in chosen if entry.value == extreme]
    if len(best) > 1:
        return None
    names, word = [entry.name for entry in chosen], family.kind["words"][index]
    return Asked(
        category=COMPARISON,
        template=family.template,
        question=family.kind["which"].format_map(family.told | {"word": word, "names": listing(names, "or")}),
        key=key_of(family.kind["answer"], best[0].name),
        pages=tuple(sorted(entry.page for entry in chosen)),
        facts=" ".join(entry.fact.facts for entry in sorted(chosen, key=lambda entry: entry.page)),
        terms=(*family.terms, word, *names),
    )


def ask_cross_page(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question about a sum or difference across two pages; None if there is none to ask."""
    family = _draw_family(report, rng)
    if family is None:
        return None
    first, second = pick_several(rng, family.entries, 2)
    is_sum = bool(rng.integers(2))
    if first.value < second.value and not is_sum:
        first, second = second, first
    value = first.value + second.value if is_sum else first.value - second.value
    if value < 1:
        return None
    operation, sign, asked = ("sum", "+", "total") if is_sum else ("difference", "-", "more")
    reckoning = f"{grouped(first.value)} {sign} {grouped(second.value)} = {grouped(value)}"
    return Asked(
        category=CROSS_PAGE,
        template=f"{family.template}_{operation}",
        question=family.kind[asked].format_map(family.told | {"first": first.name, "second": second.name}),
        key=count_key(value, family.told.get("units") or family.kind["units"]),
        pages=tuple(sorted((first.page, second.page))),
        facts=f"{first.fact.facts} {second.fact.facts} {reckoning}.",
        terms=(*family.terms, first.name, second.name),
    )


def _draw_family(report: Report, rng: np.random.Generator) -> _Family | None:
    """Returns a family, each template equally likely; None if there are no two comparable numbers."""
    families = [family for family in _families(report) if len(family.entries) >= 2]
    return pick_by_group(rng, families, lambda family: family.template) if families else None


def _families(report: Report) -> Iterator[_Family]:
    """Yields families of facts that differ in one term only; for projects, pairs on different pages."""
    organisation = report.organisation
    told = {"trade": organisation.trade, "year": organisation.years[-1]}
    facts = [[*facts_of(page.subject, organisation)] for page in report.pages]
    for template, kind in _KINDS.items():
        pages = [
            [_Entry(number, fact, fact.terms[kind["name"]]) for fact in page if fact.template == kind["fact"]]
            for number, page in enumerate(facts, start=1)
        ]
        if template == "projects":
            for one, other in combinations(pages, 2):
                for pair in zip(one, other, strict=False):
                    yield _Family(template=template, entries=pair, told=told)
            continue
        for shared, entries in _alike(chain.from_iterable(pages), kind["shared"].values(), organisation):
            named = dict(zip(kind["shared"], shared, strict=True))
            units = {"units": unit_words(organisation, named["line"])} if "line" in named else {}
            yield _Family(template=template, entries=entries, told=told | named | units)


def _alike(
    entries: Iterable[_Entry], places: Iterable[int], organisation: Organisation
) -> Iterator[tuple[tuple[str, ...], list[_Entry]]]:
    """Groups entries by the terms at some positions, yielded in order; lines are ordered as in tables."""
    places, alike = tuple(places), defaultdict(list)
    for entry in entries:
        alike[tuple(entry.fact.terms[index] for index in places)].append(entry)
    order = {line.lower(): f"{index:02}" for index, line in enumerate(organisation.trade.lines)}
    yield from sorted(alike.items(), key=lambda item: [order.get(term, term) for term in item[0]])


CATEGORIES = (TABLE, CHART, TEXT, COMPARISON, CROSS_PAGE, PAGE_LABEL, UNANSWERABLE)
"""Categories of questions: a cell of a table; a chart value, which is not in the text; a fact in running
text; which of several similar pages has the most; sums and differences across two pages; the number printed
on a page; questions without an answer in the report."""

_ASKERS = {
    COMPARISON: ask_comparison,
    CROSS_PAGE: ask_cross_page,
    PAGE_LABEL: ask_label,
    UNANSWERABLE: ask_missing,
}
"""Functions that ask about more than the facts of one page, by category."""

_MAX_TRIES = 200


def ask(report: Report, category: str, rng: np.random.Generator) -> Asked:
    """Returns a question about a report.

    Args:
        report: The report.
        category: One of `CATEGORIES`.
        rng: The only source of randomness.

    Returns:
        A question with exactly one right answer.

    Raises:
        ConfigError: If the category does not exist.
        GenerationError: If the report has no question of this category.
    """
    require_choice("category", category, CATEGORIES)
    for _ in range(_MAX_TRIES):
        asked = _ASKERS[category](report, rng) if category in _ASKERS else _ask_page(report, category, rng)
        if asked is not None:
            return asked
    raise GenerationError(
        f"No question of the category {category!r} was found for the report in {_MAX_TRIES} attempts."
    )


def _ask_page(report: Report, category: str, rng: np.random.Generator) -> Asked | None:
    """Returns a question about one page; templates available in the report are equally likely."""
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
