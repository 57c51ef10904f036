"""What a report tells: an organization's departments, sites, projects, policies, and people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Any

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


@dataclass(frozen=True, slots=True)
class _Rule:
    """A rule whose number is drawn.

    Attributes:
        text: With `{n}` for the number.
        question: What the number answers.
        low: Smallest number.
        high: Greatest number.
        step: Between two possible numbers.
    """

    text: str
    question: str
    low: int
    high: int
    step: int = 1


TOPICS = {topic: tuple(_Rule(**rule) for rule in rules) for topic, rules in WORDS["topics"].items()}
"""Rules of each topic."""


def draw_policy(rng: np.random.Generator, number: int, topic: str, owner: str) -> Policy:
    """Returns a policy with numbers of its own.

    Args:
        rng: Chance.
        number: The policy's number.
        topic: A key of `TOPICS`.
        owner: Who keeps it.

    Returns:
        Rules with numbers and rules without, mixed.
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
    """Who reports, and about which years.

    Attributes:
        name: Its name.
        trade: What it does.
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
    """Returns what texts about a subject name: what the organisation is, and the fields of the subject."""
    last_year = organisation.years[-1]
    told = {"organisation": organisation.name, "trade": organisation.trade, "closing": organisation.closing}
    told |= {"year": last_year, "next_year": last_year + 1}
    return told | {field.name: getattr(subject, field.name) for field in fields(subject)}


class _UnusedNames:
    """Hands out names, each once."""

    def __init__(self, rng: np.random.Generator) -> None:
        firsts, lasts = pick_several(rng, FIRST_NAMES, 99), pick_several(rng, LAST_NAMES, 99)
        # Every first name with every last name, such that neighbours share neither.
        self._people = iter(
            f"{first} {lasts[(index + shift) % len(lasts)]}"
            for shift in range(len(lasts))
            for index, first in enumerate(firsts)
        )
        self._towns = iter(pick_several(rng, TOWNS, 99))

    def person(self) -> str:
        return next(self._people)

    def town(self) -> str:
        return next(self._towns)


@dataclass(frozen=True, slots=True)
class _Sizes:
    """How many of everything a report may have."""

    regions: int
    years: int
    departments: int
    sites: int
    policies: int
    projects: int

    @classmethod
    def fitting(cls, num_pages: int) -> _Sizes:
        """Returns the smallest sizes that give enough pages."""
        for sizes in (cls(2, 2, 2, 0, 0, 0), cls(3, 2, 3, 1, 2, 1), cls(3, 3, 5, 2, 5, 2), cls(4, 3, 7, 3, 7, 3)):
            if sizes.num_pages >= num_pages:
                return sizes
        return cls(5, 4, 9, 3, 9, 4)

    @property
    def num_pages(self) -> int:
        """Pages of all subjects there are."""
        by_year = self.regions + self.sites + bool(self.sites)  # A site comes with a budget a year, ...
        others = 4 if self.sites else 0  # ... the board, two pages of risks and a glossary.
        return by_year * self.years + self.departments + self.policies + self.projects + others


def generate_contents(rng: np.random.Generator, num_body_pages: int) -> tuple[Organisation, tuple[Subject, ...]]:
    """Generates an organisation and the subjects of the pages of its report.

    Args:
        rng: The only source of chance.
        num_body_pages: `MIN_BODY_PAGES` to `MAX_BODY_PAGES`.

    Returns:
        The organisation, and one subject a page in the order of the chapters. There are always two pages of the same
        region or the same year, and a department.
    """
    sizes = _Sizes.fitting(num_body_pages)
    unused = _UnusedNames(rng)
    trade = pick(rng, TRADES)
    last_year = int(rng.integers(2009, 2025))
    years = tuple(range(last_year - sizes.years + 1, last_year + 1))
    letter = Letter(
        chair=unused.person(),
        founded=int(rng.integers(1871, 1996)),
        town=unused.town(),
        num_people=int(rng.integers(420, 9800)),
    )
    name = f"{pick(rng, TOWNS)} {pick(rng, trade.kinds)}"
    organisation = Organisation(
        name=name,
        trade=trade,
        years=years,
        letter=letter,
        closing=f"{int(rng.integers(3, 29))} {pick(rng, MONTHS[1:5])}",
    )
    chapters = _chapters(rng, organisation, sizes, unused)
    return organisation, _chosen(rng, chapters, num_body_pages)


def _chapters(
    rng: np.random.Generator, organisation: Organisation, sizes: _Sizes, unused: _UnusedNames
) -> tuple[tuple[Subject, ...], ...]:
    """Returns all subjects there could be, by chapter; regions first, departments second."""
    years, trade = organisation.years, organisation.trade
    departments = pick_several(rng, DEPARTMENTS, sizes.departments)
    chapters: list[tuple[Subject, ...]] = [
        tuple(_region_years(rng, trade, pick_several(rng, REGIONS, sizes.regions), years, unused)),
        tuple(_departments(rng, departments, years[-1], unused)),
    ]
    if not sizes.sites:
        return tuple(chapters)
    sites = pick_several(rng, SITES, sizes.sites)
    topics = pick_several(rng, tuple(TOPICS), sizes.policies)
    first_number = int(rng.integers(2, 30))
    return (
        *chapters,
        tuple(_budget(rng, year, [name for name, _ in departments], unused) for year in years),
        tuple(_site_years(rng, sites, years, unused)),
        tuple(_project_lists(rng, sizes.projects, years[-1], unused)),
        tuple(draw_policy(rng, first_number + index, topic, unused.person()) for index, topic in enumerate(topics)),
        (
            _board(rng, organisation, unused),
            *_risks(rng, unused),
            Glossary(terms=tuple(sorted(map(tuple, pick_several(rng, WORDS["names"]["terms"], 10))))),
        ),
    )


def _chosen(rng: np.random.Generator, chapters: tuple[tuple[Subject, ...], ...], count: int) -> tuple[Subject, ...]:
    """Returns `count` subjects in order, those among them that questions of every category need."""
    subjects = [subject for chapter in chapters for subject in chapter]
    regional = [(index, subject) for index, subject in enumerate(subjects) if isinstance(subject, RegionYear)]
    first, shown = pick(rng, regional)
    alike = [pair for pair in regional if pair[1].region == shown.region or pair[1].year == shown.year]
    second, _ = pick(rng, [pair for pair in alike if pair[0] != first])
    needed = [first, second, len(regional)]
    others = [index for index in range(len(subjects)) if index not in needed]
    return tuple(subjects[index] for index in sorted(needed + pick_several(rng, others, count - len(needed))))


def _region_years(
    rng: np.random.Generator, trade: Trade, regions: list[str], years: tuple[int, ...], unused: _UnusedNames
) -> Iterator[RegionYear]:
    shuffled = pick_several(rng, trade.lines, len(trade.lines))
    everywhere, elsewhere = shuffled[:2], shuffled[2:]
    for region in regions:
        # A line that a region lacks is something to ask for in vain; lines stay the same over the years.
        kept = everywhere + pick_several(rng, elsewhere, int(rng.integers(2, 4)))
        lines = tuple(line for line in trade.lines if line in kept)
        level = 10 ** rng.uniform(2.3, 3.6, size=len(lines))
        for year in years:
            counts = rng.uniform(0.55, 1.6, size=(len(lines), 4)) * level[:, None]
            yield RegionYear(
                region=region,
                year=year,
                lines=lines,
                counts=tuple(tuple(int(count) for count in row) for row in counts),
                manager=unused.person(),
                new_outlets=int(rng.integers(2, 19)),
                noted=int(rng.integers(len(lines))),
                noted_quarter=int(rng.integers(4)),
                corrected=int(rng.integers(11, 99)),
            )


def _departments(
    rng: np.random.Generator, departments: list[tuple[str, str]], year: int, unused: _UnusedNames
) -> Iterator[Department]:
    for name, counted in departments:
        begin, end = pick(rng, ((0, 12), (0, 6), (6, 12), (0, 9)))
        level = 10 ** rng.uniform(1.8, 2.9)
        yield Department(
            name=name,
            head=unused.person(),
            deputy=unused.person(),
            town=unused.town(),
            num_people=int(rng.integers(12, 480)),
            since=int(rng.integers(year - 60, year - 3)),
            counted=counted,
            months=MONTHS[begin:end],
            values=_distinct(rng, end - begin, level),
        )


def _site_years(
    rng: np.random.Generator, sites: list[str], years: tuple[int, ...], unused: _UnusedNames
) -> Iterator[SiteYear]:
    for site in sites:
        area, opened = int(rng.integers(18, 190)) * 50, int(rng.integers(1922, 2006))
        level = 10 ** rng.uniform(1.6, 2.7)
        for year in years:
            yield SiteYear(
                site=site,
                year=year,
                warden=unused.person(),
                floor_area_m2=area + 10 * int(rng.integers(0, 40)),
                opened=opened,
                usage_mwh=_distinct(rng, 12, level),
            )


def _distinct(rng: np.random.Generator, count: int, level: float) -> tuple[int, ...]:
    """Returns values around a level of which the greatest and the least can be told from the others by eye."""
    values = [int(value) for value in rng.uniform(0.6, 1.1, size=count) * level]
    top, bottom = pick_several(rng, range(count), 2)
    values[top] = int(max(values) * rng.uniform(1.12, 1.3)) + 2
    values[bottom] = int(min(values) * rng.uniform(0.7, 0.86)) - 2
    return tuple(values)


def _budget(rng: np.random.Generator, year: int, names: list[str], unused: _UnusedNames) -> BudgetYear:
    """Divides 100 percent; every share at least 4, and no two neighbours of a pie hard to tell apart."""
    slices = names[: int(rng.integers(4, 7))]
    weights = rng.dirichlet([2.0] * len(slices))
    shares = [4 + int(weight * (100 - 4 * len(slices))) for weight in weights]
    shares[shares.index(max(shares))] += 100 - sum(shares)
    return BudgetYear(
        year=year, names=tuple(slices), shares=tuple(shares), approved_by=unused.person(), month=pick(rng, MONTHS)
    )


def _project_lists(rng: np.random.Generator, count: int, last_year: int, unused: _UnusedNames) -> Iterator[ProjectList]:
    names = iter(pick_several(rng, PROJECTS, len(PROJECTS)))
    for year in range(last_year - count + 1, last_year + 1):
        rows = []
        for _ in range(int(rng.integers(6, 10))):
            start = f"{pick(rng, MONTHS)} {year}"
            budget = int(rng.integers(14, 980)) * 5
            rows.append(
                Project(name=next(names), lead=unused.person(), budget=budget, start=start, status=pick(rng, _STATUSES))
            )
        yield ProjectList(year=year, projects=tuple(rows))


def _board(rng: np.random.Generator, organisation: Organisation, unused: _UnusedNames) -> Board:
    last_year = organisation.years[-1]
    return Board(
        members=tuple(
            (unused.person(), committee, int(rng.integers(last_year - 14, last_year + 1)))
            for committee in pick_several(rng, COMMITTEES, int(rng.integers(5, 9)))
        )
    )


def _risks(rng: np.random.Generator, unused: _UnusedNames) -> Iterator[Risks]:
    listed = WORDS["names"]["risks"]
    texts = pick_several(rng, listed, len(listed))
    codes = iter(pick_several(rng, range(11, 99), len(texts)))
    for part in (1, 2):
        chosen = texts[(part - 1) * 9 : part * 9]
        yield Risks(
            part=part,
            entries=tuple((f"R-{next(codes)}", text, unused.person(), pick(rng, _LEVELS)) for text in chosen),
        )
