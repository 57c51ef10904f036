"""The engine of a run, in the process this is."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from os import devnull
from pathlib import Path

import torch

from agents.hf.device import torch_device
from training.config.processes import engine_name
from training.config.run import RunConfig
from training.engines.engine import Engine, LocalEngine


@contextmanager
def engine_of(config: RunConfig) -> Iterator[Engine]:
    """Gives a run's engine for a block; with several processes, when all are there, and only the main one prints.

    Args:
        config: The run, as `require_engine` takes it.
    """
    name = engine_name(config.engine)
    if name == "local":
        yield LocalEngine()
        return
    from training.engines.accelerated import AcceleratedEngine  # which not every installation needs

    engine = AcceleratedEngine(
        name,
        compute_dtype=getattr(torch, config.dtype),
        on_cpu=torch_device(config.device).type == "cpu",
        timeout_min=config.process_timeout_min,
    )
    with Path(devnull).open("w") as nowhere, redirect_stdout(sys.stdout if engine.rank == 0 else nowhere):
        yield engine
    engine.close()
