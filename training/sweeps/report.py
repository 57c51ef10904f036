"""What a sweep's runs came to, as tables: test success of every arm over its seeds, beside the baseline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np
import numpy.typing as npt

from training.sweeps.runner import arm_directory, is_finished
from training.sweeps.sweep import Arm, Sweep
from vlm_envs.records.comparisons import paired_bootstrap, seeds_interval
from vlm_envs.records.run_data import RunReader

HEADINGS = ("", "seeds", "before", "solved (95 %)", "more than {baseline} (95 %, p)", "each seed", "the paper, 3B")

Solved = Mapping[str, npt.NDArray[np.float64]]
"""By name of an arm: float[S, N], 1 where a seed's policy solved a test level."""


def solved_by_arms(sweep: Sweep, folder: Path, *, label: str = "after") -> dict[str, npt.NDArray[np.float64]]:
    """Returns which test levels the finished runs of each arm solved; arms without any are left out.

    Args:
        sweep: The sweep.
        folder: Where its runs are.
        label: Which evaluation.
    """
    found = {}
    for arm in sweep.arms:
        seeds = [seed for seed in _seeds(folder, arm) if is_finished(arm_directory(folder, arm, seed))]
        if seeds:
            found[arm.name] = np.array([_solved(arm_directory(folder, arm, seed), label) for seed in seeds])
    return found


def _seeds(folder: Path, arm: Arm) -> list[int]:
    ends = (path.name.removeprefix(f"{arm.name}-") for path in folder.glob(f"{arm.name}-*"))
    return sorted(int(end) for end in ends if end.isdecimal())


def _solved(directory: Path, label: str) -> list[float]:
    episodes = sorted(RunReader(directory).trajectories(label), key=lambda each: (each["world"], each["seed"]))
    return [float(each["success"]) for each in episodes]


def lines(sweep: Sweep, after: Solved, before: Solved) -> list[str]:
    """Returns the sweep's tables in Markdown, those of which at least two rows are known.

    Args:
        sweep: The sweep.
        after: What trained policies solved.
        before: What they had solved when they started.
    """
    told = [f"# {sweep.title}", ""]
    for table in sweep.tables:
        arms = [arm for arm in sweep.arms if table in arm.rows and arm.name in after]
        if len(arms) > 1:
            told += [f"## {table}", "", *_table(sweep, table, arms, after, before), ""]
    return told


def _table(sweep: Sweep, table: str, arms: Sequence[Arm], after: Solved, before: Solved) -> list[str]:
    baseline = next(arm for arm in sweep.arms if arm.name == sweep.baseline)
    headings = [each.format(baseline=baseline.rows.get(table, baseline.name)) for each in HEADINGS]
    rows = [headings, ["---"] * len(headings)]
    rows += [_row(arm, table, after, before, after.get(sweep.baseline), arm is baseline) for arm in arms]
    return [f"| {' | '.join(row)} |" for row in rows]


def _row(
    arm: Arm,
    table: str,
    after: Solved,
    before: Solved,
    of_baseline: npt.NDArray[np.float64] | None,
    is_baseline: bool,
) -> list[str]:
    solved_SN = after[arm.name]
    low, high = seeds_interval(solved_SN)
    return [
        arm.rows[table],
        str(len(solved_SN)),
        f"{before[arm.name].mean():.3f}",
        f"**{solved_SN.mean():.3f}** ({low:.3f} to {high:.3f})",
        "" if is_baseline or of_baseline is None else _gap(of_baseline, solved_SN),
        ", ".join(f"{each:.3f}" for each in solved_SN.mean(axis=1)),
        "" if arm.paper is None else f"{arm.paper:.2f}",
    ]


def _gap(first_SN: npt.NDArray[np.float64], second_SN: npt.NDArray[np.float64]) -> str:
    """Returns how much more the second solves, level by level, each a mean over its seeds."""
    if first_SN.shape[1] != second_SN.shape[1]:
        return "other levels"
    gap = paired_bootstrap(first_SN.mean(axis=0), second_SN.mean(axis=0))
    return f"{gap.mean:+.3f} ({gap.interval.low:+.3f} to {gap.interval.high:+.3f}), p = {gap.p_value:.4f}"
