"""Subjects of a report's pages: one per page, with every fact that the page prints."""

from __future__ import annotations

import tomllib
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.resources import files
from typing import Any

WORDS: dict[str, Any] = tomllib.loads(files(__package__).joinpath("report_words.toml").read_text("utf-8"))
"""Vocabulary of reports: names, trades, policy rules, and sentences."""

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
"""Departments, and the unit each one counts."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Trade:
    """An organization's business, as far as its reports count it.

    Attributes:
        kinds: Words for such an organization.
        chapter: Title of the chapter about regions.
        lines: The counted items, as table rows name them.
        of: Text before an item's name when it is counted, such as `tonnes of `.
        verb: The activity of a region, in the present tense.
        past: The same in the past tense.
        outlets: Kind of outlet that regions open.
    """

    kinds: tuple[str, ...]
    chapter: str
    lines: tuple[str, ...]
    of: str
    verb: str
    past: str
    outlets: str

    def counted(self, line: str) -> str:
        """Returns an item as the object of a count in a sentence."""
        return self.of + line.lower()


TRADES = tuple(
    Trade(**{**trade, "kinds": tuple(trade["kinds"]), "lines": tuple(trade["lines"])}) for trade in WORDS["trades"]
)


def listing(items: Sequence[str], last: str = "and") -> str:
    """Joins items as in `a, b and c`."""
    return items[0] if len(items) == 1 else f"{', '.join(items[:-1])} {last} {items[-1]}"


def grouped(number: int) -> str:
    """Formats a number with thousands separators."""
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
    """A region in one year. Pages of the region in other years, and of other regions, look similar.

    Attributes:
        region: Its name, without the word region.
        year: The year.
        lines: Names of the table's rows, in order.
        counts: int[line][quarter].
        manager: The manager in that year.
        new_outlets: Number of outlets opened in that year.
        noted: Index of the line that the footnote is about.
        noted_quarter: Quarter of the footnote, from 0.
        corrected: Number of items counted late, according to the footnote.
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
        head: Its head.
        deputy: Its deputy head.
        town: Its location.
        num_people: Number of people who work there.
        since: Year it was founded.
        counted: Unit of its chart.
        months: Names of the months in the chart.
        values: One value per month; only in the image.
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
    """A building and its monthly electricity usage in one year; the values are only in an image."""

    site: str
    year: int
    warden: str
    floor_area_m2: int
    opened: int
    usage_mwh: tuple[int, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class BudgetYear:
    """The division of a year's budget; the shares are only in an image.

    Attributes:
        year: The year.
        names: Departments.
        shares: Whole percentages that add up to 100.
        approved_by: The person who approved it.
        month: Month of the approval.
    """

    year: int
    names: tuple[str, ...]
    shares: tuple[int, ...]
    approved_by: str
    month: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Policy:
    """A policy with numbered rules.

    Attributes:
        number: Its number.
        topic: Its topic, such as `Travel`.
        rules: The rules as printed.
        questions: A question for each rule, or an empty text.
        answers: The answer to each question.
        owner: The person who maintains it.
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
    """In thousands of crowns, the currency of all reports."""
    start: str
    status: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ProjectList:
    """A page of projects that started in one year."""

    year: int
    projects: tuple[Project, ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Board:
    """The members of the board: name, committee, and year of first election."""

    members: tuple[tuple[str, str, int], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Risks:
    """Part of the risk register: code, risk, owner, and likelihood."""

    part: int
    entries: tuple[tuple[str, str, str, str], ...]


@dataclass(frozen=True, kw_only=True, slots=True)
class Glossary:
    """Terms and their meanings in the report."""

    terms: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Front:
    """A page without questions: the cover, or part of the contents.

    Attributes:
        kind: `cover` or `contents`.
        part: Part number, counted from 1.
    """

    kind: str
    part: int = 1


Subject = (
    Front | Letter | RegionYear | Department | SiteYear | BudgetYear | Policy | ProjectList | Board | Risks | Glossary
)
