"""Runs of models from scratch whose memory is planned and then measured."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any, Literal

import numpy as np
import torch
from transformers import Qwen3VLConfig

from agents.hf.family import ProcessedImage
from agents.hf.sampling_config import SamplingConfig
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.batch import OBSERVED, Batch
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import MemoryConfig, PPOConfig
from training.config.world_spec import WorldSpec
from training.memory_plan.plan_rows import RowShape, Segment, picture

IMAGE, START, END = 5, 3, 4
"""Tokens of a picture's placeholder and of its borders."""


@dataclass(frozen=True, kw_only=True)
class MemoryCase:
    """One update of a Qwen3-VL of random weights, with a critic and a reference.

    Attributes:
        width: Hidden size.
        num_layers: Decoder layers.
        num_heads: Attention heads; half of them have keys and values of their own.
        vocab_size: Tokens there are.
        vision_width: Hidden size of the vision tower.
        num_vision_layers: Its layers.
        num_rows: Rows of the update, in two optimiser steps.
        micro_batch_rows: Rows of a micro-batch.
        num_turns: Turns of each row.
        num_turn_tokens: Tokens of a turn, 16 of a picture and a response among them.
        num_response_tokens: Tokens of a response.
        dtype: Type of the weights.
        gradient_checkpointing: Whether layers keep only what goes into them.
    """

    width: int
    num_layers: int
    num_heads: int
    vocab_size: int = 1024
    vision_width: int = 64
    num_vision_layers: int = 2
    num_rows: int = 8
    micro_batch_rows: int = 2
    num_turns: int = 4
    num_turn_tokens: int = 120
    num_response_tokens: int = 64
    dtype: Literal["float32", "bfloat16"] = "float32"
    gradient_checkpointing: bool = False

    def model_config(self) -> Qwen3VLConfig:
        """Returns the model's configuration."""
        head_dim = self.width // self.num_heads
        sections = [head_dim // 2 - 2 * (head_dim // 6), head_dim // 6, head_dim // 6]
        return Qwen3VLConfig(
            text_config={
                "vocab_size": self.vocab_size,
                "hidden_size": self.width,
                "intermediate_size": 3 * self.width,
                "num_hidden_layers": self.num_layers,
                "num_attention_heads": self.num_heads,
                "num_key_value_heads": self.num_heads // 2,
                "head_dim": head_dim,
                "rope_parameters": {
                    "rope_type": "default",
                    "rope_theta": 10_000.0,
                    "mrope_section": sections,
                    "mrope_interleaved": True,
                },
            },
            vision_config={
                "depth": self.num_vision_layers,
                "hidden_size": self.vision_width,
                "intermediate_size": 2 * self.vision_width,
                "num_heads": self.vision_width // 16,
                "patch_size": 14,
                "spatial_merge_size": 2,
                "temporal_patch_size": 1,
                "out_hidden_size": self.width,
                "num_position_embeddings": 256,
                "deepstack_visual_indexes": [0],
            },
            image_token_id=IMAGE,
            video_token_id=6,
            vision_start_token_id=START,
            vision_end_token_id=END,
            tie_word_embeddings=True,
        )

    def run_config(self) -> RunConfig:
        """Returns the run."""
        return RunConfig(
            name="memory",
            worlds=(WorldSpec(env_id="VLM/FrozenLake-v0"),),
            num_groups=self.num_rows // 2,
            group_size=2,
            sampling=SamplingConfig(max_new_tokens=self.num_response_tokens),
            judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0),
            algorithm=BilevelGAE(critic=CriticConfig(num_minibatches=2)),
            ppo=PPOConfig(num_minibatches=2, micro_batch_size=self.micro_batch_rows, warmup_iterations=0),
            memory=MemoryConfig(gradient_checkpointing=self.gradient_checkpointing),
            dtype=self.dtype,
        )

    def image(self) -> ProcessedImage:
        """Returns a picture of 16 tokens."""
        return picture((112, 112), self.model_config())

    def row(self) -> RowShape:
        """Returns the rows' shape, as a plan has it."""
        num_shown = self.num_turn_tokens - self.num_response_tokens
        shown = Segment(num_tokens=num_shown, images=(self.image(),))
        return RowShape(
            num_turns=self.num_turns,
            num_tokens=self.num_turns * self.num_turn_tokens,
            num_response_tokens=self.num_response_tokens,
            first=shown,
            later=shown,
            told="as the case says",
        )

    def batch(self) -> Batch:
        """Returns rows of random tokens, all of one length."""
        image, generator = self.image(), torch.Generator().manual_seed(0)
        num_rows, num_turns, width = self.num_rows, self.num_turns, self.num_turn_tokens
        ids = torch.randint(8, self.vocab_size, (num_rows, num_turns, width), generator=generator)
        ids[:, :, 0], ids[:, :, 1 : 1 + image.num_tokens], ids[:, :, 1 + image.num_tokens] = START, IMAGE, END
        turn_index = torch.full_like(ids, OBSERVED)
        turn_index[:, :, -self.num_response_tokens :] = torch.arange(num_turns)[None, :, None]
        ids, turn_index = ids.flatten(1), turn_index.flatten(1)
        nothing, everything = torch.zeros(num_rows, dtype=torch.bool), torch.ones(num_rows, num_turns).bool()
        given: dict[str, Any] = {
            "turn_rewards_BK": torch.randn(num_rows, num_turns, generator=generator),
            "state_index_BK": torch.arange(num_rows * num_turns).reshape(num_rows, num_turns),
        }
        return Batch(
            input_ids_BT=ids,
            attention_mask_BT=torch.ones_like(ids),
            turn_index_BT=turn_index,
            sampler_logprobs_BT=torch.where(turn_index >= 0, -float(np.log(self.vocab_size)), 0.0),
            trainable_BK=everything,
            terminated_B=~nothing,
            has_final_B=nothing,
            group_index_B=torch.arange(num_rows) // 2,
            trainable_B=~nothing,
            images=tuple(replace(image, key=str(number).encode()) for number in range(num_rows * num_turns)),
            row_image_offsets=tuple(num_turns * row for row in range(num_rows + 1)),
            image_token_id=IMAGE,
            suppressed_ids=(START, END, IMAGE),
            max_response_tokens=self.num_response_tokens,
            **given,
        )


_20M = MemoryCase(
    width=128,
    num_layers=6,
    num_heads=4,
    vocab_size=151_936,
    num_rows=2,
    micro_batch_rows=1,
    num_turns=2,
    num_response_tokens=32,
)
_150M = MemoryCase(width=768, num_layers=18, num_heads=12, vocab_size=8192, vision_width=256, num_vision_layers=4)

CASES: dict[str, MemoryCase] = {
    "1M": MemoryCase(width=128, num_layers=4, num_heads=4),
    "20M": _20M,
    "20M-bfloat16": replace(_20M, dtype="bfloat16"),
    "150M": _150M,
    "150M-checkpointed": replace(_150M, gradient_checkpointing=True),
}
"""Models of about as many parameters as their names say; those of 20M have a vocabulary as large models do."""
