"""Columns that a user's own table has but its layout does not: misnamed ones break their row, others are reported."""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterator, Mapping, Sequence, Set
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from vlm_envs.qa.datasets.rows import BrokenRowError, Fields

_CLOSE = 0.8
_LABEL = "category"
"""A column whose absence changes no answer or split, so that a similar name, such as `subcategory`, breaks no row."""


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
        for name in sorted(given - {*self.names}):
            meant = self._meant(name, given)
            if meant is not None and meant not in given:
                raise BrokenRowError(f"{where}: there is no column {name!r}. Did you mean {meant!r}?")
            self.unread[name] = None

    def _meant(self, name: str, given: Set[str]) -> str | None:
        plain = name.strip().casefold()
        by_plain = {known.casefold(): known for known in self.names}
        if plain in by_plain and (len(plain) > 1 or {"a", "b"} <= given):  # x or w alone is no option
            return by_plain[plain]
        close = difflib.get_close_matches(plain, [known for known in by_plain if known != _LABEL], n=1, cutoff=_CLOSE)
        return self.other_names.get(plain) or (by_plain[close[0]] if close and len(plain) > 1 else None)


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
