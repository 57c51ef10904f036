"""Tables of experiments in Markdown: recipes compared with their baselines, and papers' claims with verdicts."""

from __future__ import annotations

import itertools
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
from rich import box
from rich.console import Console
from rich.markdown import Markdown
from rich.table import Table

from benchmarks.experiments.experiment import START, Claim, Experiment
from benchmarks.experiments.records import Record, WorldRecord
from vlm_envs.errors import ConfigError
from vlm_envs.statistics.bootstrap import (
    PairedDifference,
    by_level,
    paired_bootstrap,
    paired_seeds_bootstrap,
    seeds_interval,
)
from vlm_envs.statistics.paired_tests import holm, sign_flip_test
from vlm_envs.statistics.success_rates import Interval, repeated_interval
from vlm_envs.validation import require

MARGIN = 0.05
"""Minimum gain, as a share of test levels, that supports a claim."""
MAX_P_VALUE = 0.05
SHOWS, DOES_NOT_SHOW, CANNOT_BE_TOLD = "shows", "does not show", "cannot be told"
NOT_RUN, NOT_FINISHED = "not run here yet", "not finished"

EXPERT = "its expert"
BLANK = "blank images"
GREEDY = "decoded greedily: start, trained"
TOOL_USED = "tool used: start, trained"
_OPTIONAL = (EXPERT, BLANK, GREEDY, TOOL_USED)
_TESTED = "(95 % CI, p by Holm's method)"


def experiment_tables(experiment: Experiment, records: Sequence[Record]) -> list[list[str]]:
    """Returns the tables of an experiment's records, each as lines of Markdown.

    Raises:
        ConfigError: If there is nothing to show, or the records cannot be compared.
    """
    if experiment.claim is not None:
        return [claim_section(experiment, records)]
    require(experiment.has_baselines, f"{experiment.name} records only learning curves. Draw them: --figure FOLDER.")
    tables = [results_table(records), expert_table(records), greedy_table(records), summary_table(records)]
    return [table for table in tables if table]


def print_tables(tables: Sequence[Sequence[str]], console: Console) -> None:
    """Prints tables fitted to the terminal, or as plain Markdown if the output is not a terminal.

    Cells wrap between words. Columns at the end are dropped until the rest fits; a last line names them.
    """
    lines = "\n\n".join(map("\n".join, tables)).splitlines()
    if not console.is_terminal:
        console.out(*lines, sep="\n", highlight=False)
        return
    for is_table, part in itertools.groupby(lines, key=lambda line: line.startswith("|")):
        if is_table:
            _print_rows([_plain_cells(line) for line in part], console)
        else:
            console.print(Markdown("\n".join(part)))


def _plain_cells(row: str) -> list[str]:
    """Returns the cells of a Markdown row without markup and links."""
    return [re.sub(r"\[(.+?)\]\(.+?\)|[`*]", r"\1", cell).strip() for cell in row.strip("|").split("|")]


def _print_rows(rows: Sequence[Sequence[str]], console: Console) -> None:
    headings, _, *cells = rows
    columns = zip(headings, *cells, strict=True)
    longest_words = [max(len(word) for cell in column for word in cell.split(" ")) for column in columns]
    num_shown = len(headings)
    while num_shown > 2 and sum(longest_words[:num_shown]) + 2 * num_shown > console.width:
        num_shown -= 1
    table = Table(box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0), show_edge=False, pad_edge=False)
    for heading, min_width in zip(headings[:num_shown], longest_words, strict=False):
        table.add_column(heading, min_width=min_width)
    for row in cells:
        table.add_row(*row[:num_shown])
    console.print(table)
    if hidden := headings[num_shown:]:
        console.print(f"Wider terminals also show: {'; '.join(hidden)}.")
    console.print()


def by_variant(records: Sequence[Record]) -> list[list[Record]]:
    """Groups records into the seeds of each variant; differently trained or tested records are separate groups.

    Raises:
        ConfigError: If two records of a group have the same seed.
    """
    found: dict[tuple[object, ...], list[Record]] = {}
    for record in records:
        trained = (record.variant, record.setup or id(record), record.num_iterations, record.num_episodes)
        played = [(world.measure, world.levels, world.kwargs) for world in record.worlds]
        alike = found.setdefault((*trained, record.temperature, json.dumps(played, sort_keys=True)), [])
        if any(other.seed == record.seed for other in alike):
            raise ConfigError(f"Two records of {record.variant} have seed {record.seed}. Delete one of them.")
        alike.append(record)
    return list(found.values())


