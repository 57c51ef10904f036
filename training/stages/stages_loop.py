"""Runs the unfinished stages of a staged run, and writes one report."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import TypeVar

import torch

from training.config.resume import how_to_go_on
from training.config.run_config import RunConfig
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.engines.engine import LaunchedProcesses, OneProcess, launched
from training.errors import CurationInterruptedError
from training.loop.interrupts import how_to_stop, lost_peer_told, termination_told
from training.run import trained
from training.sft.sft_config import SFTConfig
from training.sft.sft_loop import fine_tuned
from training.stages.stages_config import StageRun, StagesConfig, holds_stages, in_stage, save_stages, saved_stages
from training.stages.stages_preflight import StageToRun, checked_stages
from training.update.micro_batches import let_go
from vlm_envs.errors import ConfigError
from vlm_envs.records.report_page import build_stages_report, stages_table
from vlm_envs.validation import field_name

_Made = TypeVar("_Made")


def train_stages(config: StagesConfig, *, resume: bool = False) -> Path:
    """Runs the stages in order, resuming where an interrupted run stopped, and writes the report.

    Returns:
        The run's directory, which has a folder for each stage.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and the run does not exist.
        ConfigError: If a requirement of any stage is missing, or a started stage has changed on resume (nothing is
            written then); or if a curation keeps nothing (earlier stages are finished).
        TrainingStoppedError: If a stage cannot continue; the model is saved.
        KeyboardInterrupt: On Ctrl-C; the model is saved.
    """
    return train_stages_checked(config, checked_stages(config, resume=resume), resume=resume)


def train_stages_checked(config: StagesConfig, left: Sequence[StageToRun], *, resume: bool = False) -> Path:
    """Runs `train_stages` with the stages returned by `checked_stages`."""
    runs = [stage.run for stage in config.stages if isinstance(stage.run, RunConfig)]
    device = runs[0].device if runs else "auto"
    timeout_min = max((run.process_timeout_min for run in runs), default=60.0)
    with lost_peer_told(config.directory / config.folders[-1]), launched(device, timeout_min=timeout_min) as processes:
        _train(config, left, processes, resume=resume)
    return config.directory


def _train(
    config: StagesConfig, left: Sequence[StageToRun], processes: OneProcess | LaunchedProcesses, *, resume: bool
) -> None:
    """Runs the remaining stages; the main process writes the records of all stages."""
    finished = processes.on_main(lambda: _begun(config, left, resume=resume))
    num_threads = torch.get_num_threads()
    for stage in left:
        name = config.stages[stage.number].name
        print(f"\nStage {stage.number + 1} of {len(config.stages)}: {name}", flush=True)
        torch.set_num_threads(num_threads)  # resets the setting of the stage before
        with in_stage(name, stage.run, advice=" Then continue with --resume."):
            is_interrupted = _run_stage(stage, name, processes)
        finished.append(name)
        processes.on_main(lambda: save_stages(config, finished))
        let_go()
        if is_interrupted and stage is not left[-1]:
            processes.on_main(partial(_stop_after, name))
    report = processes.on_main(lambda: build_stages_report(config.directory, config.folders))
    table = stages_table(config.directory, config.folders)
    result = f"Report: {report}\nModel:  {config.last_model}"
    print(f"\n{table}\n" if table else "", result, sep="\n" if table else "")


def _begun(config: StagesConfig, left: Sequence[StageToRun], *, resume: bool) -> list[str]:
    """Records the stages; returns the names of those that are finished and not extended."""
    finished: list[str] = []
    if resume and holds_stages(config.directory):
        names = {config.stages[stage.number].name for stage in left}
        finished = [name for name in saved_stages(config.directory)[1] if name not in names]
    save_stages(config, finished)
    return finished


def _run_stage(stage: StageToRun, name: str, processes: OneProcess | LaunchedProcesses) -> bool:
    """Runs a stage: reinforcement learning in all processes, everything else in the main one.

    Returns: Whether Ctrl-C was pressed near its end, such as in its last evaluation.

    Raises:
        KeyboardInterrupt: On Ctrl-C before that.
    """
    run, several = stage.run, processes if isinstance(processes, LaunchedProcesses) else None
    if isinstance(run, CurateConfig):
        _alone(lambda: _curate(run, name), run, processes)
        return False
    if isinstance(run, SFTConfig):
        return _alone(lambda: fine_tuned(run, resume=stage.resume).is_interrupted, run, processes)
    ended = trained(run, resume=stage.resume, processes=several)
    if not ended.is_finished:
        raise KeyboardInterrupt(f"Interrupted in stage {name!r}; saved. Resume with {how_to_go_on()}.")
    return ended.is_interrupted


def _stop_after(name: str) -> None:
    raise KeyboardInterrupt(
        f"Interrupted at the end of stage {name!r}, which is finished. Resume with {how_to_go_on()}."
    )


def _alone(make: Callable[[], _Made], run: StageRun, processes: OneProcess | LaunchedProcesses) -> _Made:
    """Runs a function in the main process and returns its result; the others wait without a timeout."""
    directory = Path(run.output) / run.name
    with lost_peer_told(directory), ExitStack() as opened:
        if processes.num_processes > 1 and processes.rank == 0:
            opened.enter_context(termination_told(directory))
            if isinstance(run, SFTConfig):
                print(how_to_stop("step"), flush=True)
        return processes.on_main(make, is_long=True)


def _curate(run: CurateConfig, name: str) -> None:
    """Makes the data for a later stage; raises `ConfigError` if nothing is good enough."""
    try:
        directory, result = make_data_set(run)
    except CurationInterruptedError as interrupt:
        raise KeyboardInterrupt(
            f"Interrupted in stage {name!r}. {interrupt}; resume with {how_to_go_on()}."
        ) from interrupt
    print(result)
    if not result.total.num_kept:
        shutil.rmtree(directory)
        raise ConfigError(
            "Nothing is curated: no rollout is good enough, so that later stages have no data. Ask more questions "
            f"({field_name(run, 'num_samples')}), lower {field_name(run, 'threshold')}, or name another expert."
        )
    print(f"Dataset: {directory}")
