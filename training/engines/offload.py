"""What waits in the host's memory while a device has no use for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import torch
from torch import Tensor, nn
from torch.distributed.tensor import DTensor

HOST = torch.device("cpu")


def move(tensors: Iterable[Tensor], device: torch.device) -> None:
    """Moves tensors in place, so that whoever holds one finds it there; no-op for those that are there.

    Shards of several processes (DTensors) stay where they are.
    """
    for tensor in list({id(each): each for each in tensors}.values()):
        if tensor.device == device or isinstance(tensor, DTensor):
            continue
        moved = tensor.detach().to(device)
        if isinstance(tensor, nn.Parameter):
            moved = nn.Parameter(moved)
        torch.utils.swap_tensors(tensor, moved.requires_grad_(tensor.requires_grad))


@contextmanager
def at_hand(tensors: Callable[[], Iterable[Tensor]], device: torch.device) -> Iterator[None]:
    """Has tensors on a device within the block, and in the host's memory behind it.

    Args:
        tensors: Gives them; asked again behind the block, for there may be more.
        device: Where they are needed.
    """
    move(tensors(), device)
    try:
        yield
    finally:
        move(tensors(), HOST)


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
