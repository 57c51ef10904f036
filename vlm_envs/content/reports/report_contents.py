"""Contents of a report: an organization's departments, sites, projects, policies, and people."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, fields
from typing import Any, TypeVar

import numpy as np

from vlm_envs.content.random_choice import pick, pick_several
from vlm_envs.content.reports.subjects import (
    DEPARTMENTS,
    FIRST_NAMES,
    LAST_NAMES,
    MONTHS,
    PROJECTS,
    REGIONS,
    SITES,
    TOWNS,
    TRADES,
    WORDS,
    Board,
    BudgetYear,
    Department,
    Glossary,
    Letter,
    Policy,
    Project,
    ProjectList,
    RegionYear,
    Risks,
    SiteYear,
    Subject,
    Trade,
)

ItemT = TypeVar("ItemT")


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule with a random number.

    Attributes:
        text: The rule, with `{n}` for the number.
        question: The question that the number answers.
        low: Smallest number.
        high: Largest number.
        step: Step between possible numbers.
    """

    text: str
    question: str
    low: int
    high: int
    step: int = 1


TOPICS = {topic: tuple(_Rule(**rule) for rule in rules) for topic, rules in WORDS["topics"].items()}
"""Rules by topic."""


def draw_policy(rng: np.random.Generator, number: int, topic: str, owner: str) -> Policy:
    """Draws a policy with rules with and without numbers, in random order.

    Args:
        rng: The only source of randomness.
        number: The policy's number.
        topic: A key of `TOPICS`.
        owner: Person responsible for the policy.
    """
    written = []
    for rule in TOPICS[topic]:
        value = rule.low + rule.step * int(rng.integers((rule.high - rule.low) // rule.step + 1))
        written.append((rule.text.format(n=value), rule.question, str(value)))
    written += [(text, "", "") for text in pick_several(rng, WORDS["sentences"]["general_rules"], 3)]
    rules, questions, answers = zip(*pick_several(rng, written, len(written)), strict=True)
    return Policy(number=number, topic=topic, rules=rules, questions=questions, answers=answers, owner=owner)


MIN_BODY_PAGES, MAX_BODY_PAGES = 3, 56

_STATUSES = ("on schedule", "delayed", "completed", "paused")
_LEVELS = ("low", "medium", "high")
COMMITTEES: tuple[str, ...] = tuple(WORDS["names"]["committees"])


@dataclass(frozen=True, kw_only=True, slots=True)
class Organisation:
    """The reporting organization and the years of its report.

    Attributes:
        name: Its name.
        trade: Its business.
        years: The years of the report, in order.
        letter: The letter to the reader.
        closing: Day and month on which the letter was signed.
    """

    name: str
    trade: Trade
    years: tuple[int, ...]
    letter: Letter
    closing: str


def told_of(subject: Subject, organisation: Organisation) -> dict[str, Any]:
    """Returns values for texts about a subject: facts of the organization, and the fields of the subject."""
    last_year = organisation.years[-1]
    told = {"organisation": organisation.name, "trade": organisation.trade, "closing": organisation.closing}
    told |= {"year": last_year, "next_year": last_year + 1}
    return told | {field.name: getattr(subject, field.name) for field in fields(subject)}


class _Chance:
    """Draws numbers, items, and unique names."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        firsts, lasts = self.several(FIRST_NAMES), self.several(LAST_NAMES)
        # All combinations of first and last names, ordered so that neighbors share neither
        self._people = iter(
            f"{first} {lasts[(index + shift) % len(lasts)]}"
            for shift in range(len(lasts))
            for index, first in enumerate(firsts)
        )
        self._towns = iter(self.several(TOWNS))

    def person(self) -> str:
        return next(self._people)

    def town(self) -> str:
        return next(self._towns)

    def number(self, low: int, high: int) -> int:
        """Returns a random integer in [low, high)."""
        return int(self.rng.integers(low, high))

    def one(self, items: Sequence[ItemT]) -> ItemT:
        return pick(self.rng, items)

    def several(self, items: Sequence[ItemT], count: int | None = None) -> list[ItemT]:
        """Returns distinct items in random order, all of them by default."""
        return pick_several(self.rng, items, len(items) if count is None else count)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """Maximum number of subjects of each kind in a report."""

    regions: int
    years: int
    departments: int
    sites: int
    policies: int
    projects: int

    @classmethod
    def fitting(cls, num_pages: int) -> _Sizes:
        """Returns the smallest sizes that provide enough pages."""
        for sizes in (cls(2, 2, 2, 0, 0, 0), cls(3, 2, 3, 1, 2, 1), cls(3, 3, 5, 2, 5, 2), cls(4, 3, 7, 3, 7, 3)):
            if sizes.num_pages >= num_pages:
                return sizes
        return cls(5, 4, 9, 3, 9, 4)

    @property
    def num_pages(self) -> int:
        """Number of pages if every subject is used."""
        by_year = self.regions + self.sites + bool(self.sites)  # any sites add a budget per year, ...
        others = 4 if self.sites else 0  # ... the board, two pages of risks, and a glossary
        return by_year * self.years + self.departments + self.policies + self.projects + others


def generate_contents(rng: np.random.Generator, num_body_pages: int) -> tuple[Organisation, tuple[Subject, ...]]:
    """Generates an organization and the subjects of its report's pages.

    Args:
        rng: The only source of randomness.
        num_body_pages: `MIN_BODY_PAGES` to `MAX_BODY_PAGES`.

    Returns:
        The organization, and one subject per page in chapter order. They always include a department and two
        pages about the same region or the same year.
    """
    sizes, chance = _Sizes.fitting(num_body_pages), _Chance(rng)
    trade = chance.one(TRADES)
    last_year = chance.number(2009, 2025)
    letter = Letter(
        chair=chance.person(),
        founded=chance.number(1871, 1996),
        town=chance.town(),
        num_people=chance.number(420, 9800),
    )
    organisation = Organisation(
        name=f"{chance.one(TOWNS)} {chance.one(trade.kinds)}",
        trade=trade,
        years=tuple(range(last_year - sizes.years + 1, last_year + 1)),
        letter=letter,
        closing=f"{chance.number(3, 29)} {chance.one(MONTHS[1:5])}",
    )
    return organisation, _chosen(chance, [*_subjects(chance, organisation, sizes)], num_body_pages)


def _subjects(chance: _Chance, organisation: Organisation, sizes: _Sizes) -> Iterator[Subject]:
    """Yields all candidate subjects, regions first and departments second."""
    years, last_year = organisation.years, organisation.years[-1]
    departments = chance.several(DEPARTMENTS, sizes.departments)
    yield from _region_years(chance, organisation.trade, chance.several(REGIONS, sizes.regions), years)
    for department in departments:
        yield _department(chance, *department, last_year)
    if not sizes.sites:
        return
    sites, topics = chance.several(SITES, sizes.sites), chance.several(tuple(TOPICS), sizes.policies)
    first_number = chance.number(2, 30)
    for year in years:
        yield _budget(chance, year, [name for name, _ in departments])
    yield from _site_years(chance, sites, years)
    yield from _project_lists(chance, range(last_year - sizes.projects + 1, last_year + 1))
    for number, topic in enumerate(topics, start=first_number):
        yield draw_policy(chance.rng, number, topic, chance.person())
    committees = chance.several(COMMITTEES, chance.number(5, 9))
    yield Board(
        members=tuple(
            (chance.person(), committee, chance.number(last_year - 14, last_year + 1)) for committee in committees
        )
    )
    yield from _risks(chance)
    yield Glossary(terms=tuple(sorted(map(tuple, chance.several(WORDS["names"]["terms"], 10)))))


def _chosen(chance: _Chance, subjects: Sequence[Subject], count: int) -> tuple[Subject, ...]:
    """Returns `count` subjects in order, including those that questions of every category need."""
    regional = [(index, subject) for index, subject in enumerate(subjects) if isinstance(subject, RegionYear)]
    first, shown = chance.one(regional)
    alike = [pair for pair in regional if pair[1].region == shown.region or pair[1].year == shown.year]
    second, _ = chance.one([pair for pair in alike if pair[0] != first])
    needed = [first, second, len(regional)]
    others = [index for index in range(len(subjects)) if index not in needed]
    return tuple(subjects[index] for index in sorted(needed + chance.several(others, count - len(needed))))


def _region_years(chance: _Chance, trade: Trade, regions: Sequence[str], years: Sequence[int]) -> Iterator[RegionYear]:
    shuffled = chance.several(trade.lines)
    everywhere, elsewhere = shuffled[:2], shuffled[2:]
    for region in regions:
        # Questions can ask in vain for a line that a region lacks; lines are the same in all years
        kept = everywhere + chance.several(elsewhere, chance.number(2, 4))
        lines = tuple(line for line in trade.lines if line in kept)
        level = 10 ** chance.rng.uniform(2.3, 3.6, size=len(lines))
        for year in years:
            counts = chance.rng.uniform(0.55, 1.6, size=(len(lines), 4)) * level[:, None]
            yield RegionYear(
                region=region,
                year=year,
                lines=lines,
                counts=tuple(tuple(int(count) for count in row) for row in counts),
                manager=chance.person(),
                new_outlets=chance.number(2, 19),
                noted=chance.number(0, len(lines)),
                noted_quarter=chance.number(0, 4),
                corrected=chance.number(11, 99),
            )


def _department(chance: _Chance, name: str, counted: str, year: int) -> Department:
    begin, end = chance.one(((0, 12), (0, 6), (6, 12), (0, 9)))
    level = 10 ** chance.rng.uniform(1.8, 2.9)
    return Department(
        name=name,
        head=chance.person(),
        deputy=chance.person(),
        town=chance.town(),
        num_people=chance.number(12, 480),
        since=chance.number(year - 60, year - 3),
        counted=counted,
        months=MONTHS[begin:end],
        values=_distinct(chance, end - begin, level),
    )


def _site_years(chance: _Chance, sites: Sequence[str], years: Sequence[int]) -> Iterator[SiteYear]:
    for site in sites:
        area, opened = chance.number(18, 190) * 50, chance.number(1922, 2006)
        level = 10 ** chance.rng.uniform(1.6, 2.7)
        for year in years:
            yield SiteYear(
                site=site,
                year=year,
                warden=chance.person(),
                floor_area_m2=area + 10 * chance.number(0, 40),
                opened=opened,
                usage_mwh=_distinct(chance, 12, level),
            )


def _distinct(chance: _Chance, count: int, level: float) -> tuple[int, ...]:
    """Returns values around a level whose maximum and minimum are visually distinct from the others."""
    values = [int(value) for value in chance.rng.uniform(0.6, 1.1, size=count) * level]
    top, bottom = chance.several(range(count), 2)
    values[top] = int(max(values) * chance.rng.uniform(1.12, 1.3)) + 2
    values[bottom] = int(min(values) * chance.rng.uniform(0.7, 0.86)) - 2
    return tuple(values)


def _budget(chance: _Chance, year: int, names: Sequence[str]) -> BudgetYear:
    """Divides 100 percent into shares of at least 4, with clearly different neighbors in a pie chart."""
    slices = names[: chance.number(4, 7)]
    weights = chance.rng.dirichlet([2.0] * len(slices))
    shares = [4 + int(weight * (100 - 4 * len(slices))) for weight in weights]
    shares[shares.index(max(shares))] += 100 - sum(shares)
    return BudgetYear(
        year=year,
        names=tuple(slices),
        shares=tuple(shares),
        approved_by=chance.person(),
        month=chance.one(MONTHS),
    )


def _project_lists(chance: _Chance, years: Iterable[int]) -> Iterator[ProjectList]:
    names = iter(chance.several(PROJECTS))
    for year in years:
        projects = []
        for _ in range(chance.number(6, 10)):
            start = f"{chance.one(MONTHS)} {year}"
            budget = chance.number(14, 980) * 5
            project = {"name": next(names), "lead": chance.person(), "status": chance.one(_STATUSES)}
            projects.append(Project(**project, budget=budget, start=start))
        yield ProjectList(year=year, projects=tuple(projects))


def _risks(chance: _Chance) -> Iterator[Risks]:
    texts = chance.several(WORDS["names"]["risks"])
    codes = iter(chance.several(range(11, 99), len(texts)))
    for part, chosen in enumerate((texts[:9], texts[9:18]), start=1):
        yield Risks(
            part=part,
            entries=tuple((f"R-{next(codes)}", text, chance.person(), chance.one(_LEVELS)) for text in chosen),
        )
