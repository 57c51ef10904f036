"""Supervised fine-tuning of a checkpoint on data sets, as a frozen dataclass that the command line is made from."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Annotated, Any, Literal

from tyro.conf import UseAppendAction, arg

from training.config.saved_config import plain, require_name
from training.config.update_config import AdamWConfig, LoRAConfig, MemoryConfig, SupervisedSteps
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_between

FINE_TUNING = "supervised fine-tuning"
"""What a run of this kind says it was trained with."""


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """Where a data set is, and how often an epoch shows it.

    Attributes:
        path: A file of conversations, or the directory of a curated data set.
        weight: How often an epoch shows each of its rows; 0.5 shows another half of them in each.
    """

    path: str
    weight: float = 1.0

    @classmethod
    def of(cls, text: str) -> DataSource:
        """Returns what `PATH` or `PATH=WEIGHT` says; what follows the last `=` is a weight if it is a number."""
        path, equals, number = text.rpartition("=")
        try:
            return cls(path=path, weight=float(number)) if equals else cls(path=text)
        except ValueError:
            return cls(path=text)


@dataclass(frozen=True, kw_only=True)
class SFTConfig(AdamWConfig):
    """Supervised fine-tuning of a checkpoint on conversations with pictures: the loss of the assistant's tokens.

    Attributes:
        model: Checkpoint directory to start from, any of a supported family.
        data: A data set of `python -m training curate` (its directory), or a file of conversations with `messages` and
            `images`, one a line; several with `--data A --data B=2`. The weight says how often an epoch shows each row
            of the set: 2 shows it twice, 0.5 another half of the set in each epoch.
        name: Name of the run, one part of a path; its files go to `<output>/<name>`.
        output: Directory of all runs.
        num_epochs: How often the data are shown, where `num_steps` does not say how long.
        num_steps: Optimiser steps; None for those of the epochs.
        batch_size: Conversations per optimiser step.
        micro_batch_tokens: Most tokens that go through the model at a time; a longer conversation goes alone. Gradients
            are the same but for rounding.
        learning_rate: Peak of a cosine schedule with warm-up. Argos (appendix) has 1e-5 for a model of 7B; LoRA
            usually takes ten times as much.
        warmup_ratio: Share of the steps that warm up linearly.
        final_learning_rate_ratio: What the rate falls to, as a share of its peak.
        max_grad_norm: Gradient norm that is clipped to.
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN. None of them is taken; the last one
            ends the run, which is saved.
        max_context_tokens: Most tokens of a conversation, at most the model's positions, which are the default. Longer
            ones are left out and counted.
        max_image_pixels: Larger pictures are scaled down to this; None for the checkpoint's own limit.
        eval_share: Share of all rows that is held out, for the evaluation loss; rows that show the same pictures are
            held out together. 0 for none.
        eval_every: Steps between evaluations of the loss, which is also evaluated before the first and after the last.
        checkpoint_every: Steps between checkpoints, from which `--resume` goes on; 0 for the last one only.
        memory: What is done to fit the device.
        lora: Adapters in place of the weights.
        seed: Order of the rows, and what is held out.
        device: Where the model lives: `"auto"` takes a GPU if there is one, else the CPU.
        dtype: Type of the weights that the model computes with, and that `latest/model` has. What the optimiser steps
            is float32 either way.
        num_threads: CPU threads of torch; 0 leaves torch's own choice.
    """

    model: str
    data: Annotated[tuple[str, ...], UseAppendAction, arg(metavar="PATH[=WEIGHT]")] = ()
    name: str = "sft"
    output: str = "runs"
    num_epochs: float = 1.0
    num_steps: int | None = None
    batch_size: int = 16
    micro_batch_tokens: int = 8192
    learning_rate: float = 1e-5
    warmup_ratio: float = 0.03
    final_learning_rate_ratio: float = 0.0
    weight_decay: float = 0.01
    max_grad_norm: float = 1.0
    max_nonfinite_steps: int = 5
    max_context_tokens: int | None = None
    max_image_pixels: int | None = None
    eval_share: float = 0.05
    eval_every: int = 100
    checkpoint_every: int = 100
    memory: MemoryConfig = field(default_factory=MemoryConfig)
    lora: LoRAConfig = field(default_factory=LoRAConfig)
    seed: int = 0
    device: str = "auto"
    dtype: Literal["float32", "bfloat16"] = "float32"
    num_threads: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name(self)
        require_above(self, 0, "num_epochs", "learning_rate", "max_grad_norm")
        require_at_least(self, 0, "checkpoint_every", "num_threads", "seed")
        require_at_least(self, 1, "num_steps", "batch_size", "micro_batch_tokens", "max_nonfinite_steps", "eval_every")
        require_at_least(self, 1, "max_context_tokens", "max_image_pixels")
        require_between(self, 0, 1, "warmup_ratio", "final_learning_rate_ratio")
        require_between(self, 0, 1, "eval_share", includes=(True, False))
        self._require_data()

    def _require_data(self) -> None:
        option = field_name(self, "data")
        require(bool(self.data), f"{option} PATH says what is learnt from; give it once for each data set.")
        for source in self.sources:
            require(
                0 < source.weight < math.inf,
                f"{option} {source.path}={source.weight:g}: a weight must be above 0 and finite. It says how often an "
                "epoch shows each row; leave the data set out to show none.",
            )
        paths = [source.path for source in self.sources]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        require(twice is None, f"{option} {twice} is given twice. To show its rows twice: {option} {twice}=2.")

    @property
    def sources(self) -> tuple[DataSource, ...]:
        """The data sets, each with its weight."""
        return tuple(map(DataSource.of, self.data))

    def num_rows_shown(self, sizes: Sequence[int]) -> int:
        """Returns how many rows all steps show, of data sets with so many rows to train on."""
        if self.num_steps is not None:
            return self.num_steps * self.batch_size
        of_epoch = sum(source.weight * size for source, size in zip(self.sources, sizes, strict=True))
        return max(1, round(self.num_epochs * of_epoch))

    def steps(self, sizes: Sequence[int]) -> SupervisedSteps:
        """Returns how the steps are taken, on data sets with so many rows to train on."""
        num_steps = math.ceil(self.num_rows_shown(sizes) / self.batch_size)
        return SupervisedSteps(
            num_steps=num_steps,
            learning_rate=self.learning_rate,
            warmup_steps=math.ceil(self.warmup_ratio * num_steps),
            final_learning_rate_ratio=self.final_learning_rate_ratio,
            adamw=self.adamw,
            max_grad_norm=self.max_grad_norm,
            max_nonfinite_steps=self.max_nonfinite_steps,
            checkpoint_every=self.checkpoint_every,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as plain data."""
        saved: dict[str, Any] = plain(self)
        return saved
