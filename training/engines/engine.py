"""Where models are trained: in this process, or in several that a launcher started together."""

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
    """Processes that were launched together, or one alone. All of them call the same methods in the same order.

    Attributes:
        num_processes: How many there are, one per device.
        rank: Number of this one, from 0, which is the main process.
        group: torch's group of them for what is on CPUs; None for one alone.
    """

    num_processes: int
    rank: int
    group: Any

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns every process's items, those of rank 0 first; all processes get the same."""

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns what the main process makes, which alone runs `make`.

        Args:
            make: Makes it.
            is_long: Whether that may take hours, as a cold start does; the others wait as long as it lives.

        Raises:
            Exception: What it raises, in the main process; elsewhere `PeerError` in its place.
            KeyboardInterrupt: If that stopped it, in the main process; elsewhere `PeerInterruptedError`. A Ctrl-C that
                comes to others meanwhile waits for what becomes of the main process, whose launcher tells it as well.
        """

    def sum(self, x: Tensor) -> Tensor:
        """Returns the sum over processes of a tensor of one shape, on the CPU."""


class OneProcess:
    """One process, which was started by itself."""

    num_processes = 1
    rank = 0
    group: Any = None

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns the items."""
        return list(items)

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns what is made here."""
        return make()

    def sum(self, x: Tensor) -> Tensor:
        """Returns the tensor."""
        return x


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


class LaunchedProcesses:
    """Several processes by `accelerate launch`. Objects go from one to another by gloo, whatever gradients go by.

    Args:
        on_cpu: Whether devices are left alone.
        timeout_min: Minutes after which a process that waits for another gives it up.

    Attributes:
        device: This process's own.
    """

    def __init__(self, *, on_cpu: bool, timeout_min: float) -> None:
        from accelerate import PartialState  # which not every installation needs

        timeout = timedelta(minutes=timeout_min)
        state = PartialState(cpu=on_cpu, timeout=timeout)
        self.num_processes, self.rank, self.device = state.num_processes, state.process_index, state.device
        self.group: Any = dist.new_group(backend="gloo", timeout=timeout)
        self._patient = dist.new_group(backend="gloo", timeout=timedelta(days=30))

    def gather(self, items: Sequence[T]) -> list[T]:
        """Returns every process's items."""
        parts: list[Any] = [None] * self.num_processes
        dist.all_gather_object(parts, list(items), group=self.group)
        return [item for part in parts for item in part]

    def on_main(self, make: Callable[[], T], *, is_long: bool = False) -> T:
        """Returns what the main process makes."""
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
        """Waits for the others and leaves them."""
        dist.barrier(group=self.group)
        dist.destroy_process_group()


@contextmanager
def interrupts_put_off() -> Iterator[None]:
    """Has a Ctrl-C that comes within the block take effect at its end, unless the block raises anything itself."""
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
    """Gives the processes of this launch for a block, when all are there; only the main one prints in it.

    Args:
        device: What a run of them trains on, as its setting says.
        timeout_min: Minutes after which a process that waits for another gives it up.
    """
    if num_processes() == 1:
        yield OneProcess()
        return
    processes = LaunchedProcesses(on_cpu=torch_device(device).type == "cpu", timeout_min=timeout_min)
    with Path(devnull).open("w") as nowhere, redirect_stdout(sys.stdout if processes.rank == 0 else nowhere):
        yield processes
    processes.close()
