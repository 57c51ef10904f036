"""Runs the arms of a sweep, each seed an ordinary run that anybody who reads runs can read.

<output>/<sweep>/start/            the cold start that all arms go on from
<output>/<sweep>/<arm>-<seed>/     a run
<output>/<sweep>/logs/             what each printed
<output>/<sweep>/tables.md         what they came to
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Collection, Mapping
from dataclasses import replace
from pathlib import Path
from types import MappingProxyType

from training.checkpoints.checkpoint_files import LATEST, has_checkpoint, is_in_cold_start
from training.config.resume import check_same_run, saved_settings
from training.config.run_config import RunConfig
from training.config.sweep import SweepConfig
from training.sweeps.sweep import Arm, Sweep
from training.sweeps.waiting import spawned_pool, wait_for
from vlm_envs.records.run_data import RunReader
from vlm_envs.validation import require

LOGS = "logs"


def arm_directory(folder: Path, arm: Arm, seed: int) -> Path:
    """Returns where an arm's run of a seed is."""
    return folder / f"{arm.name}-{seed}"


def is_finished(directory: Path) -> bool:
    """Returns whether a run was trained to its end and evaluated afterwards."""
    if not (directory / "evaluations.jsonl").is_file():
        return False
    return any(each["label"] == "after" for each in RunReader(directory).evaluations())


def run_sweep(sweep: Sweep, config: SweepConfig, known: Mapping[str, Collection[int]] = MappingProxyType({})) -> None:
    """Runs what is not finished of a sweep's arms, several at a time, after the start that they share.

    Args:
        sweep: The sweep.
        config: How it is run.
        known: Seeds of arms whose results are kept elsewhere, so that they need no run.

    Raises:
        TrainingStoppedError: As a run does; those beside it are ended, and the next call goes on with all of them.
        ConfigError: If a run of the same name was begun with other settings, or is finished with them.
    """
    folder = config.output / sweep.name
    folder.mkdir(parents=True, exist_ok=True)
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited; torch reads it once, when a process starts
    with spawned_pool(config.num_at_once) as pool:
        wanted = [
            (arm, seed)
            for seed in range(1, config.seeds + 1)
            for arm in sweep.arms
            if seed not in known.get(arm.name, ())
        ]
        if wanted and sweep.start is not None:
            start = _placed(sweep.start, folder, sweep.start.name, seed=0)
            if (folder / start.name / LATEST / "model").is_dir():
                check_same_run(start, folder / start.name)
            else:
                wait_for([pool.submit(_run, start)])
        runs = [
            _placed(_from_start(arm.run, sweep, folder), folder, arm_directory(folder, arm, seed).name, seed=seed)
            for arm, seed in wanted
        ]
        for run in runs:
            _require_same(run)
        wait_for(pool.submit(_run, run) for run in runs if not is_finished(Path(run.output) / run.name))


def _require_same(run: RunConfig) -> None:
    """Refuses a run that is finished with other settings than it would have now."""
    directory = Path(run.output) / run.name
    if not is_finished(directory):
        return
    check_same_run(run, directory)
    num_done = int(saved_settings(directory)["num_iterations"])
    require(
        num_done == run.num_iterations,
        f"The run at {directory} is finished with {num_done} iterations, and {run.num_iterations} are asked for. Name "
        "another folder: --output DIR.",
    )


def _from_start(run: RunConfig, sweep: Sweep, folder: Path) -> RunConfig:
    return run if sweep.start is None else replace(run, model=str(folder / sweep.start.name / LATEST / "model"))


def _placed(run: RunConfig, folder: Path, name: str, *, seed: int) -> RunConfig:
    """Returns a run where it belongs, on one thread; what several at once would record beside is left out."""
    return replace(run, name=name, output=str(folder), seed=seed, num_threads=1, record_every=0)


def _run(run: RunConfig) -> str:
    """Trains a run, or goes on with it; what it prints goes to its log."""
    from training.run import train

    directory, logs = Path(run.output) / run.name, Path(run.output) / LOGS
    logs.mkdir(exist_ok=True)
    goes_on = has_checkpoint(directory / LATEST) or is_in_cold_start(directory)
    with (
        (logs / f"{run.name}.txt").open("a", encoding="utf-8") as log,
        contextlib.redirect_stdout(log),
        contextlib.redirect_stderr(log),
    ):
        train(run, resume=goes_on)
    told = [each for each in RunReader(directory).evaluations() if each["label"] == "after"]
    return f"{run.name}: " + (", ".join(f"test success {each['success']:.3f}" for each in told) or "done")