def results_table(records: Sequence[Record]) -> list[str]:
    """Returns a row per variant: its policies on test levels, with starts, baselines, and experts.

    With several seeds, intervals and p-values account for seeds and levels; with one seed, for levels only.
    """
    variants = by_variant(records)
    rows = [_results_row(title, seeds) for title, seeds in zip(variant_titles(variants), variants, strict=True)]
    shown = [name for name in rows[0] if name not in _OPTIONAL or any(row[name] for row in rows)]
    return _of_columns({name: [row[name] for row in rows] for name in shown})


def expert_table(records: Sequence[Record]) -> list[str]:
    """Returns trained policies and the fallible experts that their starts imitated; empty if there are none."""
    variants = [
        seeds for seeds in by_variant(records) if all(min(record.worlds[0].expert or [1.0]) < 1.0 for record in seeds)
    ]
    return _comparison(
        variants, {EXPERT: "expert", "trained": "after"}, {f"trained − its expert {_TESTED}": ("expert", "after")}
    )


def greedy_table(records: Sequence[Record]) -> list[str]:
    """Returns trained policies and their greedily decoded starts; empty if no start was decoded greedily."""
    variants = [seeds for seeds in by_variant(records) if all(record.worlds[0].greedy_before for record in seeds)]
    gains = {
        f"trained − start, greedy {_TESTED}": ("greedy_before", "after"),
        f"both greedy {_TESTED}": ("greedy_before", "greedy_after"),
    }
    return _comparison(variants, {"start": "before", "start, greedy": "greedy_before", "trained": "after"}, gains)


def _comparison(
    variants: Sequence[Sequence[Record]], means: Mapping[str, str], gains: Mapping[str, tuple[str, str]]
) -> list[str]:
    """Returns a table of means and gains by column heading; empty without variants."""
    if not variants:
        return []
    worlds = [_first_worlds(seeds) for seeds in variants]
    columns = {"recipe": variant_titles(variants)}
    columns |= {heading: [_mean(seed_worlds, name) for seed_worlds in worlds] for heading, name in means.items()}
    for heading, (base, name) in gains.items():
        if any(cells := _gains(worlds, base, name)):
            columns[heading] = cells
    return _of_columns(columns)


def summary_table(records: Sequence[Record]) -> list[str]:
    """Returns the README's table for recipes named `<name>_tiny`: a row per world with means in percent."""
    variants = [_first_worlds(seeds) for seeds in by_variant(records) if seeds[0].variant.endswith("_tiny")]
    of_worlds = sorted(variants, key=lambda worlds: worlds[0].world)
    columns = {"world": [_short_name(worlds[0]) for worlds in of_worlds]}
    for name, heading in (("before", "start"), ("after", "trained"), ("lazy", "best blind script found by a search")):
        columns[heading] = [f"{np.mean([getattr(world, name) for world in worlds]):.0%}" for worlds in of_worlds]
    return _of_columns(columns)


def variant_titles(variants: Sequence[Sequence[Record]]) -> list[str]:
    """Returns a title for each variant, with its temperature if not 1 and, to distinguish variants, its length."""
    names, titles = [seeds[0].variant for seeds in variants], []
    for name, (record, *_) in zip(names, variants, strict=True):
        title = f"`{name}`" if record.temperature == 1.0 else f"`{name}`, temperature {record.temperature:g}"
        titles.append(title if names.count(name) == 1 else f"{title}, {record.num_iterations} iterations")
    return titles


def seeds_rate_interval(worlds: Sequence[WorldRecord], name: str = "after") -> Interval:
    """Returns the 95% interval of a mean over seeds and levels; Wilson's interval for one seed's successes."""
    outcomes_SN = [getattr(world, name) for world in worlds]
    if len(worlds) == 1 and worlds[0].measure == "success":
        return repeated_interval(*by_level(outcomes_SN[0], worlds[0].levels))
    return seeds_interval(outcomes_SN, levels=worlds[0].levels)


def gain_p_value(worlds: Sequence[WorldRecord]) -> float:
    """Returns the two-sided p-value of no change by training; from a sign-flip test for one seed's successes."""
    levels = worlds[0].levels
    before, after = ([getattr(world, name) for world in worlds] for name in ("before", "after"))
    if len(worlds) > 1:
        return paired_seeds_bootstrap(before, after, levels=levels).p_value
    if worlds[0].measure != "success":
        return paired_bootstrap(before[0], after[0], levels=levels).p_value
    changes, _ = by_level(np.subtract(after[0], before[0]), levels)
    return sign_flip_test(changes.astype(int).tolist())


