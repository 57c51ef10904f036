"""The gradient of one optimiser step, from its micro-batches."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterable

from torch import Tensor, nn

from training.engines.engine import Engine
from training.engines.optimizer import Optimizer
from training.engines.side_by_side import SideBySide
from training.loop.update.micro_batches import MicroBatch

Metrics = defaultdict[str, float]


def accumulate_gradient(
    loss_of: Callable[[MicroBatch, Metrics], Tensor],
    micros: Iterable[MicroBatch],
    *,
    module: nn.Module,
    optimizer: Optimizer,
    engine: Engine,
    side_by_side: SideBySide,
) -> Metrics:
    """Has an optimiser hold the gradient of a step's loss, and returns the step's metrics.

    Args:
        loss_of: Returns a micro-batch's share of the loss, and adds its metrics.
        micros: This process's micro-batches.
        module: What computes the loss, as the engine prepared it.
        optimizer: Of its weights.
        engine: Which processes train it.
        side_by_side: How many go through at a time; gradients are added up in their order, whichever is done first.
    """
    metrics: Metrics = defaultdict(float)
    optimizer.zero_grad()
    if side_by_side.num_at_once == 1:
        for micro in micros:
            with engine.accumulating(module, is_last=micro.is_last):
                optimizer.backward(loss_of(micro, metrics))
        return metrics

    def computed(micro: MicroBatch) -> tuple[list[Tensor | None], Metrics]:
        own: Metrics = defaultdict(float)
        return optimizer.gradients(loss_of(micro, own)), own

    for gradients, own in side_by_side.map(computed, micros):
        optimizer.add(gradients)
        for name, value in own.items():
            metrics[name] += value
    return metrics
