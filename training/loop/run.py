"""From a configuration to a finished run: model, cold start if there is none, training, report."""

from __future__ import annotations

import shutil
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import torch

from agents.hf.agent import load_checkpoint
from agents.hf.chat import ChatEncoder
from agents.hf.device import torch_device
from agents.hf.tiny import TinyConfig, save_tiny
from agents.registry import make_agent
from training.checkpoints.best import BEST
from training.checkpoints.files import COLD_START_STATE, LATEST, is_in_cold_start, model_directory, provenance_of
from training.checkpoints.reference import kept_reference, reference_of, require_reference
from training.checkpoints.state import (
    iterations_done,
    load_cold_start_state,
    save_cold_start_state,
    save_model,
    save_provenance,
)
from training.config.processes import num_processes
from training.config.resume import check_length, continued
from training.config.run import RunConfig
from training.data.worlds.own_pools import draw_own_pools
from training.engines.choice import engine_of
from training.engines.engine import Engine
from training.engines.processes import LaunchedProcesses
from training.errors import NonFiniteGradientError
from training.loop.disk import full_disk_told
from training.loop.evaluation import evaluate, mean_success
from training.loop.process import Ended, prepare, stop_on_interrupt
from training.loop.supervised.cold_start import cold_start
from training.loop.terminated import how_to_stop, lost_peer_told, termination_told
from training.loop.tracking.circumstances import circumstances
from training.loop.tracking.console import RunConsole
from training.loop.trainer import Trainer
from training.preflight.start import checked, require_unused
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.report_page import build_report
from vlm_envs.records.run_data import RunWriter, holds_run


class ColdStartInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped a cold start; the message says where it is saved."""


def train(config: RunConfig, *, resume: bool = False) -> Path:
    """Runs a configuration to its end, from its latest checkpoint if it is resumed, and writes the report.

    Returns:
        The run's directory.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        BusyFolderError: If another process is training it.
        FileNotFoundError: If `resume` is True and there is no checkpoint, or `config.model` is not one.
        ConfigError: If something it needs is not there, or, on resumption, its settings are others. Nothing is left
            behind then.
    """
    return train_checked(checked(config, resume=resume), resume=resume)


def train_checked(config: RunConfig, *, resume: bool = False) -> Path:
    """Does what `train` does with a configuration that `training.preflight.start.checked` returned."""
    return trained(config, resume=resume).directory


def trained(config: RunConfig, *, resume: bool = False, processes: LaunchedProcesses | None = None) -> Ended:
    """Does what `train_checked` does, and returns with the directory whether the run came to its end.

    Args:
        config: The run.
        resume: Whether it goes on.
        processes: Those that train it, where they were opened before, for more than this run.
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
                require_unused(directory)  # again: another process may have been faster
        goes_on = resume and not is_in_cold_start(directory)
        trainer = _resumed(config, directory, engine) if goes_on else _started(config, directory, engine)
        trainer.run()
        engine.on_main(lambda: shutil.rmtree(directory / COLD_START_STATE, ignore_errors=True))
        report = engine.on_main(lambda: build_report(directory))
        print(f"Report: {report}\nCurves: {report.with_name('curves.png')}\nModel:  {directory / LATEST / 'model'}")
        if trainer.best is not None:
            print(f"Best:   {directory / BEST}, {trainer.best.title}")
    return Ended(directory, is_finished=trainer.is_finished, is_interrupted=trainer.is_interrupted)


def _started(config: RunConfig, directory: Path, engine: Engine) -> Trainer:
    """Returns the trainer of a new run; nothing is written before everything is there."""
    loaded = load_for_training(config.model, config) if config.model else None
    writer = _first_writer(directory) if engine.rank == 0 else None
    if loaded is None:
        _describe(writer, config)
        loaded = _cold_started(config, directory / "cold_start", writer, engine)
    model = directory / "cold_start" if config.model is None else model_directory(config.model)
    engine.on_main(lambda: draw_own_pools(config, directory, model), is_long=True)
    held_to = None if config.reference is None else model_directory(config.reference)
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
    if config.model is not None:
        _describe(writer, config)
    return trainer


def _first_writer(directory: Path) -> RunWriter:
    """Returns what writes a run without a checkpoint: what it wrote behind one of its cold start is dropped."""
    if not holds_run(directory):
        return RunWriter(directory)
    state = load_cold_start_state(directory)
    num_done = 0 if state is None else state["num_done"]
    return RunWriter(directory, resume_from_iteration=num_done, resume_phase="cold_start")


