"""Configurations of published models, written out from what is public of them."""

from __future__ import annotations

from typing import Any

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
