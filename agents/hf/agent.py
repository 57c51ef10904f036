"""An agent that is any Qwen2.5-VL or Qwen3-VL checkpoint directory, the tiny one included."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors import SafetensorError
from transformers import AutoModelForImageTextToText, AutoTokenizer
from transformers.models.qwen2_vl.image_processing_pil_qwen2_vl import Qwen2VLImageProcessorPil

from agents.agent import Response
from agents.hf.chat import ChatEncoder
from agents.hf.checkpoint import require_checkpoint
from agents.hf.sampler import CachedSampler
from agents.hf.sampling import SamplingConfig
from agents.hf.template import processor_template
from vlm_envs.trajectory import Observation
from vlm_envs.vector.env import VectorWorld


def load_checkpoint(directory: str | Path, *, dtype: str | torch.dtype = "auto") -> tuple[Any, ChatEncoder]:
    """Loads a checkpoint directory as `save_pretrained` writes it.

    Args:
        directory: Local directory with model, tokenizer and image processor.
        dtype: Weights' type; `"auto"` keeps the checkpoint's.

    Returns:
        The model in evaluation mode, and the encoder that speaks its chat format.

    Raises:
        FileNotFoundError: If there is no checkpoint there.
        ValueError: If it is not of the Qwen-VL family, incomplete or damaged.
    """
    path = require_checkpoint(directory)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        image_processor = Qwen2VLImageProcessorPil.from_pretrained(path, local_files_only=True)
        model = AutoModelForImageTextToText.from_pretrained(path, local_files_only=True, dtype=dtype)
    except (OSError, SafetensorError) as error:
        raise ValueError(f"The checkpoint at {path} is incomplete or damaged: {error}") from error
    if template := processor_template(path):
        tokenizer.chat_template = template
    return model.eval(), ChatEncoder(tokenizer, image_processor)


class HFAgent:
    """Samples responses of a transformers model, in batches, with one cache across turns.

    Args:
        model: A Qwen2.5-VL or Qwen3-VL model for conditional generation.
        encoder: Its chat format.
        sampling: How responses are drawn.
        seed: Seed of the sampling.
    """

    def __init__(
        self, model: Any, encoder: ChatEncoder, *, sampling: SamplingConfig | None = None, seed: int = 0
    ) -> None:
        self.model, self.encoder = model, encoder
        self.generator = torch.Generator(device=model.device).manual_seed(seed)
        self.policy_version = 0
        self._sampler = CachedSampler(model, encoder, sampling or SamplingConfig(), self.generator)
        self._was_cut: dict[int, bool] = {}

    @classmethod
    def from_pretrained(
        cls, directory: str | Path, *, sampling: SamplingConfig | None = None, seed: int = 0
    ) -> HFAgent:
        """Returns an agent for a checkpoint directory; see `load_checkpoint` for what can go wrong."""
        return cls(*load_checkpoint(directory), sampling=sampling, seed=seed)

    def start(self, worlds: VectorWorld) -> None:
        """Opens one conversation per world."""
        self._sampler.start(range(worlds.num_envs))
        self._was_cut = {}

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a sampled response per row."""
        segments = [
            self.encoder.encode(
                observation,
                is_first=row not in self._was_cut,
                needs_end_of_turn=self._was_cut.get(row, False),
            )
            for row, observation in zip(rows, observations, strict=True)
        ]
        was_training = self.model.training
        self.model.eval()
        samples = self._sampler.continue_rows(rows, segments)
        self.model.train(was_training)
        responses = []
        for row, segment, sample in zip(rows, segments, samples, strict=True):
            stopped = sample.ids[-1] == self.encoder.end_of_turn_id
            self._was_cut[row] = not stopped
            responses.append(
                Response(
                    text=self.encoder.decode(sample.ids),
                    stop_reason="stop" if stopped else "length",
                    prompt_ids=segment.ids,
                    response_ids=np.asarray(sample.ids, np.int64),
                    sampler_logprobs=np.asarray(sample.logprobs, np.float32),
                )
            )
        return responses
