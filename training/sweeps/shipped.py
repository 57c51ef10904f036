"""Sweeps that ship, by the names that `python -m training sweep` takes."""

from __future__ import annotations

from collections.abc import Callable

from training.config.sweep import SweepConfig
from training.sweeps.sweep import Sweep
from training.sweeps.vagen import vagen_tables

SWEEPS: dict[str, Callable[[SweepConfig], Sweep]] = {
    "vagen_tables": lambda config: vagen_tables(config.world, model=config.model, quick=config.quick),
}