def _results_row(title: str, seeds: Sequence[Record]) -> dict[str, str]:
    worlds = _first_worlds(seeds)
    world, (low, high), p = worlds[0], seeds_rate_interval(worlds), gain_p_value(worlds)
    return {
        "recipe": title if world.measure == "success" else f"{title}, {world.measure}",
        "blind script": _mean(worlds, "lazy"),
        "start": _mean(worlds, "before"),
        "trained (95 %)": f"**{_mean(worlds, 'after')}** ({low:.3f} to {high:.3f})",
        "p": "< 0.0001" if p < 1e-4 else f"{p:.4f}",
        EXPERT: _mean(worlds, "expert"),
        GREEDY: _pair(worlds, "greedy"),
        "true state given: start, trained": _pair(worlds, "told"),
        BLANK: _mean(worlds, "blind"),
        TOOL_USED: _pair(worlds, "looked"),
        "minutes": f"{np.median([record.minutes for record in seeds]):.0f}",
        "world": world.world,
        "seeds × levels": f"{len(worlds)} × {len(world.levels)}",
    }


def _first_worlds(seeds: Sequence[Record]) -> list[WorldRecord]:
    return [record.worlds[0] for record in seeds]


def _short_name(world: WorldRecord) -> str:
    name = world.world.rpartition("/")[2].partition("-")[0]
    return name if world.measure == "success" else f"{name} ({world.measure})"


def _mean(worlds: Sequence[WorldRecord], name: str) -> str:
    """Returns the mean over seeds and levels; empty unless measured for all seeds."""
    measured = [outcomes for world in worlds if (outcomes := getattr(world, name)) is not None]
    return f"{np.mean(measured):.3f}" if len(measured) == len(worlds) else ""


def _pair(worlds: Sequence[WorldRecord], name: str) -> str:
    means = [_mean(worlds, f"{name}_{when}") for when in ("before", "after")]
    return " → ".join(mean or "…" for mean in means) if any(means) else ""


def _gains(variants: Sequence[Sequence[WorldRecord]], base: str, name: str) -> list[str]:
    """Returns the gains over a baseline; empty for variants where it was not measured."""
    gaps: dict[int, PairedDifference] = {}
    for index, worlds in enumerate(variants):
        bases_SN, ours_SN = ([getattr(world, field) for world in worlds] for field in (base, name))
        if all(bases_SN) and all(ours_SN):
            gaps[index] = paired_seeds_bootstrap(bases_SN, ours_SN, levels=worlds[0].levels)
    corrected = holm([gap.p_value for gap in gaps.values()])
    cells = {index: f"{gap}, p = {p:.4f}" for (index, gap), p in zip(gaps.items(), corrected, strict=True)}
    return [cells.get(index, "") for index in range(len(variants))]


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """Whether the records support a claim against one baseline.

    Attributes:
        text: `shows`, `does not show`, `cannot be told`, or how much of it was run.
        gap: The method's success rate minus the baseline's; None if no seed has both.
    """

    text: str
    gap: PairedDifference | None


def claims_overview(experiments: Mapping[str, tuple[Experiment, Sequence[Record]]]) -> list[str]:
    """Returns a table with a row and a verdict for each claim."""
    rows = []
    for experiment, records in experiments.values():
        claim = claim_of(experiment)
        link = f"[{claim.title}](#{claim.title.lower()})"
        rows.append([link, claim.text, f"**{claim_verdict(claim_verdicts(experiment, records))}**"])
    return _of_rows([["paper", "claim", "here"], ["---"] * 3, *rows])


def claim_section(experiment: Experiment, records: Sequence[Record]) -> list[str]:
    """Returns a claim's heading, text, setting, and table."""
    claim, verdicts = claim_of(experiment), claim_verdicts(experiment, records)
    worlds = "" if len(claim.worlds) == 1 else f" in each of {len(claim.worlds)} worlds"
    section = [f"## {claim.title}", "", f"{claim.text} **{claim_verdict(verdicts).capitalize()}.**", ""]
    section.append(f"*Here:* {claim.setting} {claim.num_test_levels} test levels{worlds}.")
    if not records:
        return section
    method = experiment.variants[claim.method].title
    headings = ["", "seeds", "solved (95 %)", "each seed", *claim.shown.values()]
    headings += [f"{method}, less this (95 %, p)", "the claim"]
    rows = [headings, ["---"] * len(headings)]
    if start := _records_of(records, START):
        shown = [_measure(start, name) for name in claim.shown]
        rows.append(["start", "", f"{np.mean(start[0].outcomes):.3f}", "", *shown, "", ""])
    for label, variant in experiment.variants.items():
        rows.append([variant.title, *_claim_cells(claim, _records_of(records, label), verdicts.get(label))])
    runs = [record for label in experiment.variants for record in _records_of(records, label)]
    cost = f"{len(runs)} runs, {sum(run.minutes for run in runs):.0f} minutes of one thread."
    return [*section, "", *_of_rows(rows), "", cost]


