"""Supervised fine-tuning of any checkpoint on datasets of conversations with images."""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import Any

import torch
from transformers import AutoConfig

from agents.hf.chat import ChatEncoder
from agents.hf.checkpoint import torch_device
from agents.hf.hf_agent import load_checkpoint, load_encoder
from agents.hf.sampling_config import context_limit
from training.batch import Batch
from training.checkpoints.checkpoint_files import (
    LATEST,
    kept_reference,
    model_directory,
    provenance_of,
    reference_of,
    require_reference,
)
from training.checkpoints.checkpoint_state import load_checkpoint_state, save_checkpoint
from training.config.processes import print_on_main
from training.config.resume import continued, how_to_go_on, saved_settings
from training.engines.lora import adapter_state
from training.loop.interrupts import Ended, full_disk_told, prepare, stop_on_interrupt
from training.loop.loggers import RunConsole, TensorBoardLogger
from training.loop.provenance import circumstances
from training.preflight import require_unused
from training.sft.sft_command import check_fine_tuning, require_one_process
from training.sft.sft_config import FINE_TUNING, SFTConfig
from training.sft.sft_rows import DataSet, read_data_set, row_batches, row_order, told, with_held_out
from training.update.micro_batches import OF_FINE_TUNING, memory_told
from training.update.supervised_steps import SupervisedLearner, take_steps
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import alone_in
from vlm_envs.records.json_lines import replace_file, to_json
from vlm_envs.records.report_page import build_report
from vlm_envs.records.run_data import RunWriter, holds_run

PHASE = "sft"
"""Value of `phase` in lines of `metrics.jsonl`."""

LEFT_OUT = "left_out.jsonl"
"""File that lists the rows that a run left out of its data."""


def fine_tune(config: SFTConfig, *, resume: bool = False) -> Path:
    """Fine-tunes a checkpoint, or resumes the run from its latest state, and writes the report.

    Returns:
        The run's directory, in which `latest/model` is an ordinary checkpoint.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and the run has no checkpoint, or `config.model` is not a checkpoint.
        ConfigError: If a requirement is missing, a dataset has no usable row, or the settings or data changed on
            resume. Nothing is written then.
        TrainingStoppedError: If training cannot continue; the model is saved.
        KeyboardInterrupt: On Ctrl-C; the model is saved.
    """
    require_one_process()
    print_on_main(check_fine_tuning(config, resume=resume))
    return fine_tuned(config, resume=resume).directory


def fine_tuned(config: SFTConfig, *, resume: bool = False) -> Ended:
    """Runs a configuration accepted by `check_fine_tuning`; also returns whether Ctrl-C was pressed at the end."""
    prepare(config)
    directory = Path(config.output) / config.name
    with alone_in(directory), full_disk_told(directory):
        if not resume:
            require_unused(directory)  # check again: another process may have started it
        start = directory / LATEST / "model" if resume else model_directory(config.model)
        encoder = load_encoder(start)
        encoder.limit_pixels(config.max_image_pixels)
        sets = _data_sets(config, encoder, start)
        if resume:
            _check_same_data(sets, directory)
        learner = SupervisedLearner(
            _model(config, directory, start),
            config.steps([len(dataset.rows) for dataset in sets]),
            what="fine-tuning",
            memory=config.memory,
            lora=config.lora,
            micro_batch_tokens=config.micro_batch_tokens,
        )
        tuning = FineTuning(config, learner, encoder, sets, directory)
        if resume:
            tuning.resume()
        else:
            tuning.start()
        tuning.run()
        report = build_report(directory)
    print(f"Report: {report}\nModel:  {directory / LATEST / 'model'}")
    return Ended(directory, is_finished=True, is_interrupted=tuning.is_interrupted)


