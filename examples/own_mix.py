"""A world mix of your own: two worlds from the mix of the tiny all-worlds model, starting from that model.

Train it: python -m training --recipe examples/own_mix.py
"""

from __future__ import annotations

from dataclasses import replace

from training.config.run_config import RunConfig
from training.recipes.tiny import mix_tiny

WEIGHTS = {"VLM/ZoomQA-v0": 2.0, "VLM/VideoQA-v0": 1.0}


def zoom_and_video() -> RunConfig:
    """Questions about images and about videos, two to one."""
    known = mix_tiny()
    worlds = [replace(world, weight=WEIGHTS[world.env_id]) for world in known.worlds if world.env_id in WEIGHTS]
    return replace(known, name="zoom_and_video", worlds=tuple(worlds), num_groups=12, num_iterations=20)
