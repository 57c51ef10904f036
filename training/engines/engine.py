"""Where models are trained: in this process, or by several that each hold a part of the work.

Every process runs the same training loop over the same batch. What differs is who plays which groups, whose rows go
through the models here, and that gradients, and what models said of rows, are put together again.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Protocol, TypeVar

from torch import Tensor, nn

T = TypeVar("T")


class Engine(Protocol):
    """What the trainer asks of the processes it runs in.

    Attributes:
        num_processes: How many there are, one per device.
        rank: Number of this one, from 0.
    """

    num_processes: int
    rank: int

    def prepare(self, module: nn.Module) -> nn.Module:
        """Returns a module that is trained by all processes; its `forward` is what may be called."""

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Gives a block for forward and backward passes of one micro-batch.

        Args:
            module: What `prepare` returned.
            is_last: Whether gradients are put together behind it, as the last one of an optimiser step demands.
        """

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns every process's items, those of rank 0 first; all processes get the same."""

    def broadcast(self, item: T) -> T:
        """Returns what the main process, rank 0, has; the others' argument is left aside."""

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes of a tensor of one shape, on the CPU."""


class LocalEngine:
    """One process, one device; an `Engine`."""

    num_processes = 1
    rank = 0

    def prepare(self, module: nn.Module) -> nn.Module:
        """Returns the module as it is."""
        return module

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Gives a block that does nothing of its own."""
        return nullcontext()

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items."""
        return list(items)

    def broadcast(self, item: T) -> T:
        """Returns the item."""
        return item

    def sum(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x
