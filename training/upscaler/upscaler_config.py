"""Settings for training a super-resolution network, a frozen dataclass that also defines the command line."""

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
"""Value of `trained_with` in the records of these runs."""

SIZES: Mapping[str, Mapping[str, int]] = MappingProxyType(
    {
        "smfanet": {"num_channels": 36, "num_blocks": 8},
        "smfanet_plus": {"num_channels": 48, "num_blocks": 12},
        "small": {"num_channels": 16, "num_blocks": 4},
    }
)
"""Channels and blocks by name: the two published networks, and one with a seventh of the weights."""


@dataclass(frozen=True, kw_only=True)
class UpscalerConfig(AdamWConfig):
    """Trains SMFANet on generated scenes to reverse downscaling.

    Scenes are those of VLM/ZoomQA-v0, with objects that have the sizes of its questions after downscaling. The splits
    train, val, and test share no scene. SMFANet's authors train with --betas 0.9 0.99 and no weight decay.

    Attributes:
        name: Name of the run, a single path component; its files are written to `<output>/<name>`.
        output: Parent directory of all runs.
        size: The network: `smfanet` and `smfanet_plus` as published, `small` with a seventh of the weights.
        factor: Upscaling factor of width and height.
        num_steps: Optimizer steps.
        batch_size: Patches per step.
        patch_px: Side of an input patch.
        learning_rate: Peak of a cosine schedule with warmup, as in the public configuration of SMFANet's authors.
        num_scenes: Number of scenes from which patches are cut.
        num_eval_scenes: Number of scenes for evaluations, on val during training and on test at the end.
        side_px: Minimum and maximum side of a scene.
        target_px: Minimum and maximum size of the objects in a scene.
        eval_every: Steps between evaluations on val.
        checkpoint_every: Steps between checkpoints, from which `--resume` continues.
        seed: Seed of scenes, patches, and the network's initial weights.
        device: Device of the network: `"auto"` uses a GPU if available, else the CPU.
        num_threads: Number of CPU threads of torch; 0 for torch's default.
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
            f"Scenes of {least} pixels ({field_name(self, 'side_px')}) are smaller than an enlarged patch of "
            f"{self.factor} x {self.patch_px} = {needed}. Use larger scenes, a smaller patch, or a smaller factor.",
        )
        self.scenes()

    def scenes(self) -> SceneSource:
        """Returns the source of scenes.

        Raises:
            ConfigError: If no scene has such sizes.
        """
        return SceneSource(side_px=self.side_px, target_px=self.target_px)

    @property
    def network(self) -> dict[str, int]:
        """Arguments of `SMFANetConfig`."""
        return {**SIZES[self.size], "factor": self.factor}

    def steps(self) -> SupervisedSteps:
        """Returns the step settings."""
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
