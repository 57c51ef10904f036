"""Settings of supervised fine-tuning, a frozen dataclass that also defines the command line."""

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
"""Value of `trained_with` in the records of fine-tuning runs."""


@dataclass(frozen=True, kw_only=True)
class DataSource:
    """A dataset and its weight.

    Attributes:
        path: A file of conversations, or the directory of a curated dataset.
        weight: Number of times that an epoch shows each row; with 0.5, epochs alternate between two halves.
    """

    path: str
    weight: float = 1.0

    @classmethod
    def of(cls, text: str) -> DataSource:
        """Parses `PATH` or `PATH=WEIGHT`; the text after the last `=` is the weight if it is a number."""
        path, equals, number = text.rpartition("=")
        try:
            return cls(path=path, weight=float(number)) if equals else cls(path=text)
        except ValueError:
            return cls(path=text)


@dataclass(frozen=True, kw_only=True)
class SFTConfig(AdamWConfig):
    """Supervised fine-tuning of a checkpoint on conversations with images; the loss covers the assistant's tokens.

    Attributes:
        model: Checkpoint directory to start from, of any supported model family.
        data: The directory of a dataset from `python -m training curate`, or a file of conversations with `messages`
            and `images`, one per line; repeat the option for several: `--data A --data B=2`. The weight is the number
            of times that an epoch shows each row: 2 shows it twice; with 0.5, epochs alternate between two halves.
        name: Name of the run, a single path component; its files are written to `<output>/<name>`.
        output: Parent directory of all runs.
        num_epochs: Passes over the data, unless `num_steps` is set.
        num_steps: Optimizer steps; None to derive them from `num_epochs`.
        batch_size: Conversations per optimizer step.
        micro_batch_tokens: Maximum number of tokens per forward pass; a longer conversation is processed alone.
            Changes gradients only by rounding.
        learning_rate: Peak of a cosine schedule with warmup. Argos (appendix) uses 1e-5 for a 7B model; LoRA usually
            needs ten times as much.
        warmup_ratio: Fraction of steps with linear warmup.
        final_learning_rate_ratio: Final learning rate as a fraction of the peak.
        max_grad_norm: Maximum gradient norm; larger gradients are clipped.
        max_nonfinite_steps: Number of consecutive steps with infinite or NaN gradients after which the run is saved
            and stops. Each such step is skipped.
        max_context_tokens: Maximum number of tokens per conversation, at most the model's positions, which are the
            default. Longer conversations are left out and counted.
        max_image_pixels: Larger images are downscaled to this number of pixels; None for the checkpoint's own limit.
        eval_share: Fraction of all rows held out for the evaluation loss; rows with the same images are held out
            together. 0 for none.
        eval_every: Steps between evaluations; the loss is also evaluated before the first step and after the last.
        checkpoint_every: Steps between checkpoints, from which `--resume` continues; 0 for only a final checkpoint.
        memory: Settings that reduce device memory.
        lora: Train LoRA adapters instead of all weights.
        seed: Seed of the row order and of the held-out rows.
        device: Device of the model: `"auto"` uses a GPU if available, else the CPU.
        dtype: Data type for computation and for the weights in `latest/model`. The optimizer always updates float32
            weights.
        num_threads: Number of CPU threads of torch; 0 for torch's default.
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
        require(bool(self.data), f"No dataset to train on. Name at least one: {option} PATH.")
        for source in self.sources:
            require(
                0 < source.weight < math.inf,
                f"{option} {source.path}={source.weight:g}: a weight must be positive and finite: it is the number of "
                "times that an epoch shows each row. Remove the dataset to show none.",
            )
        paths = [source.path for source in self.sources]
        twice = next((path for path in paths if paths.count(path) > 1), None)
        require(twice is None, f"{option} {twice} is given twice. To show its rows twice: {option} {twice}=2.")

    @property
    def sources(self) -> tuple[DataSource, ...]:
        """The datasets with their weights."""
        return tuple(map(DataSource.of, self.data))

    def num_rows_shown(self, sizes: Sequence[int]) -> int:
        """Returns the total number of rows shown in training, given the number of training rows of each dataset."""
        if self.num_steps is not None:
            return self.num_steps * self.batch_size
        of_epoch = sum(source.weight * size for source, size in zip(self.sources, sizes, strict=True))
        return max(1, round(self.num_epochs * of_epoch))

    def steps(self, sizes: Sequence[int]) -> SupervisedSteps:
        """Returns the step settings, given the number of training rows of each dataset."""
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
