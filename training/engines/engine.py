"""Where models are trained: in this process, or by several that each hold a part of the work.

Every process runs the same training loop over the same batch. What differs is who plays which groups, whose rows go
through the models here, and that gradients, and what models said of rows, are put together again.
"""

from __future__ import annotations

from collections.abc import Collection
from contextlib import AbstractContextManager, nullcontext
from typing import Any, Protocol

from torch import nn

from training.engines.processes import OneProcess, Processes


class Engine(Processes, Protocol):
    """What the trainer asks of the processes it runs in.

    All of them call the same methods in the same order.

    Attributes:
        takes_passes_side_by_side: Whether several passes through a module that it prepared may be under way at a time.
    """

    takes_passes_side_by_side: bool

    def prepare(self, module: nn.Module, whole: Collection[nn.Parameter] = ()) -> nn.Module:
        """Returns a module that all processes train, or only ask; its `forward` is what may be called.

        Args:
            module: Rows first.
            whole: Those of its weights that stay whole in each process: several models share them.
        """

    def acting(self, model: Any) -> Any:
        """Returns a whole model to sample from, made before `prepare`: the model itself where that stays whole.

        Processes sample different numbers of tokens, so none can wait for the others in every layer.
        """

    def refresh(self, acting: Any, model: Any) -> None:
        """Gives a model that `acting` returned the weights of the one it was made from."""

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Gives a block for forward and backward passes of one micro-batch.

        Args:
            module: What `prepare` returned.
            is_last: Whether gradients are put together behind it, as the last one of an optimiser step demands.
        """


class LocalEngine(OneProcess):
    """One process, one device; an `Engine`."""

    takes_passes_side_by_side = True

    def prepare(self, module: nn.Module, whole: Collection[nn.Parameter] = ()) -> nn.Module:
        """Returns the module as it is."""
        return module

    def acting(self, model: Any) -> Any:
        """Returns the model."""
        return model

    def refresh(self, acting: Any, model: Any) -> None:
        """Does nothing: they are one."""

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Gives a block that does nothing of its own."""
        return nullcontext()
