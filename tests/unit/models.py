"""Models for tests: tiny checkpoints of both families, and a head that makes chosen tokens likely."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import torch
from transformers import AutoTokenizer, Qwen2_5_VLConfig, Qwen2_5_VLForConditionalGeneration
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.hf.chat import ChatEncoder
from agents.hf.hf_agent import load_checkpoint
from agents.hf.tiny_vlm import IMAGE_PAD, VIDEO_PAD, VISION_END, VISION_START
from agents.hf.tiny_vlm import save_tiny as save_tiny


def load(directory: Path) -> tuple[Any, ChatEncoder]:
    return load_checkpoint(directory, dtype=torch.float32)


def save_tiny_qwen2_5_vl(directory: Path, tokenizer_directory: Path) -> None:
    """Writes a random Qwen2.5-VL: window attention in the vision tower, frames in pairs, untied embeddings."""
    tokenizer = AutoTokenizer.from_pretrained(tokenizer_directory)
    config = Qwen2_5_VLConfig(
        text_config={
            "vocab_size": len(tokenizer),
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 2,
            "num_attention_heads": 2,
            "num_key_value_heads": 1,
            "initializer_range": 0.1,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10_000.0, "mrope_section": [4, 6, 6]},
            "pad_token_id": tokenizer.pad_token_id,
            "eos_token_id": tokenizer.eos_token_id,
        },
        vision_config={
            "depth": 2,
            "hidden_size": 32,
            "intermediate_size": 64,
            "num_heads": 2,
            "patch_size": 14,
            "spatial_merge_size": 2,
            "temporal_patch_size": 2,
            "window_size": 56,
            "fullatt_block_indexes": [1],
            "out_hidden_size": 64,
            "initializer_range": 0.1,
        },
        **{
            f"{name}_token_id": tokenizer.convert_tokens_to_ids(token)
            for name, token in {
                "image": IMAGE_PAD,
                "video": VIDEO_PAD,
                "vision_start": VISION_START,
                "vision_end": VISION_END,
            }.items()
        },
        tie_word_embeddings=False,
    )
    with torch.random.fork_rng():
        torch.manual_seed(0)
        Qwen2_5_VLForConditionalGeneration(config).save_pretrained(directory)
    tokenizer.save_pretrained(directory)
    Qwen2VLImageProcessorPil(
        patch_size=14,
        temporal_patch_size=2,
        merge_size=2,
        size={"shortest_edge": 28**2, "longest_edge": (28 * 32) ** 2},
    ).save_pretrained(directory)


class BiasedHead(torch.nn.Module):
    """A vocabulary head with a constant added to the logits of some tokens.

    An untrained model hardly ever ends a turn; with a bias on the end of turn its responses have many lengths.
    """

    def __init__(self, head: torch.nn.Linear, ids: Sequence[int], bias: float) -> None:
        super().__init__()
        self.head = head
        bias_V = torch.zeros(head.out_features)
        bias_V[list(ids)] = bias
        self.register_buffer("bias_V", bias_V.to(head.weight.device), persistent=False)

    def forward(self, hidden: torch.Tensor) -> torch.Tensor:
        logits: torch.Tensor = self.head(hidden)
        return logits + self.bias_V


def with_ending(model: Any, encoder: ChatEncoder, bias: float = 5.5) -> Any:
    """Returns the model, changed so that its responses end after a few tokens."""
    model.lm_head = BiasedHead(model.lm_head, [encoder.end_of_turn_id], bias)
    return model
