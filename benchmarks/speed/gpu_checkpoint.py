"""A checkpoint of random weights in a published shape, for measuring a run's needs without the real weights."""

from __future__ import annotations

import copy
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch
from transformers import Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.hf.tiny_vlm import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START, build_tokenizer, suite_texts

NUM_LEVELS, VOCAB_SIZE = 8, 4096
"""Levels per world for the tokenizer's texts, and the maximum size of its vocabulary."""


def save_random_qwen2_5_vl(directory: Path, shape: Mapping[str, Any], env_ids: tuple[str, ...]) -> int:
    """Writes a Qwen2.5-VL with random bfloat16 weights and a tokenizer of some worlds' texts; returns its parameters.

    The tokenizer has only a few thousand of the model's tokens; the others are sampled all the same and decode to
    nothing.

    Args:
        directory: Directory to write; created if necessary.
        shape: The model's configuration, such as `benchmarks.speed.gpu.QWEN2_5_VL_3B`.
        env_ids: Registered ids of the worlds.
    """
    tokenizer = build_tokenizer(suite_texts(env_ids, NUM_LEVELS), vocab_size=VOCAB_SIZE)
    text = copy.deepcopy(dict(shape["text_config"]))
    text |= {"pad_token_id": tokenizer.pad_token_id, "eos_token_id": tokenizer.eos_token_id}
    specials = {"image": IMAGE_PAD, "video": VIDEO_PAD, "vision_start": VISION_START, "vision_end": VISION_END}
    ids = {f"{name}_token_id": tokenizer.convert_tokens_to_ids(token) for name, token in specials.items()}
    config = Qwen2_5_VLConfig(**{**shape, "text_config": text, **ids})
    with torch.random.fork_rng(), torch.device("cuda" if torch.cuda.is_available() else "cpu"):
        torch.manual_seed(0)
        model = Qwen2_5_VLForConditionalGeneration._from_config(config, dtype=torch.bfloat16)
    model.save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    vision = shape["vision_config"]
    Qwen2VLImageProcessorPil(
        patch_size=vision["patch_size"],
        temporal_patch_size=vision["temporal_patch_size"],
        merge_size=vision["spatial_merge_size"],
        size={"shortest_edge": 28**2, "longest_edge": (28 * 32) ** 2},
    ).save_pretrained(directory)
    return int(model.num_parameters())
