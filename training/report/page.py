"""The report as one HTML file that needs neither a server nor a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from training.report.axes import shared_x_range, short, smooth
from training.report.episodes import episode_browser
from training.report.headline import comparisons, find, sentence, wall_time_s, written_p, written_time
from training.report.panels import Panel, PanelGroup, panel_groups
from training.report.picture import save_curves
from training.report.svg import draw, frames_of
from training.run_data import RunReader

_HERE = Path(__file__).parent


def build_report(directory: str | Path, *, max_episodes: int = 64, max_bytes: int = 6_000_000) -> Path:
    """Writes `report.html` and `curves.png` into a run directory, also while the run goes on.

    Args:
        directory: The run's directory.
        max_episodes: Most episodes shown for each evaluation.
        max_bytes: Most bytes of episodes and pictures; fewer episodes are shown where they need more.

    Returns:
        Path of the HTML file.

    Raises:
        MissingRunDataError: If there is no run.
        BrokenRunDataError: If a file of the run cannot be read.
    """
    reader = RunReader(directory)
    config, metrics, evaluations = reader.config, reader.metrics(), reader.evaluations()
    groups = panel_groups(metrics, evaluations)
    name = str(find(config, "name", "recipe") or reader.directory.resolve().name)
    save_curves(groups, reader.directory / "curves.png", title=name)
    compared = comparisons(reader)
    placed, drawn = _placed_panels(groups)
    script = (_HERE / "report.js").read_text(encoding="utf-8")
    browser = episode_browser(reader, max_episodes=max_episodes, max_bytes=max_bytes)
    html = _template().render(
        name=name,
        facts=_facts(config, metrics),
        sentence=sentence(config, metrics, [each.env_id for each in compared]),
        comparisons=compared,
        groups=placed,
        columns=_columns(evaluations),
        evaluations=evaluations,
        config_text=json.dumps(config, indent=2, ensure_ascii=False),
        payload=_script_json({"panels": drawn, **browser}),
        has_episodes=any(label["episodes"] for label in browser["labels"]),
        style=Markup((_HERE / "style.css").read_text(encoding="utf-8")),
        script=Markup(script),
        script_hash=_csp_hash(script),
    )
    path = reader.directory / "report.html"
    # Lone surrogates in a config or a label have no UTF-8 form; model text is ASCII in the payload
    path.write_text(html, encoding="utf-8", errors="replace")
    return path


def _template() -> jinja2.Template:
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader(_HERE),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(short=short, p_value=written_p, percent=lambda value: short(value, "rate"), cell=_cell)
    return environment.get_template("template.html.j2")


def _facts(config: Mapping[str, Any], metrics: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns what identifies the run: date, commit, wall time, as far as they are known."""
    date = find(config, "started_at", "date", "created_at")
    commit = find(config, "git_commit", "commit")
    time_s = wall_time_s(metrics)
    facts = [str(date)[:16].replace("T", " ") if date else "", f"commit {str(commit)[:10]}" if commit else ""]
    return [fact for fact in (*facts, f"{written_time(time_s)} of training" if time_s else "") if fact]


def _placed_panels(groups: Sequence[PanelGroup]) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draws every panel, and returns the groups for the template and the numbers for reading off values."""
    placed: list[dict[str, Any]] = []
    readable: list[dict[str, Any]] = []
    for group in groups:
        span = shared_x_range(groups, group)
        figures = []
        for panel in group.panels:
            # Safe: the drawing escapes its texts itself
            drawings = [Markup(draw(panel, frame)) for frame in frames_of(panel, span)]
            figures.append({"index": len(readable), "panel": panel, "drawings": drawings, "last": _last_value(panel)})
            curves = [{"xs": curve.xs, "ys": curve.ys} for curve in panel.curves]
            readable.append({"group": group.title, "scale": panel.scale, "curves": curves, "x_span": span})
        placed.append({"title": group.title, "figures": figures})
    return placed, readable


def _last_value(panel: Panel) -> str:
    """Returns where a curve ends: the end of its running mean, as drawn, would be one noisy value."""
    for curve in panel.curves:
        known = [y for y in curve.ys if y is not None]
        if known:
            return short(known[-1] if len(known) < 2 else smooth(known)[-1] or 0.0, panel.scale)
    return ""


def _columns(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the evaluation table's columns: the known ones first, then whatever else was recorded."""
    known = ["label", "iteration", "env_id", "split", "num_episodes", "success", "reward", "format_rate"]
    folded = {"num_successes", "success_low", "success_high"}
    present = dict.fromkeys(key for line in evaluations for key in line)
    return [key for key in known if key in present] + [key for key in present if key not in {*known, *folded}]


def _cell(line: Mapping[str, Any], column: str) -> str:
    value = line.get(column)
    if column == "success" and isinstance(value, (int, float)):
        low, high = line.get("success_low"), line.get("success_high")
        interval = f" ({short(low, 'rate')}–{short(high, 'rate')})" if low is not None and high is not None else ""
        return short(value, "rate") + interval
    if column.endswith("_rate") and isinstance(value, float):
        return short(value, "rate")
    if isinstance(value, float):
        return short(value)
    return "" if value is None else str(value)


def _script_json(value: Any) -> Markup:
    r"""Returns JSON that is safe inside a script element: `<`, `>` and `&` occur only as `\u` escapes."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def _csp_hash(script: str) -> str:
    """Returns the hash by which the page's policy lets this script run and no other."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
