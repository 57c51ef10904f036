"""Host memory: how much the kernel allows, and the states that wait there while a device does not need them."""

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
    """What one process keeps in the host's memory at its most: while it samples, when all that may wait there does.

    Attributes:
        reference: Bytes of the reference's weights.
        states: Bytes of the optimisers' masters and moments.
        copy: Bytes of the copy of the run's state that `training.loop.interrupts` keeps.
    """

    reference: float = 0.0
    states: float = 0.0
    copy: float = 0.0

    @property
    def offloaded(self) -> float:
        """What waits there for a device."""
        return self.reference + self.states

    @property
    def total(self) -> float:
        """All of its bytes."""
        return self.offloaded + self.copy

    @property
    def without_offloading(self) -> str:
        """The options with which nothing waits there."""
        waiting = {"--memory.no-offload-optimizer": self.states, "--memory.no-offload-reference": self.reference}
        return " ".join(option for option, num_bytes in waiting.items() if num_bytes)


def local_bytes(tensors: Iterable[Tensor]) -> int:
    """Returns the bytes that this process has of tensors, of one that is spread over several its part."""
    return sum((each.to_local() if isinstance(each, DTensor) else each).nbytes for each in tensors)


def host_memory(root: Path = Path("/")) -> int | None:
    """Returns the bytes of memory that this process and its peers can have here; None where the kernel does not say.

    Args:
        root: Where `proc` and `sys` are.

    Returns:
        What the machine has, or the least that a control group which the process is in, of version 1 or 2, allows.
    """
    return min((*_installed(root), *_group_limits(root)), default=None)


def _installed(root: Path) -> Iterator[int]:
    for line in _lines(root / "proc" / "meminfo"):
        if line.startswith("MemTotal:"):
            yield int(line.split()[1]) * 1024


def _group_limits(root: Path) -> Iterator[int]:
    """Yields the limits of the control groups that this process is in, and of those that they are in."""
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
            yield from (int(each) for each in _lines(limit) if each.isdigit())  # "max" is none


def _lines(path: Path) -> list[str]:
    try:
        return path.read_text().splitlines()
    except OSError:
        return []


class _Left(NamedTuple):
    """A tensor that is elsewhere, and its place here meanwhile."""

    tensor: Tensor
    place: Tensor


class HostMemory:
    """Where tensors wait, each in a place of its own that it comes back to: new memory is slower to write than old.

    Tensors are moved in place, so that whoever holds one finds it there. Shards of several processes (DTensors) stay
    where they are, and so do tensors that are there. What is fetched is to be put away again: until then its place is
    kept, and the tensor with it.
    """

    def __init__(self) -> None:
        self._left: dict[int, _Left] = {}  # by id

    def put_away(self, tensors: Iterable[Tensor]) -> None:
        """Moves tensors to the host's memory."""
        for tensor in _each_once(tensors, HOST):
            here = tensor.detach()
            place = self._left.pop(id(tensor)).place if id(tensor) in self._left else None
            _swap(tensor, here.to(HOST) if place is None else place.detach().copy_(here))

    def fetch(self, tensors: Iterable[Tensor], device: torch.device) -> None:
        """Moves tensors to a device, and keeps the places of those that waited here."""
        for tensor in _each_once(tensors, device):
            was_here = tensor.device == HOST
            left = _swap(tensor, tensor.detach().to(device))
            if was_here:
                self._left[id(tensor)] = _Left(tensor=tensor, place=left)

    @contextmanager
    def at_hand(self, tensors: Callable[[], Iterable[Tensor]], device: torch.device) -> Iterator[None]:
        """Has tensors on a device within the block, and in the host's memory behind it.

        Args:
            tensors: Gives them; asked again behind the block, for there may be more.
            device: Where they are needed.
        """
        try:
            self.fetch(tensors(), device)
            yield
        finally:
            self.put_away(tensors())


def _each_once(tensors: Iterable[Tensor], device: torch.device) -> list[Tensor]:
    """Returns those that are to be moved to a device."""
    each = {id(tensor): tensor for tensor in tensors}.values()
    return [tensor for tensor in each if tensor.device != device and not isinstance(tensor, DTensor)]


def _swap(tensor: Tensor, moved: Tensor) -> Tensor:
    """Makes a tensor what another is, for all who hold it; returns what it was before."""
    other = nn.Parameter(moved) if isinstance(tensor, nn.Parameter) else moved
    torch.utils.swap_tensors(tensor, other.requires_grad_(tensor.requires_grad))
    return other


@contextmanager
def in_place_of(absent: Any, present: Any) -> Iterator[None]:
    """Has one model on another's device within the block, and that one in the host's memory: never both on the device.

    Args:
        absent: Is where it was behind the block, the same to the bit.
        present: In the host's memory before the block and behind it.
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
