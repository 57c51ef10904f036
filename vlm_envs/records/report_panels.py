"""The contents of a report on a run's numbers: success before and after, and curves sorted into panels.

Everything a run logs is shown. Known metrics have a title and a position; each unknown one has its own panel,
grouped by the text before the slash.
"""

from __future__ import annotations

import math
import tomllib
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal, NamedTuple

from vlm_envs.records.json_lines import MissingRunDataError, Record
from vlm_envs.records.run_data import PHASES, RunReader, episode_keys, levels_of, world_of
from vlm_envs.statistics.paired_tests import PairedOutcomes, pair_outcomes
from vlm_envs.statistics.success_rates import Interval, cluster_of, counted_episodes, num_levels_of, wilson_interval


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A success rate.

    Attributes:
        label: The evaluation's label.
        num_successes: Number of episodes solved.
        num_episodes: Number of episodes played.
        num_levels: Number of distinct levels of these episodes.
        interval: 95% interval.
    """

    label: str
    num_successes: int
    num_episodes: int
    num_levels: int
    interval: Interval

    @property
    def value(self) -> float:
        """Share of episodes solved."""
        return self.num_successes / self.num_episodes


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """One world before and after.

    Attributes:
        env_id: Name of the world in its mix.
        levels: Kind of levels of the evaluation, such as `"held-out test levels"`.
        rates: The first and the last evaluation, or the only one.
        paired: Outcomes of the recorded episodes that were played both times; None if there are none.
        num_paired_levels: Number of distinct levels of these episodes.
        chosen: The policy of the last evaluation if it was selected on validation levels; else empty.
    """

    env_id: str
    levels: str
    rates: tuple[Rate, ...]
    paired: PairedOutcomes | None
    num_paired_levels: int = 0
    chosen: str = ""

    @property
    def played_on(self) -> str:
        """Number of episodes or levels of the last evaluation, with their kind."""
        return counted_episodes(self.rates[-1].num_episodes, self.rates[-1].num_levels, self.levels)

    @property
    def paired_on(self) -> str:
        """Number of recorded episodes or levels that were played both times."""
        num_pairs = 0 if self.paired is None else self.paired.num_pairs
        return counted_episodes(num_pairs, self.num_paired_levels, "recorded levels")


def comparisons(reader: RunReader) -> list[Comparison]:
    """Compares the first and last evaluation of each world, on the split that the whole run was evaluated on.

    The labels `"before"` and `"after"` are compared if they exist, because evaluations in between may use
    other levels.
    """
    by_world: dict[str, list[Record]] = {}
    for line in reader.evaluations():
        if line.get("num_episodes"):
            by_world.setdefault(world_of(line), []).append(line)
    return [_compare(reader, env_id, lines) for env_id, lines in by_world.items()]


def compare_runs(readers: Mapping[str, RunReader]) -> list[Comparison]:
    """Compares the last evaluations of two runs by name, for each world that both evaluated on the same split."""
    last = [
        {(world_of(line), levels_of(line)): line for line in reader.evaluations() if line.get("num_episodes")}
        for reader in readers.values()
    ]
    return [
        _comparison(
            world,
            levels,
            [(name, reader, lines[world, levels]) for (name, reader), lines in zip(readers.items(), last, strict=True)],
        )
        for world, levels in last[0]
        if (world, levels) in last[1]
    ]


def _compare(reader: RunReader, world: str, lines: Sequence[Record]) -> Comparison:
    before = next((line for line in lines if line.get("label") == "before"), lines[0])
    same_split = [line for line in lines if line.get("split") == before.get("split")]
    after = next((line for line in reversed(same_split) if line.get("label") == "after"), same_split[-1])
    ends = [before] if after is before else [before, after]
    named = [(str(line.get("label", "evaluation")), reader, line) for line in ends]
    iteration, success = (ends[-1].get(name) for name in ("policy_iteration", "validation_success"))
    chosen = ""
    if iteration is not None and success is not None:
        chosen = f"the policy of iteration {iteration}, which solved most validation levels ({success:.1%}): best/model"
    return replace(_comparison(world, levels_of(before), named), chosen=chosen)


def _comparison(world: str, levels: str, ends: Sequence[tuple[str, RunReader, Record]]) -> Comparison:
    """Returns the comparison of one or two evaluations, each with its name and run."""
    rates = tuple(
        Rate(
            label=name,
            num_successes=int(line.get("num_successes") or 0),
            num_episodes=int(line["num_episodes"]),
            num_levels=int(line.get("num_levels") or line["num_episodes"]),
            interval=interval_of(line),
        )
        for name, _, line in ends
    )
    compared = Comparison(env_id=world, levels=levels, rates=rates, paired=None)
    if len(ends) < 2:
        return compared
    first, last = (_episodes(reader, str(line.get("label")), world) for _, reader, line in ends)
    clusters = {key: cluster_of(first[key], last[key]) for key in first if key in last}
    if not clusters:
        return compared
    before, after = ({key: bool(episodes[key]["success"]) for key in clusters} for episodes in (first, last))
    num_levels = num_levels_of(first[key] for key in clusters)
    return replace(compared, paired=pair_outcomes(before, after, clusters), num_paired_levels=num_levels)


def interval_of(line: Record) -> Interval:
    """Returns the interval of an evaluation's success rate; Wilson's if its levels were not counted."""
    low, high = line.get("success_low"), line.get("success_high")
    if not line.get("num_levels") or low is None or high is None:
        return wilson_interval(int(line.get("num_successes") or 0), int(line["num_episodes"]))
    return Interval(low, high)


def _episodes(reader: RunReader, label: str, env_id: str) -> dict[Hashable, Record]:
    try:
        episodes = reader.trajectories(label)
    except MissingRunDataError:
        return {}
    keys = episode_keys(episodes)
    return {key: episode for key, episode in zip(keys, episodes, strict=True) if world_of(episode) == env_id}


def find(config: Any, *names: str) -> Any:
    """Returns the value of the first key that exists, at its shallowest occurrence; None if none exists."""
    for name in names:
        queue = deque([config])
        while queue:
            value = queue.popleft()
            if isinstance(value, Mapping):
                if value.get(name) is not None:
                    return value[name]
                queue.extend(value.values())
            elif isinstance(value, list):
                queue.extend(value)
    return None


def sentence(config: Record, metrics: Sequence[Record], env_ids: Sequence[str]) -> str:
    """Returns a sentence about what was trained, in which worlds, and how long it took."""
    model = find(config, "model")
    who = str(model).rstrip("/").split("/")[-1] if model else "A small vision-language model built from scratch"
    names = [_spoken(env_id, config) for env_id in env_ids]
    where = f" to play {' and '.join(names)}" if names else ""
    num_cold, num_learning = (sum(line.get("phase", PHASES[-1]) == phase for line in metrics) for phase in PHASES)
    how = find(config, "trained_with") or "reinforcement learning"
    planned = find(config, "num_iterations")
    is_unfinished = isinstance(planned, int) and num_learning < planned
    counted = f"{num_learning:,} of {planned:,}" if is_unfinished else f"{num_learning:,}"
    steps = [f"{counted} iteration{'s' * (is_unfinished or num_learning != 1)} of {how}"] if num_learning else []
    if num_cold:
        steps.insert(0, "a supervised cold start on demonstrations")
    time_s = wall_time_s(metrics)
    how_long = f", in {written_time(time_s)}" if time_s else ""
    return f"{who} was trained{where} with {' and then '.join(steps) or 'no recorded training yet'}{how_long}."


def _spoken(world: str, config: Record) -> str:
    """Returns a world's name without namespace and version: `"FrozenLake (size=8)"`.

    Args:
        world: Its name in the mix.
        config: Configuration of the run, which contains the names of adapted worlds.
    """
    env_id, opening, rest = world.partition(" (")
    worlds = find(config, "worlds")
    for entry in worlds if isinstance(worlds, list) else ():
        if isinstance(entry, Mapping) and entry.get("env_id") == env_id.partition(" #")[0]:
            env_id = env_id.replace(str(entry["env_id"]), str(find(entry.get("adapted"), "name") or entry["env_id"]))
    return env_id.split("/")[-1].rsplit("-v", 1)[0] + opening + rest


def wall_time_s(metrics: Sequence[Record]) -> float:
    """Returns the time a run took, in seconds.

    `elapsed_s` may restart at 0 with each phase or resumption; the parts are added up.
    """
    total_s = previous_s = 0.0
    for line in metrics:
        elapsed_s = float(line.get("elapsed_s") or 0.0)
        if elapsed_s < previous_s:
            total_s += previous_s
        previous_s = elapsed_s
    return total_s + previous_s


def written_time(time_s: float) -> str:
    """Returns a duration in its two largest units: `"1 h 5 min"`, `"12 min 5 s"`, `"48 s"`."""
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def written_p(p_value: float) -> str:
    """Returns a p-value as text: `"p < 0.001"` or `"p = 0.021"`."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


