"""Settings of the supervised phase before reinforcement learning."""

from __future__ import annotations

from dataclasses import dataclass

from training.config.update_config import AdamWConfig, SupervisedSteps
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class ColdStartConfig(AdamWConfig):
    """Supervised training on an expert's episodes, before reinforcement learning.

    Attributes:
        num_steps: Optimizer steps. With 0, reinforcement learning starts from an untrained model.
        num_copying_steps: Number of initial steps on random tokens to repeat (see
            `training.cold_start.demonstrations`), which teach a tiny model with random weights to look up a word by
            its predecessor, as in names.
        num_first_turn_steps: Number of the following steps that use first turns only. There, the image is the only
            source of the observation; in later turns, the observation can be copied from the previous prediction.
        batch_size: Episodes per step. Small batches learn to see with the least compute.
        learning_rate: Peak of a cosine schedule with warmup; constant during the copying steps before it.
        warmup_steps: Steps of linear warmup.
        mistake_rate: Probability that the expert acts at random; its text stays true.
        suboptimal_rate: Probability that the expert plans a turn without regard to obstacles (holes, inner walls).
            Its text stays true: a model that imitates it learns to see and to write well, but plays equally badly.
        tells_plan: Whether the expert states the goal of its plan before its reasons for a turn, in worlds whose task
            has an `intention`: in Sokoban, the direction in which the box should move.
        num_demonstrations: Size of a fixed set of expert episodes, independent of the seed, that is repeated in a new
            order each time. None for new episodes in every step.
        max_grad_norm: Maximum gradient norm; larger gradients are clipped.
        max_nonfinite_steps: Number of consecutive steps with infinite or NaN gradients after which the cold start is
            saved and stops. Each such step is skipped.
        data: Directory of a dataset from `python -m training curate` to imitate instead of the oracle, whose settings
            are then ignored. None for the oracle.
        start_from: Checkpoint directory to continue from, of any supported model family, with its own tokenizer; None
            for a tiny VLM with random weights.
        residual_scale: Scale of a tiny VLM with random weights, see `agents.hf.tiny_vlm.TinyConfig`; values below 1
            speed up learning to copy.
        checkpoint_every: Steps between checkpoints of a run's cold start, from which `--resume` continues; 0 for
            none. They are deleted once the run has finished its iterations.
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
        """Step settings; the learning rate stays at its peak while copying and then decays to a tenth of it."""
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
