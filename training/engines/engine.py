"""Engines: training in one process, or in several that a launcher started together."""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Collection, Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext, redirect_stdout
from datetime import timedelta
from os import devnull
from pathlib import Path
from threading import current_thread, main_thread
from types import FrameType
from typing import Any, Protocol, TypeVar, cast

import torch.distributed as dist
from torch import Tensor, nn

from agents.hf.checkpoint import torch_device
from training.config.processes import num_processes
from training.errors import PeerError, PeerInterruptedError

T = TypeVar("T")


class Processes(Protocol):
    """A group of processes, or a single one. All processes must call the same methods in the same order.

    Attributes:
        num_processes: Number of processes, one per device.
        rank: Rank of this process; 0 is the main process.
        group: torch process group for CPU communication; None for a single process.
    """

    num_processes: int
    rank: int
    group: Any

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items of all processes, in order of rank."""

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Runs a function in the main process only, and returns its result in all processes.

        Args:
            make: The function.
            is_long: Whether it may take hours, like a cold start; the other processes then wait without a timeout.

        Raises:
            Exception: As raised by the function, in the main process; `PeerError` in the others.
            KeyboardInterrupt: On Ctrl-C in the main process; `PeerInterruptedError` in the others, which defer their
                own Ctrl-C until the main process, which the launcher also interrupts, has responded.
        """

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes of equally shaped tensors, on the CPU."""


class OneProcess:
    """A single process."""

    num_processes = 1
    rank = 0
    group: Any = None

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items."""
        return list(items)

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns the function's result."""
        return make()

    def sum(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x


class Engine(Processes, Protocol):
    """Interface between the trainer and its processes, which must call the same methods in the same order.

    Attributes:
        takes_passes_side_by_side: Whether a prepared module supports concurrent forward passes.
    """

    takes_passes_side_by_side: bool

    def prepare(self, module: nn.Module, whole: Collection[nn.Parameter] = ()) -> nn.Module:
        """Returns a module for use by all processes, trained or not; only its `forward` may be called.

        Args:
            module: A module whose inputs and outputs have rows as the first dimension.
            whole: Weights to keep unsharded, because several models share them.
        """

    def acting(self, model: Any) -> Any:
        """Returns an unsharded model to sample from: the model itself, or a copy; call it before `prepare`.

        Processes sample different numbers of tokens, so they cannot synchronize in every layer.
        """

    def refresh(self, acting: Any, model: Any) -> None:
        """Copies the current weights to a model that `acting` returned."""

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Returns a context for the forward and backward passes of one micro-batch.

        Args:
            module: A module returned by `prepare`.
            is_last: Whether it is the last micro-batch of an optimizer step, after which gradients are summed.
        """


class LocalEngine(OneProcess):
    """The `Engine` of a single process and device."""

    takes_passes_side_by_side = True

    def prepare(self, module: nn.Module, whole: Collection[nn.Parameter] = ()) -> nn.Module:
        """Returns the module unchanged."""
        return module

    def acting(self, model: Any) -> Any:
        """Returns the model."""
        return model

    def refresh(self, acting: Any, model: Any) -> None:
        """Does nothing: both are the same model."""

    def accumulating(self, module: nn.Module, *, is_last: bool) -> AbstractContextManager[None]:
        """Returns a null context."""
        return nullcontext()


class LaunchedProcesses:
    """Processes started by `accelerate launch`. Objects are exchanged over gloo, regardless of the gradient backend.

    Args:
        on_cpu: Whether to use CPUs only.
        timeout_min: Minutes after which waiting for another process fails.

    Attributes:
        device: Device of this process.
    """

    def __init__(self, *, on_cpu: bool, timeout_min: float) -> None:
        from accelerate import PartialState  # an optional dependency

        timeout = timedelta(minutes=timeout_min)
        state = PartialState(cpu=on_cpu, timeout=timeout)
        self.num_processes, self.rank, self.device = state.num_processes, state.process_index, state.device
        self.group: Any = dist.new_group(backend="gloo", timeout=timeout)
        self._patient = dist.new_group(backend="gloo", timeout=timedelta(days=30))

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items of all processes."""
        parts: list[Any] = [None] * self.num_processes
        dist.all_gather_object(parts, list(items), group=self.group)
        return [item for part in parts for item in part]

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns the result of the main process."""
        outcome: list[Any] = [None, None]
        error: BaseException | None = None
        if self.rank == 0:
            try:
                outcome[0] = make()
            except KeyboardInterrupt as raised:
                error, outcome[1] = raised, PeerInterruptedError()
            except Exception as raised:
                error, outcome[1] = raised, PeerError(f"The main process stopped: {type(raised).__name__}: {raised}")
        with interrupts_put_off() if self.rank > 0 else nullcontext():
            dist.broadcast_object_list(outcome, src=0, group=self._patient if is_long else self.group)
            if outcome[1] is not None and error is None:
                raise outcome[1]
        if error is not None:
            raise error
        return cast("T", outcome[0])

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes."""
        total = x.detach().cpu().clone()
        dist.all_reduce(total, group=self.group)
        return total

    def close(self) -> None:
        """Waits for the other processes and leaves the group."""
        dist.barrier(group=self.group)
        dist.destroy_process_group()


@contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Defers a Ctrl-C during the block to its end, unless the block raises an exception."""
    if current_thread() is not main_thread():
        yield
        return
    seen: list[FrameType | None] = []
    previous = signal.signal(signal.SIGINT, lambda _, frame: seen.append(frame))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, previous)
    if seen:
        signal.raise_signal(signal.SIGINT)


@contextmanager
def launched(device: str, *, timeout_min: float) -> Iterator[OneProcess | LaunchedProcesses]:
    """Yields the processes of this launch once all have joined; only the main process prints within the block.

    Args:
        device: The `device` setting of the run.
        timeout_min: Minutes after which waiting for another process fails.
    """
    if num_processes() == 1:
        yield OneProcess()
        return
    processes = LaunchedProcesses(on_cpu=torch_device(device).type == "cpu", timeout_min=timeout_min)
    with Path(devnull).open("w") as nowhere, redirect_stdout(sys.stdout if processes.rank == 0 else nowhere):
        yield processes
    processes.close()
