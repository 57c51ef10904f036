"""The engine of a run, in the process this is."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import torch

from training.config.processes import engine_name
from training.config.run import RunConfig
from training.engines.engine import Engine, LocalEngine
from training.engines.processes import LaunchedProcesses, launched


@contextmanager
def engine_of(config: RunConfig, processes: LaunchedProcesses | None = None) -> Iterator[Engine]:
    """Gives a run's engine for a block; with several processes, when all are there, and only the main one prints.

    Args:
        config: The run, as `require_engine` takes it.
        processes: Those that train it, where they were opened before, for more than this run; None opens them.
    """
    name = engine_name(config.engine)
    if name == "local":
        yield LocalEngine()
        return
    from training.engines.accelerated import AcceleratedEngine  # which not every installation needs

    compute_dtype = getattr(torch, config.dtype)
    if processes is not None:
        yield AcceleratedEngine(name, processes, compute_dtype=compute_dtype)
        return
    with launched(config.device, timeout_min=config.process_timeout_min) as opened:
        assert isinstance(opened, LaunchedProcesses), "an engine of several processes is of as many"
        yield AcceleratedEngine(name, opened, compute_dtype=compute_dtype)
