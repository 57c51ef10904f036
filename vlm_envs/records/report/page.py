"""The report as one HTML file that needs neither a server nor a network."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from markupsafe import Markup

from vlm_envs.records.report.curves import look_classes, panel_svgs, save_curves
from vlm_envs.records.report.document import EPISODE_SCRIPTS, HERE, document, write_document
from vlm_envs.records.report.episodes import episode_browser
from vlm_envs.records.report.failures import failures
from vlm_envs.records.report.headline import compare_runs, comparisons, find, sentence
from vlm_envs.records.report.panels import Panel, PanelGroup, laid_beside, panel_groups
from vlm_envs.records.report.values import SMOOTH_FROM_NUM_POINTS, shared_x_range, short, smooth
from vlm_envs.records.run_data import RunReader, slug

_SHOWN_IF_ANY = ("num_lost", "nonfinite_rewards")
"""Columns of evaluations that are left out where all are zero."""


def build_report(
    directory: str | Path,
    *,
    beside: str | Path | None = None,
    reload_s: float | None = None,
    max_episodes: int = 256,
    max_bytes: int = 16_000_000,
) -> Path:
    """Writes `report.html` and `curves.png` into a run directory, also while the run goes on.

    Args:
        directory: The run's directory.
        beside: Directory of another run to lay beside it; the page is then `report_beside_<its name>.html`, and
            `curves.png` is left as it is.
        reload_s: Seconds after which an open page reads its file again; None for a page that stays as it is.
        max_episodes: Most episodes shown for each evaluation, failures first.
        max_bytes: Most bytes of episodes and pictures; fewer episodes are shown where they need more.

    Returns:
        Path of the HTML file.

    Raises:
        MissingRunDataError: If there is no such run.
        BrokenRunDataError: If a file of a run cannot be read.
    """
    reader = RunReader(directory)
    others = [] if beside is None else [RunReader(beside)]
    names = _names([reader, *others])
    name = " beside ".join(names)
    groups = panel_groups(reader.metrics(), reader.evaluations())
    if others:
        groups = laid_beside(groups, panel_groups(others[0].metrics(), others[0].evaluations()), names)
    elif _is_training(reader):
        save_curves(groups, reader.directory / "curves.png", title=name)
    readers = dict(zip(names, [reader, *others], strict=True)) if others else {"": reader}
    html = _page(readers, name, groups, reload_s, episode_browser(readers, max_episodes, max_bytes))
    path = reader.directory / (f"report_beside_{slug(names[1])}.html" if others else "report.html")
    write_document(path, html)
    return path


def _page(
    readers: Mapping[str, RunReader],
    name: str,
    groups: Sequence[PanelGroup],
    reload_s: float | None,
    browser: Mapping[str, Any],
) -> str:
    """Returns the page of one run, or of two beside each other."""
    first = next(iter(readers.values()))
    compared = compare_runs(readers) if len(readers) > 1 else comparisons(first)
    placed, drawn = _placed_panels(groups)
    evaluations = [
        {**line, "label": f"{run} · {line.get('label')}" if run else line.get("label")}
        for run, reader in readers.items()
        for line in reader.evaluations()
    ]
    configs = {run or name: reader.config for run, reader in readers.items()}
    env_ids = list(dict.fromkeys(each.env_id for each in compared))
    return document(
        HERE / "report.html.j2",
        scripts=[*EPISODE_SCRIPTS, HERE / "report.js"],
        payload={"panels": drawn, "reload_s": reload_s, **browser},
        filters={"cell": _cell, "heading": _heading, "look": look_classes},
        name=name,
        reload_s=reload_s,
        facts=_facts(first.config) if len(readers) == 1 else [],
        is_training=_is_training(first),
        sentences=[sentence(each.config, each.metrics(), env_ids) for each in readers.values() if _is_training(each)],
        runs=list(readers) if len(readers) > 1 else [],
        comparisons=compared,
        failures=failures(browser["labels"]),
        groups=placed,
        columns=_columns(evaluations),
        evaluations=evaluations,
        config_texts={run: json.dumps(config, indent=2, ensure_ascii=False) for run, config in configs.items()},
        has_episodes=any(label["episodes"] for label in browser["labels"]),
    )


def _is_training(reader: RunReader) -> bool:
    """Returns whether a run trains; episodes of `python -m agents play` name who plays instead."""
    return "agent" not in reader.config


def _names(readers: Sequence[RunReader]) -> list[str]:
    """Returns what the runs are called; by their folders where their configurations do not tell them apart."""
    names = [str(find(reader.config, "name", "recipe") or reader.directory.resolve().name) for reader in readers]
    if len(set(names)) == len(names):
        return names
    folders = [str(reader.directory.resolve().name) for reader in readers]
    return folders if len(set(folders)) == len(folders) else [f"{name} ({i})" for i, name in enumerate(names, 1)]


def _facts(config: Mapping[str, Any]) -> list[str]:
    """Returns what identifies the run: date and commit, as far as they are known."""
    date = find(config, "started_at", "date", "created_at")
    commit = find(config, "git_commit", "commit")
    is_known = commit not in (None, "", "unknown")
    facts = [str(date)[:16].replace("T", " ") if date else "", f"commit {str(commit)[:10]}" if is_known else ""]
    return [fact for fact in facts if fact]


def _placed_panels(groups: Sequence[PanelGroup]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draws every panel, and returns the groups for the template and the numbers for reading off values."""
    placed: list[dict[str, Any]] = []
    readable: list[dict[str, Any]] = []
    for group in groups:
        span = shared_x_range(groups, group)
        figures = []
        for panel in group.panels:
            drawings = [Markup(drawing) for drawing in panel_svgs(panel, span)]  # safe: they escape their texts
            figures.append({"index": len(readable), "panel": panel, "drawings": drawings, "ends": _ends(panel)})
            curves = [{"xs": curve.xs, "ys": curve.ys} for curve in panel.curves]
            readable.append({"group": group.title, "scale": panel.scale, "curves": curves, "x_span": span})
        placed.append({"title": group.title, "figures": figures})
    return placed, readable


