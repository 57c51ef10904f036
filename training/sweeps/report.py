"""What a sweep's runs came to, as tables: test success of every arm over its seeds, beside the baseline's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import numpy.typing as npt

from training.sweeps.outcomes import Outcomes
from training.sweeps.sweep import Arm, Sweep
from vlm_envs.statistics.bootstrap import paired_bootstrap, paired_seeds_bootstrap, seeds_interval

HEADINGS = ("", "seeds", "before", "solved (95 %)", "more than {baseline} (95 %, p)", "each seed", "the paper, 3B")


def lines(sweep: Sweep, outcomes: Outcomes) -> list[str]:
    """Returns the sweep's tables in Markdown, those of which at least two rows are known.

    Args:
        sweep: The sweep.
        outcomes: What is known of its arms.
    """
    told = [f"# {sweep.title}", ""]
    known: dict[str, list[str]] = {}  # most arms are in several tables, and are drawn again ten thousand times
    for table in sweep.tables:
        arms = [arm for arm in sweep.arms if table in arm.rows and arm.name in outcomes]
        if len(arms) > 1:
            known |= {arm.name: _cells(sweep, arm, outcomes) for arm in arms if arm.name not in known}
            told += [f"## {table}", "", *_table(sweep, table, arms, known), ""]
    return told


def solved(outcomes: Outcomes, arm: str, *, before: bool = False) -> dict[int, npt.NDArray[np.float64]]:
    """Returns by seed float[N], 1 where the policy of an arm solved a test level."""
    seeds = outcomes.get(arm, {})
    return {seed: np.array([*(each.before if before else each.after)], float) for seed, each in seeds.items()}


def _table(sweep: Sweep, table: str, arms: Sequence[Arm], known: Mapping[str, list[str]]) -> list[str]:
    baseline = next(arm for arm in sweep.arms if arm.name == sweep.baseline)
    headings = [each.format(baseline=baseline.rows.get(table, baseline.name)) for each in HEADINGS]
    rows = [headings, ["---"] * len(headings), *([arm.rows[table], *known[arm.name]] for arm in arms)]
    return [f"| {' | '.join(row)} |" for row in rows]


def _cells(sweep: Sweep, arm: Arm, outcomes: Outcomes) -> list[str]:
    """Returns what stands behind an arm's name in each of its tables."""
    ours = solved(outcomes, arm.name)
    of_baseline = {} if arm.name == sweep.baseline else solved(outcomes, sweep.baseline)
    solved_SN = np.array([*ours.values()])
    low, high = seeds_interval(solved_SN)
    return [
        str(len(ours)),
        f"{np.mean([*solved(outcomes, arm.name, before=True).values()]):.3f}",
        f"**{solved_SN.mean():.3f}** ({low:.3f} to {high:.3f})",
        _gap(of_baseline, ours) if of_baseline else "",
        ", ".join(f"{each:.3f}" for each in solved_SN.mean(axis=1)),
        "" if arm.paper is None else f"{arm.paper:.2f}",
    ]


def _gap(theirs: dict[int, npt.NDArray[np.float64]], ours: dict[int, npt.NDArray[np.float64]]) -> str:
    """Returns how much more an arm solves than the baseline, of seeds that both have; of levels alone with none."""
    if len({len(each) for each in (*theirs.values(), *ours.values())}) > 1:
        return "other levels"
    if seeds := sorted(theirs.keys() & ours.keys()):
        gap = paired_seeds_bootstrap([theirs[seed] for seed in seeds], [ours[seed] for seed in seeds])
    else:
        gap = paired_bootstrap(*(np.mean([*each.values()], axis=0) for each in (theirs, ours)))
    return f"{gap}, p = {gap.p_value:.4f}"