class FineTuning:
    """A fine-tuning run and its state; call `start` or `resume` before `run`.

    Args:
        config: The run.
        learner: The learner with its model.
        encoder: The checkpoint's chat format.
        sets: The datasets with their held-out rows.
        directory: The run's directory.
    """

    def __init__(
        self,
        config: SFTConfig,
        learner: SupervisedLearner,
        encoder: ChatEncoder,
        sets: Sequence[DataSet],
        directory: Path,
    ) -> None:
        self.config, self.learner, self.encoder, self.sets = config, learner, encoder, sets
        self.directory, self.num_done, self.is_interrupted = directory, 0, False
        self._num_saved, self._started = -1, time.monotonic()
        self._torch_rng = torch.get_rng_state()
        self._reference: dict[str, str] | None = None
        self._writer: RunWriter | None = None

    @property
    def writer(self) -> RunWriter:
        """The writer of the run's records."""
        assert self._writer is not None, "call start or resume first"
        return self._writer

    def start(self) -> None:
        """Opens a new run; a run without a checkpoint starts over in the same directory."""
        if self.config.lora.rank is not None:
            self._reference = reference_of(model_directory(self.config.model), self.directory)
        self._writer = RunWriter(self.directory, resume_from_iteration=0 if holds_run(self.directory) else None)
        self.writer.config(self._described())
        lines = [json.dumps(to_json(row)) + "\n" for of_set in self.sets for row in of_set.left_out]
        replace_file(self.directory / LEFT_OUT, "".join(lines).encode())

    def resume(self) -> None:
        """Restores the latest checkpoint; the model must already have its weights, except adapters.

        Raises:
            ConfigError: If the run has taken more steps than configured.
        """
        state = load_checkpoint_state(self.directory / LATEST)
        self.num_done = self._num_saved = state["iteration"]
        total = self.learner.steps.num_steps
        if self.num_done > total:
            raise ConfigError(
                f"The run at {self.directory} has done {self.num_done} steps, more than the requested {total}. "
                "Request more with --num-steps or --num-epochs, or start another run with another --name."
            )
        model = self.learner.model
        model.load_state_dict({**model.state_dict(), **state["adapters"]})
        self.learner.load_optimizer_state(state["optimizer"])
        self._torch_rng = state["torch_rng"].clone()  # a copy, so that the mapped file can be closed
        torch.set_rng_state(self._torch_rng)
        self._started = time.monotonic() - state["elapsed_s"]
        self._reference = kept_reference(self.directory)
        self._writer = RunWriter(self.directory, resume_from_iteration=self.num_done)
        described = continued(self.config, self.directory, num_done=self.num_done, described=self._described())
        self.writer.config(described)

    def run(self) -> None:
        """Takes the remaining steps. On any error or interrupt, the model after the last complete step is saved.

        Raises:
            KeyboardInterrupt: On Ctrl-C.
        """
        total, lost = self.learner.steps.num_steps, "work since the last checkpoint is lost"
        if self.num_done == total:
            print(f"All {total} steps are done. To extend the run: --num-steps N or --num-epochs N")
        board = TensorBoardLogger(self.directory / "tensorboard", iteration=self.num_done)
        with (
            ExitStack() as opened,
            RunConsole("sft", total) as console,
            stop_on_interrupt("step", lost) as should_stop,
            memory_told("in the fine-tuning", OF_FINE_TUNING),
        ):
            opened.callback(board.close, failed=False)
            try:
                self._take_steps(board, console, should_stop)
            except Exception as error:
                self._rescue(error)
                raise
            self.is_interrupted = should_stop()
        if self.num_done < total:
            raise KeyboardInterrupt(
                f"Interrupted after {self.num_done} of {total} steps; saved. Resume with {how_to_go_on()}, or use the "
                f"model: {self.directory / LATEST / 'model'}"
            )

    def _take_steps(self, board: TensorBoardLogger, console: RunConsole, should_stop: Callable[[], bool]) -> None:
        if self.num_done == 0 and (loss := self._eval_loss()) is not None:
            self._log(board, 0, {"eval_loss": loss})
            console.say(f"before: loss {loss:.3f} on held-out rows")

        def on_step(step: int, metrics: dict[str, float]) -> None:
            metrics |= {"learning_rate": self.learner.steps.learning_rate_at(step), "epoch": self._epoch(step + 1)}
            is_last = step + 1 == self.learner.steps.num_steps
            if (is_last or (step + 1) % self.config.eval_every == 0) and (loss := self._eval_loss()) is not None:
                metrics["eval_loss"] = loss
                console.say(f"step {step + 1}: loss {loss:.3f} on held-out rows")
            self._log(board, step, metrics)
            console.advance(step, metrics, ("loss",))
            self.num_done, self._torch_rng = step + 1, torch.get_rng_state()

        take_steps(
            self.learner,
            self._batches(),
            on_step=on_step,
            should_stop=should_stop,
            on_checkpoint=lambda *_: self._save(),
            first=self.num_done,
        )
        if self._num_saved != self.num_done:
            self._save()

    def _batches(self) -> Iterator[Batch]:
        """Yields the batches of the remaining steps."""
        sizes = [len(dataset.rows) for dataset in self.sets]
        order = row_order(sizes, [dataset.source.weight for dataset in self.sets], self.config.seed)
        left = islice(order, self.num_done * self.config.batch_size, self.config.num_rows_shown(sizes))
        rows = (self.sets[number].rows[row] for number, row in left)
        return row_batches(rows, self.config.batch_size, self.encoder)

    def _epoch(self, num_steps: int) -> float:
        """Returns the number of passes over the data after a number of steps."""
        of_epoch = sum(dataset.source.weight * len(dataset.rows) for dataset in self.sets)
        return num_steps * self.config.batch_size / of_epoch

    def _eval_loss(self) -> float | None:
        """Returns the loss on held-out rows; None if there are none."""
        rows = [row for dataset in self.sets for row in dataset.held_out]
        if not rows:
            return None
        return self.learner.mean_loss(row_batches(iter(rows), self.config.batch_size, self.encoder))

    def _log(self, board: TensorBoardLogger, step: int, metrics: Mapping[str, float]) -> None:
        elapsed_s = time.monotonic() - self._started
        self.writer.metrics({"iteration": step, "phase": PHASE, "elapsed_s": elapsed_s, **metrics})
        board.log({f"{PHASE}/{name}": value for name, value in metrics.items()}, step)

    def _save(self) -> None:
        """Writes the latest checkpoint; with adapters, its training state has only these, next to the merged model."""
        model = self.learner.model
        state = {
            "iteration": self.num_done,
            "elapsed_s": time.monotonic() - self._started,
            "adapters": {} if self.config.lora.rank is None else adapter_state(model),
            "optimizer": self.learner.optimizer_state(),
            "torch_rng": self._torch_rng,
            "reference": self._reference,
        }
        provenance = {"run": self.directory.name, "num_steps_done": self.num_done}
        if (before := provenance_of(self.config.model)) is not None:
            provenance["started_from"] = before
        save_checkpoint(self.directory / LATEST, state, model, self.encoder, provenance=provenance)
        self._num_saved = self.num_done

    def _rescue(self, error: Exception) -> None:
        """Saves the model after a failure and prints its location."""
        if self.num_done == 0:
            return
        try:
            if self._num_saved != self.num_done:
                self._save()
            outcome = f"the model is saved in {self.directory / LATEST / 'model'}."
        except Exception as second:
            outcome = f"the model could not be saved ({type(second).__name__}: {second})."
        total = self.learner.steps.num_steps
        print(f"{type(error).__name__} after {self.num_done} of {total} steps: {outcome}", file=sys.stderr)

    def _described(self) -> dict[str, Any]:
        """Returns the record of a run that starts now."""
        sets = [dataset.record() for dataset in self.sets]
        about = {"recipe": self.config.name, "trained_with": FINE_TUNING, "data_sets": sets}
        return {**self.config.to_dict(), **about, **circumstances()}


