"""What samplers share, in whatever order they feed rows: how prompts are cut into chunks, and how tokens are drawn."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from typing import Any

import torch
from torch import Tensor
from transformers import LogitsProcessorList, SuppressTokensLogitsProcessor, TemperatureLogitsWarper
from transformers.generation.logits_process import TopPLogitsWarper

from agents.hf.chat import ChatEncoder
from agents.hf.draws import EpisodeDraws
from agents.hf.families.registry import family_of
from agents.hf.families.seen import SeenImages
from agents.hf.sampling import SamplingConfig

_NO_IDS = torch.LongTensor()
"""What came before; none of the warpers used here looks at it."""


class TokenDrawer:
    """Draws tokens from logits as a configuration says.

    Args:
        encoder: Names the tokens that are never drawn.
        sampling: How responses are drawn.
        draws: Source of randomness; greedy sampling needs none.
        device: Of the logits.
    """

    def __init__(
        self, encoder: ChatEncoder, sampling: SamplingConfig, draws: EpisodeDraws, device: torch.device
    ) -> None:
        self._is_greedy, self.draws = sampling.temperature == 0.0, draws
        self._warp = LogitsProcessorList([SuppressTokensLogitsProcessor(encoder.suppressed_ids(), device=str(device))])
        if sampling.temperature not in (0.0, 1.0):
            self._warp.append(TemperatureLogitsWarper(sampling.temperature))
        if sampling.top_p < 1.0:
            self._warp.append(TopPLogitsWarper(sampling.top_p))

    def draw(self, logits_NV: Tensor, rows: Sequence[int]) -> tuple[Tensor, Tensor]:
        """Returns one token per row, int64[N], and its log-probability.

        Args:
            logits_NV: float32.
            rows: N numbers of the episodes.
        """
        logprobs_NV = torch.log_softmax(self._warp(_NO_IDS, logits_NV), dim=-1)
        ids_N = logprobs_NV.argmax(dim=-1) if self._is_greedy else self.draws(logprobs_NV, rows)
        return ids_N, logprobs_NV.gather(1, ids_N[:, None])[:, 0]


def prefill_chunks(is_image_BT: Tensor, num_tokens: int | None, *, whole_images: bool) -> Iterator[tuple[int, int]]:
    """Yields where the chunks of a padded batch of prompts begin and end.

    Args:
        is_image_BT: bool, which columns are placeholders.
        num_tokens: Most columns of a chunk; None for all.
        whole_images: Whether pictures have to be fed whole. A chunk then ends before a picture that does not fit, or
            behind one that is longer than a chunk.
    """
    width = is_image_BT.shape[1]
    step = num_tokens or width
    cuts = set(range(1, width))
    if whole_images:
        within = (is_image_BT[:, :-1] & is_image_BT[:, 1:]).any(0)
        cuts -= set((within.nonzero()[:, 0] + 1).tolist())
    start = 0
    while start < width:
        end = min(start + step, width)
        earlier = range(end, start, -1)
        end = next((each for each in earlier if each in cuts or each == width), 0)
        end = end or next((each for each in range(start + step, width) if each in cuts), width)
        yield start, end
        start = end


class ModelSampler(ABC):
    """What samplers of a transformers model are made from.

    Args:
        model: A model of a known family, with its head.
        encoder: Gives padding, end-of-turn and suppressed tokens.
        sampling: How responses are drawn.
        draws: Source of randomness.
    """

    def __init__(self, model: Any, encoder: ChatEncoder, sampling: SamplingConfig, draws: EpisodeDraws) -> None:
        self.model, self.encoder, self.sampling = model, encoder, sampling
        self.family = family_of(model)
        self.seen = SeenImages()
        self._tokens = TokenDrawer(encoder, sampling, draws, device=model.device)
        self.start([])

    @abstractmethod
    def start(self, rows: Sequence[int], draws: EpisodeDraws | None = None) -> None:
        """Forgets everything and opens one empty conversation per row.

        Args:
            rows: Their numbers.
            draws: Source of randomness from here on; the same as before by default.
        """
