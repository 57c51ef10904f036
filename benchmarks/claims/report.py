"""What the arms of claims came to, as a table and as a picture."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from benchmarks.claims.arm import Arm
from benchmarks.claims.claim import Claim
from benchmarks.markdown import TESTED, of_columns, of_rows, told_gaps
from benchmarks.pictures import interval_point, legend_below
from vlm_envs.statistics.bootstrap import PairedDifference, by_level, paired_seeds_bootstrap, seeds_interval
from vlm_envs.statistics.success_rates import Interval, repeated_interval
from vlm_envs.validation import require

if TYPE_CHECKING:
    from matplotlib.axes import Axes

KINDS = {
    "expert": "the expert",
    "start": "start",
    "imitation": "more imitation",
    "rl": "reinforcement learning",
}
"""What arms are called, in the order in which they are shown."""
_MARGIN = 0.03
"""What is left free above and below what a panel shows."""
_TOP = 1.02
"""Where axes end at the latest, so that a line at 1 can be seen."""
COLOURS = {"imitation": "#c0702a", "rl": "#2f6db5"}
TEST_COLOURS = {"start": "#3d3d3d", **COLOURS}
"""Of those whose success on test levels is drawn, in the order in which they stand."""


def load_arms(results: Path, name: str) -> dict[str, list[Arm]]:
    """Returns a claim's arms by kind: the expert, the start, and both others of each seed whose two are there.

    Raises:
        ConfigError: If one cannot be read, or they went on from different starts or played different levels.
    """
    found = {
        kind: {arm.seed: arm for arm in map(Arm.load, sorted(results.glob(f"{name}-*-{kind}.json")))} for kind in KINDS
    }
    seeds = sorted(found["imitation"].keys() & found["rl"].keys())
    both = {kind: [found[kind][seed] for seed in seeds] for kind in ("imitation", "rl")}
    arms = [arm for of in (*found.values(),) for arm in of.values()]
    differences: dict[str, set[Any]] = {
        "played different levels": {tuple(arm.levels) for arm in arms},
        "went on from different starts": {arm.start for arm in arms if arm.kind != "expert"},
    }
    for what, differing in differences.items():
        require(len(differing) <= 1, f"Arms of {name} in {results} {what}. Delete those that are of no use any more.")
    if not (found["expert"] and found["start"]):
        both = {"imitation": [], "rl": []}
    return {"expert": list(found["expert"].values()), "start": list(found["start"].values()), **both}


def rate_interval(arms: Sequence[Arm]) -> tuple[float, Interval]:
    """Returns the mean success on test levels, and its 95 % interval.

    Of several arms levels are drawn again, and so are seeds: both are of what there could have been. Of one arm the
    interval is Wilson's.
    """
    if len(arms) == 1:
        (arm,) = arms
        return sum(arm.solved) / len(arm.solved), repeated_interval(*by_level(arm.solved, arm.levels))
    solved_SN = np.array([arm.solved for arm in arms], float)
    return float(solved_SN.mean()), seeds_interval(solved_SN, levels=arms[0].levels)


def difference(first: Sequence[Arm], second: Sequence[Arm]) -> PairedDifference:
    """Returns how much more the second arms solve than the first, over the same seeds and levels, both drawn again."""
    return paired_seeds_bootstrap(*([arm.solved for arm in arms] for arms in (first, second)), levels=first[0].levels)


def lines(claims: Mapping[str, Claim], arms: Mapping[str, Mapping[str, Sequence[Arm]]]) -> list[str]:
    """Returns a table in Markdown, a line a claim; those without a whole seed are left out.

    P-values are corrected, by Holm's method, for how many claims the table has; intervals are not.

    Args:
        claims: By name.
        arms: By name of the claim and by kind.
    """
    names = [f"{told} (95 % CI)" for told in KINDS.values()]
    heading = ["", "seeds", *names, f"RL − imitation {TESTED}", "each seed", "CPU s, imitation and RL"]
    rows = [heading, ["---"] * len(heading)]
    shown = _shown(claims, arms)
    measured = [
        (difference(arms[name]["imitation"], arms[name]["rl"]), [rate_interval(arms[name][kind]) for kind in KINDS])
        for name in shown
    ]
    gaps = told_gaps([gap for gap, _ in measured])
    for name, gap, (_, rates) in zip(shown, gaps, measured, strict=True):
        by_kind = arms[name]
        unimproved = [_told_unimproved(by_kind[kind]) for kind in KINDS]
        pairs = zip(by_kind["imitation"], by_kind["rl"], strict=True)
        each = [np.mean(second.solved) - np.mean(first.solved) for first, second in pairs]
        rows.append([
            claims[name].title,
            str(len(by_kind["rl"])),
            *(
                f"{rate:.3f} ({low:.3f} to {high:.3f}){more}"
                for (rate, (low, high)), more in zip(rates, unimproved, strict=True)
            ),
            gap,
            ", ".join(f"{value:+.3f}" for value in each),
            " and ".join(f"{np.mean([arm.cpu_s for arm in by_kind[kind]]):.0f}" for kind in ("imitation", "rl")),
        ])  # fmt: skip
    return of_rows(rows)


def gains(claims: Mapping[str, Claim], arms: Mapping[str, Mapping[str, Sequence[Arm]]]) -> list[str]:
    """Returns a second table, of what both arms of each claim solve more than the start, and RL more than the expert.

    Start and expert are one policy each, so that seeds are drawn of what is held against them alone. Each column is a
    question of its own: its p-values are corrected, by Holm's method, for how many claims the table has.

    Args:
        claims: By name.
        arms: By name of the claim and by kind.
    """
    compared = {
        "more imitation − start": ("start", "imitation"),
        "RL − start": ("start", "rl"),
        "RL − the expert": ("expert", "rl"),
    }
    shown = _shown(claims, arms)
    gaps = [
        [difference([*arms[name][one]] * len(arms[name][of]), arms[name][of]) for one, of in compared.values()]
        for name in shown
    ]
    columns: dict[str, Sequence[str]] = {"": [claims[name].title for name in shown]}
    for place, told in enumerate(compared):
        columns[f"{told} {TESTED}"] = told_gaps([of_claim[place] for of_claim in gaps])
    return of_columns(columns)


def decoded_greedily(claims: Mapping[str, Claim], arms: Mapping[str, Mapping[str, Sequence[Arm]]]) -> list[str]:
    """Returns a third table, of what policies solve that take the most probable token; empty where nobody measured it.

    An expert that errs at random errs in less than half of its turns, so that the most probable action of who has
    imitated it may well be the right one: what reinforcement learning adds to that is another question than what it
    adds to drawing. P-values are corrected as in `lines`.

    Args:
        claims: By name.
        arms: By name of the claim and by kind.
    """
    kinds = ("start", "imitation", "rl")
    shown = [name for name in _shown(claims, arms) if all(arm.greedy for kind in kinds for arm in arms[name][kind])]
    if not shown:
        return []
    drawn = {name: arms[name]["rl"] for name in shown}
    greedy = {
        name: {kind: [replace(arm, solved=arm.greedy) for arm in arms[name][kind]] for kind in kinds} for name in shown
    }
    columns: dict[str, Sequence[str]] = {"": [claims[name].title for name in shown]}
    columns["seeds"] = [str(len(drawn[name])) for name in shown]
    for kind in kinds:
        rates = [rate_interval(greedy[name][kind]) for name in shown]
        columns[f"{KINDS[kind]}, greedy (95 % CI)"] = [
            f"{rate:.3f} ({low:.3f} to {high:.3f})" for rate, (low, high) in rates
        ]
    compared = {
        "RL − imitation, both greedy": [difference(of["imitation"], of["rl"]) for of in greedy.values()],
        "RL − start, both greedy": [difference([*of["start"]] * len(of["rl"]), of["rl"]) for of in greedy.values()],
        "RL, drawing − start, greedy": [
            difference([*greedy[name]["start"]] * len(drawn[name]), drawn[name]) for name in shown
        ],
    }
    return of_columns(columns | {f"{told} {TESTED}": told_gaps(gaps) for told, gaps in compared.items()})


def _shown(claims: Mapping[str, Claim], arms: Mapping[str, Mapping[str, Sequence[Arm]]]) -> list[str]:
    """Returns the names of the claims of which a seed is whole."""
    return [name for name in claims if arms[name]["rl"]]


def _told_unimproved(arms: Sequence[Arm]) -> str:
    """Returns in how many arms nothing was better than the start, which then played the test levels itself."""
    number = sum(arm.best is not None and arm.best.step == 0 for arm in arms if arm.kind in COLOURS)
    return f"; the start itself in {number} of {len(arms)}" if number else ""


def _needed(arms: Mapping[str, Sequence[Arm]], tested: Iterable[Interval]) -> tuple[float, float]:
    """Returns the ends of what a claim's panel must hold: its arms, their intervals, and their expert if it is near."""
    reached = [point.success for kind in COLOURS for arm in arms[kind] for point in arm.curve]
    reached += [end for interval in tested for end in interval]
    low, high = min(reached) - _MARGIN, max(reached) + _MARGIN
    near = [point.success for arm in arms["expert"] for point in arm.curve if point.success < high + 2 * _MARGIN]
    return max(low, 0.0), min(max([high, *(each + _MARGIN for each in near)]), _TOP)


