"""Which curves a report shows, and in which order: metrics and evaluations sorted into panels.

Everything a run logs is shown. Known metrics get a title and a place; unknown ones a panel of their own,
grouped by what stands before the slash.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from vlm_envs.records.episode_record import levels_of, world_of
from vlm_envs.records.json_lines import Record
from vlm_envs.records.report.headline import interval_of

Scale = Literal["rate", "number"]

COLD_START = "Cold start"
"""Title of the group whose steps are counted on their own axis."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line over iterations.

    Attributes:
        name: What it shows.
        xs: Iterations, rising.
        ys: Values; None where the run had none, which interrupts the line.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Measured rates with their confidence intervals.

    Attributes:
        name: What was measured.
        xs: Iterations.
        ys: Rates.
        lows: Lower ends of the intervals.
        highs: Upper ends.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float, ...]
    lows: tuple[float, ...]
    highs: tuple[float, ...]


@dataclass(frozen=True, kw_only=True)
class Panel:
    """One small graph.

    Attributes:
        title: Its title.
        hint: What the values mean, in a few words; may be empty.
        scale: `"rate"` for an axis from 0 to 1 written in percent, `"number"` for one that fits the values.
        curves: Its lines.
        estimates: Its points with intervals.
        is_wide: Whether it takes the whole width.
    """

    title: str
    hint: str
    scale: Scale
    curves: tuple[Curve, ...]
    estimates: tuple[Estimates, ...] = ()
    is_wide: bool = False


@dataclass(frozen=True, kw_only=True)
class PanelGroup:
    """Panels under one heading.

    Attributes:
        title: The heading.
        panels: The panels, in reading order.
    """

    title: str
    panels: tuple[Panel, ...]


@dataclass(frozen=True)
class _Known:
    group: str
    title: str
    hint: str = ""
    scale: Scale = "number"


_KNOWN: dict[str, _Known] = {
    "reward": _Known("Reward", "Reward", "raw, per episode"),
    "return": _Known("Reward", "Return", "reward with judges' rewards, per episode"),
    "thought_score": _Known("Responses", "Thoughts of what is seen", "how right, mean over turns", scale="rate"),
    "tool_used": _Known("Responses", "A tool did its work", "share of episodes", scale="rate"),
    "format_rate": _Known("Responses", "Correct format", "share of turns", scale="rate"),
    "response_tokens": _Known("Responses", "Response length", "tokens per turn"),
    "cut_rate": _Known("Responses", "Cut at the token limit", "share of turns", scale="rate"),
    "context_full": _Known("Responses", "Episodes that the context ended", "number"),
    "num_turns": _Known("Responses", "Turns", "per episode"),
    "turns_to_success": _Known("Responses", "Turns to success", "per solved episode"),
    "entropy": _Known("Policy", "Entropy", "nats per token"),
    "kl": _Known("Policy", "KL from the start", "nats per token"),
    "approx_kl": _Known("Policy", "KL of the update", "nats per token"),
    "clip_fraction": _Known("Policy", "Clipped ratios", "share of tokens"),
    "ratio_mean": _Known("Policy", "Mean ratio"),
    "sampler_gap": _Known("Policy", "Sampler–trainer gap", "log-probability"),
    "policy_loss": _Known("Optimisation", "Policy loss"),
    "value_loss": _Known("Optimisation", "Value loss"),
    "explained_variance": _Known("Optimisation", "Explained variance", "1 is best"),
    "turn_end_explained_variance": _Known("Optimisation", "Explained variance at turn ends", "1 is best"),
    "grad_norm": _Known("Optimisation", "Gradient norm", "before clipping"),
    "learning_rate": _Known("Optimisation", "Learning rate", "of the policy"),
    "critic_grad_norm": _Known("Optimisation", "Critic's gradient norm", "before clipping"),
    "staleness": _Known("Policy", "Staleness", "optimiser steps ahead of the sampler"),
    "value_clip_fraction": _Known("Optimisation", "Clipped values", "share of tokens"),
    "zero_variance_groups": _Known("Optimisation", "Groups without signal", "siblings equal", scale="rate"),
    "resampled_groups": _Known("Optimisation", "Groups in place of others", "number"),
    "gen_rounds": _Known("Optimisation", "Rounds played", "number"),
    "unavailable_turns": _Known("Optimisation", "Turns no judge scored", "share", scale="rate"),
    "untrainable_rows": _Known("Optimisation", "Episodes not trained on", "share", scale="rate"),
    "unavailable_episodes": _Known("Optimisation", "Episodes with an unscored turn", "share", scale="rate"),
    "lost_episodes": _Known("Optimisation", "Episodes of lost workers", "number"),
    "dropped_groups": _Known("Optimisation", "Groups dropped", "number"),
    "skipped_steps": _Known("Optimisation", "Steps skipped", "gradient not finite"),
    "nonfinite_rewards": _Known("Optimisation", "Episodes with infinite rewards", "number"),
    "nonfinite_metrics": _Known("Optimisation", "Episodes with infinite measures", "number"),
    "tokens_per_s": _Known("Speed", "Tokens per second"),
    "turns_per_s": _Known("Speed", "Turns per second"),
    "rollout_s": _Known("Speed", "Rollout", "seconds"),
    "iteration_s": _Known("Speed", "Iteration", "seconds"),
    "rollout_peak_gib": _Known("Speed", "Peak memory of the rollout", "GiB of the GPU"),
    "update_peak_gib": _Known("Speed", "Peak memory of the update", "GiB of the GPU"),
}
_OF_EACH_WORLD = ("thought_score", "tool_used")
"""Known metrics that a mix logs of each world that has them, too, as `<metric>/<world>`."""
_PREFIXES = {
    "score/": ("Judges' scores", "mean over turns"),
    "reward/": ("Reward", "sum over an episode"),
    "judge/": ("Judges' rewards", "weighted, sum over an episode"),
    "metric/": ("Final states", "mean over episodes"),
}
"""Group and hint of what is logged under a prefix."""
_ORDER = (
    "Success",
    "Final states",
    "Reward",
    "Judges' scores",
    "Judges' rewards",
    "Responses",
    "Policy",
    "Optimisation",
    "Speed",
)
_NOT_CURVES = frozenset({"iteration", "phase", "elapsed_s"})


