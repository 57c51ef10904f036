"""`python -m benchmarks experiment`: trains missing runs of an experiment, or shows its tables and figures."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.experiments.experiment import START, Experiment
from benchmarks.experiments.records import Record, load_records, record_path
from benchmarks.experiments.shipped_experiments import EXPERIMENTS, find_experiments
from training.config.resume import check_same_run, saved_settings
from training.run_options import configured, find_recipe
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunDataError
from vlm_envs.records.run_data import RunReader
from vlm_envs.validation import require, require_at_least, require_choice

EXIT_FAILED = 1
_LOGS = "logs"


@dataclass(frozen=True, kw_only=True)
class ExperimentOptions:
    """Train an experiment's variants over several seeds, or show the recorded results in tables or figures.

    Each run is a separate process of `python -m training`. Finished runs are not repeated and interrupted ones
    resume, so the same command can be repeated.

    Attributes:
        name: results (the tiny recipes with their baselines), curves (learning curves of the papers' pages),
            ablations (the claims of five papers), or one of these: vagen, argos, ivgr, mags, arm_thinker.
        variants: Only these variants; an unknown name lists all of them.
        seeds: Only these seeds; by default, those of the experiment.
        table: Print tables of the records instead of training, as Markdown if the output is a file or a pipe.
        figure: Draw the records into this file (results) or folder (curves) instead of training.
        num_at_once: Number of concurrent runs, each on one thread.
        runs: Folder for runs and logs.
        results: Folder for records, with one file per variant and seed.
    """

    name: Annotated[str, Positional, arg(metavar="NAME")]
    variants: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    table: bool = False
    figure: Path | None = None
    num_at_once: int = 2
    runs: Path = Path("runs/experiments")
    results: Path = Path("docs/experiments")

    def __post_init__(self) -> None:
        require_choice("The experiment", self.name, EXPERIMENTS)
        require_at_least(self, 1, "num_at_once")


def run_experiment(options: ExperimentOptions) -> int:
    """Runs missing variants and seeds, or shows the records; returns 1 if a run failed.

    Raises:
        ConfigError: If there is no such variant, nothing to show, or a record is unreadable.
    """
    experiments = find_experiments(options.name)
    known = [label for experiment in experiments for label in experiment.variants]
    for label in options.variants:
        require_choice("--variants", label, known)
    if options.table or options.figure is not None:
        _show(experiments, options)
        return 0
    runner = Runner(runs=options.runs, results=options.results, num_at_once=options.num_at_once)
    failed = []
    for experiment in experiments:
        labels = [label for label in experiment.variants if not options.variants or label in options.variants]
        failed += runner.run(experiment, labels, options.seeds or experiment.seeds) if labels else []
    for line in failed:
        print(f"FAILED: {line}", file=sys.stderr)
    return EXIT_FAILED if failed else 0


def _show(experiments: Sequence[Experiment], options: ExperimentOptions) -> None:
    from rich.console import Console

    from benchmarks.experiments.figures import draw_experiment
    from benchmarks.experiments.tables import claims_overview, experiment_tables, print_tables

    shown = {experiment.name: (experiment, _records(experiment, options)) for experiment in experiments}
    if not any(records for _, records in shown.values()):
        raise ConfigError(
            f"There are no such records of {options.name} in {options.results}. Create them: "
            f"python -m benchmarks experiment {options.name}"
        )
    if options.table:
        tables = [claims_overview(shown)] if len(shown) > 1 else []
        for experiment, records in shown.values():
            tables += experiment_tables(experiment, records)
        print_tables(tables, Console())
    if options.figure is not None:
        for experiment, records in shown.values():
            print(*draw_experiment(experiment, records, options.figure), sep="\n")


def _records(experiment: Experiment, options: ExperimentOptions) -> list[Record]:
    labels, seeds = options.variants or (*experiment.variants, START), options.seeds
    records = load_records(options.results, experiment.name)
    return [record for record in records if record.variant in labels and (not seeds or record.seed in (*seeds, 0))]


@dataclass(kw_only=True)
class Runner:
    """Trains and measures runs concurrently, each in separate processes.

    A run is in `<runs>/<experiment>/<variant>-<seed>/`, and its output is in `<runs>/<experiment>/logs/`.

    Attributes:
        runs: Folder for runs and logs.
        results: Folder for records.
        num_at_once: Number of concurrent runs.
    """

    runs: Path
    results: Path
    num_at_once: int
    _processes: list[subprocess.Popen[bytes]] = field(default_factory=list)
    _lock: threading.Lock = field(default_factory=threading.Lock)
    _is_stopped: bool = False

    def run(self, experiment: Experiment, labels: Sequence[str], seeds: Sequence[int]) -> list[str]:
        """Creates missing records and returns a message for each failed run.

        Raises:
            ConfigError: If a finished run has other settings.
            KeyboardInterrupt: After Ctrl-C, once running processes have saved; the message explains how to resume.
        """
        wanted = [(label, seed) for seed in seeds for label in labels]
        missing = [run for run in wanted if not self._is_recorded(experiment, *run)]
        if kept := len(wanted) - len(missing):
            print(f"{experiment.name}: {kept} of {len(wanted)} runs are already recorded", file=sys.stderr)
        needs_start = missing and experiment.claim is not None and not self._has_start(experiment)
        failed = self._made(experiment, [(START, 0)]) if needs_start else []
        return failed or self._made(experiment, missing)

    def _made(self, experiment: Experiment, runs: Sequence[tuple[str, int]]) -> list[str]:
        """Creates these records and returns a message for each failed run."""
        commands = {f"{label}-{seed}": self._commands(experiment, label, seed) for label, seed in runs}
        failed = []
        with ThreadPoolExecutor(self.num_at_once) as pool:
            logs = self.runs / experiment.name / _LOGS
            waiting = {pool.submit(self._finish, words, logs / f"{run}.txt"): run for run, words in commands.items()}
            try:
                for number, done in enumerate(as_completed(waiting), start=1):
                    run = waiting[done]
                    if code := done.result():
                        failed.append(f"{experiment.name} {run} (exit status {code}): see {logs / run}.txt")
                    outcome = "failed" if code else "done"
                    print(f"{number}/{len(runs)} {experiment.name} {run}: {outcome}", file=sys.stderr, flush=True)
            except KeyboardInterrupt as interrupt:
                self._interrupt()
                raise KeyboardInterrupt(
                    f"Interrupted. Finished records are in {self.results}, and unfinished runs are saved in "
                    f"{self.runs}; the same command resumes them."
                ) from interrupt
        return failed

    def _interrupt(self) -> None:
        """Interrupts running processes, which then save, and starts no others."""
        with self._lock:
            self._is_stopped = True
            for process in self._processes:
                process.send_signal(signal.SIGINT)

    def _finish(self, commands: Sequence[Sequence[str]], log: Path) -> int:
        """Runs commands in sequence and returns the exit status of the first that fails, or 0."""
        log.parent.mkdir(parents=True, exist_ok=True)
        return next((code for words in commands if (code := self._wait(words, log))), 0)

    def _wait(self, words: Sequence[str], log: Path) -> int:
        """Runs a subprocess to its end and returns its exit status.

        It runs in its own session, so that Ctrl-C reaches it only once, through this process.
        """
        environment = {**os.environ, "OMP_NUM_THREADS": "1"}
        with log.open("ab") as output:
            with self._lock:
                if self._is_stopped:
                    return signal.SIGINT
                process = subprocess.Popen(
                    [sys.executable, *words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=subprocess.STDOUT,
                    start_new_session=True,
                    env=environment,
                )
                self._processes.append(process)
            code = process.wait()
            with self._lock:
                self._processes.remove(process)
        return code

    def _commands(self, experiment: Experiment, label: str, seed: int) -> list[list[str]]:
        """Returns Python's arguments: a training unless it is finished, then a measurement."""
        measuring = ["-m", "benchmarks.experiments.measuring", experiment.name, label, str(seed), str(self.results)]
        if label == START and _ships(experiment):
            return [measuring]
        directory = self._directory(experiment, label, seed)
        words = [*experiment.words(label, seed), "--name", directory.name, "--output", str(directory.parent)]
        if experiment.claim is not None and label != START:
            words += ["--model", str(self._start(experiment))]
        measuring.append(str(directory))
        if _is_finished(directory):
            _require_same(words, directory)
            return [measuring]
        return [["-m", "training", *words, *["--resume"] * _is_begun(directory)], measuring]

    def _has_start(self, experiment: Experiment) -> bool:
        return self._is_recorded(experiment, START, 0) and (self._start(experiment) / "config.json").is_file()

    def _start(self, experiment: Experiment) -> Path:
        """Returns the checkpoint that a claim's variants start from."""
        # Imported here because messages and tables must not need torch
        from training.checkpoints.checkpoint_files import model_directory
        from training.stages.stages_config import holds_stages, saved_stages

        if experiment.claim is not None and experiment.claim.start:
            return model_directory(experiment.claim.start)
        directory = self._directory(experiment, START, 0)
        return saved_stages(directory)[0].last_model if holds_stages(directory) else directory

    def _directory(self, experiment: Experiment, label: str, seed: int) -> Path:
        return self.runs / experiment.name / f"{label}-{seed}"

    def _is_recorded(self, experiment: Experiment, label: str, seed: int) -> bool:
        return record_path(self.results, experiment.name, label, seed).is_file()


def _ships(experiment: Experiment) -> bool:
    """Returns whether a claim's start is shipped and needs no training."""
    return experiment.claim is not None and bool(experiment.claim.start)


def _require_same(words: Sequence[str], directory: Path) -> None:
    """Raises `ConfigError` if a finished run has other settings than it would have now."""
    recipe, options = find_recipe(words)
    assert recipe is not None, "the experiment has looked it up"
    config = configured(recipe, options)
    check_same_run(config, directory)
    num_done = int(saved_settings(directory)["num_iterations"])
    require(
        num_done == config.num_iterations,
        f"The run in {directory} is finished with {num_done} iterations; expected {config.num_iterations}. Name "
        "another folder: --runs DIR.",
    )


def _is_begun(directory: Path) -> bool:
    """Returns whether there is a run to resume."""
    from training.checkpoints.checkpoint_files import LATEST, has_checkpoint, is_in_cold_start
    from training.stages.stages_config import holds_stages

    return holds_stages(directory) or has_checkpoint(directory / LATEST) or is_in_cold_start(directory)


def _is_finished(directory: Path) -> bool:
    """Returns whether a run without stages was trained to its end and evaluated afterwards."""
    try:
        return any(evaluation["label"] == "after" for evaluation in RunReader(directory).evaluations())
    except RunDataError:
        return False
