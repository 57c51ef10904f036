"""Displays of a run's metrics: the console, TensorBoard, and optionally Weights & Biases.

In addition, `metrics.jsonl` and `evaluations.jsonl` contain everything, and a run is resumed from them.
"""

from __future__ import annotations

import json
import os
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from torch.utils.tensorboard import SummaryWriter

from training.config.run_config import RunConfig
from training.preflight import import_wandb
from vlm_envs.records.json_lines import replace_file
from vlm_envs.records.run_data import RunReader, validation_label

_EVALUATED = ("success", "success_low", "success_high", "turns_to_success")
RUN_FILE = "wandb_run.json"
"""File with the W&B project and id of a run, so that a resumed run continues there."""

FINISH_TIMEOUT_S = 60.0
"""Maximum wait at the end of a run for a server that does not answer; W&B itself would wait forever."""


class MetricLogger(Protocol):
    """A destination of metrics."""

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Logs numbers by name."""

    def close(self, *, failed: bool) -> None:
        """Flushes the rest; `failed` is whether the run ended with an error."""


class TensorBoardLogger:
    """TensorBoard event files.

    Args:
        directory: Directory of the files.
        iteration: First iteration that will be logged; earlier logs from there on are hidden.
    """

    def __init__(self, directory: Path, *, iteration: int) -> None:
        self._writer = SummaryWriter(str(directory), purge_step=iteration)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Logs numbers by name."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)

    def close(self, *, failed: bool) -> None:
        """Flushes and closes the files."""
        self._writer.close()


class RunLoggers:
    """All loggers of a run, as a context manager.

    Args:
        config: The run.
        directory: The run's directory, with its data so far.
        iteration: First iteration that will be logged.
        is_resumed: Whether the run is resumed from a checkpoint.
    """

    def __init__(self, config: RunConfig, directory: Path, *, iteration: int, is_resumed: bool) -> None:
        tensorboard = TensorBoardLogger(directory / "tensorboard", iteration=iteration)
        self._loggers: list[MetricLogger] = [tensorboard]
        if is_resumed:  # a finished validation belongs to the iteration whose logs are hidden
            label = validation_label(iteration)
            kept = [line for line in RunReader(directory).evaluations() if line.get("label") == label]
            tensorboard.log(evaluation_values(kept), iteration)
        if config.wandb_project is not None:
            self._loggers.append(WandbLogger(config.wandb_project, config.name, directory, is_resumed=is_resumed))

    def __enter__(self) -> RunLoggers:
        """Returns itself."""
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Closes all loggers."""
        for logger in self._loggers:
            logger.close(failed=kind is not None)

    def metrics(self, metrics: Mapping[str, float], iteration: int) -> None:
        """Logs an iteration's metrics as `rl/<name>`."""
        self._log({f"rl/{name}": value for name, value in metrics.items()}, iteration)

    def evaluations(self, records: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the records of one evaluation, one per world, after `iteration` iterations."""
        self._log(evaluation_values(records), iteration)

    def _log(self, values: Mapping[str, float], iteration: int) -> None:
        for logger in self._loggers:
            logger.log(values, iteration)


def evaluation_values(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns `<split>/success/<world>` with the ends of its interval, and `<split>/success`, the mean over worlds.

    `<split>/turns_to_success/<world>` is present for worlds with a solved episode.
    """
    values = {
        f"{record['split']}/{name}/{record['world']}": record[name]
        for record in records
        for name in _EVALUATED
        if name in record
    }
    for split in dict.fromkeys(record["split"] for record in records):
        values[f"{split}/success"] = float(
            np.mean([record["success"] for record in records if record["split"] == split])
        )
    return values


class WandbLogger:
    """A run in a W&B project. Its first failure is reported, and training continues after any failure.

    W&B's environment variables apply: `WANDB_MODE=offline` logs only to the run's folder, for `wandb sync`.

    Args:
        project: The project's name.
        name: The run's name there.
        directory: The run's directory with its configuration in `config.json`.
        is_resumed: Whether the run is resumed from a checkpoint, with the same id.
    """

    def __init__(self, project: str, name: str, directory: Path, *, is_resumed: bool) -> None:
        self._run: Any = None
        self._has_warned = False
        with self._harmless("could not be started"):
            self._run = _start(project, name, directory, is_resumed=is_resumed)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Logs numbers by name."""
        if self._run is not None:
            with self._harmless("does not take these numbers"):
                # The iteration is a column, not W&B's own step, which can only grow: a run that is resumed from its
                # last checkpoint logs later iterations again
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
            if not self._has_warned:
                reason = str(error).partition("\n")[0]
                print(
                    f"W&B {what} ({type(error).__name__}: {reason}). The run continues; its numbers are in "
                    "metrics.jsonl and in TensorBoard.",
                    file=sys.stderr,
                )
            self._has_warned = True


def _start(project: str, name: str, directory: Path, *, is_resumed: bool) -> Any:
    """Returns a W&B run, offline if its server does not answer."""
    wandb = import_wandb()
    run_id, is_known = _run_id(directory / RUN_FILE, project, is_resumed=is_resumed)
    settings: dict[str, Any] = {"console": "off"}  # no progress bars, and no capturing of the run's output
    if "WANDB_FINISH_TIMEOUT" not in os.environ:
        settings["finish_timeout"] = FINISH_TIMEOUT_S
    arguments = {
        "project": project,
        "name": name,
        "id": run_id,
        "resume": "allow" if is_known else None,
        "config": RunReader(directory).config,
        "dir": None if "WANDB_DIR" in os.environ else str(directory),
        "reinit": "create_new",  # the process may have another W&B run, or several trainings in sequence
        "settings": settings,
    }
    try:
        run = wandb.init(**arguments)
    except Exception as error:
        reason = str(error).partition("\n")[0]
        print(f"W&B does not answer ({reason}): logging offline, for `wandb sync`.", file=sys.stderr)
        wandb.teardown()  # otherwise the failed run would block the id
        run = wandb.init(**arguments, mode="offline")
    run.define_metric("*", step_metric="iteration")
    return run


def _run_id(path: Path, project: str, *, is_resumed: bool) -> tuple[str, bool]:
    """Returns the id of the run in a project, recorded if it is new, and whether it already existed.

    A sweep's agent sets its own id in `WANDB_RUN_ID`.
    """
    if is_resumed and path.is_file():
        saved = json.loads(path.read_text(encoding="utf-8"))
        if saved["project"] == project:
            return saved["id"], True
    run_id = os.environ.get("WANDB_RUN_ID") or uuid.uuid4().hex[:12]
    replace_file(path, (json.dumps({"project": project, "id": run_id}) + "\n").encode())
    return run_id, False


class RunConsole:
    """A progress bar; if the output is not a terminal, a line after the first step and every `every` steps."""

    def __init__(self, title: str, total: int, *, every: int = 10) -> None:
        self.console = Console()
        self._every, self._total, self._title = every, total, title
        self._num_done, self._started = 0, time.monotonic()
        self._progress = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("left"),
            TimeRemainingColumn(),
            TextColumn("{task.fields[shown]}"),
            console=self.console,
            disable=not self.console.is_terminal,
        )
        self._task = self._progress.add_task(title, total=total, shown="")

    def __enter__(self) -> RunConsole:
        """Starts the display."""
        self._progress.start()
        return self

    def __exit__(self, *error: object) -> None:
        """Stops the display."""
        self._progress.stop()

    def advance(self, step: int, metrics: dict[str, float], shown: tuple[str, ...]) -> None:
        """Shows that a step is done."""
        self._num_done += 1
        text = "  ".join(f"{name} {metrics[name]:.3g}" for name in shown if name in metrics)
        self._progress.update(self._task, completed=step + 1, shown=text)
        is_shown = self._num_done == 1 or (step + 1) % self._every == 0 or step + 1 == self._total
        if not self.console.is_terminal and is_shown:
            line = f"{self._title} {step + 1}/{self._total}  {text}{self._left(self._total - step - 1)}"
            self.console.print(line, highlight=False, soft_wrap=True)

    def _left(self, num_steps: int) -> str:
        """Returns the estimated time left, at the pace of the steps so far."""
        left_s = num_steps * (time.monotonic() - self._started) / self._num_done
        if not num_steps:
            return ""
        return f"  about {left_s / 60:.0f} min left" if left_s >= 90 else f"  about {left_s:.0f} s left"

    def say(self, text: str) -> None:
        """Prints a line above the bar."""
        self.console.print(text, highlight=False)