def panel_groups(metrics: Sequence[Record], evaluations: Sequence[Record]) -> list[PanelGroup]:
    """Sorts the lines of `metrics.jsonl` and `evaluations.jsonl` into groups of panels.

    Success comes first, then the other groups, then the cold start, whose steps are counted on their own axis.
    """
    learning = [line for line in metrics if line.get("phase") != "cold_start"]
    cold_start = [line for line in metrics if line.get("phase") == "cold_start"]
    grouped: dict[str, list[Panel]] = {name: [] for name in _ORDER}
    success = _success_panel(learning, evaluations)
    if success is not None:
        grouped["Success"].append(success)
    for key in _curve_keys(learning):
        if key != "success":
            known = _describe(key)
            grouped.setdefault(known.group, []).append(_panel(key, known, learning))
    grouped[COLD_START] = [_panel(key, _describe(key), cold_start) for key in _curve_keys(cold_start)]
    return [PanelGroup(title=title, panels=tuple(panels)) for title, panels in grouped.items() if panels]


def laid_beside(groups: Sequence[PanelGroup], others: Sequence[PanelGroup], names: Sequence[str]) -> list[PanelGroup]:
    """Returns the curves of two runs, by name, in the same panels by title; behind them what only the second logged."""
    titles = list(dict.fromkeys(group.title for group in (*groups, *others)))
    return [
        PanelGroup(title=title, panels=tuple(_merged(_panels_of(groups, title), _panels_of(others, title), names)))
        for title in titles
    ]


def _panels_of(groups: Sequence[PanelGroup], title: str) -> dict[str, Panel]:
    return {panel.title: panel for group in groups if group.title == title for panel in group.panels}