def _model(config: SFTConfig, directory: Path, start: Path) -> Any:
    """Returns the model of a run before adapters are added; `latest` cannot be used because it has them merged."""
    resumes_adapters = config.lora.rank is not None and start.is_relative_to(directory)
    base = require_reference(directory, what="The base model of --lora.rank") if resumes_adapters else None
    dtype = getattr(torch, config.dtype)
    model, _ = load_checkpoint(base or start, dtype=dtype, attention=config.memory.attention)
    return model.to(torch_device(config.device))


def _data_sets(config: SFTConfig, encoder: ChatEncoder, start: Path) -> list[DataSet]:
    """Returns the data of a run, and prints the rows that are left out."""
    limit = context_limit(AutoConfig.from_pretrained(start, local_files_only=True), config)
    read = [read_data_set(source, encoder, limit) for source in config.sources]
    sets = with_held_out(read, config.eval_share, config.seed)
    for dataset in sets:
        print(*told(dataset.left_out), dataset, sep="\n")
    if config.eval_share and not any(dataset.held_out for dataset in sets):
        print(f"--eval-share {config.eval_share:g} of so few rows holds out none: the evaluation loss is not computed.")
    return sets


def _check_same_data(sets: Sequence[DataSet], directory: Path) -> None:
    """Checks that the data of a resumed run are unchanged, because changes would alter the row order."""
    counts = ("sha256", "num_rows", "num_held_out")
    for dataset, before in zip(sets, saved_settings(directory)["data_sets"], strict=True):
        if any(dataset.record()[count] != before[count] for count in counts):
            raise ConfigError(
                f"{dataset.source.path} has changed since the run at {directory} was started: it had "
                f"{before['num_rows']} rows to train on and now has {len(dataset.rows)}, or different ones. Restore "
                f"it, or start another run from the trained model: --model {directory / LATEST / 'model'}."
            )
