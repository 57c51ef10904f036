"""Gradients of the optimizer steps of an update, to compare updates that compute the same in different ways.

AdamW divides each gradient by its own size, so its first steps turn the rounding of a gradient near zero into a weight
change as large as the learning rate. Which gradients those are depends on the CPU's kernels. Tests therefore compare
the gradients, and let plain SGD take the steps between them.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any, NamedTuple

import pytest
import torch
from torch import Tensor
from torch.distributed.tensor import DTensor
from torch.optim.optimizer import register_optimizer_step_pre_hook

RTOL = 1e-3
"""Relative to the norm of a tensor: float32 kernels differ by 1e-5, a wrong mask or a lost row by more than 1e-2."""


class Step(NamedTuple):
    """The gradients of one optimizer step, after clipping."""

    optimizer: int
    gradients: list[Tensor]


@contextmanager
def recorded_steps() -> Iterator[list[Step]]:
    """Yields a list to which each optimizer step adds its gradients; those of sharded weights are put together."""
    steps: list[Step] = []

    def record(optimizer: torch.optim.Optimizer, args: Any, kwargs: Any) -> None:
        weights = [weight for group in optimizer.param_groups for weight in group["params"]]
        gradients = [weight.grad for weight in weights if weight.grad is not None]
        whole = [grad.full_tensor() if isinstance(grad, DTensor) else grad.clone() for grad in gradients]
        steps.append(Step(id(optimizer), whole))

    hook = register_optimizer_step_pre_hook(record)
    try:
        yield steps
    finally:
        hook.remove()


@contextmanager
def sgd_steps() -> Iterator[list[Step]]:
    """Records steps as `recorded_steps`, and makes optimizers built meanwhile take steps of plain SGD."""

    def sgd(weights: Iterable[Tensor], lr: float, **_: Any) -> torch.optim.Optimizer:
        return torch.optim.SGD(weights, lr=lr)

    with pytest.MonkeyPatch.context() as patched, recorded_steps() as steps:
        patched.setattr(torch.optim, "AdamW", sgd)
        yield steps


def first_steps(steps: list[Step]) -> list[Step]:
    """Returns the first step of each optimizer: those that no earlier step of AdamW has influenced."""
    return [step for i, step in enumerate(steps) if step.optimizer not in {each.optimizer for each in steps[:i]}]


def assert_same_steps(found: list[Step], expected: list[Step]) -> None:
    """Asserts that two updates took as many steps, by the same gradients but for rounding.

    A gradient may differ by `RTOL` of its norm and a thousandth of that of the whole step: some are zero by formula.
    """
    assert len(found) == len(expected) > 0
    for number, (one, other) in enumerate(zip(found, expected, strict=True)):
        whole = float(torch.stack([gradient.norm() for gradient in other.gradients]).norm())
        assert whole > 0, "nothing to compare"
        for i, (gradient, wanted) in enumerate(zip(one.gradients, other.gradients, strict=True)):
            error, allowed = float((gradient - wanted).norm()), RTOL * float(wanted.norm()) + 1e-3 * RTOL * whole
            assert error <= allowed, f"step {number}, weight {i}: off by {error:.2e} of {float(wanted.norm()):.2e}"
