"""What was measured of iterations, and their medians."""

from __future__ import annotations

import resource
import statistics
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

PARTS = ("prefill", "decode", "encode", "worlds", "judges", "passes", "update", "rest")
"""Of an iteration: prompts through the model; tokens drawn; observations made tokens and patches; waiting for worlds
and for judges; passes between the two; gradients and the optimiser's step; all else."""
ROLLOUT = ("prefill", "decode", "encode", "worlds")


@dataclass(frozen=True, kw_only=True)
class Lap:
    """One iteration.

    Attributes:
        seconds: By part.
        counts: Tokens and pictures that went through the model, see `benchmarks.trainers.stopwatch.ModelCounts`.
    """

    seconds: Mapping[str, float]
    counts: Mapping[str, int]


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Iterations of one process.

    Attributes:
        laps: Each of them.
        peak_mib: Most resident memory of the process.
    """

    laps: Sequence[Lap]
    peak_mib: float

    def to_dict(self) -> dict[str, Any]:
        """Returns it as plain data."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Measured:
        """Returns what `to_dict` gave."""
        return cls(laps=[Lap(**lap) for lap in data["laps"]], peak_mib=data["peak_mib"])


@dataclass(frozen=True, kw_only=True)
class Medians:
    """Iterations of all processes of one trainer on one case.

    Attributes:
        iteration_s: Median of whole iterations, in seconds.
        parts_s: Medians by part, which need not add up to it.
        counts: Medians of counts by name.
        peak_mib: Median over processes.
    """

    iteration_s: float
    parts_s: Mapping[str, float]
    counts: Mapping[str, float]
    peak_mib: float

    @classmethod
    def of(cls, runs: Sequence[Measured]) -> Medians:
        """Returns the medians over all iterations."""
        laps = [lap for run in runs for lap in run.laps]
        counts = sorted({name for lap in laps for name in lap.counts})
        return cls(
            iteration_s=statistics.median(sum(lap.seconds.values()) for lap in laps),
            parts_s={part: statistics.median(lap.seconds.get(part, 0.0) for lap in laps) for part in PARTS},
            counts={name: statistics.median(lap.counts.get(name, 0) for lap in laps) for name in counts},
            peak_mib=statistics.median(run.peak_mib for run in runs),
        )

    @property
    def rollout_s(self) -> float:
        """Seconds that the episodes take, worlds included."""
        return sum(self.parts_s[part] for part in ROLLOUT)


def peak_mib() -> float:
    """Returns the most memory that was resident so far, in MiB."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
