"""What a page is made of, before anything is drawn: immutable blocks of text, tables and charts."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

ChartKind = Literal["bar", "line", "pie"]
ParagraphStyle = Literal["lead", "body", "quote"]


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading within a page."""

    text: str


@dataclass(frozen=True, slots=True)
class Paragraph:
    """Running text."""

    text: str
    style: ParagraphStyle = "body"


@dataclass(frozen=True, slots=True)
class Clauses:
    """Numbered sentences, such as the rules of a policy.

    Attributes:
        number: What stands before each one's own number: 4 makes 4.1, 4.2 and so on.
        texts: The sentences.
    """

    number: int
    texts: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class AtAGlance:
    """A box of a few labelled values."""

    entries: tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Table:
    """Rows under column headings; the first column names the rows.

    Attributes:
        caption: Above the table.
        columns: Headings, as many as cells in a row.
        rows: Cells as printed.
        has_total: Whether the last row adds up the others and is set in bold.
    """

    caption: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, ...], ...]
    has_total: bool = False


@dataclass(frozen=True, slots=True, kw_only=True)
class Chart:
    """A chart; everything but its caption is in the picture only, so that no search of the text finds a value.

    Attributes:
        kind: How the values are drawn.
        caption: Above the chart, as text.
        labels: Names of the values.
        values: Not negative. Those of a pie are whole percents that add up to 100.
        unit: What the values count, along the axis.
        shows_values: Whether each value is written beside its mark.
    """

    kind: ChartKind
    caption: str
    labels: tuple[str, ...]
    values: tuple[int, ...]
    unit: str
    shows_values: bool


@dataclass(frozen=True, slots=True)
class Contents:
    """Lines of a table of contents: title, printed label, and whether it is a chapter."""

    entries: tuple[tuple[str, str, bool], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Cover:
    """The first page.

    Attributes:
        organisation: Who reports.
        title: Name of the report.
        period: The years it covers.
    """

    organisation: str
    title: str
    period: str


Block = Heading | Paragraph | Clauses | AtAGlance | Table | Chart | Contents | Cover


def texts_of(block: Block) -> Iterator[str]:
    """Yields every text of a block that is in the page's text layer."""
    match block:
        case Heading(text) | Paragraph(text):
            yield text
        case Clauses(number, texts):
            for index, text in enumerate(texts, start=1):
                yield f"{number}.{index}"
                yield text
        case AtAGlance(entries):
            for label, value in entries:
                yield label
                yield value
        case Table():
            yield from (block.caption, *block.columns)
            for row in block.rows:
                yield from row
        case Chart():
            yield block.caption
        case Contents(entries):
            for title, label, _ in entries:
                yield title
                yield label
        case Cover():
            yield from (block.organisation, block.title, block.period)
