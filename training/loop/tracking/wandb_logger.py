"""Weights & Biases beside TensorBoard: a run that outlives its process, and a service that no training depends on."""

from __future__ import annotations

import json
import os
import sys
import uuid
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from training.wandb_client import import_wandb
from vlm_envs.records.json_lines import replace_file
from vlm_envs.records.run_data import RunReader

RUN_FILE = "wandb_run.json"
"""Which run of which project a run's folder is, so that it goes on there when it is resumed."""

FINISH_TIMEOUT_S = 60.0
"""Longest wait, at a run's end, for a server that does not answer; W&B itself would wait for ever."""


class WandbLogger:
    """A run of a W&B project. Whatever fails in it is told once, and training goes on.

    W&B's own environment variables hold: `WANDB_MODE=offline` logs to the run's folder only, for `wandb sync`.

    Args:
        project: The project's name.
        name: The run's name there.
        directory: The run's own, whose `config.json` is its configuration.
        is_resumed: Whether the run goes on from a checkpoint, under the id it had.
    """

    def __init__(self, project: str, name: str, directory: Path, *, is_resumed: bool) -> None:
        self._run: Any = None
        self._has_told = False
        with self._harmless("could not be started"):
            self._run = _start(project, name, directory, is_resumed=is_resumed)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Adds numbers by name."""
        if self._run is not None:
            with self._harmless("does not take these numbers"):
                # Iterations are a column and not W&B's own step, which can only grow: a run that goes on from its
                # last checkpoint logs the iterations after it again
                self._run.log({**values, "iteration": iteration})

    def close(self, *, failed: bool) -> None:
        """Waits, for a limited time, until everything is uploaded."""
        if self._run is not None:
            with self._harmless("could not be ended"):
                self._run.finish(exit_code=int(failed))

    @contextmanager
    def _harmless(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            if not self._has_told:
                reason = str(error).partition("\n")[0]
                print(
                    f"W&B {what} ({type(error).__name__}: {reason}). The run goes on; its numbers are in metrics.jsonl "
                    "and in TensorBoard.",
                    file=sys.stderr,
                )
            self._has_told = True


def _start(project: str, name: str, directory: Path, *, is_resumed: bool) -> Any:
    """Returns a W&B run, offline where its server does not answer."""
    wandb = import_wandb()
    run_id, is_known = _run_id(directory / RUN_FILE, project, is_resumed=is_resumed)
    settings: dict[str, Any] = {"console": "off"}  # progress bars; and nothing of W&B's between a run and its output
    if "WANDB_FINISH_TIMEOUT" not in os.environ:
        settings["finish_timeout"] = FINISH_TIMEOUT_S
    arguments = {
        "project": project,
        "name": name,
        "id": run_id,
        "resume": "allow" if is_known else None,
        "config": RunReader(directory).config,
        "dir": None if "WANDB_DIR" in os.environ else str(directory),
        "reinit": "create_new",  # the process may have a run of its own, and several trainings one after another
        "settings": settings,
    }
    try:
        run = wandb.init(**arguments)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        print(f"W&B does not answer ({reason}): logging offline, for `wandb sync`.", file=sys.stderr)
        wandb.teardown()  # or the id would be in use by what just failed
        run = wandb.init(**arguments, mode="offline")
    run.define_metric("*", step_metric="iteration")
    return run


def _run_id(path: Path, project: str, *, is_resumed: bool) -> tuple[str, bool]:
    """Returns the id of the run in a project, written down if it is new, and whether it was there before.

    A sweep's agent gives an id of its own, in `WANDB_RUN_ID`.
    """
    if is_resumed and path.is_file():
        known = json.loads(path.read_text(encoding="utf-8"))
        if known["project"] == project:
            return known["id"], True
    run_id = os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
    replace_file(path, (json.dumps({"project": project, "id": run_id}) + "\n").encode())
    return run_id, False
