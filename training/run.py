"""Runs a configuration from start to finish: model, cold start if needed, training, and report."""

from __future__ import annotations

import shutil
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from training.checkpoints.checkpoint_files import (
    COLD_START_STATE,
    LATEST,
    is_in_cold_start,
    kept_reference,
    model_directory,
    reference_of,
    require_reference,
)
from training.checkpoints.checkpoint_state import (
    BEST,
    iterations_done,
    load_cold_start_state,
    load_for_training,
)
from training.cold_start.cold_start_loop import make_cold_start
from training.config.resume import check_length, continued
from training.config.run_config import RunConfig
from training.engines.accelerated_engine import engine_of
from training.engines.engine import Engine, LaunchedProcesses
from training.loop.interrupts import (
    Ended,
    full_disk_told,
    how_to_stop,
    lost_peer_told,
    prepare,
    termination_told,
)
from training.loop.provenance import describe
from training.loop.trainer import Trainer
from training.pools.pool_drawing import draw_own_pools
from training.preflight import checked, require_unused
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.report_page import build_report
from vlm_envs.records.run_data import RunWriter, holds_run


def train(config: RunConfig, *, resume: bool = False) -> Path:
    """Runs a configuration to its end, from its latest checkpoint if `resume` is True, and writes the report.

    Returns:
        The run's directory.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        BusyFolderError: If another process is training it.
        FileNotFoundError: If `resume` is True and there is no checkpoint, or `config.model` is not one.
        ConfigError: If a requirement is missing or, when resuming, settings differ from the run's. No files are left
            behind.
    """
    return trained(checked(config, resume=resume), resume=resume).directory


def trained(config: RunConfig, *, resume: bool = False, processes: LaunchedProcesses | None = None) -> Ended:
    """Runs a configuration returned by `training.preflight.checked` and reports whether it finished.

    Args:
        config: The run.
        resume: Whether to resume it.
        processes: Its processes, if they were already started for several runs.
    """
    prepare(config)
    directory = Path(config.output) / config.name
    with (
        lost_peer_told(directory),
        engine_of(config, processes) as engine,
        full_disk_told(directory),
        ExitStack() as opened,
    ):
        if engine.num_processes > 1 and engine.rank == 0:
            opened.enter_context(termination_told(directory))
            print(how_to_stop())
        if engine.rank == 0:
            opened.enter_context(alone_in(directory))
            if not resume:
                require_unused(directory)  # again, as another process may have been faster
        resumes = resume and not is_in_cold_start(directory)
        trainer = _resumed(config, directory, engine) if resumes else _started(config, directory, engine)
        trainer.run()
        engine.on_main(lambda: shutil.rmtree(directory / COLD_START_STATE, ignore_errors=True))
        report = engine.on_main(lambda: build_report(directory))
        print(f"Report: {report}\nCurves: {report.with_name('curves.png')}\nModel:  {directory / LATEST / 'model'}")
        if trainer.best is not None:
            print(f"Best:   {directory / BEST}, {trainer.best.title}")
    return Ended(directory, is_finished=trainer.is_finished, is_interrupted=trainer.is_interrupted)


def _started(config: RunConfig, directory: Path, engine: Engine) -> Trainer:
    """Returns the trainer of a new run; writes nothing before all of its parts exist."""
    loaded = load_for_training(config.model, config) if config.model else None
    writer = _first_writer(directory) if engine.rank == 0 else None
    if loaded is None:
        if writer is not None:
            writer.config(describe(config))
        loaded = _cold_started(config, directory / "cold_start", writer, engine)
    model = directory / "cold_start" if config.model is None else model_directory(config.model)
    engine.on_main(lambda: draw_own_pools(config, directory, model), is_long=True)
    held_to = model_directory(config.reference) if config.reference and config.has_reference else None
    kept = engine.on_main(lambda: reference_of(held_to or model, directory)) if _keeps_its_start(config) else None
    trainer = Trainer(
        config,
        *loaded,
        directory,
        writer,
        engine,
        reference=kept,
        reference_model=None if held_to is None else _reference_model(held_to, config),
    )
    if config.model is not None and writer is not None:
        writer.config(describe(config))
    return trainer


def _first_writer(directory: Path) -> RunWriter:
    """Returns the writer of a run without a checkpoint; lines after the cold start's checkpoint are dropped."""
    if not holds_run(directory):
        return RunWriter(directory)
    state = load_cold_start_state(directory)
    num_done = 0 if state is None else state["num_done"]
    return RunWriter(directory, resume_from_iteration=num_done, resume_phase="cold_start")


def _keeps_its_start(config: RunConfig) -> bool:
    """Returns whether a run keeps needing another model: its reference, or the base of its adapters."""
    return config.has_reference or config.lora.rank is not None


def _cold_started(
    config: RunConfig, directory: Path, writer: RunWriter | None, engine: Engine
) -> tuple[Any, ChatEncoder]:
    """Returns a cold-started model, which the main process trains and the others load."""
    if engine.num_processes == 1:
        return make_cold_start(config, directory, writer)

    def make() -> None:
        make_cold_start(config, directory, writer)

    engine.on_main(make, is_long=True)
    return load_for_training(directory, config)


def _resumed(config: RunConfig, directory: Path, engine: Engine) -> Trainer:
    """Returns the trainer of a run at its latest checkpoint."""
    num_done = iterations_done(directory / LATEST)
    check_length(config.num_iterations, num_done)
    if num_done == config.num_iterations:
        print(f"All {num_done} iterations are done; the run is only evaluated again. To extend it: --num-iterations N")
    elif engine.rank == 0:
        print(f"Resuming after iteration {num_done} of {config.num_iterations}.")
    keeps_start = _keeps_its_start(config)
    start = engine.on_main(lambda: require_reference(directory)) if keeps_start else None
    has_base = config.lora.rank is not None and start is not None  # `latest` has the adapters merged
    model, encoder = load_for_training(start if has_base and start else directory / LATEST / "model", config)
    writer = RunWriter(directory, resume_from_iteration=num_done) if engine.rank == 0 else None
    trainer = Trainer(
        config,
        model,
        encoder,
        directory,
        writer,
        engine,
        reference=kept_reference(directory) if keeps_start else None,
        reference_model=_reference_model(start, config) if start is not None and not has_base else None,
    )
    trainer.resume()
    if writer is not None:
        writer.config(continued(config, directory, num_done=num_done, described=describe(config)))
    return trainer


def _reference_model(directory: Path, config: RunConfig) -> Any:
    """Loads the reference model without advancing the random generators."""
    with torch.random.fork_rng(devices=[]):
        return load_for_training(directory, config)[0]
