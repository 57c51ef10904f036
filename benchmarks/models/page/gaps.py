"""What agents lose by having to see, as rows of a table with a mark and a whisker each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchmarks.models.measures.perception import PerceptionGap
from benchmarks.models.page.matrix import SIGNIFICANT, signed_points
from vlm_envs.records.report_panels import written_p

_VIEWS = {
    "text": "words alone",
    "image+text": "picture and words",
    "image+description": "picture and a true description",
}


@dataclass(frozen=True, kw_only=True)
class GapRow:
    """One agent in one view against the picture alone.

    Attributes:
        gap: The numbers.
        is_first: Whether it is its agent's first row.
    """

    gap: PerceptionGap
    is_first: bool

    @property
    def view(self) -> str:
        """What the agent was given."""
        return _VIEWS.get(self.gap.view, self.gap.view)

    @property
    def points(self) -> str:
        """The gap in percentage points."""
        return signed_points(100 * self.gap.gap)

    @property
    def range(self) -> str:
        """Its interval."""
        low, high = (signed_points(100 * end) for end in self.gap.interval)
        return f"{low} to {high}"

    @property
    def p_text(self) -> str:
        """Its corrected p-value."""
        return written_p(self.gap.p_value).removeprefix("p ").removeprefix("= ")

    @property
    def verdict(self) -> str:
        """`"better"` or `"worse"` with words, or `""` where chance may have made the difference."""
        if self.gap.p_value >= SIGNIFICANT:
            return ""
        return "better" if self.gap.gap > 0 else "worse"

    @property
    def marks(self) -> tuple[float, float, float]:
        """Where gap and both ends of its interval stand, from 0 for 100 points less to 100 for 100 points more."""
        low, high = self.gap.interval
        return 50 + 50 * self.gap.gap, 50 + 50 * low, 50 + 50 * high


def gap_parts(gaps: Iterable[PerceptionGap]) -> dict[str, list[GapRow]]:
    """Returns the rows of each world, agents together."""
    parts: dict[str, list[GapRow]] = {}
    for gap in gaps:
        rows = parts.setdefault(gap.world, [])
        rows.append(GapRow(gap=gap, is_first=all(row.gap.agent != gap.agent for row in rows)))
    return parts
