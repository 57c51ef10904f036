"""What the ablations came to, as a page: a table for each claim, and in words whether it shows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from benchmarks.ablations.ablation import Ablation, Arm
from benchmarks.ablations.outcome import Outcome, Outcomes
from benchmarks.markdown import of_rows
from vlm_envs.statistics.bootstrap import PairedDifference, paired_seeds_bootstrap, seeds_interval

MARGIN = 0.05
"""Share of test levels below which a gain is none that is worth a claim here."""

MAX_P_VALUE = 0.05

SHOWS, DOES_NOT_SHOW, CANNOT_BE_TOLD = "shows", "does not show", "cannot be told"
NOT_RUN, NOT_FINISHED = "not run here yet", "not finished"

Known = Sequence[tuple[Ablation, Outcomes]]

_INTRODUCTION = """\
# Do the papers' claims show in small?

```bash
make ablations                                      # two hours on two cores; goes on where it was stopped
make ablations QUICK=1                              # shows in minutes that everything runs
python -m benchmarks ablations --only ivgr vagen    # some papers alone
```

Each paper says that its method beats something. Here each is put to the test on the tiny VLM: the method beside its
rivals, from one start, on as many training episodes, with three seeds each, on held-out test levels, by which
nothing was chosen here; earlier versions of the grids' recipes had been measured on some of them. Lengths were
chosen by how long they take. What a tiny model does on generated levels is no reproduction of what the papers show of
models with billions of weights on photographs.

This page is written by the command, from the files in `docs/ablations`. Shares of test levels solved have 95 %
intervals for which seeds and levels are drawn again; so have differences, the method's less the rival's on each
level. Seeds vary reinforcement learning and how responses are drawn; the start is one for all. A claim

- **shows** if the whole interval of the difference to every rival is above 0, and p below {max_p:g};
- **does not show** if to some rival it is below {margin}: a larger gain would have been seen;
- **cannot be told** otherwise: three seeds on so many levels are too few for a gain of this size; nor where method and
  rival both solve nearly all levels or hardly any, or the start solves too little for it.

All rivals have to be beaten, so nothing is corrected for their number; nor for that of the papers, each of which is a
question of its own.
"""


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether a claim shows against one rival.

    Attributes:
        words: `shows`, `does not show`, `cannot be told`, or how much of it was run.
        gap: The method's share of solved levels less the rival's; None where no seed is finished in both.
    """

    words: str
    gap: PairedDifference | None


def page(known: Known, *, num_seeds: int, is_quick: bool = False) -> str:
    """Returns the page.

    Args:
        known: Every ablation, with what is known of it.
        num_seeds: How many each arm should have.
        is_quick: Whether its numbers mean nothing, which it then says.
    """
    told = [_INTRODUCTION.format(margin=MARGIN, max_p=MAX_P_VALUE)]
    if is_quick:
        told.append("**Made with `--quick`: it shows that everything runs, and its numbers mean nothing.**\n")
    rows, sections = [["paper", "claim", "here"], ["---"] * 3], list[str]()
    for ablation, outcomes in known:
        found = verdicts(ablation, outcomes, num_seeds)
        link = f"[{ablation.title}](#{ablation.title.lower()})"
        rows.append([link, ablation.claim, f"**{claim_verdict(found)}**"])
        sections += [*section(ablation, outcomes, found), ""]
    return "\n".join([*told, *of_rows(rows), "", *sections]).rstrip() + "\n"


def section(ablation: Ablation, outcomes: Outcomes, found: Mapping[str, Verdict]) -> list[str]:
    """Returns what is told of one paper.

    Args:
        ablation: Its claim.
        outcomes: What is known.
        found: What `verdicts` returned.
    """
    told = [f"## {ablation.title}", "", f"{ablation.claim} **{claim_verdict(found).capitalize()}.**", ""]
    told += [f"*Here:* {ablation.setting} {_test_levels(ablation)}", ""]
    if outcomes.is_empty and outcomes.start is None:
        return told[:-1]
    headings = ["", "seeds", "solved (95 %)", "each seed", *ablation.shown.values()]
    headings += [f"{ablation.arm(ablation.method).title}, less this (95 %, p)", "the claim"]
    rows = [headings, ["---"] * len(headings)]
    if outcomes.start is not None:
        rows.append(_start_row(ablation, outcomes.start))
    rows += [_row(ablation, arm, outcomes, found.get(arm.name)) for arm in ablation.arms]
    cpu_min = sum(each.cpu_s for runs in outcomes.arms.values() for each in runs.values()) / 60
    num_runs = sum(map(len, outcomes.arms.values()))
    return [*told, *of_rows(rows), "", f"{num_runs} runs, {cpu_min:.0f} minutes of one thread."]


