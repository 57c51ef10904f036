"""Configurations of models that are planned for, written out from what is public of them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from transformers import Qwen2_5_VLConfig

QWEN2_5_VL_3B: dict[str, Any] = {
    "text_config": {
        "vocab_size": 151_936,
        "hidden_size": 2048,
        "intermediate_size": 11_008,
        "num_hidden_layers": 36,
        "num_attention_heads": 16,
        "num_key_value_heads": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [16, 24, 24]},
    },
    "vision_config": {
        "depth": 32,
        "hidden_size": 1280,
        "intermediate_size": 3420,
        "num_heads": 16,
        "patch_size": 14,
        "spatial_merge_size": 2,
        "temporal_patch_size": 2,
        "window_size": 112,
        "fullatt_block_indexes": [7, 15, 23, 31],
        "out_hidden_size": 2048,
    },
    "tie_word_embeddings": True,
}
"""Of Qwen2.5-VL-3B-Instruct, the model of VAGEN's paper."""


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
