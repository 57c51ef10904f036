"""What a report shows of a run's numbers: the headline with success before and after, and curves sorted into panels.

Everything a run logs is shown. Known metrics get a title and a place; unknown ones a panel of their own, grouped by the
text before the slash.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Literal

from vlm_envs.records.json_lines import MissingRunDataError, Record
from vlm_envs.records.run_data import PHASES, RunReader, episode_keys, levels_of, world_of
from vlm_envs.statistics.paired_tests import PairedOutcomes, pair_outcomes
from vlm_envs.statistics.success_rates import Interval, cluster_of, counted_episodes, num_levels_of, wilson_interval


@dataclass(frozen=True, kw_only=True)
class Rate:
    """A success rate.

    Attributes:
        label: The evaluation's label.
        num_successes: Episodes solved.
        num_episodes: Episodes played.
        num_levels: Distinct levels of these episodes.
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
        env_id: The world, as its mix calls it.
        levels: What it was evaluated on, such as `"held-out test levels"`.
        rates: The first and the last evaluation, or the only one.
        paired: Outcomes of the recorded episodes that were played both times; None if there are none.
        num_paired_levels: Distinct levels of these episodes.
        chosen: Which policy the last evaluation is of, where it was chosen on validation levels; else empty.
    """

    env_id: str
    levels: str
    rates: tuple[Rate, ...]
    paired: PairedOutcomes | None
    num_paired_levels: int = 0
    chosen: str = ""

    @property
    def played_on(self) -> str:
        """Number of episodes or levels of the last evaluation, and what they are called."""
        return counted_episodes(self.rates[-1].num_episodes, self.rates[-1].num_levels, self.levels)

    @property
    def paired_on(self) -> str:
        """Number of recorded episodes or levels that were played both times."""
        num_pairs = 0 if self.paired is None else self.paired.num_pairs
        return counted_episodes(num_pairs, self.num_paired_levels, "recorded levels")


def comparisons(reader: RunReader) -> list[Comparison]:
    """Compares the first and last evaluation of each world, on the split the whole run was judged by.

    `"before"` and `"after"` are the labels compared where they exist, because evaluations in between may be on other
    levels.
    """
    by_world: dict[str, list[Record]] = {}
    for line in reader.evaluations():
        if line.get("num_episodes"):
            by_world.setdefault(world_of(line), []).append(line)
    return [_compare(reader, env_id, lines) for env_id, lines in by_world.items()]


def compare_runs(readers: Mapping[str, RunReader]) -> list[Comparison]:
    """Compares the last evaluation of two runs by name, world by world, where both were evaluated on the same split."""
    (first, first_reader), (second, second_reader) = readers.items()
    lines = {name: _last_lines(reader) for name, reader in readers.items()}
    compared = []
    for key in [key for key in lines[first] if key in lines[second]]:
        ends = (lines[first][key], lines[second][key])
        episodes = [
            _episodes(reader, str(line.get("label")), key[0])
            for reader, line in zip((first_reader, second_reader), ends, strict=True)
        ]
        rates = tuple(_rate({**line, "label": name}) for name, line in zip(readers, ends, strict=True))
        compared.append(Comparison(env_id=key[0], levels=key[1], rates=rates, **_paired(*episodes)))
    return compared


def _last_lines(reader: RunReader) -> dict[tuple[str, str], Record]:
    """Returns the last evaluation of each world and kind of levels."""
    return {(world_of(line), levels_of(line)): line for line in reader.evaluations() if line.get("num_episodes")}


def _compare(reader: RunReader, env_id: str, lines: Sequence[Record]) -> Comparison:
    before = next((line for line in lines if line.get("label") == "before"), lines[0])
    same_split = [line for line in lines if line.get("split") == before.get("split")]
    after = next((line for line in reversed(same_split) if line.get("label") == "after"), same_split[-1])
    ends = [before] if after is before else [before, after]
    episodes = [_episodes(reader, str(line.get("label")), env_id) for line in ends] if len(ends) == 2 else [{}, {}]
    return Comparison(
        env_id=env_id,
        levels=levels_of(before),
        rates=tuple(map(_rate, ends)),
        **_paired(*episodes),
        chosen=_chosen(ends[-1]),
    )


def _chosen(line: Record) -> str:
    """Returns which policy played, where it was the best on validation levels; empty where it was the last one."""
    iteration, success = line.get("policy_iteration"), line.get("validation_success")
    if iteration is None or success is None:
        return ""
    return f"the policy of iteration {iteration}, which solved most validation levels ({success:.1%}): best/model"


def _rate(line: Record) -> Rate:
    num_successes, num_episodes = int(line.get("num_successes") or 0), int(line["num_episodes"])
    return Rate(
        label=str(line.get("label", "evaluation")),
        num_successes=num_successes,
        num_episodes=num_episodes,
        num_levels=int(line.get("num_levels") or num_episodes),
        interval=interval_of(line),
    )


def interval_of(line: Record) -> Interval:
    """Returns the interval of an evaluation's success rate; Wilson's if its levels were not counted."""
    low, high = line.get("success_low"), line.get("success_high")
    if not line.get("num_levels") or low is None or high is None:
        return wilson_interval(int(line.get("num_successes") or 0), int(line["num_episodes"]))
    return Interval(low, high)


def _paired(first: Mapping[Hashable, Record], last: Mapping[Hashable, Record]) -> dict[str, Any]:
    """Returns the fields of a comparison that need the episodes played both times."""
    clusters = {key: cluster_of(first[key], last[key]) for key in first if key in last}
    if not clusters:
        return {"paired": None}
    before, after = ({key: bool(episodes[key]["success"]) for key in clusters} for episodes in (first, last))
    return {
        "paired": pair_outcomes(before, after, clusters),
        "num_paired_levels": num_levels_of(first[key] for key in clusters),
    }


def _episodes(reader: RunReader, label: str, env_id: str) -> dict[Hashable, Record]:
    try:
        episodes = reader.trajectories(label)
    except MissingRunDataError:
        return {}
    keys = episode_keys(episodes)
    return {key: episode for key, episode in zip(keys, episodes, strict=True) if world_of(episode) == env_id}


def find(config: Any, *names: str) -> Any:
    """Returns the value of the first key that is there, the shallowest; None if there is none."""
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
    """Says in plain words what was trained, in which worlds, and how long it took."""
    model = find(config, "model")
    who = str(model).rstrip("/").split("/")[-1] if model else "A small vision-language model built from scratch"
    names = [_spoken(env_id, _adapted(config)) for env_id in env_ids]
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


def _adapted(config: Record) -> dict[str, str]:
    """Returns the names of a run's adapted worlds by their ids."""
    worlds = find(config, "worlds")
    records = [each for each in worlds if isinstance(each, Mapping)] if isinstance(worlds, list) else []
    found = ((each.get("env_id"), find(each.get("adapted"), "name")) for each in records)
    return {str(env_id): str(name) for env_id, name in found if env_id and name}


