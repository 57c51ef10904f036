"""The report of a run of stages: all of them on one axis, every evaluation in one table, and links to each stage's own.

A stage is a run like any other, in a folder of its own within that of the run.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from markupsafe import Markup

from vlm_envs.records.episode_record import world_of
from vlm_envs.records.json_lines import Record, parse_object
from vlm_envs.records.report.curves import look_classes, panel_svgs, save_curves
from vlm_envs.records.report.document import HERE, document, write_document
from vlm_envs.records.report.panels import COLD_START, PanelGroup, panel_groups
from vlm_envs.records.report.values import shared_x_range, short
from vlm_envs.records.run_data import STAGES, RunReader

_HEADINGS = ("stage", "evaluation", "world", "solved", "95% interval", "episodes", "reward", "loss")
_NOT_METRICS = frozenset({"iteration", "phase", "elapsed_s"})


@dataclass(frozen=True, kw_only=True)
class StageSpan:
    """Where a stage is on the axis that all share.

    Attributes:
        name: What its folder is called.
        first: Iterations, or steps, of all stages before it.
        num_iterations: Its own; 0 of one that has not begun.
    """

    name: str
    first: int
    num_iterations: int


def build_stages_report(directory: str | Path, folders: Sequence[str]) -> Path:
    """Writes `report.html` and `curves.png` of a run of stages, also while it goes on.

    Args:
        directory: The run's directory.
        folders: What its stages' folders are called, in order; one that is not there yet is left out.

    Returns:
        Path of the HTML file.

    Raises:
        BrokenRunDataError: If a file of a stage cannot be read.
    """
    home = Path(directory)
    readers = _readers(home, folders)
    spans, metrics, evaluations = _on_one_axis(readers)
    groups, marks = panel_groups(metrics, evaluations), [float(each.first) for each in spans[1:]]
    save_curves(groups, home / "curves.png", title=home.resolve().name, marks=marks)
    html = document(
        HERE / "stages.html.j2",
        scripts=[],
        payload={},
        filters={"look": look_classes},
        name=home.resolve().name,
        spans=[(each, (home / each.name / "report.html").is_file()) for each in spans],
        missing=[folder for folder in folders if folder not in readers],
        headings=_HEADINGS,
        rows=evaluation_rows(home, folders),
        groups=[{"title": group.title, "figures": _figures(groups, group, marks)} for group in groups],
    )
    path = home / "report.html"
    write_document(path, html)
    return path


def stage_folders(directory: str | Path) -> list[str]:
    """Returns what the folders of a run's stages are called, in order; none where it is a run without stages.

    Raises:
        BrokenRunDataError: If the file that says so cannot be read.
    """
    path = Path(directory) / STAGES
    if not path.is_file():
        return []
    stages = parse_object(path.read_bytes(), str(path)).get("stages", [])
    return [f"{number}-{stage['name']}" for number, stage in enumerate(stages, start=1)]


def evaluation_rows(directory: Path, folders: Sequence[str]) -> list[tuple[str, ...]]:
    """Returns every evaluation of all stages, in order: of episodes, and of a loss on rows that are held out.

    Returns:
        Rows of as many texts as `stages_table` has columns.
    """
    rows: list[tuple[str, ...]] = []
    for folder, reader in _readers(directory, folders).items():
        losses = [line for line in reader.metrics() if line.get("eval_loss") is not None]
        for label, line in zip(("before", "after"), _end_lines(losses), strict=False):
            rows.append((folder, label, "rows held out", "", "", "", "", short(line["eval_loss"])))
        for line in reader.evaluations():
            low, high = (short(line[key], "rate") for key in ("success_low", "success_high"))
            rows.append(
                (
                    *(folder, str(line.get("label")), world_of(line), short(line["success"], "rate")),
                    *(f"{low}–{high}", _episodes(line), short(line.get("reward") or 0.0), ""),
                )
            )
    return rows


def _episodes(line: Record) -> str:
    num_episodes, num_levels = line["num_episodes"], line.get("num_levels")
    return str(num_episodes) if num_levels in (None, num_episodes) else f"{num_episodes} on {num_levels} levels"


def stages_table(directory: Path, folders: Sequence[str]) -> str:
    """Returns every evaluation of all stages as lines of text, without columns of which nothing is known."""
    rows = [_HEADINGS, *evaluation_rows(directory, folders)]
    shown = [index for index in range(len(_HEADINGS)) if any(row[index] for row in rows[1:])]
    widths = [max(len(row[index]) for row in rows) for index in shown]
    return "\n".join(
        "  ".join(row[index].ljust(width) for index, width in zip(shown, widths, strict=True)).rstrip()
        for row in (rows if shown else ())
    )


def _end_lines(lines: Sequence[Record]) -> list[Record]:
    """Returns the first and the last of some lines; of one alone, that."""
    return [lines[0], lines[-1]] if len(lines) > 1 else [*lines]


def _readers(directory: Path, folders: Sequence[str]) -> dict[str, RunReader]:
    known = (directory / folder for folder in folders)
    return {each.name: RunReader(each) for each in known if (each / "config.json").is_file()}


def _on_one_axis(readers: dict[str, RunReader]) -> tuple[list[StageSpan], list[Record], list[Record]]:
    """Returns where stages are on one axis, and their metrics and evaluations with iterations counted on it.

    Between two stages each metric has a gap: what is before it was learnt under other settings. A cold start, whose
    steps have an axis of their own, keeps its count.
    """
    spans: list[StageSpan] = []
    metrics: list[Record] = []
    evaluations: list[Record] = []
    first = 0
    for name, reader in readers.items():
        lines = reader.metrics()
        learning = [line for line in lines if line.get("phase") != "cold_start"]
        known = {key for line in metrics for key in line.keys() - _NOT_METRICS if line.get("phase") != "cold_start"}
        gap = {"iteration": first, "phase": "rl", **dict.fromkeys(known)}
        metrics += [line for line in lines if line.get("phase") == "cold_start"]
        metrics += [gap, *({**line, "iteration": first + line.get("iteration", 0)} for line in learning)]
        for line in reader.evaluations():
            shifted = {key: first + line[key] for key in ("iteration", "policy_iteration") if line.get(key) is not None}
            evaluations.append({**line, **shifted})
        num_iterations = max((int(line.get("iteration", 0)) + 1 for line in learning), default=0)
        spans.append(StageSpan(name=name, first=first, num_iterations=num_iterations))
        first += num_iterations
    return spans, metrics, evaluations


def _figures(groups: Sequence[PanelGroup], group: PanelGroup, marks: Sequence[float]) -> list[dict[str, Any]]:
    span = shared_x_range(groups, group)
    drawn = [] if group.title == COLD_START else marks
    return [
        {
            "panel": panel,
            "drawings": [Markup(each) for each in panel_svgs(panel, span, marks=drawn)],  # they escape their texts
        }
        for panel in group.panels
    ]
