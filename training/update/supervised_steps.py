"""Optimizer steps of supervised learning, shared by the cold start and fine-tuning."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import torch
from torch import Tensor

from agents.hf.row_passes import share_prefixes
from training.algorithms.losses import aggregate, loss_normalizer
from training.batch import Batch
from training.config.update_config import LoRAConfig, MemoryConfig, SupervisedSteps
from training.engines.engine import LocalEngine
from training.engines.lora import add_adapters
from training.engines.optimizer import Optimizer
from training.engines.policy import PolicyModel, freeze_vision_tower, row_pass_of
from training.update.micro_batches import OF_FINE_TUNING, FittedPasses, RowLimits, micro_batches

OnStep = Callable[[int, dict[str, float]], None]
OnCheckpoint = Callable[[int, dict[str, Any]], None]
"""Called with the number of steps done and the optimizer's state."""


class SupervisedLearner:
    """Maximum-likelihood training on the generated tokens of rows.

    Args:
        model: A checkpoint's model with its head, trained in place.
        steps: Settings of the steps.
        what: Name of the training for messages, such as `"cold start"`.
        memory: How rows pass through the model, and whether its vision tower is frozen.
        lora: Adapters that are trained in place of the weights.
        micro_batch_tokens: Maximum tokens per forward pass; None for a whole batch. Gradients are equal up to
            rounding. Halved if memory runs out.
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
            adamw=steps.adamw,
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
        """Takes a step; its number, from 0, determines the learning rate.

        Returns:
            The mean loss per generated token in nats, the gradient norm before clipping, and whether the step was
            skipped because of a gradient that is not finite.

        Raises:
            NonFiniteGradientError: If that happened too many times in a row.
            MemoryExhaustedError: If memory runs out, even with smaller micro-batches.
        """
        self._optimizer.set_learning_rate(self.steps.learning_rate_at(number))
        if self._fitted is None:
            loss = self._gradient(batch)
        else:
            loss = self._fitted(lambda: self._gradient(batch), batch, range(batch.num_rows))
        grad_norm, is_taken = self._optimizer.step()
        return {"loss": loss, "grad_norm": grad_norm, "skipped_steps": float(not is_taken)}

    def suppress(self, token_ids: list[int]) -> None:
        """Sets the tokens to mask from now on, so that the loss does not train the model to avoid them."""
        self._policy.suppressed_ids = token_ids

    @torch.no_grad()
    def mean_loss(self, batches: Iterable[Batch]) -> float:
        """Returns the mean loss per generated token over all batches, in nats; does not change the model."""
        total, count, is_training = 0.0, 0.0, self.model.training
        self.model.eval()
        for batch in batches:
            num_tokens = loss_normalizer(batch.response_mask_BT, aggregation="token_mean")
            total += sum(float(self._loss(*part)) for part in self._parts(batch)) * num_tokens
            count += num_tokens
        self.model.train(is_training)
        return total / count

    def optimizer_state(self) -> dict[str, Any]:
        """Returns the optimizer's state for resuming."""
        return self._optimizer.state_dict()

    def load_optimizer_state(self, state: dict[str, Any]) -> None:
        """Restores the state returned by `optimizer_state`; the model must already have the matching weights."""
        self._optimizer.load_state_dict(state, self.model.state_dict())

    def _gradient(self, batch: Batch) -> float:
        """Computes the gradient of a batch's mean loss and returns the loss."""
        self._optimizer.zero_grad()
        total = 0.0
        for part in self._parts(batch):
            loss = self._loss(*part)
            self._optimizer.backward(loss)
            total += float(loss.detach())
        return total

    def _parts(self, batch: Batch) -> Iterator[tuple[Batch, float]]:
        """Yields rows that pass through the model together, with the normalizer of their losses."""
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
    """Takes steps from `first` until all are done or `should_stop` returns True after one.

    Args:
        learner: The learner, with the total number of steps.
        batches: Batches, starting with that of step `first`.
        on_step: Called with each step's number and metrics.
        should_stop: Returns whether to stop.
        on_checkpoint: Called with the number of steps done and the optimizer's state when a checkpoint is due.
        first: Number of steps done before.

    Returns:
        The number of steps done, including those before `first`.
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
