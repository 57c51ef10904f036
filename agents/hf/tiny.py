"""The embedded tiny VLM: a real Qwen3-VL of about a million parameters, built in place.

It exists so that the whole pipeline runs and learns on two CPU cores through the code that trains larger models. Its
vision tower has learned absolute patch positions and DeepStack, which is what lets so small a model see where things
are; patch 14 and merge 2 make one visual token out of each 28-pixel cell.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from transformers import PreTrainedTokenizerBase, Qwen3VLConfig, Qwen3VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.hf.tokenizer import (
    GRID_WORLDS,
    IM_END,
    IMAGE_PAD,
    VIDEO_PAD,
    VISION_END,
    VISION_START,
    build_tokenizer,
    file_name_parts,
    suite_texts,
    telling_words,
)

PATCH_PX = 14
MERGE = 2


@dataclass(frozen=True, kw_only=True)
class TinyConfig:
    """Sizes of the tiny VLM.

    Attributes:
        width: Hidden size of the language model.
        num_layers: Its decoder layers.
        num_heads: Its attention heads, 32 wide each.
        num_kv_heads: Its key-value heads.
        mlp_width: Its feed-forward width.
        vision_width: Hidden size of the vision tower.
        num_vision_layers: Layers of the vision tower; the first one feeds DeepStack.
        vision_grid: Learned patch positions per side; larger images interpolate them.
        max_positions: Longest sequence, in tokens.
        init_std: Standard deviation of the initial weights; larger than the family's 0.02, as a narrow model needs.
        position_init_std: The same of the learned patch positions. Knowing where a patch is comes before anything
            else; from 0.02 the model sits at chance several times longer.
        residual_scale: Factor on the initial weights by which the language model's layers write into the residual
            stream. At 1 they write so much more than the embeddings hold that a token's own identity is drowned, and
            copying is learnt ten times more slowly than at 0.15.
        seed: Seed of the initial weights.
    """

    width: int = 128
    num_layers: int = 4
    num_heads: int = 4
    num_kv_heads: int = 2
    mlp_width: int = 384
    vision_width: int = 64
    num_vision_layers: int = 2
    vision_grid: int = 16
    max_positions: int = 4096
    init_std: float = 0.06
    position_init_std: float = 0.5
    residual_scale: float = 1.0
    seed: int = 0


def build_tiny_model(
    tokenizer: PreTrainedTokenizerBase, config: TinyConfig | None = None
) -> Qwen3VLForConditionalGeneration:
    """Returns a randomly initialised tiny Qwen3-VL for a tokenizer."""
    config = config or TinyConfig()
    head_dim = config.width // config.num_heads

    def token_id(token: str) -> int:
        found = tokenizer.convert_tokens_to_ids(token)
        assert isinstance(found, int), f"{token} is one token"
        return found

    model_config = Qwen3VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": config.width,
            "intermediate_size": config.mlp_width,
            "num_hidden_layers": config.num_layers,
            "num_attention_heads": config.num_heads,
            "num_key_value_heads": config.num_kv_heads,
            "head_dim": head_dim,
            "initializer_range": config.init_std,
            "max_position_embeddings": config.max_positions,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10_000.0,
                "mrope_section": [head_dim // 2 - 2 * (head_dim // 6), head_dim // 6, head_dim // 6],
                "mrope_interleaved": True,
            },
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": config.num_vision_layers,
            "hidden_size": config.vision_width,
            "intermediate_size": 2 * config.vision_width,
            "num_heads": config.vision_width // 16,
            "patch_size": PATCH_PX,
            "spatial_merge_size": MERGE,
            "temporal_patch_size": 1,
            "out_hidden_size": config.width,
            "num_position_embeddings": config.vision_grid**2,
            "deepstack_visual_indexes": [0],
            "initializer_range": config.init_std,
        },
        image_token_id=token_id(IMAGE_PAD),
        video_token_id=token_id(VIDEO_PAD),
        vision_start_token_id=token_id(VISION_START),
        vision_end_token_id=token_id(VISION_END),
        tie_word_embeddings=True,
    )
    with torch.random.fork_rng():
        torch.manual_seed(config.seed)
        model = Qwen3VLForConditionalGeneration(model_config)
        torch.nn.init.normal_(model.model.visual.pos_embed.weight, std=config.position_init_std)
    with torch.no_grad():
        for layer in model.model.language_model.layers:
            layer.self_attn.o_proj.weight *= config.residual_scale
            layer.mlp.down_proj.weight *= config.residual_scale
    model.generation_config.eos_token_id = token_id(IM_END)
    model.generation_config.pad_token_id = tokenizer.pad_token_id
    return model


def build_tiny_image_processor() -> Qwen2VLImageProcessorPil:
    """Returns the family's image processor, set to keep grid pictures at their size."""
    return Qwen2VLImageProcessorPil(
        patch_size=PATCH_PX,
        temporal_patch_size=1,
        merge_size=MERGE,
        size={"shortest_edge": (PATCH_PX * MERGE) ** 2, "longest_edge": (PATCH_PX * MERGE * 32) ** 2},
        image_mean=[0.5, 0.5, 0.5],
        image_std=[0.5, 0.5, 0.5],
    )


def save_tiny(
    directory: str | Path,
    config: TinyConfig | None = None,
    *,
    env_ids: Sequence[str] = GRID_WORLDS,
    settings: Mapping[str, Sequence[Mapping[str, Any]]] | None = None,
) -> None:
    """Builds tokenizer, image processor and model and saves them like any other checkpoint.

    Args:
        directory: Where to write; created if needed.
        config: Sizes.
        env_ids: Worlds whose texts the tokenizer is trained on.
        settings: Arguments of those that ask, by id, as often as one is played.
    """
    tokenizer = build_tokenizer(
        suite_texts(env_ids, settings=settings), words=telling_words(env_ids), parts=file_name_parts(env_ids)
    )
    build_tiny_model(tokenizer, config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    build_tiny_image_processor().save_pretrained(directory)
