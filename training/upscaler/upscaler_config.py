"""Training of a super-resolution network, as a frozen dataclass that the command line is made from."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from types import MappingProxyType
from typing import Any, Literal

from training.config.saved_config import plain, require_name
from training.config.update_config import AdamWConfig, SupervisedSteps
from vlm_envs.content.scenes.scene_source import SceneSource
from vlm_envs.validation import field_name, require, require_above, require_at_least, require_choice, require_range

SUPER_RESOLUTION = "super-resolution"
"""What a run of this kind says it was trained with."""

SIZES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "smfanet": {"num_channels": 36, "num_blocks": 8},
        "smfanet_plus": {"num_channels": 48, "num_blocks": 12},
        "small": {"num_channels": 16, "num_blocks": 4},
    }
)
"""Channels and blocks by name: the two published networks, and one of a seventh of the weights."""


@dataclass(frozen=True, kw_only=True)
class UpscalerConfig(AdamWConfig):
    """Trains SMFANet on generated scenes: what was scaled down is to become what it was.

    Scenes are those of VLM/ZoomQA-v0 whose things, once scaled down, have the sizes that its questions ask about. The
    splits train, val and test share no scene. SMFANet's authors train with --betas 0.9 0.99 and no weight decay.

    Attributes:
        name: Name of the run, one part of a path; its files go to `<output>/<name>`.
        output: Directory of all runs.
        size: The network: `smfanet` and `smfanet_plus` as published, `small` with a seventh of the weights.
        factor: How many times as wide and as high its results are.
        num_steps: Optimiser steps.
        batch_size: Patches a step.
        patch_px: Side of a patch as the network is given it.
        learning_rate: Peak of a cosine schedule with warm-up, as in the public configuration of SMFANet's authors.
        num_scenes: Scenes that patches are cut from.
        num_eval_scenes: Scenes that it is measured on, of val on the way and of test at the end.
        side_px: Least and largest side of a scene.
        target_px: Least and largest size of the things in it.
        eval_every: Steps between measurements on val.
        checkpoint_every: Steps between checkpoints, from which `--resume` goes on.
        seed: Scenes, patches and the network's first weights.
        device: Where the network lives: `"auto"` takes a GPU if there is one, else the CPU.
        num_threads: CPU threads of torch; 0 leaves torch's own choice.
    """

    name: str = "upscaler"
    output: str = "runs"
    size: Literal["smfanet", "smfanet_plus", "small"] = "smfanet"
    factor: int = 4
    num_steps: int = 2000
    batch_size: int = 8
    patch_px: int = 24
    learning_rate: float = 1e-3
    num_scenes: int = 256
    num_eval_scenes: int = 32
    side_px: tuple[int, int] = (384, 640)
    target_px: tuple[int, int] = (32, 64)
    eval_every: int = 500
    checkpoint_every: int = 100
    seed: int = 0
    device: str = "auto"
    num_threads: int = 0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_name(self)
        require_choice(field_name(self, "size"), self.size, SIZES)
        require_above(self, 0, "learning_rate")
        require_at_least(self, 1, "num_steps", "batch_size", "num_scenes", "num_eval_scenes")
        require_at_least(self, 1, "eval_every", "checkpoint_every")
        require_at_least(self, 8, "patch_px")
        require_at_least(self, 0, "seed", "num_threads")
        require(2 <= self.factor <= 8, f"{field_name(self, 'factor')} must be from 2 to 8; got {self.factor}.")
        least, _ = require_range(field_name(self, "side_px"), self.side_px)
        needed = self.factor * self.patch_px
        require(
            least >= needed,
            f"Scenes of {least} pixels ({field_name(self, 'side_px')}) hold no patch of {self.patch_px} enlarged "
            f"{self.factor} times, which is {needed}. Use larger scenes, a smaller patch or a smaller factor.",
        )
        self.scenes()

    def scenes(self) -> SceneSource:
        """Returns where scenes are drawn from.

        Raises:
            ConfigError: If there are none of such sizes.
        """
        return SceneSource(side_px=self.side_px, target_px=self.target_px)

    @property
    def network(self) -> dict[str, int]:
        """The network's size, as `SMFANetConfig` takes it."""
        return {**SIZES[self.size], "factor": self.factor}

    def steps(self) -> SupervisedSteps:
        """Returns how the steps are taken."""
        return SupervisedSteps(
            num_steps=self.num_steps,
            learning_rate=self.learning_rate,
            warmup_steps=min(200, self.num_steps // 10),
            final_learning_rate_ratio=0.01,
            adamw=self.adamw,
            max_grad_norm=1.0,
            max_nonfinite_steps=5,
            checkpoint_every=self.checkpoint_every,
        )

    def to_dict(self) -> dict[str, Any]:
        """Returns the configuration as plain data."""
        saved: dict[str, Any] = plain(self)
        return saved
