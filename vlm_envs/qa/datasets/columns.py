"""Columns that a user's own table has but its layout does not: misnamed ones break their row, others are reported."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vlm_envs.qa.datasets.rows import BrokenRowError, Fields

_CLOSE = 0.85
_OPTIONAL = ("category", "kind", "split")
"""Columns whose absence changes no answer, so that a similar name, such as `subcategory`, breaks no row."""


@dataclass(frozen=True, kw_only=True)
class Columns:
    """The columns of one table.

    Attributes:
        names: Those that are read.
        other_names: What other datasets call some of them, in lower case.
        unread: Columns found so far that are neither.
    """

    names: Sequence[str]
    other_names: Mapping[str, str]
    unread: dict[str, None] = field(default_factory=dict)

    def check(self, fields: Fields, where: str) -> None:
        """Raises `BrokenRowError` if a row has a value under a wrong name for a column that it lacks."""
        given = {name for name, value in fields.items() if not _is_empty(value)}
        for name in given - {*self.names}:
            meant = self._meant(name)
            if meant is not None and meant not in given:
                raise BrokenRowError(f"{where}: there is no column {name!r}. Did you mean {meant!r}?")
            self.unread[name] = None

    def _meant(self, name: str) -> str | None:
        plain = name.strip().casefold()
        by_plain = {name.casefold(): name for name in self.names if len(name) > 1}  # x or w is none of A, B, and so on
        if plain in by_plain:
            return by_plain[plain]
        close = difflib.get_close_matches(plain, [*set(by_plain) - {*_OPTIONAL}], n=1, cutoff=_CLOSE)
        return self.other_names.get(plain) or (by_plain[close[0]] if close else None)


@contextmanager
def checked_columns(file: str, names: Sequence[str], other_names: Mapping[str, str]) -> Iterator[Columns]:
    """Yields the check of a table's rows; warns afterwards of columns that are not read."""
    columns = Columns(names=names, other_names=other_names)
    yield columns
    if columns.unread:
        unread = ", ".join(map(repr, sorted(columns.unread)))
        warnings.warn(f"{file}: not read: {unread}. The columns are {', '.join(names)}.", stacklevel=2)


def _is_empty(value: Any) -> bool:
    return value is None or (isinstance(value, str | list) and not value)
