"""The cold start: trains a model to imitate an expert's episodes, saves it, and validates it."""

from __future__ import annotations

import itertools
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from agents.hf.chat import ChatEncoder
from agents.hf.tiny_vlm import TinyConfig, save_tiny
from agents.registry import make_agent
from training.batch import Batch, make_batch
from training.checkpoints.checkpoint_state import (
    load_cold_start_state,
    load_for_training,
    save_cold_start_state,
    save_model,
    save_provenance,
)
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.demonstrations import copying_exercises, demonstrations, spared_tokens, tokenized
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.curation.curated_data import curated_episodes, shuffled_batches
from training.errors import NonFiniteGradientError
from training.loop.evaluation import evaluate, mean_success
from training.loop.interrupts import (
    stop_on_interrupt,
)
from training.loop.loggers import RunConsole
from training.loop.provenance import provenance
from training.update.supervised_steps import OnCheckpoint, OnStep, SupervisedLearner, take_steps
from vlm_envs.records.run_data import RunWriter
from vlm_envs.trajectory import Trajectory


class ColdStartInterruptedError(KeyboardInterrupt):
    """Ctrl-C stopped a cold start; the message gives the location of the saved model."""


def make_cold_start(config: RunConfig, directory: Path, writer: RunWriter | None) -> tuple[Any, ChatEncoder]:
    """Builds the tiny VLM or loads a checkpoint, trains it to imitate the expert, saves it, and validates it.

    Returns:
        The model and its chat format.

    Raises:
        ColdStartInterruptedError: On Ctrl-C; the current model is saved.
        NonFiniteGradientError: After too many consecutive non-finite gradients; the model is saved. Exception: Any
        other error, after saving the model of the last complete step.
    """
    model, encoder = untaught(config)
    _teach(model, encoder, config, directory, writer)
    _validate(model, encoder, config, directory)
    return model, encoder


def untaught(config: RunConfig) -> tuple[Any, ChatEncoder]:
    """Returns the initial model of a cold start: the given checkpoint, or a tiny VLM with random weights."""
    if config.cold_start.start_from is not None:
        return load_for_training(config.cold_start.start_from, config)
    env_ids = config.tokenizer_worlds or tuple(dict.fromkeys(spec.env_id for spec in config.worlds))
    with tempfile.TemporaryDirectory() as directory:
        settings = {id_: [spec.kwargs for spec in config.worlds if spec.env_id == id_] for id_ in env_ids}
        sizes = TinyConfig(seed=config.seed, residual_scale=config.cold_start.residual_scale)
        save_tiny(directory, sizes, env_ids=env_ids, settings=settings)
        return load_for_training(directory, config)


def _teach(model: Any, encoder: ChatEncoder, config: RunConfig, directory: Path, writer: RunWriter | None) -> None:
    """Takes the steps of a cold start and saves the model, also after errors and interrupts."""
    # Only full runs can be resumed: their directory contains that of the cold start
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
    """Saves the model at the end of the block, and reports its location after an error."""
    try:
        yield
        save()  # before validation and while Ctrl-C is deferred, so that neither can lose hours of training
    except NonFiniteGradientError as error:
        raise NonFiniteGradientError(
            f"{error} The cold start ended after {num_done()} of {num_steps} steps; {save()}"
        ) from error
    except Exception as error:
        if num_done():
            try:
                outcome = save()
            except Exception as second:
                outcome = f"the model could not be saved ({type(second).__name__}: {second})."
            failure = f"{type(error).__name__} after {num_done()} of {num_steps} steps of the cold start"
            print(f"{failure}: {outcome}", file=sys.stderr)
        raise


def _validate(model: Any, encoder: ChatEncoder, config: RunConfig, directory: Path) -> None:
    """Validates a saved cold start and writes the success rate next to it."""
    num_steps, saved = config.cold_start.num_steps, _saved_in(directory)
    progress = f"{num_steps} of {num_steps} steps of the cold start"
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
        raise ColdStartInterruptedError(f"Interrupted in the validation, after {progress}; {saved}") from interrupt
    except Exception as error:
        print(f"{type(error).__name__} in the validation, after {progress}: {saved}", file=sys.stderr)
        raise