def _keeps_its_start(config: RunConfig) -> bool:
    """Returns whether a run goes on needing another model: what it is held to, or what adapters adapt."""
    return config.has_reference or config.lora.rank is not None


def _describe(writer: RunWriter | None, config: RunConfig) -> None:
    """Writes a new run's configuration down, in the main process."""
    if writer is not None:
        writer.config(describe(config))


def _cold_started(
    config: RunConfig, directory: Path, writer: RunWriter | None, engine: Engine
) -> tuple[Any, ChatEncoder]:
    """Returns a model that was taught; by the main process, and the others read what it saved."""
    if engine.num_processes == 1:
        return make_cold_start(config, directory, writer)

    def make() -> None:
        make_cold_start(config, directory, writer)

    engine.on_main(make, is_long=True)
    return load_for_training(directory, config)


def _resumed(config: RunConfig, directory: Path, engine: Engine) -> Trainer:
    """Returns the trainer of a run that goes on where its latest checkpoint is."""
    num_done = iterations_done(directory / LATEST)
    check_length(config.num_iterations, num_done)
    if num_done == config.num_iterations:
        print(f"All {num_done} iterations are done; it is only evaluated again. To extend it: --num-iterations N")
    elif engine.rank == 0:
        print(f"Resuming after iteration {num_done} of {config.num_iterations}.")
    keeps_start = _keeps_its_start(config)
    start = engine.on_main(lambda: require_reference(directory)) if keeps_start else None
    has_base = config.lora.rank is not None and start is not None  # what is in `latest` is merged
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
    """Returns the model that the policy is held to; what is drawn behind it is as if nothing had been loaded."""
    with torch.random.fork_rng(devices=[]):
        return load_for_training(directory, config)[0]


