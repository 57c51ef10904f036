"""Questions across pages of a report, and the choice of a question of any category."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from typing import NamedTuple

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
    count_year,
    exact_key,
    facts_of,
    unit_words,
)
from vlm_envs.content.reports.subjects import QUARTERS, Department, ProjectList, RegionYear, SiteYear, grouped, listing
from vlm_envs.errors import GenerationError
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.validation import require_choice

COMPARISON, CROSS_PAGE = "comparison", "cross_page"
_MAX_COMPARED = 4


class _Entry(NamedTuple):
    """A number on a page, and what it belongs to.

    Attributes:
        page: Counted from 1.
        name: What is compared, such as a region or a year.
        value: The number.
        sentence: The fact.
    """

    page: int
    name: str
    value: int
    sentence: str


@dataclass(frozen=True, kw_only=True, slots=True)
class _Family:
    """Numbers that may be compared and added up.

    Attributes:
        template: Which kind.
        entries: Two at least, on different pages.
        which: Question for the entry with the greatest or least number; `{word}` and `{names}` are filled in.
        words: For greatest and least.
        answer: Makes the key of an entry's name.
        total: Question for the sum of two entries, `{first}` and `{second}`.
        more: Question for how much greater the first is.
        units: Words that may follow a sum.
        terms: What all entries have in common.
    """

    template: str
    entries: tuple[_Entry, ...]
    which: str
    words: tuple[str, str]
    answer: Callable[[str], AnswerKey]
    total: str
    more: str
    units: tuple[str, ...]
    terms: tuple[str, ...]


def ask_comparison(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question for the page of several that has the most or least; None if none can be asked."""
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
    names = [entry.name for entry in chosen]
    return Asked(
        category=COMPARISON,
        template=family.template,
        question=family.which.format(word=family.words[index], names=listing(names, "or")),
        key=family.answer(best[0].name),
        pages=tuple(sorted(entry.page for entry in chosen)),
        facts=" ".join(entry.sentence for entry in sorted(chosen, key=lambda entry: entry.page)),
        terms=(*family.terms, family.words[index], *names),
    )


def ask_cross_page(report: Report, rng: np.random.Generator) -> Asked | None:
    """Returns a question for a sum or difference over two pages; None if none can be asked."""
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
    kind = "sum" if is_sum else "difference"
    reckoning = f"{grouped(first.value)} {'+' if is_sum else '-'} {grouped(second.value)} = {grouped(value)}"
    return Asked(
        category=CROSS_PAGE,
        template=f"{family.template}_{kind}",
        question=(family.total if is_sum else family.more).format(first=first.name, second=second.name),
        key=count_key(value, family.units),
        pages=tuple(sorted((first.page, second.page))),
        facts=f"{first.sentence} {second.sentence} {reckoning}.",
        terms=(*family.terms, first.name, second.name),
    )


def _draw_family(report: Report, rng: np.random.Generator) -> _Family | None:
    """Returns a family, each template as likely; None if no number stands beside another."""
    families = [family for family in _families(report) if len(family.entries) >= 2]
    return pick_by_group(rng, families, lambda family: family.template) if families else None


def _families(report: Report) -> Iterator[_Family]:
    regional = report.pages_about(RegionYear)
    for year in sorted({subject.year for _, subject in regional}):
        yield from _regions(report, [pair for pair in regional if pair[1].year == year])
    for region in sorted({subject.region for _, subject in regional}):
        yield from _years(report, [pair for pair in regional if pair[1].region == region])
    yield from _departments(report, report.pages_about(Department))
    yield from _sites(report.pages_about(SiteYear))
    yield from _projects(report.pages_about(ProjectList))


def _regions(report: Report, pages: Sequence[tuple[int, RegionYear]]) -> Iterator[_Family]:
    """Yields the counts of each line and quarter over the regions of one year."""
    trade = report.organisation.trade
    for line, quarter, entries in _cells(report, pages, by_year=False):
        counted, when = trade.counted(line), f"{QUARTERS[quarter]} {pages[0][1].year}"
        yield _Family(
            template="regions",
            entries=entries,
            which=f"Which region {trade.past} the {{word}} {counted} in {when}: {{names}}?",
            words=("most", "fewest"),
            answer=lambda name: exact_key(name, f"{name} region", f"the {name} region"),
            total=f"How many {counted} did the {{first}} region and the {{second}} region {trade.verb} together in "
            f"{when}?",
            more=f"How many more {counted} did the {{first}} region {trade.verb} than the {{second}} region in {when}?",
            units=unit_words(report.organisation, line),
            terms=(str(pages[0][1].year), line.lower(), QUARTERS[quarter]),
        )