Scale = Literal["rate", "number"]

COLD_START = "Cold start"
"""Title of the group whose steps are counted on their own axis."""


@dataclass(frozen=True, kw_only=True)
class Curve:
    """A line over iterations.

    Attributes:
        name: Name of the quantity.
        xs: Iterations, ascending.
        ys: Values; None if the run had none, which interrupts the line.
    """

    name: str
    xs: tuple[float, ...]
    ys: tuple[float | None, ...]


@dataclass(frozen=True, kw_only=True)
class Estimates:
    """Measured rates with their confidence intervals.

    Attributes:
        name: Name of the measured quantity.
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
        hint: Short explanation of the values; may be empty.
        scale: `"rate"` for an axis from 0 to 1 in percent, `"number"` for one that fits the values.
        curves: Its lines.
        estimates: Its points with intervals.
        is_wide: Whether it occupies the whole width.
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


class _Known(NamedTuple):
    group: str
    title: str
    hint: str = ""
    scale: Scale = "number"


_TABLE = tomllib.loads((Path(__file__).parent / "report" / "metrics.toml").read_text(encoding="utf-8"))
_KNOWN = {key: _Known(*row) for key, row in _TABLE["metrics"].items()}
_OF_EACH_WORLD = ("thought_score", "tool_used")
"""Known metrics that a mix also logs for each world that has them, as `<metric>/<world>`."""
_NOT_CURVES = frozenset({"iteration", "phase", "elapsed_s"})


def panel_groups(metrics: Sequence[Record], evaluations: Sequence[Record]) -> list[PanelGroup]:
    """Sorts the lines of `metrics.jsonl` and `evaluations.jsonl` into groups of panels.

    Success comes first, then the other groups, then the cold start, whose steps are counted on their own
    axis.
    """
    learning = [line for line in metrics if line.get("phase") != "cold_start"]
    cold_start = [line for line in metrics if line.get("phase") == "cold_start"]
    grouped: dict[str, list[Panel]] = {name: [] for name in _TABLE["groups"]}
    curve, estimates = _curve("success", "training episodes", learning), _estimates(evaluations)
    if curve.xs or estimates:
        hint = "line: training; points: evaluations with 95% intervals"
        panel = Panel(title="Episodes solved", hint=hint, scale="rate", curves=(curve,) if curve.xs else ())
        grouped["Success"].append(replace(panel, estimates=tuple(estimates), is_wide=True))
    for key in _curve_keys(learning):
        if key != "success":
            grouped.setdefault(_describe(key).group, []).append(_panel(key, learning))
    grouped[COLD_START] = [_panel(key, cold_start) for key in _curve_keys(cold_start)]
    return [PanelGroup(title=title, panels=tuple(panels)) for title, panels in grouped.items() if panels]


def laid_beside(groups_by_run: Mapping[str, Sequence[PanelGroup]]) -> list[PanelGroup]:
    """Returns the curves of two runs in the same panels by title, followed by those that only the second run logged."""
    placed: dict[str, dict[str, dict[str, Panel]]] = {}
    for run, groups in groups_by_run.items():
        for group in groups:
            for panel in group.panels:
                placed.setdefault(group.title, {}).setdefault(panel.title, {})[run] = panel
    return [
        PanelGroup(title=title, panels=tuple(_joined(by_run, list(groups_by_run)) for by_run in by_title.values()))
        for title, by_title in placed.items()
    ]


def _joined(panels: Mapping[str, Panel], runs: Sequence[str]) -> Panel:
    """Returns one panel with a curve for each run, empty if the run logged nothing, and the points of all."""
    curves = {run: panel.curves[0] for run, panel in panels.items() if panel.curves}
    return replace(
        next(iter(panels.values())),
        curves=tuple(replace(curves.get(run, Curve(name="", xs=(), ys=())), name=run) for run in runs),
        estimates=tuple(
            replace(estimate, name=f"{run}: {estimate.name}")
            for run, panel in panels.items()
            for estimate in panel.estimates
        ),
    )


def _estimates(evaluations: Sequence[Record]) -> list[Estimates]:
    """Returns one series for each evaluated world and split."""
    series: dict[tuple[str, str], list[tuple[float, float, float, float]]] = {}
    num_worlds = len({world_of(line) for line in evaluations})
    for line in evaluations:
        num_episodes, num_successes = line.get("num_episodes"), line.get("num_successes")
        if num_episodes and num_successes is not None:
            # Of the policy that played, which may be an earlier one
            iteration = float(line.get("policy_iteration", line.get("iteration")) or 0)
            points = series.setdefault((world_of(line), levels_of(line)), [])
            points.append((iteration, num_successes / num_episodes, *interval_of(line)))
    found = []
    for (world, levels), points in series.items():
        xs, ys, lows, highs = zip(*sorted(points), strict=True)
        found.append(
            Estimates(name=levels if num_worlds == 1 else f"{world}, {levels}", xs=xs, ys=ys, lows=lows, highs=highs)
        )
    return found


def _curve_keys(lines: Iterable[Record]) -> list[str]:
    """Returns the metrics that are numbers: known ones in their order, then the others in order of first occurrence."""
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
    name, _, rest = key.partition("/")
    if name == "success":  # for a world of a mix, whose id contains slashes
        return _Known("Success", rest, "share of training episodes", "rate")
    if name in _OF_EACH_WORLD and rest:
        return _KNOWN[name]._replace(title=f"{_KNOWN[name].title}: {rest}")
    if name == "score" and "/" in rest:
        section, _, world = rest.partition("/")
        group, hint = _TABLE["prefixes"][name]
        return _Known(group, f"{section.capitalize()}: {world}", hint, "rate")
    prefix, slash, last = key.rpartition("/")
    own_group = prefix.replace("_", " ").capitalize() if slash else "Other"
    group, hint = _TABLE["prefixes"].get(prefix, (own_group, ""))
    if last.endswith("_s") and not last.endswith("_per_s"):
        last, hint = last.removesuffix("_s"), "seconds"
    return _Known(group, last.replace("_", " ").capitalize(), hint, "rate" if prefix == "score" else "number")


def _panel(key: str, lines: Sequence[Record]) -> Panel:
    _, title, hint, scale = _describe(key)
    return Panel(title=title, hint=hint, scale=scale, curves=(_curve(key, title, lines),))


def _curve(key: str, name: str, lines: Sequence[Record]) -> Curve:
    points = [
        (float(line.get("iteration", index)), _number(line[key])) for index, line in enumerate(lines) if key in line
    ]
    points.sort(key=lambda point: point[0])
    return Curve(name=name, xs=tuple(x for x, _ in points), ys=tuple(y for _, y in points))


def _number(value: object) -> float | None:
    return float(value) if isinstance(value, (bool, int, float)) else None


SMOOTH_FROM_NUM_POINTS = 40
"""Shorter curves are drawn without smoothing."""


def smooth(ys: Sequence[float | None]) -> list[float | None]:
    """Returns the mean of each value and its neighbors, over a window of a twentieth of the curve.

    The window is centered, so the smoothed curve does not lag; at both ends the window is cut in half, not
    the curve. Missing values stay missing and are ignored in means.
    """
    reach = max(1, len(ys) // 40)
    windows = [[y for y in ys[max(0, i - reach) : i + reach + 1] if y is not None] for i in range(len(ys))]
    return [None if y is None else sum(window) / len(window) for y, window in zip(ys, windows, strict=True)]


def shared_x_range(groups: Sequence[PanelGroup], group: PanelGroup) -> tuple[float, float]:
    """Returns the first and last iteration of all groups that share an axis with one, at least 1 apart.

    The cold start counts its own steps; all others share the iterations of learning.
    """
    sharing = [other for other in groups if (other.title == COLD_START) == (group.title == COLD_START)]
    panels = [panel for other in sharing for panel in other.panels]
    xs = [x for panel in panels for curve in panel.curves for x in curve.xs]
    xs += [x for panel in panels for estimates in panel.estimates for x in estimates.xs]
    xs = xs or [0.0]
    return min(xs), max(max(xs), min(xs) + 1)


def y_range(panel: Panel) -> tuple[float, float]:
    """Returns the range of a panel's values: 0 to 1 for rates, else their range with some margin."""
    if panel.scale == "rate":
        return 0.0, 1.0
    ys = [y for curve in panel.curves for y in curve.ys if y is not None] or [0.0]
    low, high = min(ys), max(ys)
    air = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    # An axis that starts a little below 0 suggests impossible values
    return (0.0 if 0 <= low <= 3 * air else low - air), high + air


def short(value: float, scale: Scale = "number") -> str:
    """Returns a value as text with about three digits, in percent for rates, with a true minus sign."""
    if scale == "rate":
        text = f"{100 * value:.1f}".removesuffix(".0") + "%"
    elif value == 0:
        text = "0"
    elif math.isinf(value):
        text = "∞" if value > 0 else "-∞"
    elif abs(value) >= 100_000 or abs(value) < 0.001:
        mantissa, exponent = f"{value:.1e}".split("e")
        text = f"{mantissa.removesuffix('.0')}e{int(exponent)}"
    else:
        digits = max(0, 2 - math.floor(math.log10(abs(value))))
        text = f"{value:,.{digits}f}"
        text = text.rstrip("0").rstrip(".") if "." in text else text
    return text.replace("-", "−")
