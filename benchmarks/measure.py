"""What a benchmark reports, and how it takes the time."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Row:
    """One measurement, alone or beside a peer or a limit of the same unit.

    Attributes:
        name: What was measured.
        median: Median over the repeats, in `unit`.
        unit: `"s"` or `"ms"` for durations; a rate ends in `"/s"`.
        compared_with: What `reference` is of, in words; empty when nothing is compared.
        reference: The peer's median in the same run, or the limit; None when nothing is compared.
        is_limit: Whether `reference` has to be met. A peer is only reported.
    """

    name: str
    median: float
    unit: str
    compared_with: str = ""
    reference: float | None = None
    is_limit: bool = False

    @property
    def ratio(self) -> float | None:
        """How many times better than the reference: faster for rates, shorter for durations."""
        if self.reference is None:
            return None
        if self.unit.endswith("/s"):
            return self.median / self.reference
        return self.reference / self.median

    @property
    def passed(self) -> bool | None:
        """Whether the limit is met; None where there is none."""
        return self.ratio >= 1.0 if self.is_limit and self.ratio is not None else None


def median_times_s(calls: Sequence[Callable[[], object]], num_repeats: int) -> list[float]:
    """Times calls that are to be compared with each other.

    Each is called once to warm up. Then they take turns, so that a machine that slows down slows all of them.

    Args:
        calls: What to time.
        num_repeats: Timed calls of each, at least 1.

    Returns:
        The median duration of each call, in seconds.
    """
    for call in calls:
        call()
    times_s: list[list[float]] = [[] for _ in calls]
    for _ in range(num_repeats):
        for call, taken_s in zip(calls, times_s, strict=True):
            start_s = time.perf_counter()
            call()
            taken_s.append(time.perf_counter() - start_s)
    return [statistics.median(taken_s) for taken_s in times_s]
