"""What `python -m benchmarks ablations` does and prints."""

from __future__ import annotations

import os
from concurrent.futures import ProcessPoolExecutor
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

from training.sweeps.waiting import spawned_pool, wait_for
from vlm_envs.validation import require_at_least, require_choice

if TYPE_CHECKING:
    from benchmarks.ablations.runner import Runner

NUM_SEEDS = 3
"""Of each arm; with fewer no claim is told."""
QUICK = "quick"
"""The folder of a quick call's runs and results, beside which those that count are not touched."""


@dataclass(frozen=True, kw_only=True)
class AblationsOptions:
    """Put each paper's central claim to the test in small: its method beside rivals, from one start, on test levels.

    What is there is not run again, and what was interrupted goes on: the same command, given again, comes to the same
    end. The page is written anew after every run.

    Attributes:
        only: These papers and no others; a wrong name lists all.
        seeds: How many seeds, from 1 on; 0 only writes the page.
        num_at_once: Runs at the same time, each on one thread.
        quick: Whether everything is cut to what shows that it runs. Its numbers mean nothing, and go to a folder of
            their own in `runs`.
        runs: Where models and logs go.
        results: Where results are, a file for each arm and seed.
        page: The page that is written of them.
    """

    only: tuple[str, ...] = ()
    seeds: int = NUM_SEEDS
    num_at_once: int = 2
    quick: bool = False
    runs: Path = Path("runs/ablations")
    results: Path = Path("docs/ablations")
    page: Path = Path("docs/research/ablations.md")

    def __post_init__(self) -> None:
        require_at_least(self, 0, "seeds")
        require_at_least(self, 1, "num_at_once")

    @property
    def placed(self) -> AblationsOptions:
        """These options, those of a quick call in a folder of their own and with one seed."""
        if not self.quick:
            return self
        runs = self.runs / QUICK
        return replace(self, seeds=min(1, self.seeds), runs=runs, results=runs / "results", page=runs / "results.md")


def run_ablations(options: AblationsOptions) -> None:
    """Runs what is not there of the papers' arms, several at a time, and writes the page.

    Raises:
        ConfigError: If there is no paper of a name, a result cannot be read, or a run was begun with other settings.
        TrainingStoppedError: As a run does; those beside it are ended, and the next call goes on with all of them.
    """
    # Imported here, because other benchmarks must not need torch
    from benchmarks.ablations.papers import ABLATIONS

    for name in options.only:
        require_choice("--only", name, ABLATIONS)
    options = options.placed
    names = [name for name in ABLATIONS if not options.only or name in options.only]
    if options.seeds:
        _write_page(options)  # Which complains of results that cannot be read before anything is run
        os.environ["OMP_NUM_THREADS"] = "1"  # inherited; torch reads it once, when a process starts
        with spawned_pool(options.num_at_once) as pool:
            for name in names:
                _run_paper(name, options, pool)
    print(f"Page: {_write_page(options)}")


def _run_paper(name: str, options: AblationsOptions, pool: ProcessPoolExecutor) -> None:
    runner, write_page = _runner(name, options), partial(_write_page, options)
    if not runner.is_prepared:
        wait_for([pool.submit(_prepare, name, options)], write_page)
    wait_for(
        [
            pool.submit(_run, name, arm.name, seed, options)
            for seed in range(1, options.seeds + 1)
            for arm in runner.ablation.arms
            if not runner.is_done(arm.name, seed)
        ],
        write_page,
    )


def _write_page(options: AblationsOptions) -> Path:
    """Writes what is known of all papers down, and returns where."""
    from benchmarks.ablations.outcome import load_outcomes
    from benchmarks.ablations.papers import ABLATIONS
    from benchmarks.ablations.report import page
    from vlm_envs.records.json_lines import replace_file

    num_seeds = 1 if options.quick else max(NUM_SEEDS, options.seeds)
    ablations = [_runner(name, options).ablation for name in ABLATIONS]
    known = [(each, load_outcomes(options.results, each, num_seeds)) for each in ablations]
    options.page.parent.mkdir(parents=True, exist_ok=True)
    replace_file(options.page, page(known, num_seeds=num_seeds, is_quick=options.quick).encode())
    return options.page


def _runner(name: str, options: AblationsOptions) -> Runner:
    from benchmarks.ablations.papers import ABLATIONS
    from benchmarks.ablations.runner import Runner

    ablation = ABLATIONS[name]()
    return Runner(ablation=ablation.quick() if options.quick else ablation, runs=options.runs, results=options.results)


def _prepare(name: str, options: AblationsOptions) -> str:
    return _runner(name, options).prepare()


def _run(name: str, arm: str, seed: int, options: AblationsOptions) -> str:
    return _runner(name, options).run(arm, seed)
