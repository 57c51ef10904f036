"""What both trainers do in an iteration, so that only how they do it differs."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

from vlm_envs.splits import split_seeds
from vlm_envs.validation import require, require_at_least

FIRST_SEED = 100_000_000
"""Of the levels, as a run of seed 0 draws them (`training.loop.collect`); others in each iteration."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """Iterations of GRPO: groups of siblings, turns of forced length, one optimiser step.

    Attributes:
        num_groups: Start states per iteration.
        group_size: Siblings per start state, at least 2.
        turns: Of each episode.
        tokens: Of each response.
        world_ms: How long a world takes to answer, beside what it computes.
        judge_ms: How long a judge takes for an episode.
        judge_parallel: Questions to the judge that may be under way at a time.
        micro_batch_size: Rows per forward and backward pass; divides the number of episodes.
        learning_rate: Of AdamW.
        num_iterations: Measured ones; another one before them warms up.
        num_threads: CPU threads of torch.
        model: The checkpoint, a directory or a shipped one.
    """

    num_groups: int = 32
    group_size: int = 4
    turns: int = 3
    tokens: int = 50
    world_ms: float = 0.0
    judge_ms: float = 0.0
    judge_parallel: int = 8
    micro_batch_size: int = 8
    learning_rate: float = 1e-4
    num_iterations: int = 3
    num_threads: int = 1
    model: str = "training/recipes/checkpoints/frozenlake_tiny"

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_groups", "turns", "tokens", "judge_parallel", "micro_batch_size")
        require_at_least(self, 1, "num_iterations", "num_threads")
        require_at_least(self, 2, "group_size")
        require_at_least(self, 0, "world_ms", "judge_ms")
        require(
            self.num_episodes % self.micro_batch_size == 0,
            f"--micro-batch-size must divide the {self.num_episodes} episodes of an iteration, for TRL has no smaller "
            f"last batch; got {self.micro_batch_size}.",
        )

    @property
    def num_episodes(self) -> int:
        """Of an iteration."""
        return self.num_groups * self.group_size

    def levels(self, iteration: int) -> list[int]:
        """Returns the seed of each group of an iteration."""
        return list(split_seeds("train", self.num_groups, start=FIRST_SEED + iteration * self.num_groups))

    @property
    def world_kwargs(self) -> dict[str, Any]:
        """Arguments of the world, see `benchmarks.trainers.world.LateLake`; both sides make the same."""
        settings = {"prompt_format": "grounding_worldmodeling", "representation": "structured", "prompt_example": False}
        return {**settings, "max_turns": self.turns, "answer_ms": self.world_ms}

    def to_json(self) -> str:
        """Returns the settings for another process."""
        return json.dumps(asdict(self))
