"""A run of stages, from the first that is not finished to the last: one command, one report."""

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
    """Runs the stages in order, from where the run stands if it is resumed, and writes the report.

    Returns:
        The run's directory, which has a folder for each stage.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no run.
        ConfigError: If something that any of the stages needs is not there, or, on resumption, one that has begun is
            now another. Nothing is left behind then. If a curation has nothing to keep; stages before it are finished.
        TrainingStoppedError: If a stage cannot go on; what was learnt is saved.
        KeyboardInterrupt: If Ctrl-C stopped it; what was learnt is saved.
    """
    return train_stages_checked(config, checked_stages(config, resume=resume), resume=resume)


def train_stages_checked(config: StagesConfig, left: Sequence[StageToRun], *, resume: bool = False) -> Path:
    """Does what `train_stages` does with the stages that `checked_stages` returned."""
    runs = [stage.run for stage in config.stages if isinstance(stage.run, RunConfig)]
    device = runs[0].device if runs else "auto"
    timeout_min = max((run.process_timeout_min for run in runs), default=60.0)
    with lost_peer_told(config.directory / config.folders[-1]), launched(device, timeout_min=timeout_min) as processes:
        _train(config, left, processes, resume=resume)
    return config.directory


def _train(
    config: StagesConfig, left: Sequence[StageToRun], processes: OneProcess | LaunchedProcesses, *, resume: bool
) -> None:
    """Runs what is left; what several processes do not share, and what is written of all stages, is the main one's."""
    finished = processes.on_main(lambda: _begun(config, left, resume=resume))
    num_threads = torch.get_num_threads()
    for each in left:
        name = config.stages[each.number].name
        print(f"\nStage {each.number + 1} of {len(config.stages)}: {name}", flush=True)
        torch.set_num_threads(num_threads)  # what the stage before was given is not this one's
        with in_stage(name, each.run, advice=" Then go on with --resume."):
            is_interrupted = _run_stage(each, name, processes)
        finished.append(name)
        processes.on_main(lambda: save_stages(config, finished))
        let_go()
        if is_interrupted and each is not left[-1]:
            processes.on_main(partial(_stop_after, name))
    report = processes.on_main(lambda: build_stages_report(config.directory, config.folders))
    table = stages_table(config.directory, config.folders)
    told = f"Report: {report}\nModel:  {config.last_model}"
    print(f"\n{table}\n" if table else "", told, sep="\n" if table else "")


def _begun(config: StagesConfig, left: Sequence[StageToRun], *, resume: bool) -> list[str]:
    """Writes down which stages there are and which are finished and not to be longer; returns the latter's names."""
    finished: list[str] = []
    if resume and holds_stages(config.directory):
        names = {config.stages[stage.number].name for stage in left}
        finished = [name for name in saved_stages(config.directory)[1] if name not in names]
    save_stages(config, finished)
    return finished


def _run_stage(stage: StageToRun, name: str, processes: OneProcess | LaunchedProcesses) -> bool:
    """Runs a stage; of several processes all take part in reinforcement learning, and one does everything else.

    Returns:
        Whether Ctrl-C was pressed when it was about to end, such as in its last evaluation.

    Raises:
        KeyboardInterrupt: If Ctrl-C stopped it before that.
    """
    run, several = stage.run, processes if isinstance(processes, LaunchedProcesses) else None
    if isinstance(run, CurateConfig):
        _alone(lambda: _curate(run, name), run, processes)
        return False
    if isinstance(run, SFTConfig):
        return _alone(lambda: fine_tuned(run, resume=stage.resume).is_interrupted, run, processes)
    ended = trained(run, resume=stage.resume, processes=several)
    if not ended.is_finished:
        raise KeyboardInterrupt(f"Interrupted in stage {name!r}; saved. Go on with {how_to_go_on()}.")
    return ended.is_interrupted


def _stop_after(name: str) -> None:
    raise KeyboardInterrupt(
        f"Interrupted at the end of stage {name!r}, which is finished. Go on with {how_to_go_on()}."
    )


def _alone(make: Callable[[], _Made], run: StageRun, processes: OneProcess | LaunchedProcesses) -> _Made:
    """Returns what the main process makes while the others wait, as long as it lives."""
    directory = Path(run.output) / run.name
    with lost_peer_told(directory), ExitStack() as opened:
        if processes.num_processes > 1 and processes.rank == 0:
            opened.enter_context(termination_told(directory))
            if isinstance(run, SFTConfig):
                print(how_to_stop("step"), flush=True)
        return processes.on_main(make, is_long=True)


def _curate(run: CurateConfig, name: str) -> None:
    """Makes the data that a later stage learns from; raises `ConfigError` if nothing is good enough."""
    try:
        directory, result = make_data_set(run)
    except CurationInterruptedError as interrupt:
        raise KeyboardInterrupt(
            f"Interrupted in stage {name!r}. {interrupt}; go on with {how_to_go_on()}."
        ) from interrupt
    print(result)
    if not result.total.num_kept:
        shutil.rmtree(directory)
        raise ConfigError(
            "Nothing is curated: no rollout is good enough, and no later stage could learn from it. Ask more questions "
            f"({field_name(run, 'num_samples')}), lower {field_name(run, 'threshold')}, or name another expert."
        )
    print(f"Data set: {directory}")
