"""Host memory: the limit set by the kernel, and offloading of states that a device does not currently need."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

GIB = 2**30
HOST = torch.device("cpu")


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """Peak host memory of one process, reached while sampling, when everything that can be offloaded is.

    Attributes:
        reference: Bytes of the reference's weights.
        states: Bytes of the optimizers' masters and moments.
        copy: Bytes of the copy of the run's state that `training.loop.interrupts` keeps.
    """

    reference: float = 0.0
    states: float = 0.0
    copy: float = 0.0

    @property
    def offloaded(self) -> float:
        """Offloaded bytes."""
        return self.reference + self.states

    @property
    def total(self) -> float:
        """Total bytes."""
        return self.offloaded + self.copy

    @property
    def without_offloading(self) -> str:
        """The options that disable offloading."""
        waiting = {"--memory.no-offload-optimizer": self.states, "--memory.no-offload-reference": self.reference}
        return " ".join(option for option, num_bytes in waiting.items() if num_bytes)


def local_bytes(tensors: Iterable[Tensor]) -> int:
    """Returns the bytes of tensors in this process, counting only its shard of sharded ones."""
    return sum((tensor.to_local() if isinstance(tensor, DTensor) else tensor).nbytes for tensor in tensors)


def host_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes of memory available to this process and its peers; None if unknown.

    Args:
        root: Parent folder of `proc` and `sys`.

    Returns: The machine's memory, or the smallest limit of the process's control groups, version 1 or 2.
    """
    return min((*_installed(root), *_group_limits(root)), default=None)


def _installed(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc" / "meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) * 1024


def _group_limits(root: Path) -> Iterator[int]:
    """Yields the limits of this process's control groups and of their parents."""
    groups = root / "sys" / "fs" / "cgroup"
    for line in _lines(root / "proc" / "self" / "cgroup"):
        _, controllers, path = line.split(":", 2)
        if controllers and "memory" not in controllers.split(","):
            continue
        own = Path(path.lstrip("/"))
        for group in (own, *own.parents):
            limit = (
                groups / "memory" / group / "memory.limit_in_bytes" if controllers else groups / group / "memory.max"
            )
            yield from (int(line) for line in _lines(limit) if line.isdigit())  # "max" means no limit


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


class _Left(NamedTuple):
    """A tensor on a device, and its reserved host memory."""

    tensor: Tensor
    place: Tensor


class HostMemory:
    """Offloads tensors to host memory and reuses their buffers, because new memory is slower to write.

    Tensors are moved in place, so that all references to them stay valid. Sharded tensors (DTensors) and tensors
    already on the target device are not moved. Fetched tensors must be put away again; until then, their buffers and
    the tensors are kept alive.
    """

    def __init__(self) -> None:
        self._left: dict[int, _Left] = {}  # by id

    def put_away(self, tensors: Iterable[Tensor]) -> None:
        """Moves tensors to host memory."""
        for tensor in _each_once(tensors, HOST):
            here = tensor.detach()
            place = self._left.pop(id(tensor)).place if id(tensor) in self._left else None
            _swap(tensor, here.to(HOST) if place is None else place.detach().copy_(here))

    def fetch(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Moves tensors to a device, and keeps the host buffers of offloaded ones."""
        for tensor in _each_once(tensors, device):
            was_here = tensor.device == HOST
            left = _swap(tensor, tensor.detach().to(device))
            if was_here:
                self._left[id(tensor)] = _Left(tensor=tensor, place=left)

    @contextmanager
    def at_hand(self, tensors: Callable[[], Iterable[Tensor]], device: torch.device) -> Iterator[None]:
        """Moves tensors to a device for the block, and to host memory afterwards.

        Args:
            tensors: Returns the tensors; called again after the block, because there may be new ones.
            device: The device.
        """
        try:
            self.fetch(tensors(), device)
            yield
        finally:
            self.put_away(tensors())


def _each_once(tensors: Iterable[Tensor], device: torch.device) -> list[Tensor]:
    """Returns the distinct tensors that must be moved to a device."""
    distinct = {id(tensor): tensor for tensor in tensors}.values()
    return [tensor for tensor in distinct if tensor.device != device and not isinstance(tensor, DTensor)]


def _swap(tensor: Tensor, moved: Tensor) -> Tensor:
    """Replaces the contents of a tensor in place; returns a tensor with the old contents."""
    other = nn.Parameter(moved) if isinstance(tensor, nn.Parameter) else moved
    torch.utils.swap_tensors(tensor, other.requires_grad_(tensor.requires_grad))
    return other


@contextmanager
def in_place_of(absent: Any, present: Any) -> Iterator[None]:
    """Swaps a model on a device with one in host memory for the block, so that both are never on the device.

    Args:
        absent: Model on the device; bit-identical afterwards.
        present: Model in host memory before and after the block.
    """
    device = absent.device
    absent.to(HOST)
    try:
        present.to(device)
        yield
    finally:
        present.to(HOST)
        absent.to(device)


def own_weights(module: nn.Module, others: Iterable[nn.Module]) -> list[Tensor]:
    """Returns a module's weights that none of the others has."""
    shared = {id(weight) for other in others for weight in other.parameters()}
    return [weight for weight in module.parameters() if id(weight) not in shared]