def _ends(panel: Panel) -> list[str]:
    """Returns where each curve ends as it is drawn: a long one, whose single values are noisy, by its running mean."""
    ends = []
    for curve in panel.curves:
        drawn = curve.ys if len(curve.ys) < SMOOTH_FROM_NUM_POINTS else smooth(curve.ys)
        known = [y for y in drawn if y is not None]
        ends.append(short(known[-1], panel.scale) if known else "–")
    return ends


def _columns(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the evaluation table's columns: the known ones first, then whatever else was recorded."""
    known = [
        "label",
        "success",
        "num_episodes",
        "num_levels",
        "reward",
        "format_rate",
        "iteration",
        "world",
        "env_id",
        "split",
    ]
    present = dict.fromkeys(key for line in evaluations for key in line)
    folded = {"num_successes", "success_low", "success_high"} | ({"env_id"} if "world" in present else set())
    folded |= {key for key in _SHOWN_IF_ANY if not any(line.get(key) for line in evaluations)}
    if all(line.get("num_levels") in (None, line.get("num_episodes")) for line in evaluations):
        folded.add("num_levels")
    return [key for key in known if key in present and key not in folded] + [
        key for key in present if key not in {*known, *folded}
    ]


def _heading(column: str) -> str:
    """Returns what a column is called: `"num_episodes"` is "episodes", `"score/observation"` "observation score"."""
    kind, slash, name = column.rpartition("/")
    return f"{name} {kind}".replace("_", " ") if slash else column.removeprefix("num_").replace("_", " ")


def _cell(line: Mapping[str, Any], column: str) -> str:
    value = line.get(column)
    if column == "success" and isinstance(value, (int, float)):
        low, high = line.get("success_low"), line.get("success_high")
        interval = f" ({short(low, 'rate')}–{short(high, 'rate')})" if low is not None and high is not None else ""
        return short(value, "rate") + interval
    if (column.endswith("_rate") or column.startswith("score/")) and isinstance(value, float):
        return short(value, "rate")
    if isinstance(value, float):
        return short(value)
    return "" if value is None else str(value)
