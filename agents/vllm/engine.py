"""What a vLLM engine is to us, wherever it runs: it takes weights, and continues tokens with pictures among them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol

import numpy as np
import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.conversations import SampledResponse
from agents.hf.families.family import ProcessedImage
from agents.hf.sampling import SamplingConfig

_MAX_ROWS = 128
"""Most responses that are sampled at once without a GPU."""
_NEVER = -100.0
"""Added to the logits of tokens that are never sampled: as much as vLLM allows, and e^-100 is 0 to a float32."""


@dataclass(frozen=True, kw_only=True)
class Request:
    """One response that is asked for.

    Attributes:
        ids: Tokens of the whole conversation so far, placeholders expanded.
        images: Its pictures, in the order of their placeholders.
        offsets: Where the placeholders of each picture begin.
        seed: Of what is drawn, so that it depends on nothing that is sampled beside it.
        sampling: How it is drawn; None for as the engine was made.
    """

    ids: list[int]
    images: tuple[ProcessedImage, ...]
    offsets: tuple[int, ...]
    seed: int
    sampling: SamplingConfig | None = None

    def drawn(self) -> dict[str, Any]:
        """Returns vLLM's parameters that are this request's own, to be put over the engine's."""
        return {} if self.sampling is None else _drawn(self.sampling)


class VLLMEngine(Protocol):
    """Samples with the weights it was given last; shared by agents that take turns."""

    @property
    def version(self) -> str:
        """What the weights are called that were loaded last; empty before."""

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Takes weights, under the names that a checkpoint has for them.

        Args:
            weights: All of them.
            version: What tells them from any that were loaded before; another name may be given to them.

        Raises:
            SamplerLostError: If the engine cannot be reached.
        """

    def add_request(self, name: str, request: Request) -> None:
        """Asks for a response, of a name that no other has."""

    def step(self) -> dict[str, SampledResponse]:
        """Goes on with what was asked for; returns responses that are there, by name, if only to say why there is none.

        Called while there are requests without a response.
        """

    def abort(self, names: Sequence[str]) -> None:
        """Gives up requests, which are not answered any more."""

    def close(self) -> None:
        """Lets go of everything."""


def _drawn(sampling: SamplingConfig) -> dict[str, Any]:
    return {"temperature": sampling.temperature, "top_p": sampling.top_p, "max_tokens": sampling.max_new_tokens}


def sampling_params(encoder: ChatEncoder, sampling: SamplingConfig) -> dict[str, Any]:
    """Returns vLLM's parameters of all requests, but for their seeds and what they say of how they are drawn."""
    return {
        **_drawn(sampling),
        "stop_token_ids": [encoder.end_of_turn_id],
        "ignore_eos": True,  # a checkpoint may name other tokens that end it; ours ends at one
        "logit_bias": {token: _NEVER for token in encoder.suppressed_ids()},
        "logprobs": 0,  # of the sampled token alone
        "detokenize": False,
        "skip_special_tokens": False,
    }


def scheduling(max_context_tokens: int) -> dict[str, int]:
    """Returns how much vLLM does at once on this machine; its own choice on a GPU.

    On a CPU vLLM 0.32 fails where a prompt with a seed is fed in several steps, so all have to fit into one.
    """
    if torch.cuda.is_available():
        return {}
    return {"max_num_seqs": _MAX_ROWS, "max_num_batched_tokens": _MAX_ROWS * max_context_tokens}


def failed_response(error: str) -> SampledResponse:
    """Returns what stands for a response that cannot be had, and why."""
    return SampledResponse(ids=[], logprobs=[], error=error)


def image_offsets(ids: Sequence[int], images: Sequence[ProcessedImage], image_token_id: int) -> tuple[int, ...]:
    """Returns where the placeholders of each picture begin."""
    places = np.flatnonzero(np.asarray(ids) == image_token_id)
    firsts = np.cumsum([0, *(image.num_tokens for image in images)])
    assert firsts[-1] == len(places), "each placeholder is one of a picture's"
    return tuple(int(places[first]) for first in firsts[:-1])
