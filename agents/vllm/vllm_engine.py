"""What every vLLM engine takes and returns, wherever it runs: requests, processed images, and weights.

vLLM takes images that are processed already: the trainer's own pixels, not those of its own processor. An image
is the arguments of the vision tower by name, and for each the field that says how vLLM puts several images
together. On the wire it is MessagePack in base64, as `vllm.v1.serial_utils` reads it.

Source: vLLM 0.32, `vllm.multimodal.inputs` and `vllm.entrypoints.scale_out.token_in_token_out`.

`reload_weights` needs all weights under all of their names. A head that is tied to the embedding is written
out, too: vLLM 0.32 leaves an omitted one as it was.
"""

from __future__ import annotations

import base64
import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np
import numpy.typing as npt
import torch
from safetensors.torch import save_file
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.conversations import SampledResponse
from agents.hf.family import Family, ProcessedImage
from agents.hf.model_families import QwenVL
from agents.hf.sampling_config import SamplingConfig
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from vllm.multimodal.inputs import MultiModalKwargsItem


_MAX_ROWS = 128
"""Most responses that are sampled at once without a GPU."""
_NEVER = -100.0
"""Added to the logits of tokens that are never sampled: as much as vLLM allows, and e^-100 is 0 to a float32."""

_RAW = 3
"""MessagePack's type of bytes that are an array's, as vLLM numbers it."""
_FLAT, _BATCHED = "flat", "batched"
_FIELDS: Mapping[str, str] = {"pixel_values": _FLAT, "image_grid_thw": _BATCHED}
"""How the arguments of Qwen's towers are put together: patches one behind another, grids as a list."""

WEIGHTS = "model.safetensors"


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


def require_sendable(family: Family) -> None:
    """Refuses families whose pictures cannot be handed over.

    Raises:
        ConfigError: If a model is of one.
    """
    if not isinstance(family, QwenVL):
        raise ConfigError(
            f"vLLM samples Qwen2.5-VL and Qwen3-VL here; this model is a {family.model_types[0]}, for whose pictures "
            "there is no way yet. Train it with --sampler transformers."
        )


def picture_key(image: ProcessedImage, version: str) -> str:
    """Returns what vLLM knows a picture by; under other weights it is another, for what it becomes is kept."""
    return f"{version}-{image.key.hex()}"


def kwargs_item(image: ProcessedImage) -> MultiModalKwargsItem:
    """Returns a picture as vLLM's own type, where vLLM is."""
    import torch
    from vllm.multimodal.inputs import MultiModalFieldConfig, MultiModalFieldElem, MultiModalKwargsItem

    elements = {}
    for name, value in _arguments(image).items():
        if _FIELDS[name] == _FLAT:
            field = MultiModalFieldConfig.flat("image", [slice(0, len(value))]).field
        else:
            field = MultiModalFieldConfig.batched("image", keep_on_cpu=True).field
        elements[name] = MultiModalFieldElem(data=torch.from_numpy(value), field=field)
    return MultiModalKwargsItem(elements)


def encoded_picture(image: ProcessedImage) -> str:
    """Returns a picture as it is sent to a server; needs the package msgpack."""
    import msgpack

    elements = {}
    for name, value in _arguments(image).items():
        data = [str(value.dtype), list(value.shape), msgpack.ExtType(_RAW, value.tobytes())]
        settings: dict[str, Any] = {"keep_on_cpu": True}
        if _FIELDS[name] == _FLAT:
            settings = {"slices": [[0, len(value), None]], "dim": 0, "keep_on_cpu": False}
        elements[name] = {"data": data, "field": [_FIELDS[name], settings]}
    return base64.b64encode(msgpack.packb(elements)).decode("ascii")


def _arguments(image: ProcessedImage) -> dict[str, npt.NDArray[Any]]:
    """Returns the arguments of one picture, without an axis of pictures where vLLM adds it."""
    arguments = {}
    for name, value in image.inputs.items():
        arguments[name] = np.ascontiguousarray(value if _FIELDS[name] == _FLAT else value[0])
    return arguments


def parts(weights: Mapping[str, Tensor], max_bytes: int) -> Iterator[dict[str, Tensor]]:
    """Yields weights in the host's memory, no two of which share any, in parts of about as many bytes at most."""
    part: dict[str, Tensor] = {}
    for name, value in weights.items():
        part_bytes = sum(each.nbytes for each in part.values())
        if part and part_bytes + value.nbytes > max_bytes:
            yield part
            part = {}
        part[name] = _alone(value, part)
    yield part


def write_weights(directory: Path, weights: Mapping[str, Tensor]) -> None:
    """Writes a checkpoint's weights in place of those that are there, all or nothing."""
    temporary = directory / f".{WEIGHTS}"
    tensors: dict[str, Tensor] = {}
    for name, value in weights.items():
        tensors[name] = _alone(value, tensors)
    save_file(tensors, temporary, metadata={"format": "pt"})
    os.replace(temporary, directory / WEIGHTS)


def _alone(value: Tensor, others: Mapping[str, Tensor]) -> Tensor:
    """Returns a weight that shares no memory with others, which safetensors refuses."""
    value = value.detach().cpu().contiguous()
    shares = any(each.data_ptr() == value.data_ptr() for each in others.values())
    return value.clone() if shares else value