def _merged(mine: Mapping[str, Panel], theirs: Mapping[str, Panel], names: Sequence[str]) -> Iterable[Panel]:
    nothing = Curve(name="", xs=(), ys=())
    for title in dict.fromkeys((*mine, *theirs)):
        panels = (mine.get(title), theirs.get(title))
        shown = next(panel for panel in panels if panel is not None)
        curves = [
            replace(panel.curves[0] if panel is not None and panel.curves else nothing, name=name)
            for panel, name in zip(panels, names, strict=True)
        ]
        estimates = [
            replace(each, name=f"{name}: {each.name}")
            for panel, name in zip(panels, names, strict=True)
            for each in (panel.estimates if panel is not None else ())
        ]
        yield replace(shown, curves=tuple(curves), estimates=tuple(estimates))


def _success_panel(metrics: Sequence[Record], evaluations: Sequence[Record]) -> Panel | None:
    curve = _curve("success", "training episodes", metrics)
    estimates = tuple(_estimates(evaluations))
    if not curve.xs and not estimates:
        return None
    return Panel(
        title="Episodes solved",
        hint="line: training; points: evaluations with 95% intervals",
        scale="rate",
        curves=(curve,) if curve.xs else (),
        estimates=estimates,
        is_wide=True,
    )


def _estimates(evaluations: Sequence[Record]) -> Iterable[Estimates]:
    """Makes one series for each world and split that was evaluated."""
    series: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    num_worlds = len({world_of(line) for line in evaluations})
    for line in evaluations:
        num_episodes, num_successes = line.get("num_episodes"), line.get("num_successes")
        if num_episodes and num_successes is not None:
            low, high = interval_of(line)
            key = (world_of(line), levels_of(line))
            # Of the policy that played, which may be an earlier one
            iteration = line.get("policy_iteration", line.get("iteration"))
            point = (float(iteration or 0), num_successes / num_episodes, low, high)
            series.setdefault(key, []).append(point)
    for (env_id, levels), points in series.items():
        xs, ys, lows, highs = zip(*sorted(points), strict=True)
        name = levels if num_worlds == 1 else f"{env_id}, {levels}"
        yield Estimates(name=name, xs=xs, ys=ys, lows=lows, highs=highs)


def _curve_keys(lines: Iterable[Record]) -> list[str]:
    """Returns the metrics that are numbers: known ones in their order, then the others as they first came."""
    present = {
        key: None
        for line in lines
        for key, value in line.items()
        if key not in _NOT_CURVES and (value is None or _number(value) is not None)
    }
    return [key for key in _KNOWN if key in present] + [key for key in present if key not in _KNOWN]


def _describe(key: str) -> _Known:
    if key in _KNOWN:
        return _KNOWN[key]
    if key.startswith("success/"):  # of a world of a mix, whose id has slashes of its own
        title = key.removeprefix("success/")
        return _Known("Success", title, "share of training episodes", "rate")
    if key.startswith("score/") and key.count("/") > 1:
        _, section, world = key.split("/", 2)
        group, hint = _PREFIXES["score/"]
        return _Known(group, f"{section.capitalize()}: {world}", hint, "rate")
    name, _, world = key.partition("/")
    if world and name in _OF_EACH_WORLD:
        known = _KNOWN[name]
        return replace(known, title=f"{known.title}: {world}")
    prefix, slash, rest = key.rpartition("/")
    kind = f"{prefix}/"
    own_group = prefix.replace("_", " ").capitalize() if slash else "Other"
    group, meaning = _PREFIXES.get(kind, (own_group, ""))
    is_time = rest.endswith("_s") and not rest.endswith("_per_s")
    words = (rest.removesuffix("_s") if is_time else rest).replace("_", " ")
    hint = "seconds" if is_time else meaning
    return _Known(group, words.capitalize(), hint, "rate" if kind == "score/" else "number")


def _panel(key: str, known: _Known, lines: Sequence[Record]) -> Panel:
    return Panel(title=known.title, hint=known.hint, scale=known.scale, curves=(_curve(key, known.title, lines),))


def _curve(key: str, name: str, lines: Sequence[Record]) -> Curve:
    points = [
        (float(line.get("iteration", index)), _number(line[key])) for index, line in enumerate(lines) if key in line
    ]
    points.sort(key=lambda point: point[0])
    return Curve(name=name, xs=tuple(x for x, _ in points), ys=tuple(y for _, y in points))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (bool, int, float)) else None
