"""Supervised learning: one loop for the cold start, which imitates an expert's episodes, and for fine-tuning.

A cold start gives reinforcement learning something to improve; fine-tuning on data sets is in `training.loop.sft`.
"""

from __future__ import annotations

import itertools
import signal
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from types import FrameType
from typing import Any

import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.families.shared_attention import share_prefixes
from training.algorithms.functional.losses import aggregate, loss_normalizer
from training.batch import Batch, make_batch
from training.config.cold_start import ColdStartConfig
from training.config.lora import LoRAConfig
from training.config.memory import MemoryConfig
from training.config.supervised import SupervisedSteps
from training.config.worlds import WorldSpec
from training.data.copying import copying_exercises, spared_tokens
from training.data.curated import curated_episodes, shuffled_batches
from training.data.demonstrations import demonstrations, tokenized
from training.engines.engine import LocalEngine
from training.engines.frozen import freeze_vision_tower
from training.engines.lora import add_adapters
from training.engines.optimizer import Optimizer
from training.engines.policy import PolicyModel
from training.engines.row_pass import row_pass_of
from training.loop.micro_batches import RowLimits, micro_batches
from training.loop.out_of_memory import OF_FINE_TUNING, FittedPasses
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
    learner = SupervisedLearner(model, config.steps, what="cold start")
    if num_done and optimizer_state is not None:
        learner.load_optimizer_state(optimizer_state)
    shown = _batches(specs, encoder, config, seed=seed)
    for _ in range(num_done if num_done < config.num_steps else 0):
        next(shown)
    spared = spared_tokens(encoder, [spec.env_id for spec in specs])

    def batches() -> Iterator[Batch]:
        for number, each in enumerate(shown, num_done):
            learner.suppress(spared if number < config.num_copying_steps else [])
            yield make_batch(each, [[0.0] * len(t.turns) for t in each], encoder)

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
    """Returns the batches of a cold start, without end: copying, first turns only, whole episodes."""
    env_ids = [spec.env_id for spec in specs]
    copying = copying_exercises(encoder, env_ids, num_batches=config.num_copying_steps, seed=seed)
    return itertools.chain(copying, _demonstrations(specs, encoder, config, seed=seed))


