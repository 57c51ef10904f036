"""Where a run's numbers can be watched: TensorBoard always, Weights & Biases where a project is named.

Both are beside `metrics.jsonl` and `evaluations.jsonl`, which hold everything and from which a run goes on.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Any, Protocol

import numpy as np
from torch.utils.tensorboard import SummaryWriter

from training.config.run import RunConfig
from training.loop.tracking.wandb_logger import WandbLogger
from vlm_envs.records.run_data import RunReader, validation_label

_EVALUATED = ("success", "success_low", "success_high", "turns_to_success")


class MetricLogger(Protocol):
    """One place that numbers go to."""

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Adds numbers by name."""

    def close(self, *, failed: bool) -> None:
        """Writes out what is left; `failed` says whether the run ended with an error."""


class TensorBoardLogger:
    """TensorBoard's event files.

    Args:
        directory: Where they go.
        iteration: First iteration that will be logged; what was logged from there on is hidden.
    """

    def __init__(self, directory: Path, *, iteration: int) -> None:
        self._writer = SummaryWriter(str(directory), purge_step=iteration)

    def log(self, values: Mapping[str, float], iteration: int) -> None:
        """Adds numbers by name."""
        for name, value in values.items():
            self._writer.add_scalar(name, value, iteration)

    def close(self, *, failed: bool) -> None:
        """Writes out what is left."""
        self._writer.close()


class RunLoggers:
    """All loggers of a run, open within a `with` block.

    Args:
        config: The run's.
        directory: The run's own, with its data so far.
        iteration: First iteration that will be logged.
        is_resumed: Whether the run goes on from a checkpoint.
    """

    def __init__(self, config: RunConfig, directory: Path, *, iteration: int, is_resumed: bool) -> None:
        tensorboard = TensorBoardLogger(directory / "tensorboard", iteration=iteration)
        self._loggers: list[MetricLogger] = [tensorboard]
        if is_resumed:  # a validation that stands is of the same iteration as what is hidden
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
        """Closes all of them."""
        for logger in self._loggers:
            logger.close(failed=kind is not None)

    def metrics(self, metrics: Mapping[str, float], iteration: int) -> None:
        """Logs an iteration's metrics as `rl/<name>`."""
        self._log({f"rl/{name}": value for name, value in metrics.items()}, iteration)

    def evaluations(self, records: Sequence[Mapping[str, Any]], iteration: int) -> None:
        """Logs the records of one evaluation, one a world, after so many iterations."""
        self._log(evaluation_values(records), iteration)

    def _log(self, values: Mapping[str, float], iteration: int) -> None:
        for logger in self._loggers:
            logger.log(values, iteration)


def evaluation_values(records: Sequence[Mapping[str, Any]]) -> dict[str, float]:
    """Returns `<split>/success/<world>` with the ends of its interval, and `<split>/success`, the mean over worlds.

    `<split>/turns_to_success/<world>` is there for worlds with a solved episode.
    """
    values = {
        f"{each['split']}/{name}/{each['world']}": each[name] for each in records for name in _EVALUATED if name in each
    }
    for split in dict.fromkeys(each["split"] for each in records):
        values[f"{split}/success"] = float(np.mean([each["success"] for each in records if each["split"] == split]))
    return values