def claim_verdict(found: Mapping[str, Verdict]) -> str:
    """Returns whether a claim shows: against every rival, or not."""
    words = {each.words for each in found.values()}
    if words in ({NOT_RUN}, {SHOWS}):
        return words.pop()
    if DOES_NOT_SHOW in words:
        return DOES_NOT_SHOW
    return CANNOT_BE_TOLD if words <= {SHOWS, CANNOT_BE_TOLD} else NOT_FINISHED


def verdicts(ablation: Ablation, outcomes: Outcomes, num_seeds: int) -> dict[str, Verdict]:
    """Returns by the name of each rival whether the claim shows against it, from the seeds that are finished in both.

    Args:
        ablation: The claim.
        outcomes: What is known.
        num_seeds: How many seeds there should be; with fewer, the words are how many there are.
    """
    return {rival.name: _verdict(ablation, outcomes, rival.name, num_seeds) for rival in ablation.rivals}


def _verdict(ablation: Ablation, outcomes: Outcomes, rival: str, num_seeds: int) -> Verdict:
    ours, theirs = outcomes.arms[ablation.method], outcomes.arms[rival]
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        return Verdict(words=NOT_RUN if outcomes.is_empty else NOT_FINISHED, gap=None)
    ours_SN, theirs_SN = (_solved([runs[seed] for seed in seeds]) for runs in (ours, theirs))
    gap = paired_seeds_bootstrap(theirs_SN, ours_SN)
    if len(seeds) < num_seeds:
        return Verdict(words=f"{len(seeds)} of {num_seeds} seeds", gap=gap)
    rates = (ours_SN.mean(), theirs_SN.mean())
    can_be_told = min(rates) <= 1 - MARGIN and max(rates) >= MARGIN
    sees = outcomes.start is not None and float(np.mean(outcomes.start.levels)) >= ablation.least_start
    return Verdict(words=_words(gap) if can_be_told and sees else CANNOT_BE_TOLD, gap=gap)


def _words(gap: PairedDifference) -> str:
    if gap.interval.low > 0 and gap.p_value < MAX_P_VALUE:
        return SHOWS
    return DOES_NOT_SHOW if gap.interval.high < MARGIN else CANNOT_BE_TOLD


def _solved(outcomes: Sequence[Outcome]) -> npt.NDArray[np.float64]:
    """Returns float[S, N]: 1 where a seed's policy solved a level."""
    return np.array([each.levels for each in outcomes], float)


def _test_levels(ablation: Ablation) -> str:
    number, worlds = ablation.num_test_levels, len(ablation.worlds)
    return f"{number} test levels." if worlds == 1 else f"{number} test levels in each of {worlds} worlds."


def _start_row(ablation: Ablation, start: Outcome) -> list[str]:
    shown = [_measure(name, [start]) for name in ablation.shown]
    return ["start", "", f"{np.mean(start.levels):.3f}", "", *shown, "", ""]


def _row(ablation: Ablation, arm: Arm, outcomes: Outcomes, found: Verdict | None) -> list[str]:
    runs = [run for _, run in sorted(outcomes.arms[arm.name].items())]
    if not runs:
        return [arm.title, "0", NOT_RUN, *[""] * (len(ablation.shown) + 3)]
    solved_SN = _solved(runs)
    low, high = seeds_interval(solved_SN)
    each = ", ".join(f"{value:.3f}" for value in solved_SN.mean(axis=1))
    row = [arm.title, str(len(runs)), f"**{solved_SN.mean():.3f}** ({low:.3f} to {high:.3f})", each]
    row += [_measure(name, runs) for name in ablation.shown]
    if found is None:  # the method's own
        return [*row, "", ""]
    return [*row, _gap(found.gap), found.words]


def _measure(name: str, runs: Sequence[Outcome]) -> str:
    values = [run.measures[name] for run in runs if name in run.measures]
    return f"{np.mean(values):.3f}" if values else ""


def _gap(gap: PairedDifference | None) -> str:
    return "" if gap is None else f"{gap}, p = {gap.p_value:.4f}"
