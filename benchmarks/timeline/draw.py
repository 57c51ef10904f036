"""Spans as a picture, and as a trace that Perfetto and Chrome open."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.timeline.spans import JUDGE, SAMPLING, UPDATE, WORLD, Span

COLOURS = {SAMPLING: "#3b78b5", WORLD: "#e0a030", JUDGE: "#8a5fb0", UPDATE: "#b9c2cc"}
LABELS = {
    SAMPLING: "its response is sampled",
    WORLD: "its world answers",
    JUDGE: "its judge answers",
    UPDATE: "the policy is updated",
}


def length_s(spans: Sequence[Span]) -> float:
    """Returns when the last of them is over."""
    return max(span.end_s for span in spans)


def draw(iterations: Mapping[str, Sequence[Span]], path: Path) -> None:
    """Writes a picture with a panel for each iteration, a line for each episode, all on one axis of time.

    Args:
        iterations: Spans by the title of their panel.
        path: Of the PNG.
    """
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait
    from matplotlib.patches import Patch

    num_rows = 1 + max(span.row or 0 for spans in iterations.values() for span in spans)
    figure = Figure(figsize=(11, len(iterations) * (0.9 + 0.13 * num_rows)), layout="constrained")
    panels = figure.subplots(len(iterations), 1, sharex=True, squeeze=False)[:, 0]
    for panel, (title, spans) in zip(panels, iterations.items(), strict=True):
        for span in spans:
            low, height = (-0.5, num_rows) if span.row is None else (span.row - 0.4, 0.8)
            bar = [(span.start_s, span.end_s - span.start_s)]
            panel.broken_barh(bar, (low, height), color=COLOURS[span.kind], linewidth=0)
        panel.set_title(f"{title}: {length_s(spans):.1f} s", loc="left", fontsize=10)
        panel.set(ylim=(num_rows - 0.5, -0.5), ylabel="episode")
        panel.spines[["top", "right"]].set_visible(False)
    panels[-1].set(xlim=(0, None), xlabel="seconds")
    handles = [Patch(color=COLOURS[kind], label=label) for kind, label in LABELS.items()]
    handles.append(Patch(facecolor="white", edgecolor="grey", linewidth=0.6, label="waiting"))
    figure.legend(handles=handles, loc="outside lower center", ncols=len(handles), frameon=False, fontsize=9)
    figure.savefig(path, dpi=100)


def trace(iterations: Mapping[str, Sequence[Span]]) -> dict[str, Any]:
    """Returns the spans in Chrome's trace event format: a process for each iteration, a thread for each episode."""
    events: list[dict[str, Any]] = []
    for process, (title, spans) in enumerate(iterations.items()):
        events.append({"name": "process_name", "ph": "M", "pid": process, "tid": 0, "args": {"name": title}})
        for row in sorted({-1 if span.row is None else span.row for span in spans}):
            name = "learner" if row < 0 else f"episode {row}"
            events.append({"name": "thread_name", "ph": "M", "pid": process, "tid": row + 1, "args": {"name": name}})
        for span in spans:
            place = {"pid": process, "tid": 0 if span.row is None else span.row + 1}
            timed = {"ts": round(span.start_s * 1e6), "dur": round((span.end_s - span.start_s) * 1e6)}
            events.append({"name": span.kind, "cat": span.kind, "ph": "X", **place, **timed})
    return {"traceEvents": events, "displayTimeUnit": "ms"}


def write(iterations: Mapping[str, Sequence[Span]], folder: Path) -> tuple[Path, Path]:
    """Writes `timeline.png` and `timeline.json`; returns their paths."""
    folder.mkdir(parents=True, exist_ok=True)
    picture, traced = folder / "timeline.png", folder / "timeline.json"
    draw(iterations, picture)
    traced.write_text(json.dumps(trace(iterations)) + "\n", encoding="utf-8")
    return picture, traced