def claim_verdict(verdicts: Mapping[str, Verdict]) -> str:
    """Returns the overall verdict of a claim against all baselines."""
    texts = {verdict.text for verdict in verdicts.values()}
    if texts in ({NOT_RUN}, {SHOWS}):
        return texts.pop()
    if DOES_NOT_SHOW in texts:
        return DOES_NOT_SHOW
    return CANNOT_BE_TOLD if texts <= {SHOWS, CANNOT_BE_TOLD} else NOT_FINISHED


def claim_verdicts(experiment: Experiment, records: Sequence[Record]) -> dict[str, Verdict]:
    """Returns the verdict against each baseline, based on the seeds that both have."""
    claim = claim_of(experiment)
    return {label: _verdict(experiment, records, label) for label in experiment.variants if label != claim.method}


def claim_of(experiment: Experiment) -> Claim:
    """Returns the claim that an experiment tests."""
    assert experiment.claim is not None, f"{experiment.name} tests no claim"
    return experiment.claim


def _verdict(experiment: Experiment, records: Sequence[Record], rival: str) -> Verdict:
    claim = claim_of(experiment)
    ours, theirs = ({record.seed: record for record in _records_of(records, label)} for label in (claim.method, rival))
    seeds = sorted(ours.keys() & theirs.keys())
    if not seeds:
        is_run = any(_records_of(records, label) for label in experiment.variants)
        return Verdict(text=NOT_FINISHED if is_run else NOT_RUN, gap=None)
    _require_paired([runs[seed] for runs in (ours, theirs) for seed in seeds])
    ours_SN, theirs_SN = (_outcomes([runs[seed] for seed in seeds]) for runs in (ours, theirs))
    gap = paired_seeds_bootstrap(theirs_SN, ours_SN)
    if len(seeds) < len(experiment.seeds):
        return Verdict(text=f"{len(seeds)} of {len(experiment.seeds)} seeds", gap=gap)
    rates, start = (ours_SN.mean(), theirs_SN.mean()), _records_of(records, START)
    # Rates too close to 0 or 1 cannot differ by the margin
    can_differ = min(rates) <= 1 - MARGIN and max(rates) >= MARGIN
    sees = bool(start) and float(np.mean(start[0].outcomes)) >= claim.least_start
    return Verdict(text=_verdict_text(gap) if can_differ and sees else CANNOT_BE_TOLD, gap=gap)


def _verdict_text(gap: PairedDifference) -> str:
    if gap.interval.low > 0 and gap.p_value < MAX_P_VALUE:
        return SHOWS
    return DOES_NOT_SHOW if gap.interval.high < MARGIN else CANNOT_BE_TOLD


def _claim_cells(claim: Claim, runs: Sequence[Record], verdict: Verdict | None) -> list[str]:
    if not runs:
        return ["0", NOT_RUN, *[""] * (len(claim.shown) + 3)]
    solved_SN = _outcomes(runs)
    low, high = seeds_interval(solved_SN)
    cells = [str(len(runs)), f"**{solved_SN.mean():.3f}** ({low:.3f} to {high:.3f})"]
    cells += [", ".join(f"{rate:.3f}" for rate in solved_SN.mean(axis=1))]
    cells += [_measure(runs, name) for name in claim.shown]
    if verdict is None:  # the row of the method itself
        return [*cells, "", ""]
    gap = "" if verdict.gap is None else f"{verdict.gap}, p = {verdict.gap.p_value:.4f}"
    return [*cells, gap, verdict.text]


def _records_of(records: Sequence[Record], label: str) -> list[Record]:
    return [record for record in records if record.variant == label]


def _outcomes(runs: Sequence[Record]) -> npt.NDArray[np.float64]:
    """Returns float[S, N]: 1 where a seed's policy solved a level, otherwise 0."""
    _require_paired(runs)
    return np.array([run.outcomes for run in runs], float)


def _require_paired(runs: Sequence[Record]) -> None:
    """Raises `ConfigError` if runs played different numbers of test levels."""
    first = runs[0]
    for run in runs:
        require(
            len(run.outcomes) == len(first.outcomes),
            f"The records {run.variant}-{run.seed} and {first.variant}-{first.seed} of {run.experiment} have "
            f"{len(run.outcomes)} and {len(first.outcomes)} test levels, which cannot be paired. Move one of them "
            "away to repeat its run.",
        )


def _measure(runs: Sequence[Record], name: str) -> str:
    values = [run.measures[name] for run in runs if name in run.measures]
    return f"{np.mean(values):.3f}" if values else ""


def _of_rows(rows: Sequence[Sequence[str]]) -> list[str]:
    return [f"| {' | '.join(row)} |" for row in rows]


def _of_columns(columns: Mapping[str, Sequence[str]]) -> list[str]:
    return _of_rows([*zip(*([name, "---", *cells] for name, cells in columns.items()), strict=True)])
