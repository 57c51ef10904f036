"""What the pages of a report are about: one subject per page, holding every fact that the page prints."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("report_words.toml").read_text("utf-8"))
"""What reports are written with: names, trades, rules of policies, and sentences."""

MONTHS = (
    "January", "February", "March", "April", "May", "June",
    "July", "August", "September", "October", "November", "December",
)  # fmt: skip
QUARTERS = ("Q1", "Q2", "Q3", "Q4")


def _names(kind: str) -> tuple[str, ...]:
    return tuple(WORDS["names"][kind])


REGIONS, TOWNS, SITES, PROJECTS = map(_names, ("regions", "towns", "sites", "projects"))
FIRST_NAMES, LAST_NAMES = _names("first_names"), _names("last_names")
DEPARTMENTS: tuple[tuple[str, str], ...] = tuple((name, counted) for name, counted in WORDS["names"]["departments"])
"""Departments, and what each one counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trade:
    """What an organisation does, as far as its reports count it.

    Attributes:
        kinds: What such an organisation is called.
        chapter: Title of the chapter about regions.
        lines: What is counted, as table rows name it.
        of: What stands before a line's name when it is counted, such as `tonnes of `.
        verb: What a region does with it.
        past: The same in the past.
        outlets: What a region opens.
    """

    kinds: tuple[str, ...]
    chapter: str
    lines: tuple[str, ...]
    of: str
    verb: str
    past: str
    outlets: str

    def counted(self, line: str) -> str:
        """Returns a line as a sentence counts it."""
        return self.of + line.lower()


TRADES = tuple(
    Trade(**{**trade, "kinds": tuple(trade["kinds"]), "lines": tuple(trade["lines"])}) for trade in WORDS["trades"]
)


def listing(items: Sequence[str], last: str = "and") -> str:
    """Returns `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def grouped(number: int) -> str:
    """Returns a number with thousands commas."""
    return f"{number:,}"


@dataclass(frozen=True, kw_only=True, slots=True)
class Letter:
    """The letter to the reader, in the front matter."""

    chair: str
    founded: int
    town: str
    num_people: int


@dataclass(frozen=True, kw_only=True, slots=True)
class RegionYear:
    """One region in one year. Pages of a region in other years, and of other regions, look the same.

    Attributes:
        region: Its name, without the word region.
        year: The year.
        lines: Names of the table's rows, in the order of the table.
        counts: int[line][quarter].
        manager: Who was in charge that year.
        new_outlets: How many opened that year.
        noted: Index of the line that the footnote is about.
        noted_quarter: Quarter of the footnote, from 0.
        corrected: How many of them were counted late, as the footnote says.
    """

    region: str
    year: int
    lines: tuple[str, ...]
    counts: tuple[tuple[int, ...], ...]
    manager: str
    new_outlets: int
    noted: int
    noted_quarter: int
    corrected: int


@dataclass(frozen=True, kw_only=True, slots=True)
class Department:
    """A department in the last year of the report.

    Attributes:
        name: Its name, without the word department.
        head: Who leads it.
        deputy: Who stands in.
        town: Where it sits.
        num_people: How many work there.
        since: Year it was set up.
        counted: What its chart counts.
        months: Names of the months that the chart shows.
        values: A value a month; in the picture only.
    """

    name: str
    head: str
    deputy: str
    town: str
    num_people: int
    since: int
    counted: str
    months: tuple[str, ...]
    values: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class SiteYear:
    """A building and the electricity it used in one year, by month; the values are in a picture only."""

    site: str
    year: int
    warden: str
    floor_area_m2: int
    opened: int
    usage_mwh: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetYear:
    """How the budget of a year was divided; the shares are in a picture only.

    Attributes:
        year: The year.
        names: Departments.
        shares: Whole percents that add up to 100.
        approved_by: Who approved it.
        month: When.
    """

    year: int
    names: tuple[str, ...]
    shares: tuple[int, ...]
    approved_by: str
    month: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A policy of numbered rules.

    Attributes:
        number: Its number.
        topic: What it is about, such as `Travel`.
        rules: The sentences as printed.
        questions: A question for each sentence; empty where none is asked.
        answers: The answer to each question.
        owner: Who keeps it up to date.
    """

    number: int
    topic: str
    rules: tuple[str, ...]
    questions: tuple[str, ...]
    answers: tuple[str, ...]
    owner: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Project:
    """A row of a project table."""

    name: str
    lead: str
    budget: int
    """In thousands of crowns, the money of all reports."""
    start: str
    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectList:
    """A page of projects that began in one year."""

    year: int
    projects: tuple[Project, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """Who sits on the board: name, committee, year of the first election."""

    members: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Risks:
    """Part of the register of risks: code, what may happen, who watches it, how likely it is."""

    part: int
    entries: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Glossary:
    """Terms and what they mean in the report."""

    terms: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Front:
    """A page that nothing is asked about: the cover, the contents.

    Attributes:
        kind: `cover` or `contents`.
        part: Counted from 1.
    """

    kind: str
    part: int = 1


Subject = (
    Front | Letter | RegionYear | Department | SiteYear | BudgetYear | Policy | ProjectList | Board | Risks | Glossary
)
