"""Records that are written out, for tests of tables and figures."""

from __future__ import annotations

from typing import Any

from benchmarks.experiments.records import Record, Span, WorldRecord


def lake(before: list[float], after: list[float], measure: str = "success", **more: Any) -> WorldRecord:
    """Returns outcomes on as many different levels, none of which a blind script solves."""
    fields: dict[str, Any] = {
        "world": "lake",
        "env_id": "VLM/FrozenLake-v0",
        "measure": measure,
        "levels": [str(level) for level in range(len(before))],
        "before": before,
        "after": after,
        "lazy": [0.0] * len(before),
    }
    return WorldRecord(**fields | more)


def record(*worlds: WorldRecord, points: list[dict[str, float]] | None = None, **changes: Any) -> Record:
    """Returns the record of a run of a recipe."""
    fields: dict[str, Any] = {
        "experiment": "results",
        "variant": "lake_tiny",
        "seed": 0,
        "setup": "a",
        "num_parameters": 7,
        "num_iterations": 3,
        "num_episodes": 24,
        "minutes": 1.2,
        "worlds": list(worlds),
        "spans": [Span(stage="lake", kind="rl", num_iterations=3, points=points)] if points else [],
    }
    return Record(**fields | changes)