def load_for_training(directory: str | Path, config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns a checkpoint's model, on the run's device and in its type, and its chat format.

    Several processes keep float32 weights, whatever type they compute with: parts of them stand for masters.
    A relative path that does not exist here is looked for beside this package, where the recipes' own checkpoints are.

    Raises:
        FileNotFoundError: If there is no checkpoint.
    """
    dtype = getattr(torch, "float32" if num_processes() > 1 else config.dtype)
    model, encoder = load_checkpoint(model_directory(directory), dtype=dtype, attention=config.memory.attention)
    encoder.limit_pixels(config.sampling.max_image_pixels)
    return model.to(torch_device(config.device)), encoder


def make_cold_start(config: RunConfig, directory: Path, writer: RunWriter | None) -> tuple[Any, ChatEncoder]:
    """Builds the tiny VLM, or takes a checkpoint, teaches it to imitate the oracle, saves it, and validates it.

    Returns:
        The model and its chat format.

    Raises:
        ColdStartInterruptedError: If Ctrl-C stopped it; the model as it stands is saved all the same.
        NonFiniteGradientError: If gradients were not finite too many times in a row; it is saved then, too.
        Exception: Whatever else fails in between, after the model is saved as of the last whole step.
    """
    model, encoder = untaught(config)
    _teach(model, encoder, config, directory, writer)
    _validate(model, encoder, config, directory)
    return model, encoder


def _teach(model: Any, encoder: ChatEncoder, config: RunConfig, directory: Path, writer: RunWriter | None) -> None:
    """Takes a cold start's steps and saves what was learnt, whatever ends them."""
    # Only a run is gone on with: it has a directory in which its cold start is one thing of several
    run = directory.parent if writer is not None else None
    state = load_cold_start_state(run) if run is not None else None
    if state is not None:
        model.load_state_dict(state["model"])
        torch.set_rng_state(state["torch_rng"])
    started = time.monotonic() - (0.0 if state is None else state["elapsed_s"])
    num_done = 0 if state is None else state["num_done"]
    num_steps = config.cold_start.num_steps

    def checkpoint(step: int, optimizer: dict[str, Any]) -> None:
        if run is not None:
            kept = {"num_done": step, "model": model.state_dict(), "optimizer": optimizer}
            kept |= {"torch_rng": torch.get_rng_state(), "elapsed_s": time.monotonic() - started}
            save_cold_start_state(run, kept)

    def save() -> str:
        save_model(directory, model, encoder, provenance=provenance(config, None) | {"num_steps_done": num_done})
        return _saved_in(directory)

    def on_step(step: int, metrics: dict[str, float]) -> None:
        nonlocal num_done
        num_done = step + 1
        console.advance(step, metrics, ("loss",))
        if writer is not None:
            elapsed_s = time.monotonic() - started
            writer.metrics({"iteration": step, "phase": "cold_start", "elapsed_s": elapsed_s, **metrics})

    with (
        RunConsole("cold start", num_steps, every=50) as console,
        stop_on_interrupt("step", "nothing is saved") as should_stop,
        _saved_whatever_ends(save, lambda: num_done, num_steps),
    ):
        cold_start(
            model,
            encoder,
            config.worlds,
            config.cold_start,
            on_step=on_step,
            should_stop=should_stop,
            seed=config.seed,
            on_checkpoint=checkpoint,
            num_done=num_done,
            optimizer_state=None if state is None else state["optimizer"],
        )
    if should_stop():
        raise ColdStartInterruptedError(
            f"Interrupted after {num_done} of {num_steps} steps of the cold start; {_saved_in(directory)}"
        )


@contextmanager
def _saved_whatever_ends(save: Callable[[], str], num_done: Callable[[], int], num_steps: int) -> Iterator[None]:
    """Saves what is learnt within the block, and says where it is if that ends with an error."""
    try:
        yield
        save()  # Before the validation, and while Ctrl-C still only asks: what took hours depends on neither.
    except NonFiniteGradientError as error:
        raise NonFiniteGradientError(
            f"{error} The cold start ended after {num_done()} of {num_steps} steps; {save()}"
        ) from error
    except Exception as error:
        if num_done():
            try:
                told = save()
            except Exception as second:
                told = f"what was learnt could not be saved ({type(second).__name__}: {second})."
            what = f"{type(error).__name__} after {num_done()} of {num_steps} steps of the cold start"
            print(f"{what}: {told}", file=sys.stderr)
        raise


def _validate(model: Any, encoder: ChatEncoder, config: RunConfig, directory: Path) -> None:
    """Measures a saved cold start and writes down, beside it, what it reached."""
    num_steps, told = config.cold_start.num_steps, _saved_in(directory)
    learnt = f"{num_steps} of {num_steps} steps of the cold start"
    success: float | None = None
    try:
        if config.num_val_episodes:
            sampling = config.evaluated_sampling
            agent = make_agent("hf", model=model, encoder=encoder, sampling=sampling, seed=config.seed)
            num_episodes = config.num_val_episodes
            success = mean_success(
                [evaluate(agent, spec, split="val", num_episodes=num_episodes) for spec in config.worlds]
            )
            print(f"cold start: validation success {success:.3f}")
        save_provenance(directory, provenance(config, success))
    except KeyboardInterrupt as interrupt:
        raise ColdStartInterruptedError(f"Interrupted in the validation, after {learnt}; {told}") from interrupt
    except Exception as error:
        print(f"{type(error).__name__} in the validation, after {learnt}: {told}", file=sys.stderr)
        raise


def untaught(config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns the model a cold start begins with: the given checkpoint, or a tiny VLM of random weights."""
    if config.cold_start.start_from is not None:
        return load_for_training(config.cold_start.start_from, config)
    env_ids = config.tokenizer_worlds or tuple(dict.fromkeys(spec.env_id for spec in config.worlds))
    with tempfile.TemporaryDirectory() as directory:
        settings = {id_: [each.kwargs for each in config.worlds if each.env_id == id_] for id_ in env_ids}
        sizes = TinyConfig(seed=config.seed, residual_scale=config.cold_start.residual_scale)
        save_tiny(directory, sizes, env_ids=env_ids, settings=settings)
        return load_for_training(directory, config)


def _saved_in(directory: Path) -> str:
    return f"what was learnt is saved. Train from it with --model {directory}."


def provenance(config: RunConfig, validation_success: float | None) -> dict[str, Any]:
    """Returns what a cold start was made from, and what it reached if that was measured, saved beside its weights."""
    resolved = describe(config)
    keys = ["cold_start", "worlds", "sampling", "seed", "num_val_episodes"]
    keys += ["versions", "commit", "num_threads_used", "command"]
    made_from = {key: resolved[key] for key in keys} | {"validation_success": validation_success}
    start = config.cold_start.start_from
    if start is not None and (before := provenance_of(start)) is not None:
        made_from["started_from"] = before
    return made_from


def describe(config: RunConfig) -> dict[str, Any]:
    """Returns the resolved configuration with versions, commit, machine and command."""
    return {
        **config.to_dict(),
        "recipe": config.name,
        "trained_with": config.algorithm.title,
        **circumstances(),
    }
