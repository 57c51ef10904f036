"""The reports of a run and of a staged run, as HTML files that need neither a server nor a network."""

from __future__ import annotations

import base64
import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import jinja2
from markupsafe import Markup

from vlm_envs.records.json_lines import Record, parse_object, replace_file
from vlm_envs.records.report_curves import look_classes, panel_svgs, save_curves
from vlm_envs.records.report_episodes import episode_browser
from vlm_envs.records.report_mistakes import failures
from vlm_envs.records.report_panels import (
    COLD_START,
    SMOOTH_FROM_NUM_POINTS,
    Panel,
    PanelGroup,
    compare_runs,
    comparisons,
    find,
    laid_beside,
    panel_groups,
    sentence,
    shared_x_range,
    short,
    smooth,
    written_p,
)
from vlm_envs.records.run_data import STAGES, RunReader, slug, world_of
from vlm_envs.terminal_tables import text_table

_SHOWN_IF_ANY = ("num_lost", "nonfinite_rewards")
"""Columns of evaluations that are omitted if all values are zero."""


def build_report(
    directory: str | Path,
    *,
    beside: str | Path | None = None,
    reload_s: float | None = None,
    max_episodes: int = 256,
    max_bytes: int = 16_000_000,
) -> Path:
    """Writes `report.html` and `curves.png` into a run directory, also while the run is in progress.

    Args:
        directory: The run's directory.
        beside: Directory of another run to compare it with; the page is then `report_beside_<its name>.html`,
            and `curves.png` is left unchanged.
        reload_s: Seconds after which an open page reloads its file; None for never.
        max_episodes: Maximum number of episodes shown per evaluation, failures first.
        max_bytes: Maximum size of episodes and images; fewer episodes are shown if they need more.

    Returns:
        Path of the HTML file.

    Raises:
        MissingRunDataError: If the run does not exist.
        BrokenRunDataError: If a file of a run cannot be read.
    """
    reader = RunReader(directory)
    readers = {"": reader} if beside is None else _named(reader, RunReader(beside))
    name = " beside ".join(readers) or _name(reader)
    groups_by_run = {run: panel_groups(reader.metrics(), reader.evaluations()) for run, reader in readers.items()}
    groups = groups_by_run[""] if beside is None else laid_beside(groups_by_run)
    is_training = "agent" not in reader.config  # episodes of `python -m agents play` name the player instead
    if beside is None and is_training:
        save_curves(groups, reader.directory / "curves.png", title=name)
    compared = comparisons(reader) if beside is None else compare_runs(readers)
    browser = episode_browser(readers, max_episodes, max_bytes)
    figures, drawn = _figures(groups)
    evaluations = _evaluations(readers)
    configs = {run or name: reader.config for run, reader in readers.items()}
    worlds = list(dict.fromkeys(reader.env_id for reader in compared))
    html = document(
        _HERE / "report.html.j2",
        scripts=[*EPISODE_SCRIPTS, _HERE / "report.js"],
        payload={"panels": drawn, "reload_s": reload_s, **browser},
        filters={"cell": _cell, "heading": _heading, "look": look_classes},
        name=name,
        reload_s=reload_s,
        facts=_facts(reader.config) if beside is None else [],
        is_training=is_training,
        sentences=[
            sentence(reader.config, reader.metrics(), worlds)
            for reader in readers.values()
            if "agent" not in reader.config
        ],
        runs=[] if beside is None else list(readers),
        comparisons=compared,
        failures=failures(browser["labels"]),
        groups=figures,
        columns=_columns(evaluations),
        evaluations=evaluations,
        config_texts={run: json.dumps(config, indent=2, ensure_ascii=False) for run, config in configs.items()},
        has_episodes=any(label["episodes"] for label in browser["labels"]),
    )
    path = reader.directory / ("report.html" if beside is None else f"report_beside_{slug(list(readers)[1])}.html")
    write_document(path, html)
    return path


def _evaluations(readers: Mapping[str, RunReader]) -> list[Record]:
    """Returns the evaluations of all runs; with two runs, labels begin with the run's name."""
    return [
        {**line, "label": f"{run} · {line.get('label')}" if run else line.get("label")}
        for run, reader in readers.items()
        for line in reader.evaluations()
    ]


def _name(reader: RunReader) -> str:
    return str(find(reader.config, "name", "recipe") or reader.directory.resolve().name)


def _named(first: RunReader, second: RunReader) -> dict[str, RunReader]:
    """Returns two runs by name: by folder if their names are equal, and numbered if the folders' are equal, too."""
    for name in (_name, lambda reader: str(reader.directory.resolve().name)):
        if name(first) != name(second):
            return {name(first): first, name(second): second}
    return {f"{_name(first)} (1)": first, f"{_name(second)} (2)": second}


def _facts(config: Mapping[str, Any]) -> list[str]:
    """Returns the date and commit of the run, as far as they are known."""
    date, commit = find(config, "started_at", "date", "created_at"), find(config, "git_commit", "commit")
    known_commit = commit if commit != "unknown" else None
    return [
        *([str(date)[:16].replace("T", " ")] if date else []),
        *([f"commit {str(known_commit)[:10]}"] if known_commit else []),
    ]


