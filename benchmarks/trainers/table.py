"""Medians as a table in Markdown, one line for each trainer of a case."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.trainers.compare import CaseResult
from benchmarks.trainers.measured import PARTS, Medians
from benchmarks.trainers.work import Work

HEADINGS = (
    *("worlds", "judge", "trainer", "s an iteration", "ratio", "rollout", *PARTS),
    *("steps/s", "tokens/s", "pictures encoded", "prefill tokens", "peak MiB"),
)


def lines(results: Sequence[CaseResult], peer: str) -> list[str]:
    """Returns headings and lines, padded so that they read well as they are."""
    rows: list[tuple[str, ...]] = [HEADINGS]
    for result in results:
        medians = result.medians
        for name, each in medians.items():
            theirs = medians[peer].iteration_s if peer in medians else None
            rows.append(_cells(result.work, name, each, theirs))
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    padded = [" | ".join(cell.rjust(width) for cell, width in zip(row, widths, strict=True)) for row in rows]
    rule = "|".join("-" * (width + 1) + ":" for width in widths)
    return [f"| {padded[0]} |", f"|{rule}|", *(f"| {row} |" for row in padded[1:])]


def _cells(work: Work, name: str, medians: Medians, peer_s: float | None) -> tuple[str, ...]:
    """Returns a line's cells, in the order of `HEADINGS`."""
    num_steps = work.num_episodes * work.turns
    counts = medians.counts
    num_images = counts.get("sampled_images", 0) + counts.get("trained_images", 0)
    return (
        f"{work.world_ms:g} ms",
        f"{work.judge_ms:g} ms",
        name,
        f"{medians.iteration_s:.2f}",
        "" if peer_s is None else f"{peer_s / medians.iteration_s:.2f}x",
        f"{medians.rollout_s:.2f}",
        *(f"{medians.parts_s[part]:.2f}" for part in PARTS),
        f"{num_steps / medians.iteration_s:.1f}",
        f"{num_steps * work.tokens / medians.iteration_s:,.0f}",
        f"{num_images:,.0f}",
        f"{counts.get('prefill_tokens', 0):,.0f}",
        f"{medians.peak_mib:,.0f}",
    )
