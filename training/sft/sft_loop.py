"""Supervised fine-tuning: any checkpoint, on data sets of conversations with pictures."""

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
"""What lines of `metrics.jsonl` are of."""

LEFT_OUT = "left_out.jsonl"
"""Names the rows that a run left out of its data."""


def fine_tune(config: SFTConfig, *, resume: bool = False) -> Path:
    """Fine-tunes a checkpoint, from the run's latest state if it is resumed, and writes the report.

    Returns:
        The run's directory, in which `latest/model` is an ordinary checkpoint.

    Raises:
        RunExistsError: If the run exists and `resume` is False.
        FileNotFoundError: If `resume` is True and there is no checkpoint, or `config.model` is not one.
        ConfigError: If something it needs is not there, nothing of a data set can be learnt from, or, on resumption,
            its settings or data are others. Nothing is left behind then.
        TrainingStoppedError: If it cannot go on; what was learnt is saved.
        KeyboardInterrupt: If Ctrl-C stopped it; what was learnt is saved.
    """
    require_one_process()
    print_on_main(check_fine_tuning(config, resume=resume))
    return fine_tuned(config, resume=resume).directory


def fine_tuned(config: SFTConfig, *, resume: bool = False) -> Ended:
    """Runs a configuration that `check_fine_tuning` accepted; also returns whether Ctrl-C was pressed at the end."""
    prepare(config)
    directory = Path(config.output) / config.name
    with alone_in(directory), full_disk_told(directory):
        if not resume:
            require_unused(directory)  # again: another process may have been faster
        start = directory / LATEST / "model" if resume else model_directory(config.model)
        encoder = load_encoder(start)
        encoder.limit_pixels(config.max_image_pixels)
        sets = _data_sets(config, encoder, start)
        if resume:
            _check_same_data(sets, directory)
        learner = SupervisedLearner(
            _model(config, directory, start),
            config.steps([len(each.rows) for each in sets]),
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
    """One run and where it stands; `start` or `resume` comes before `run`.

    Args:
        config: The run.
        learner: Who learns.
        encoder: The checkpoint's chat format.
        sets: The data, with what is held out.
        directory: The run's own.
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
        """What writes the run's data down."""
        assert self._writer is not None, "start or resume comes first"
        return self._writer

    def start(self) -> None:
        """Opens a new run; one that never came to a checkpoint starts over in the same place."""
        if self.config.lora.rank is not None:
            self._reference = reference_of(model_directory(self.config.model), self.directory)
        self._writer = RunWriter(self.directory, resume_from_iteration=0 if holds_run(self.directory) else None)
        self.writer.config(self._described())
        lines = [json.dumps(to_json(each)) + "\n" for of_set in self.sets for each in of_set.left_out]
        replace_file(self.directory / LEFT_OUT, "".join(lines).encode())

    def resume(self) -> None:
        """Goes on from the latest checkpoint, whose weights the model has already, but for adapters.

        Raises:
            ConfigError: If more steps were taken than there are to be.
        """
        state = load_checkpoint_state(self.directory / LATEST)
        self.num_done = self._num_saved = state["iteration"]
        total = self.learner.steps.num_steps
        if self.num_done > total:
            raise ConfigError(
                f"The run at {self.directory} has done {self.num_done} steps, and there are to be {total}. Give more "
                "with --num-steps or --num-epochs, or start another run with another --name."
            )
        model = self.learner.model
        model.load_state_dict({**model.state_dict(), **state["adapters"]})
        self.learner.load_optimizer_state(state["optimizer"])
        self._torch_rng = state["torch_rng"].clone()  # lets the file go that it was read from
        torch.set_rng_state(self._torch_rng)
        self._started = time.monotonic() - state["elapsed_s"]
        self._reference = kept_reference(self.directory)
        self._writer = RunWriter(self.directory, resume_from_iteration=self.num_done)
        described = continued(self.config, self.directory, num_done=self.num_done, described=self._described())
        self.writer.config(described)

    def run(self) -> None:
        """Takes the steps that are left. Whatever ends them, what was learnt is saved as of the last whole one.

        Raises:
            KeyboardInterrupt: If Ctrl-C stopped it.
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
                f"Interrupted after {self.num_done} of {total} steps; saved. Go on with {how_to_go_on()}, or use "
                f"what was learnt: {self.directory / LATEST / 'model'}"
            )

    def _take_steps(self, board: TensorBoardLogger, console: RunConsole, should_stop: Callable[[], bool]) -> None:
        if self.num_done == 0 and (loss := self._eval_loss()) is not None:
            self._log(board, 0, {"eval_loss": loss})
            console.say(f"before: loss {loss:.3f} on rows held out")

        def on_step(step: int, metrics: dict[str, float]) -> None:
            metrics |= {"learning_rate": self.learner.steps.learning_rate_at(step), "epoch": self._epoch(step + 1)}
            is_last = step + 1 == self.learner.steps.num_steps
            if (is_last or (step + 1) % self.config.eval_every == 0) and (loss := self._eval_loss()) is not None:
                metrics["eval_loss"] = loss
                console.say(f"step {step + 1}: loss {loss:.3f} on rows held out")
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
        """Yields the batches of the steps that are left."""
        sizes = [len(each.rows) for each in self.sets]
        order = row_order(sizes, [each.source.weight for each in self.sets], self.config.seed)
        left = islice(order, self.num_done * self.config.batch_size, self.config.num_rows_shown(sizes))
        rows = (self.sets[number].rows[row] for number, row in left)
        return row_batches(rows, self.config.batch_size, self.encoder)

    def _epoch(self, num_steps: int) -> float:
        """Returns how often the data were shown after so many steps."""
        of_epoch = sum(each.source.weight * len(each.rows) for each in self.sets)
        return num_steps * self.config.batch_size / of_epoch

    def _eval_loss(self) -> float | None:
        """Returns the loss of what is held out; None if that is nothing."""
        rows = [row for each in self.sets for row in each.held_out]
        if not rows:
            return None
        return self.learner.mean_loss(row_batches(iter(rows), self.config.batch_size, self.encoder))

    def _log(self, board: TensorBoardLogger, step: int, metrics: Mapping[str, float]) -> None:
        elapsed_s = time.monotonic() - self._started
        self.writer.metrics({"iteration": step, "phase": PHASE, "elapsed_s": elapsed_s, **metrics})
        board.log({f"{PHASE}/{name}": value for name, value in metrics.items()}, step)

    def _save(self) -> None:
        """Writes the latest checkpoint; of a model with adapters these alone, beside the merged one."""
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
        """Saves what was learnt before something failed, and says where."""
        if self.num_done == 0:
            return
        try:
            if self._num_saved != self.num_done:
                self._save()
            told = f"what was learnt is saved in {self.directory / LATEST / 'model'}."
        except Exception as second:
            told = f"what was learnt could not be saved ({type(second).__name__}: {second})."
        total = self.learner.steps.num_steps
        print(f"{type(error).__name__} after {self.num_done} of {total} steps: {told}", file=sys.stderr)

    def _described(self) -> dict[str, Any]:
        """Returns what a run started now writes down."""
        sets = [each.record() for each in self.sets]
        told = {"recipe": self.config.name, "trained_with": FINE_TUNING, "data_sets": sets}
        return {**self.config.to_dict(), **told, **circumstances()}


def _model(config: SFTConfig, directory: Path, start: Path) -> Any:
    """Returns the model of a run, which adapters are put into later: what is in `latest` has them merged."""
    resumes_adapters = config.lora.rank is not None and start.is_relative_to(directory)
    base = require_reference(directory, what="What --lora.rank adapts") if resumes_adapters else None
    dtype = getattr(torch, config.dtype)
    model, _ = load_checkpoint(base or start, dtype=dtype, attention=config.memory.attention)
    return model.to(torch_device(config.device))


def _data_sets(config: SFTConfig, encoder: ChatEncoder, start: Path) -> list[DataSet]:
    """Returns the data of a run, and says what is left out."""
    limit = context_limit(AutoConfig.from_pretrained(start, local_files_only=True), config)
    read = [read_data_set(source, encoder, limit) for source in config.sources]
    sets = with_held_out(read, config.eval_share, config.seed)
    for each in sets:
        print(*told(each.left_out), each, sep="\n")
    if config.eval_share and not any(each.held_out for each in sets):
        print(f"--eval-share {config.eval_share:g} of so few rows is none: no loss is evaluated.")
    return sets


def _check_same_data(sets: Sequence[DataSet], directory: Path) -> None:
    """Refuses to go on with a run whose data have changed: their order would be another."""
    counts = ("sha256", "num_rows", "num_held_out")
    for each, before in zip(sets, saved_settings(directory)["data_sets"], strict=True):
        if any(each.record()[count] != before[count] for count in counts):
            raise ConfigError(
                f"{each.source.path} has changed since the run at {directory} was started: it had {before['num_rows']} "
                f"rows to train on and has {len(each.rows)}, or others. Put it back as it was, or start another run "
                f"from what was learnt: --model {directory / LATEST / 'model'}."
            )