def _figures(
    groups: Sequence[PanelGroup], marks: Sequence[float] = ()
) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Draws every panel, and returns the groups for the template and the numbers for reading values from the curves.

    Args:
        groups: The panels.
        marks: Iterations with a line across all panels except those of a cold start.
    """
    placed: list[dict[str, Any]] = []
    readable: list[dict[str, Any]] = []
    for group in groups:
        span = shared_x_range(groups, group)
        figures = []
        for panel in group.panels:
            svgs = panel_svgs(panel, span, marks=() if group.title == COLD_START else marks)
            drawings = [Markup(svg) for svg in svgs]  # safe: their texts are escaped
            figures.append({"index": len(readable), "panel": panel, "drawings": drawings, "ends": _ends(panel)})
            curves = [{"xs": curve.xs, "ys": curve.ys} for curve in panel.curves]
            readable.append({"group": group.title, "scale": panel.scale, "curves": curves, "x_span": span})
        placed.append({"title": group.title, "figures": figures})
    return placed, readable


def _ends(panel: Panel) -> list[str]:
    """Returns the last value of each curve as it is drawn: for a long one, whose values are noisy, its running mean."""
    ends = []
    for curve in panel.curves:
        drawn = curve.ys if len(curve.ys) < SMOOTH_FROM_NUM_POINTS else smooth(curve.ys)
        known = [y for y in drawn if y is not None]
        ends.append(short(known[-1], panel.scale) if known else "–")
    return ends


_FIRST_COLUMNS = [
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


def _columns(evaluations: Sequence[Mapping[str, Any]]) -> list[str]:
    """Returns the evaluation table's columns: the known ones first, then all others that were recorded."""
    present = dict.fromkeys(key for line in evaluations for key in line)
    folded = {"num_successes", "success_low", "success_high"} | ({"env_id"} if "world" in present else set())
    folded |= {key for key in _SHOWN_IF_ANY if not any(line.get(key) for line in evaluations)}
    if all(line.get("num_levels") in (None, line.get("num_episodes")) for line in evaluations):
        folded.add("num_levels")
    ordered = dict.fromkeys([*(key for key in _FIRST_COLUMNS if key in present), *present])
    return [key for key in ordered if key not in folded]


def _heading(column: str) -> str:
    """Returns the heading of a column: `"num_episodes"` is "episodes", `"score/observation"` "observation score"."""
    kind, slash, name = column.rpartition("/")
    return f"{name} {kind}".replace("_", " ") if slash else column.removeprefix("num_").replace("_", " ")


def _cell(line: Mapping[str, Any], column: str) -> str:
    value = line.get(column)
    if column == "success" and isinstance(value, (int, float)):
        low, high = line.get("success_low"), line.get("success_high")
        interval = f" ({short(low, 'rate')}–{short(high, 'rate')})" if low is not None and high is not None else ""
        return short(value, "rate") + interval
    if isinstance(value, float):
        return short(value, "rate" if column.endswith("_rate") or column.startswith("score/") else "number")
    return "" if value is None else str(value)


_NOT_METRICS = frozenset({"iteration", "phase", "elapsed_s"})


@dataclass(frozen=True, kw_only=True)
class StageSpan:
    """The position of a stage on the axis that all stages share.

    Attributes:
        name: Name of its folder.
        first: Number of iterations, or steps, of all stages before it.
        num_iterations: Its own number of iterations; 0 if it has not begun.
    """

    name: str
    first: int
    num_iterations: int


def build_stages_report(directory: str | Path, folders: Sequence[str]) -> Path:
    """Writes `report.html` and `curves.png` of a run of stages, also while it is in progress.

    Args:
        directory: The run's directory.
        folders: Names of its stages' folders, in order; folders that do not exist yet are omitted.

    Returns:
        Path of the HTML file.

    Raises:
        BrokenRunDataError: If a file of a stage cannot be read.
    """
    home = Path(directory)
    readers = _readers(home, folders)
    spans, metrics, evaluations = _on_one_axis(readers)
    groups, marks = panel_groups(metrics, evaluations), [float(span.first) for span in spans[1:]]
    save_curves(groups, home / "curves.png", title=home.resolve().name, marks=marks)
    rows = evaluation_rows(home, folders)
    html = document(
        _HERE / "stages.html.j2",
        scripts=[],
        payload={},
        filters={"look": look_classes},
        name=home.resolve().name,
        spans=[(span, (home / span.name / "report.html").is_file()) for span in spans],
        missing=[folder for folder in folders if folder not in readers],
        headings=list(rows[0]) if rows else [],
        rows=rows,
        groups=_figures(groups, marks)[0],
    )
    path = home / "report.html"
    write_document(path, html)
    return path


