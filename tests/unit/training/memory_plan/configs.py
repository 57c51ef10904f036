"""Configurations of models that are planned for, written out from what is public of them."""

from __future__ import annotations

from pathlib import Path

from transformers import Qwen2_5_VLConfig

from benchmarks.speed.gpu import QWEN2_5_VL_3B


def save_3b(directory: Path) -> Path:
    """Writes its config.json and nothing else."""
    Qwen2_5_VLConfig(**QWEN2_5_VL_3B).save_pretrained(directory)
    return directory


def save_shallow(directory: Path, *, num_layers: int = 2) -> Path:
    """Writes the config.json of a model as wide and with as many tokens, of few layers and one block of the tower."""
    text, vision = QWEN2_5_VL_3B["text_config"], QWEN2_5_VL_3B["vision_config"]
    Qwen2_5_VLConfig(
        text_config={**text, "num_hidden_layers": num_layers},
        vision_config={**vision, "depth": 1, "fullatt_block_indexes": [0]},
        tie_word_embeddings=True,
    ).save_pretrained(directory)
    return directory
