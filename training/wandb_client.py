"""W&B's client, without what it tells its makers."""

from __future__ import annotations

import importlib
import os
from typing import Any


def import_wandb() -> Any:
    """Returns the package `wandb`, with reports of its own errors off unless `WANDB_ERROR_REPORTING` says otherwise.

    Its service sends them before it ends, and where nothing answers, a command waits for them for a minute.
    """
    os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
    return importlib.import_module("wandb")
