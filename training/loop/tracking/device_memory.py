"""The most memory that an iteration takes of a GPU."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

_GIB = 2**30


class PeakMemory:
    """The most that tensors took of a GPU at a time, in the phases of an iteration; nothing on other devices.

    What CUDA itself takes, and what torch keeps for tensors to come, is not in it. While a batch is sampled beside the
    update (`--staleness 1`) a phase's peak is of both.

    Args:
        device: Where the policy is.
    """

    def __init__(self, device: torch.device) -> None:
        self._device = device
        self._peaks: dict[str, float] = {}

    @contextmanager
    def phase(self, name: str) -> Iterator[None]:
        """Measures a block, under a name."""
        if self._device.type == "cuda":
            torch.cuda.reset_peak_memory_stats(self._device)
        yield
        if self._device.type == "cuda":
            self._peaks[name] = torch.cuda.max_memory_allocated(self._device) / _GIB

    def metrics(self) -> dict[str, float]:
        """Returns `<phase>_peak_gib` of the phases so far, in GiB, and begins anew."""
        peaks, self._peaks = self._peaks, {}
        return {f"{name}_peak_gib": peak for name, peak in peaks.items()}
