"""What a report tells: an organization's departments, sites, projects, policies, and people."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

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


TOPICS: dict[str, tuple[_Rule, ...]] = {
    "Travel": (
        _Rule("Journeys of less than {n} kilometres are made by rail or bus wherever a connection exists.",
              "Below how many kilometres must a journey be made by rail or bus?", 120, 600, 20),
        _Rule("A night in a hotel is paid up to {n} crowns, breakfast included.",
              "Up to how many crowns is a night in a hotel paid?", 80, 240, 5),
        _Rule("Claims for travel are handed in within {n} days of the return.",
              "Within how many days of the return must claims for travel be handed in?", 10, 60),
    ),
    "Annual leave": (
        _Rule("Up to {n} days of leave may be carried over into the next year.",
              "How many days of leave may be carried over into the next year?", 3, 15),
        _Rule("Leave of more than two weeks is asked for at least {n} weeks ahead.",
              "How many weeks ahead must leave of more than two weeks be asked for?", 4, 16),
        _Rule("After ten years of service everybody has {n} additional days of leave.",
              "How many additional days of leave does everybody have after ten years of service?", 2, 12),
    ),
    "Record keeping": (
        _Rule("Signed contracts are kept for {n} years after they have ended.",
              "For how many years after their end are signed contracts kept?", 5, 30),
        _Rule("Recordings of telephone calls are deleted after {n} days.",
              "After how many days are recordings of telephone calls deleted?", 14, 120),
        _Rule("Paper files are scanned within {n} working days of their arrival.",
              "Within how many working days of their arrival are paper files scanned?", 2, 20),
    ),
    "Purchasing": (
        _Rule("Three offers are obtained for every purchase above {n} crowns.",
              "Above how many crowns must three offers be obtained for a purchase?", 1500, 9500, 250),
        _Rule("Invoices are paid within {n} days if the goods are in order.",
              "Within how many days are invoices paid if the goods are in order?", 10, 60),
        _Rule("Framework agreements run for no longer than {n} months.",
              "For how many months at most do framework agreements run?", 18, 60, 3),
    ),
    "Working from home": (
        _Rule("Staff may work from home on up to {n} days a month.",
              "On how many days a month may staff work from home?", 4, 14),
        _Rule("A grant of {n} crowns is paid once for a desk and a lamp.",
              "How many crowns does the grant for a desk and a lamp amount to?", 150, 900, 25),
        _Rule("Whoever works from home can be reached by telephone within {n} minutes.",
              "Within how many minutes must whoever works from home be reachable by telephone?", 10, 55, 5),
    ),
    "Safety at work": (
        _Rule("Evacuation is practised every {n} weeks at every site.",
              "Every how many weeks is evacuation practised?", 6, 40),
        _Rule("Loads of more than {n} kilograms are lifted by two people or a machine.",
              "Above how many kilograms must a load be lifted by two people or a machine?", 12, 30),
        _Rule("Accidents are reported to the safety officer within {n} hours.",
              "Within how many hours are accidents reported to the safety officer?", 2, 48),
    ),
    "Gifts": (
        _Rule("Gifts worth more than {n} crowns are declined or handed to the compliance desk.",
              "Above how many crowns of worth must gifts be declined or handed on?", 15, 95, 5),
        _Rule("The list of gifts received is published every {n} months.",
              "Every how many months is the list of gifts received published?", 2, 18),
        _Rule("Invitations to meals are accepted at most {n} times a year from the same partner.",
              "How many times a year at most are invitations to meals accepted from the same partner?", 2, 9),
    ),
    "Passwords": (
        _Rule("A password has at least {n} characters.",
              "How many characters does a password have at least?", 9, 24),
        _Rule("After {n} failed attempts the account is locked until the help desk has been called.",
              "After how many failed attempts is an account locked?", 3, 12),
        _Rule("A screen that nobody uses locks itself after {n} minutes.",
              "After how many minutes does an unused screen lock itself?", 2, 20),
    ),
    "Company vehicles": (
        _Rule("Tyres are changed after {n} thousand kilometres at the latest.",
              "After how many thousand kilometres are tyres changed at the latest?", 20, 60),
        _Rule("Private use of a vehicle costs {n} crowns a month.",
              "How many crowns a month does the private use of a vehicle cost?", 60, 320, 10),
        _Rule("Vehicles are replaced after {n} years in service.",
              "After how many years in service are vehicles replaced?", 4, 14),
    ),
    "Visitors": (
        _Rule("Groups of visitors have at most {n} members for each guide.",
              "How many members does a group of visitors have at most for each guide?", 8, 26),
        _Rule("Visits are announced at the gate {n} hours ahead.",
              "How many hours ahead are visits announced at the gate?", 3, 72),
        _Rule("Visitors' badges that are lost cost {n} crowns.",
              "How many crowns does a lost visitor's badge cost?", 10, 75, 5),
    ),
}  # fmt: skip
"""Rules of each topic."""

_GENERAL = (
    "Exceptions are agreed in writing with the owner of this policy before they are made use of.",
    "Every team names one person who answers questions about these rules.",
    "Whoever joins the organisation is told of these rules in the first week.",
    "The rules apply to temporary staff and to contractors on the premises as well.",
    "Breaches are discussed with the line manager first and recorded without naming anyone.",
    "Proposals for better wording are welcome at any time and are collected until the next review.",
)
"""Rules without a number."""


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
    written += [(text, "", "") for text in pick_several(rng, _GENERAL, 3)]
    rules, questions, answers = zip(*pick_several(rng, written, len(written)), strict=True)
    return Policy(number=number, topic=topic, rules=rules, questions=questions, answers=answers, owner=owner)


MIN_BODY_PAGES, MAX_BODY_PAGES = 3, 56

_STATUSES = ("on schedule", "delayed", "completed", "paused")
_LEVELS = ("low", "medium", "high")
COMMITTEES = ("Audit", "Nominations", "Remuneration", "Strategy", "Ethics", "Digital Affairs", "Pensions", "Buildings")
_RISKS = (
    "Loss of a supplier without an equal",
    "Failure of the main data centre",
    "Flooding of the ground floor stores",
    "Shortage of trained technicians",
    "Fraud by means of forged invoices",
    "Late change of the subsidy rules",
    "Rise of interest rates on open loans",
    "Strike at the container terminal",
    "Leak of personal records",
    "Recall of a faulty series",
    "Fire in the packing hall",
    "Departure of several senior staff",
    "Dispute about a trade mark",
    "Long drought in the growing season",
    "Outage of the payment service",
    "Damage to the roof by storms",
    "Error in the yearly stocktaking",
    "Sudden fall of the exchange rate",
    "Closure of the river crossing",
    "Loss of a certificate of quality",
)
_TERMS = (
    ("Base stock", "the quantity that is never sold, so that an order of usual size can always be met"),
    ("Carrying year", "the year to which a cost belongs, whenever the invoice is paid"),
    ("Comparable outlets", "outlets that were open on every working day of both years compared"),
    ("Crown", "the unit of money of all tables; amounts in thousands say so in the heading"),
    ("Full post", "the working time of one person without reductions, taken over twelve months"),
    ("Gross area", "the floor area within the outer walls, stairs and lifts included"),
    ("Late count", "a movement that became known after the books of a quarter were closed"),
    ("Open item", "an invoice that was neither paid nor disputed on the day of the balance"),
    ("Quiet hours", "the time from eight in the evening to six in the morning, Sundays included"),
    ("Reserve list", "candidates who were found suitable and are asked first when a post falls vacant"),
    ("Shared service", "work that one department does for all others against a fixed yearly charge"),
    ("Turn rate", "how many times the average stock was replaced within twelve months"),
    ("Warden", "the person who answers for a building, its keys and its meters"),
    ("Yield note", "a statement of what came out of a delivery after sorting"),
)


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
            Glossary(terms=tuple(sorted(pick_several(rng, _TERMS, 10)))),
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
    texts = pick_several(rng, _RISKS, len(_RISKS))
    codes = iter(pick_several(rng, range(11, 99), len(texts)))
    for part in (1, 2):
        chosen = texts[(part - 1) * 9 : part * 9]
        yield Risks(
            part=part,
            entries=tuple((f"R-{next(codes)}", text, unused.person(), pick(rng, _LEVELS)) for text in chosen),
        )