def _saved_in(directory: Path) -> str:
    return f"the model is saved. Train from it with --model {directory}."


def cold_start(
    model: Any,
    encoder: ChatEncoder,
    specs: tuple[WorldSpec, ...],
    config: ColdStartConfig,
    *,
    on_step: OnStep,
    should_stop: Callable[[], bool] = lambda: False,
    seed: int = 0,
    on_checkpoint: OnCheckpoint | None = None,
    num_done: int = 0,
    optimizer_state: dict[str, Any] | None = None,
) -> int:
    """Trains a model in place to imitate an expert.

    After each step, `on_step` receives its number and metrics, and `should_stop` decides whether to end. Seeds use
    different levels. Every `checkpoint_every` steps and after the last one, `on_checkpoint` receives the state to
    resume from: training continues identically when called with `num_done` and `optimizer_state` after restoring the
    model and torch's generator. Episodes of completed steps are replayed then, because the expert's random stream
    depends on them.

    Returns:
        Number of steps, including steps skipped for non-finite gradients.

    Raises:
        NonFiniteGradientError: After too many consecutive non-finite gradients. Exception: As raised by a world,
        `on_step`, or a step. The model is that of the last complete step.
    """
    learner = SupervisedLearner(model, config.steps, what="cold start")
    if num_done and optimizer_state is not None:
        learner.load_optimizer_state(optimizer_state)
    shown = _batches(specs, encoder, config, seed=seed)
    for _ in range(num_done if num_done < config.num_steps else 0):
        next(shown)
    spared = spared_tokens(encoder, [spec.env_id for spec in specs])

    def batches() -> Iterator[Batch]:
        for number, episodes in enumerate(shown, num_done):
            learner.suppress(spared if number < config.num_copying_steps else [])
            yield make_batch(episodes, [[0.0] * len(t.turns) for t in episodes], encoder)

    return take_steps(
        learner,
        batches(),
        on_step=on_step,
        should_stop=should_stop,
        on_checkpoint=on_checkpoint,
        first=num_done,
    )


def _batches(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Returns an endless iterator of batches: copying exercises, then first turns, then full episodes."""
    env_ids = [spec.env_id for spec in specs]
    copying = copying_exercises(encoder, env_ids, num_batches=config.num_copying_steps, seed=seed)
    return itertools.chain(copying, _demonstrations(specs, encoder, config, seed=seed))


def _demonstrations(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Returns an endless iterator of batches of expert episodes; only first turns in the first steps."""
    if config.data is not None:
        return recorded_demonstrations(config.data, encoder, config, seed=seed)
    shown = partial(
        demonstrations,
        specs,
        encoder,
        batch_size=config.batch_size,
        mistake_rate=config.mistake_rate,
        suboptimal_rate=config.suboptimal_rate,
        tells_plan=config.tells_plan,
    )
    if config.num_demonstrations is None:
        return shown(start=seed * 1_000_003 % 50_000_000, num_first_turn_batches=config.num_first_turn_steps)
    played = itertools.chain.from_iterable(shown())
    return _repeated(list(itertools.islice(played, config.num_demonstrations)), config, seed=seed)


def recorded_demonstrations(
    directory: str, encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Returns an endless iterator of batches of a dataset; only first turns in the first steps."""
    return _repeated([tokenized(episode, encoder) for episode in curated_episodes(directory)], config, seed=seed)


def _repeated(episodes: Sequence[Trajectory], config: ColdStartConfig, *, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches of the same episodes endlessly; only first turns in the first steps."""
    for step, batch in enumerate(shuffled_batches(episodes, config.batch_size, seed)):
        first_only = step < config.num_first_turn_steps
        yield [replace(episode, turns=episode.turns[:1]) for episode in batch] if first_only else batch