def stage_folders(directory: str | Path) -> list[str]:
    """Returns the names of the folders of a run's stages, in order; empty for a run without stages.

    Raises:
        BrokenRunDataError: If the file that lists the stages cannot be read.
    """
    path = Path(directory) / STAGES
    if not path.is_file():
        return []
    stages = parse_object(path.read_bytes(), str(path)).get("stages", [])
    return [f"{number}-{stage['name']}" for number, stage in enumerate(stages, start=1)]


def evaluation_rows(directory: Path, folders: Sequence[str]) -> list[dict[str, str]]:
    """Returns every evaluation of all stages, in order: of episodes, and of a loss on held-out rows."""
    rows = []
    for folder, reader in _readers(directory, folders).items():
        losses = [line for line in reader.metrics() if line.get("eval_loss") is not None]
        for label, line in zip(("before", "after"), [*losses[:1], *losses[1:][-1:]], strict=False):
            rows.append(
                {"stage": folder, "evaluation": label, "world": "rows held out", "loss": short(line["eval_loss"])}
            )
        for line in reader.evaluations():
            low, high = (short(line[key], "rate") for key in ("success_low", "success_high"))
            num_episodes, num_levels = line["num_episodes"], line.get("num_levels")
            on_levels = "" if num_levels in (None, num_episodes) else f" on {num_levels} levels"
            rows.append(
                {
                    "stage": folder,
                    "evaluation": str(line.get("label")),
                    "world": world_of(line),
                    "solved": short(line["success"], "rate"),
                    "95% interval": f"{low}–{high}",
                    "episodes": f"{num_episodes}{on_levels}",
                    "reward": short(line.get("reward") or 0.0),
                }
            )
    headings = ("stage", "evaluation", "world", "solved", "95% interval", "episodes", "reward", "loss")
    return [{heading: row.get(heading, "") for heading in headings} for row in rows]


def stages_table(directory: Path, folders: Sequence[str]) -> str:
    """Returns every evaluation of all stages as lines of text, without empty columns."""
    return text_table(evaluation_rows(directory, folders))


def _readers(directory: Path, folders: Sequence[str]) -> dict[str, RunReader]:
    known = (directory / folder for folder in folders)
    return {folder.name: RunReader(folder) for folder in known if (folder / "config.json").is_file()}


def _on_one_axis(readers: dict[str, RunReader]) -> tuple[list[StageSpan], list[Record], list[Record]]:
    """Returns the positions of stages on one axis, and their metrics and evaluations with iterations counted on it.

    Between two stages each metric has a gap, since their settings differ. A cold start, whose steps have
    their own axis, keeps its count.
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


_HERE = Path(__file__).with_name("report")

EPISODE_SCRIPTS = tuple(_HERE / name for name in ("browsing.js", "elements.js", "images.js", "turns.js"))
"""Scripts that select an episode and draw it; they read the element `payload`, with the `images` that turns name."""


def document(
    template: Path,
    *,
    scripts: Sequence[Path],
    payload: Mapping[str, Any],
    styles: Sequence[Path] = (),
    filters: Mapping[str, Callable[..., Any]] | None = None,
    loads_files: bool = False,
    **values: Any,
) -> str:
    """Returns a page.

    Args:
        template: A template that extends `base.html.j2` of this folder: its blocks `title` and `body`.
        scripts: Files that are joined into its only script; the page's policy blocks all others.
        payload: Data that they read from the element `payload`, ready for JSON.
        styles: Files after the common style.
        filters: The template's own filters, in addition to `short`, `percent`, and `p_value`.
        loads_files: Whether its script may load scripts and images from files in the same folder.
        **values: The template's variables. Texts are escaped.
    """
    environment = jinja2.Environment(
        loader=jinja2.FileSystemLoader([template.parent, _HERE]),
        autoescape=True,
        undefined=jinja2.StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    environment.filters.update(short=short, percent=lambda value: short(value, "rate"), p_value=written_p)
    environment.filters.update(filters or {})
    script = _joined(scripts)
    return environment.get_template(template.name).render(
        style=Markup(_joined([_HERE / "style.css", *styles])),
        script=Markup(script),
        script_hash=csp_hash(script),
        payload=script_json(payload),
        loads_files=loads_files,
        **values,
    )


def write_document(path: Path, html: str) -> None:
    """Writes a page atomically; unpaired surrogates, which have no UTF-8 form, become question marks.

    They occur only in labels and configurations: text from models is ASCII in the payload.
    """
    replace_file(path, html.encode("utf-8", errors="replace"))


def _joined(paths: Sequence[Path]) -> str:
    return "".join(path.read_text(encoding="utf-8") for path in paths)


def script_json(value: Any) -> Markup:
    r"""Returns JSON that is safe inside a script element: `<`, `>`, and `&` occur only as `\u` escapes."""
    text = json.dumps(value, ensure_ascii=True, allow_nan=False, separators=(",", ":"))
    return Markup(text.replace("<", "\\u003c").replace(">", "\\u003e").replace("&", "\\u0026"))


def csp_hash(script: str) -> str:
    """Returns the hash with which a page's policy allows only this script."""
    return "sha256-" + base64.b64encode(hashlib.sha256(script.encode()).digest()).decode("ascii")
