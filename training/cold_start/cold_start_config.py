"""The supervised phase before reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass

from training.config.update_config import AdamWConfig, SupervisedSteps
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class ColdStartConfig(AdamWConfig):
    """Supervised learning on an expert's episodes, before reinforcement learning.

    Attributes:
        num_steps: Optimiser steps. 0 for none: reinforcement learning then starts from an untrained model.
        num_copying_steps: How many of them, before all others, repeat random tokens (see
            `training.cold_start.demonstrations`). A tiny model of random weights learns from them to look up a word by
            the one before it, such as names.
        num_first_turn_steps: How many of them, then, show first turns only. There the picture is the only source of
            the observation; in later turns it can be copied from one's own prediction.
        batch_size: Episodes per step. Small ones learn to see soonest for the same compute.
        learning_rate: Peak of a cosine schedule with warm-up; all copying before it is done at this rate.
        warmup_steps: Steps of linear warm-up.
        mistake_rate: How often the expert acts at random; what it writes stays true.
        suboptimal_rate: How often the expert plans a turn without regard for what makes the world hard (holes, inner
            walls). What it writes stays true: who imitates it learns to see and to write well, and plays as it does.
        tells_plan: Whether the expert says what its whole plan wants to come to before its reasons for a turn, where
            a world's task has an `intention`: in Sokoban, which way the box is to go.
        num_demonstrations: Episodes of the expert that there are, the same whatever the seed, shown again and again in
            a new order each time. None for as many as the steps take, none of them twice.
        max_grad_norm: Gradient norm that is clipped to.
        max_nonfinite_steps: Steps in a row whose gradients may be infinite or NaN. None of them is taken; the last
            one ends the cold start, which is saved as it stands.
        data: Directory of a data set made by `python -m training curate`, imitated in place of the oracle,
            whose settings are ignored then. None for the oracle.
        start_from: Checkpoint directory that goes on learning, any of a supported family; None for a tiny VLM of
            random weights. It keeps its own tokenizer.
        residual_scale: Of a tiny VLM of random weights, see `agents.hf.tiny_vlm.TinyConfig`: below 1 copying is learnt
            sooner.
        checkpoint_every: Steps between checkpoints of a run's cold start, from which `--resume` goes on in it; 0 for
            none. They are gone once the run has done its iterations.
    """

    num_steps: int = 800
    num_copying_steps: int = 0
    num_first_turn_steps: int = 400
    batch_size: int = 16
    learning_rate: float = 1e-3
    warmup_steps: int = 30
    weight_decay: float = 0.01
    mistake_rate: float = 0.0
    suboptimal_rate: float = 0.0
    tells_plan: bool = False
    num_demonstrations: int | None = None
    max_grad_norm: float = 1.0
    max_nonfinite_steps: int = 5
    data: str | None = None
    start_from: str | None = None
    residual_scale: float = 1.0
    checkpoint_every: int = 100

    def __post_init__(self) -> None:
        super().__post_init__()
        require_at_least(self, 0, "num_steps", "num_copying_steps", "num_first_turn_steps", "warmup_steps")
        require_at_least(self, 0, "checkpoint_every")
        require_at_least(self, 1, "batch_size", "num_demonstrations", "max_nonfinite_steps")
        require_above(self, 0, "learning_rate", "max_grad_norm", "residual_scale")
        require_between(self, 0, 1, "mistake_rate", "suboptimal_rate")
        require(
            self.num_steps == 0 or self.num_first_turn_steps <= self.num_steps,
            f"{field_name(self, 'num_first_turn_steps')} must be at most {field_name(self, 'num_steps')}, which is "
            f"{self.num_steps}; got {self.num_first_turn_steps}.",
        )
        require(
            self.num_steps == 0 or self.num_copying_steps + self.num_first_turn_steps <= self.num_steps,
            f"{field_name(self, 'num_copying_steps')} and {field_name(self, 'num_first_turn_steps')} must together be "
            f"at most {field_name(self, 'num_steps')}, which is {self.num_steps}; got {self.num_copying_steps} and "
            f"{self.num_first_turn_steps}.",
        )

    @property
    def steps(self) -> SupervisedSteps:
        """How its steps are taken; the rate is at its peak while copying, and falls to a tenth of it then."""
        return SupervisedSteps(
            num_steps=self.num_steps,
            learning_rate=self.learning_rate,
            warmup_steps=self.warmup_steps,
            final_learning_rate_ratio=0.1,
            adamw=self.adamw,
            max_grad_norm=self.max_grad_norm,
            max_nonfinite_steps=self.max_nonfinite_steps,
            checkpoint_every=self.checkpoint_every,
            restart_at=self.num_copying_steps,
        )
