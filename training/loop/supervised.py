"""Cold start: supervised learning on an expert's episodes, so that reinforcement learning has something to improve."""

from __future__ import annotations

import itertools
import math
import signal
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

from agents.hf.chat import ChatEncoder
from agents.hf.families.shared_attention import share_prefixes
from training.algorithms.functional.losses import aggregate, loss_normalizer
from training.batch import make_batch
from training.config.cold_start import ColdStartConfig
from training.config.memory import MemoryConfig
from training.config.worlds import WorldSpec
from training.data.curation import curated_episodes, shuffled_batches
from training.data.demonstrations import demonstrations, tokenized
from training.engines.optimizer import Optimizer
from training.engines.policy import PolicyModel
from training.engines.row_pass import row_pass_of
from vlm_envs.trajectory import Trajectory

OnStep = Callable[[int, dict[str, float]], None]
OnCheckpoint = Callable[[int, dict[str, Any]], None]
"""Gets the steps done and the optimiser's state, with which the model as it is goes on."""


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

    After each step `on_step` gets its number and metrics, and `should_stop` says whether to end here. Another seed sees
    other levels. After every so many steps, and the last, `on_checkpoint` gets what it can be gone on from: with
    `num_done` and `optimizer_state` as they were, and the model and torch's generator as they were, it comes to the
    same. Episodes of steps that were done are played once more then, for the expert draws as it goes.

    Returns:
        Steps done, of which those whose gradients were not finite changed nothing.

    Raises:
        NonFiniteGradientError: If that happened too many times in a row.
        Exception: What a world, `on_step` or a step raises. The model is as of the last whole step, whichever it is.
    """
    return _imitate(
        model,
        encoder,
        _batches(specs, encoder, config, seed=seed),
        config,
        on_step=on_step,
        should_stop=should_stop,
        on_checkpoint=on_checkpoint,
        first=num_done,
        optimizer_state=optimizer_state,
    )


def _batches(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Returns the batches of a cold start, without end; of first turns only in the first steps."""
    if config.data is not None:
        return recorded_demonstrations(config.data, encoder, config, seed=seed)
    shown = partial(
        demonstrations,
        specs,
        encoder,
        batch_size=config.batch_size,
        mistake_rate=config.mistake_rate,
        suboptimal_rate=config.suboptimal_rate,
    )
    if config.num_demonstrations is None:
        return shown(start=seed * 1_000_003 % 50_000_000, num_first_turn_batches=config.num_first_turn_steps)
    played = itertools.chain.from_iterable(shown())
    return _repeated(list(itertools.islice(played, config.num_demonstrations)), config, seed=seed)


def recorded_demonstrations(
    directory: str, encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields batches of a data set without end; first turns only in the first steps."""
    return _repeated([tokenized(episode, encoder) for episode in curated_episodes(directory)], config, seed=seed)


def _repeated(episodes: Sequence[Trajectory], config: ColdStartConfig, *, seed: int) -> Iterator[list[Trajectory]]:
    """Yields batches of the same episodes without end; first turns only in the first steps."""
    for step, batch in enumerate(shuffled_batches(episodes, config.batch_size, seed)):
        first_only = step < config.num_first_turn_steps
        yield [replace(each, turns=each.turns[:1]) for each in batch] if first_only else batch


@contextmanager
def stop_on_interrupt(step: str, lost: str, more: Callable[[], str] = str) -> Iterator[Callable[[], bool]]:
    """Makes the first Ctrl-C a request, which the function it yields tells of; the second one interrupts at once.

    A line says what is still done after the first (`step`) and what the second costs (`lost`), and what `more` gives.
    """
    is_requested = False

    def request(signum: int, frame: FrameType | None) -> None:
        nonlocal is_requested
        if is_requested:
            raise KeyboardInterrupt
        is_requested = True
        print(f"Stopping after this {step}; press Ctrl-C again to stop at once ({lost}).{more()}")

    previous = signal.signal(signal.SIGINT, request)
    try:
        yield lambda: is_requested
    finally:
        signal.signal(signal.SIGINT, previous)


def _imitate(
    model: Any,
    encoder: ChatEncoder,
    batches: Iterator[list[Trajectory]],
    config: ColdStartConfig,
    *,
    on_step: OnStep,
    should_stop: Callable[[], bool],
    on_checkpoint: OnCheckpoint | None,
    first: int,
    optimizer_state: dict[str, Any] | None,
) -> int:
    """Takes steps of maximum likelihood with an optimiser of its own, from `first` to `config.num_steps`.

    Returns:
        How many are done, those before `first` included.
    """
    optimizer = Optimizer(
        model,
        learning_rate=config.learning_rate,
        weight_decay=config.weight_decay,
        max_grad_norm=config.max_grad_norm,
        max_nonfinite_steps=config.max_nonfinite_steps,
        what="cold start",
    )
    if first and optimizer_state is not None:
        optimizer.load_state_dict(optimizer_state, model.state_dict())
    for _ in range(first if first < config.num_steps else 0):
        next(batches)
    row_pass = row_pass_of(model, MemoryConfig())
    if row_pass.shares_prefixes:
        share_prefixes(model)
    policy = PolicyModel(model, temperature=1.0, suppressed_ids=[], row_pass=row_pass)
    model.train()
    step = first - 1
    for step in range(first, config.num_steps):
        trajectories = next(batches)
        batch = make_batch(trajectories, [[0.0] * len(t.turns) for t in trajectories], encoder)
        mask_BT = batch.response_mask_BT
        logprobs_BT, _ = policy(batch, "none")
        loss = aggregate(
            -logprobs_BT,
            mask_BT.to(logprobs_BT.device),
            aggregation="token_mean",
            normalizer=loss_normalizer(mask_BT, aggregation="token_mean"),
        )
        optimizer.set_learning_rate(config.learning_rate * learning_rate_factor(step, config))
        optimizer.zero_grad()
        optimizer.backward(loss)
        grad_norm, is_taken = optimizer.step()
        shown = {"loss": float(loss.detach()), "grad_norm": grad_norm, "skipped_steps": float(not is_taken)}
        on_step(step, shown)
        is_due = config.checkpoint_every and ((step + 1) % config.checkpoint_every == 0 or step + 1 == config.num_steps)
        if is_due and on_checkpoint is not None:
            on_checkpoint(step + 1, optimizer.state_dict())
        if should_stop():
            break
    model.eval()
    return step + 1


def learning_rate_factor(step: int, config: ColdStartConfig) -> float:
    """Returns linear warm-up followed by a cosine to a tenth of the peak."""
    if step < config.warmup_steps:
        return (step + 1) / config.warmup_steps
    progress = (step - config.warmup_steps) / max(1, config.num_steps - config.warmup_steps)
    return 0.1 + 0.45 * (1.0 + math.cos(math.pi * progress))