def _years(report: Report, pages: Sequence[tuple[int, RegionYear]]) -> Iterator[_Family]:
    """Yields the counts of each line and quarter over the years of one region."""
    trade = report.organisation.trade
    region = pages[0][1].region
    for line, quarter, entries in _cells(report, pages, by_year=True):
        counted, when = trade.counted(line), QUARTERS[quarter]
        yield _Family(
            template="years",
            entries=entries,
            which=f"In which year did the {region} region {trade.verb} the {{word}} {counted} in {when}: {{names}}?",
            words=("most", "fewest"),
            answer=lambda name: count_year(int(name)),
            total=f"How many {counted} did the {region} region {trade.verb} in {when} of {{first}} and {when} of "
            "{second} together?",
            more=f"How many more {counted} did the {region} region {trade.verb} in {when} of {{first}} than in {when} "
            "of {second}?",
            units=unit_words(report.organisation, line),
            terms=(region, line.lower(), when),
        )


def _cells(
    report: Report, pages: Sequence[tuple[int, RegionYear]], *, by_year: bool
) -> Iterator[tuple[str, int, tuple[_Entry, ...]]]:
    """Yields line, quarter and entries of the cells of each line that a page has."""
    trade = report.organisation.trade
    for line in trade.lines:
        having = [(number, subject) for number, subject in pages if line in subject.lines]
        for quarter in range(len(QUARTERS)):
            entries = []
            for number, subject in having:
                count = subject.counts[subject.lines.index(line)][quarter]
                name = str(subject.year) if by_year else subject.region
                said = f"In {QUARTERS[quarter]} {subject.year} the {subject.region} region {trade.past}"
                entries.append(_Entry(number, name, count, f"{said} {grouped(count)} {trade.counted(line)}."))
            yield line, quarter, tuple(entries)


def _departments(report: Report, pages: Sequence[tuple[int, Department]]) -> Iterator[_Family]:
    year = report.organisation.years[-1]
    yield _Family(
        template="staff",
        entries=tuple(
            _Entry(
                number,
                each.name,
                each.num_people,
                f"The {each.name} department had {each.num_people} staff at the end of {year}.",
            )
            for number, each in pages
        ),
        which=f"Which department had the {{word}} staff at the end of {year}: {{names}}?",
        words=("most", "fewest"),
        answer=lambda name: exact_key(name, f"{name} department", f"the {name} department"),
        total=f"How many staff did the {{first}} department and the {{second}} department have together at the end of "
        f"{year}?",
        more=f"How many more staff did the {{first}} department have than the {{second}} department at the end of "
        f"{year}?",
        units=("staff", "people", "employees"),
        terms=(str(year),),
    )


def _sites(pages: Sequence[tuple[int, SiteYear]]) -> Iterator[_Family]:
    for year in sorted({subject.year for _, subject in pages}):
        entries = tuple(
            _Entry(
                number,
                each.site,
                each.floor_area_m2,
                f"In {year} {each.site} had a floor area of {grouped(each.floor_area_m2)} square metres.",
            )
            for number, each in pages
            if each.year == year
        )
        yield _Family(
            template="areas",
            entries=entries,
            which=f"Which building had the {{word}} floor area in {year}: {{names}}?",
            words=("largest", "smallest"),
            answer=exact_key,
            total=f"What was the floor area of {{first}} and {{second}} together in {year}, in square metres?",
            more=f"By how many square metres was the floor area of {{first}} larger than that of {{second}} in {year}?",
            units=("square metres", "m²", "m2", "sqm"),
            terms=(str(year),),
        )


def _projects(pages: Sequence[tuple[int, ProjectList]]) -> Iterator[_Family]:
    """Yields pairs of projects on different pages."""
    for (number, one), (other_number, other) in combinations(pages, 2):
        for first, second in zip(one.projects, other.projects, strict=False):
            entries = tuple(
                _Entry(
                    page,
                    each.name,
                    each.budget,
                    f"Project {each.name} has a budget of {grouped(each.budget)} thousand crowns.",
                )
                for page, each in ((number, first), (other_number, second))
            )
            yield _Family(
                template="projects",
                entries=entries,
                which="Which project has the {word} budget: {names}?",
                words=("larger", "smaller"),
                answer=lambda name: exact_key(name, f"Project {name}"),
                total="What do the budgets of project {first} and project {second} add up to, in thousand crowns?",
                more="By how many thousand crowns is the budget of project {first} larger than that of project "
                "{second}?",
                units=("thousand crowns", "thousand"),
                terms=(),
            )


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
