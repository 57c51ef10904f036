"""What a run keeps in the host's memory, and how much of it the kernel lets a process have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from torch import Tensor
from torch.distributed.tensor import DTensor


@dataclass(frozen=True, kw_only=True)
class HostBytes:
    """What one process keeps in the host's memory at its most: while it samples, when all that may wait there does.

    Attributes:
        reference: Bytes of the reference's weights.
        states: Bytes of the optimisers' masters and moments.
        copy: Bytes of the copy of the run's state that `training.loop.rescue` keeps.
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