def _demonstrations(
    specs: tuple[WorldSpec, ...], encoder: ChatEncoder, config: ColdStartConfig, *, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields what an expert did, in batches without end; first turns only in the first steps."""
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


class SupervisedLearner:
    """Maximum likelihood of what rows have generated, one optimiser step after another.

    Args:
        model: A checkpoint's model with its head, trained in place.
        steps: How the steps are taken.
        what: What is trained, for messages: `"cold start"`.
        memory: How rows go through the model, and whether its tower is frozen.
        lora: Adapters that are trained in place of the weights.
        micro_batch_tokens: Most tokens that go through the model at a time; None for a whole batch. Gradients are the
            same but for rounding. Where memory runs out, it goes on with half as many.
    """

    def __init__(
        self,
        model: Any,
        steps: SupervisedSteps,
        *,
        what: str,
        memory: MemoryConfig | None = None,
        lora: LoRAConfig | None = None,
        micro_batch_tokens: int | None = None,
    ) -> None:
        memory, lora = memory or MemoryConfig(), lora or LoRAConfig()
        self.model, self.steps = model, steps
        row_pass = row_pass_of(model, memory)
        if row_pass.shares_prefixes:
            share_prefixes(model)
        if lora.rank is not None:
            add_adapters(model, lora)
        if memory.freeze_vision_tower:
            freeze_vision_tower(model)
        self._policy = PolicyModel(model, temperature=1.0, suppressed_ids=[], row_pass=row_pass)
        self._optimizer = Optimizer(
            model,
            learning_rate=steps.learning_rate,
            weight_decay=steps.weight_decay,
            max_grad_norm=steps.max_grad_norm,
            max_nonfinite_steps=steps.max_nonfinite_steps,
            what=what,
        )
        self._fitted: FittedPasses | None = None
        if micro_batch_tokens is not None:
            limits = RowLimits(
                max_rows=1,
                max_tokens=micro_batch_tokens,
                has_padding=not row_pass.packs_rows,
                keeps_siblings=row_pass.shares_prefixes,
                options="--micro-batch",
            )
            self._fitted = FittedPasses(limits, LocalEngine(), remedy=OF_FINE_TUNING)

    def step(self, number: int, batch: Batch) -> dict[str, float]:
        """Takes a step; its number, from 0, decides its learning rate.

        Returns:
            The mean loss of a generated token in nats, the gradient's norm before clipping, and whether the step was
            left out for a gradient that is not finite.

        Raises:
            NonFiniteGradientError: If that happened too many times in a row.
            MemoryExhaustedError: If memory runs out, and does so again in smaller micro-batches.
        """
        self._optimizer.set_learning_rate(self.steps.learning_rate_at(number))
        if self._fitted is None:
            loss = self._gradient(batch)
        else:
            loss = self._fitted(lambda: self._gradient(batch), batch, range(batch.num_rows))
        grad_norm, is_taken = self._optimizer.step()
        return {"loss": loss, "grad_norm": grad_norm, "skipped_steps": float(not is_taken)}

    def suppress(self, token_ids: list[int]) -> None:
        """Makes tokens impossible from now on, so that nobody learns that they are rare, and all others possible."""
        self._policy.suppressed_ids = token_ids

    @torch.no_grad()
    def mean_loss(self, batches: Iterable[Batch]) -> float:
        """Returns the mean loss of a generated token of all batches, in nats; the model is as it was before."""
        total, count, is_training = 0.0, 0.0, self.model.training
        self.model.eval()
        for batch in batches:
            num_tokens = loss_normalizer(batch.response_mask_BT, aggregation="token_mean")
            total += sum(float(self._loss(*part)) for part in self._parts(batch)) * num_tokens
            count += num_tokens
        self.model.train(is_training)
        return total / count

    def optimizer_state(self) -> dict[str, Any]:
        """Returns the optimiser's state, with which the model as it is goes on."""
        return self._optimizer.state_dict()

    def load_optimizer_state(self, state: dict[str, Any]) -> None:
        """Continues from what `optimizer_state` returned; the model is to have the weights of then already."""
        self._optimizer.load_state_dict(state, self.model.state_dict())

    def _gradient(self, batch: Batch) -> float:
        """Makes the gradient of a batch's mean loss, and returns that."""
        self._optimizer.zero_grad()
        total = 0.0
        for part in self._parts(batch):
            loss = self._loss(*part)
            self._optimizer.backward(loss)
            total += float(loss.detach())
        return total

    def _parts(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """Yields the rows that go through the model together, and what their sums are divided by."""
        if self._fitted is None:
            yield batch, loss_normalizer(batch.response_mask_BT, aggregation="token_mean")
            return
        rows, engine = range(batch.num_rows), LocalEngine()
        for micro in micro_batches(batch, rows, self._fitted.limits, engine, aggregation="token_mean"):
            yield micro.part, micro.normalizer

    def _loss(self, part: Batch, normalizer: float) -> Tensor:
        logprobs_BT, _ = self._policy(part, "none")
        mask_BT = part.response_mask_BT.to(logprobs_BT.device)
        return aggregate(-logprobs_BT, mask_BT, aggregation="token_mean", normalizer=normalizer)


def take_steps(
    learner: SupervisedLearner,
    batches: Iterator[Batch],
    *,
    on_step: OnStep,
    should_stop: Callable[[], bool],
    on_checkpoint: OnCheckpoint | None,
    first: int,
) -> int:
    """Takes steps from `first` on until all are done or `should_stop` says so after one.

    Args:
        learner: Who learns, and how many steps there are.
        batches: What it learns from, that of step `first` next.
        on_step: Gets each step's number and metrics.
        should_stop: Says whether to end here.
        on_checkpoint: Gets the steps done and the optimiser's state where a checkpoint is due.
        first: Steps that were done before.

    Returns:
        How many are done, those before `first` included.
    """
    learner.model.train()
    step = first - 1
    for step in range(first, learner.steps.num_steps):
        on_step(step, learner.step(step, next(batches)))
        if on_checkpoint is not None and learner.steps.is_checkpoint_due(step + 1):
            on_checkpoint(step + 1, learner.optimizer_state())
        if should_stop():
            break
    learner.model.eval()
    return step + 1