def _of_one_span(needed: Sequence[tuple[float, float]]) -> list[tuple[float, float]]:
    """Returns the ends of the axes of panels: as far apart in each as the panel that needs most has them.

    What a panel needs is in the middle of its axis, or as near to it as the axis does not go on beyond all and nothing.
    """
    span = max(high - low for low, high in needed)
    lows = [min(max((low + high - span) / 2, 0.0), _TOP - span) for low, high in needed]
    return [(low, low + span) for low in lows]


def draw(claims: Mapping[str, Claim], arms: Mapping[str, Mapping[str, Sequence[Arm]]], path: Path) -> None:
    """Writes a picture with a panel a claim: validation success over CPU minutes, a thin line a seed.

    A strip at its right has what counts, since checkpoints are chosen by validation: the success of the start and of
    both arms on test levels, the mean over seeds with its 95 % interval. A dotted line is the expert's success on
    validation levels; there is none where its file keeps none, or where it is far above both arms. Each panel has an
    axis of its own, and all axes have one span, so that slopes can be compared by eye.
    """
    from matplotlib.figure import Figure  # half a second, for which a wrong option must not wait

    shown = _shown(claims, arms)
    tested = [{kind: rate_interval(arms[name][kind]) for kind in TEST_COLOURS} for name in shown]
    limits = _of_one_span([
        _needed(arms[name], [interval for _, interval in of.values()]) for name, of in zip(shown, tested, strict=True)
    ])  # fmt: skip
    columns = min(2, len(shown))
    height = -(-len(shown) // columns)
    figure = Figure(figsize=(5.6 * columns, 3.4 * height), layout="constrained")
    panels = figure.subplots(height, columns, squeeze=False).flat
    strips: list[Axes] = []
    for panel, name, rates, ends in zip(panels, shown, tested, limits, strict=False):
        for kind, colour in COLOURS.items():
            for arm in arms[name][kind]:
                x, y = [point.cpu_s / 60 for point in arm.curve], [point.success for point in arm.curve]
                panel.plot(x, y, color=colour, linewidth=1.2, alpha=0.85, label=KINDS[kind])
        for expert in arms[name]["expert"]:
            for point in expert.curve:
                panel.axhline(point.success, color="#8a8a8a", linewidth=1, linestyle=":", label=KINDS["expert"])
        panel.set_title(claims[name].title, loc="left", fontsize=10)
        panel.set(xlabel="CPU minutes from the start on", ylim=ends)
        panel.grid(alpha=0.25)
        panel.spines[["top", "right"]].set_visible(False)
        strips.append(_draw_tested(panel, rates))
    for first in figure.axes[::columns]:
        first.set_ylabel("levels solved")
    for panel in figure.axes[len(shown) :]:
        panel.remove()
    legend_below(figure, [*figure.axes, *strips], columns=3)
    figure.savefig(path, dpi=110)


def _draw_tested(panel: Axes, rates: Mapping[str, tuple[float, Interval]]) -> Axes:
    """Draws what counts into a strip at the right of a panel, on its axis, and returns it."""
    strip = panel.inset_axes((1.015, 0, 0.11, 1), sharey=panel)
    for place, (kind, (rate, interval)) in enumerate(rates.items()):
        told = f"{KINDS[kind]}, test levels (95 %)"
        interval_point(strip, place, rate, interval, colour=TEST_COLOURS[kind], label=told)
    strip.set(xlim=(-0.8, len(rates) - 0.2), facecolor="#f3f3f3")
    strip.set_xticks([(len(rates) - 1) / 2], ["test"])
    strip.tick_params(left=False, labelleft=False, bottom=False)
    strip.grid(alpha=0.25, axis="y")
    strip.spines[:].set_visible(False)
    return strip
