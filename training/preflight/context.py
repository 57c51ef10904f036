"""Whether the first thing that each world shows leaves room for a response, found out before weights are loaded."""

from __future__ import annotations

from collections.abc import Sequence

from agents.hf.sampling_config import SamplingConfig
from training.checkpoints.files import model_directory
from vlm_envs.trajectory import Observation


def require_context(model: str, observations: Sequence[Observation], sampling: SamplingConfig) -> None:
    """Refuses worlds whose first observation is too long for a checkpoint; one that is not there is refused elsewhere.

    Args:
        model: The checkpoint, of which everything but its weights is read.
        observations: First ones.
        sampling: How responses are drawn.

    Raises:
        ConfigError: If there is no room for a response.
        ValueError: If the checkpoint is of no family that is known, incomplete or damaged.
    """
    directory = model_directory(model)
    if not (directory / "config.json").is_file():
        return
    from transformers import AutoConfig  # and torch with it, which takes seconds that no mistyped option should

    from agents.hf.hf_agent import load_encoder
    from agents.hf.sampling_config import context_limit, require_room

    encoder = load_encoder(directory)
    encoder.limit_pixels(sampling.max_image_pixels)
    limit = context_limit(AutoConfig.from_pretrained(directory, local_files_only=True), sampling)
    for observation in observations:
        require_room(len(encoder.encode(observation, is_first=True).ids), limit, sampling)