def _spoken(world: str, adapted: Mapping[str, str]) -> str:
    """Returns a world's name without namespace and version: `"FrozenLake (size=8)"`.

    Args:
        world: As the mix calls it.
        adapted: Id to name of adapted worlds.
    """
    for env_id, name in adapted.items():
        if world == env_id or world.startswith((f"{env_id} (", f"{env_id} #")):
            world = name + world.removeprefix(env_id)
    env_id, opening, rest = world.partition(" (")
    return env_id.split("/")[-1].rsplit("-v", 1)[0] + opening + rest


def wall_time_s(metrics: Sequence[Record]) -> float:
    """Returns the time a run took, in seconds.

    `elapsed_s` may start again at 0 with each phase or resumption; the stretches are added up.
    """
    total_s = previous_s = 0.0
    for line in metrics:
        elapsed_s = float(line.get("elapsed_s") or 0.0)
        if elapsed_s < previous_s:
            total_s += previous_s
        previous_s = elapsed_s
    return total_s + previous_s


def written_time(time_s: float) -> str:
    """Writes a duration in its two largest units: `"1 h 5 min"`, `"12 min 5 s"`, `"48 s"`."""
    minutes, seconds = divmod(round(time_s), 60)
    hours, minutes = divmod(minutes, 60)
    if hours:
        return f"{hours} h {minutes} min"
    return f"{minutes} min {seconds} s" if minutes else f"{seconds} s"


def written_p(p_value: float) -> str:
    """Writes a p-value: `"p < 0.001"` or `"p = 0.021"`."""
    return "p < 0.001" if p_value < 0.001 else f"p = {p_value:.3f}"


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


SMOOTH_FROM_NUM_POINTS = 40
"""Shorter curves are drawn as they are."""


def smooth(ys: Sequence[float | None]) -> list[float | None]:
    """Returns the mean of each value and those around it, over a window of a twentieth of the curve.

    The window is centred, so the smoothed curve does not lag; at both ends it is cut in half, not the curve.
    Missing values stay missing and count for nothing.
    """
    reach = max(1, len(ys) // 40)
    result: list[float | None] = []
    for index, here in enumerate(ys):
        window = [y for y in ys[max(0, index - reach) : index + reach + 1] if y is not None]
        result.append(None if here is None else sum(window) / len(window))
    return result


def shared_x_range(groups: Sequence[PanelGroup], group: PanelGroup) -> tuple[float, float]:
    """Returns the first and last iteration of every group on the same axis as one, at least 1 apart.

    The cold start counts its own steps; all others share the iterations of learning.
    """
    sharing = [each for each in groups if (each.title == COLD_START) == (group.title == COLD_START)]
    panels = [panel for each in sharing for panel in each.panels]
    xs = [x for panel in panels for curve in panel.curves for x in curve.xs]
    xs += [x for panel in panels for measured in panel.estimates for x in measured.xs]
    xs = xs or [0.0]
    return min(xs), max(max(xs), min(xs) + 1)


def y_range(panel: Panel) -> tuple[float, float]:
    """Returns the range of a panel's values: 0 to 1 for rates, else theirs with some air."""
    if panel.scale == "rate":
        return 0.0, 1.0
    ys = [y for curve in panel.curves for y in curve.ys if y is not None] or [0.0]
    low, high = min(ys), max(ys)
    air = 0.08 * (high - low) or 0.5 * abs(high) or 0.5
    # An axis that starts a little below 0 suggests values that cannot be
    return (0.0 if 0 <= low <= 3 * air else low - air), high + air


def short(value: float, scale: Scale = "number") -> str:
    """Writes a value with about three digits, in percent for rates, with a true minus sign."""
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
