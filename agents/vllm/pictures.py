"""Pictures as vLLM takes them when they are processed already: the trainer's own pixels, not a processor's of its own.

A picture is the arguments of the vision tower by name, and for each the field that says how vLLM puts several pictures
together. On the wire it is MessagePack in base64, as `vllm.v1.serial_utils` reads it.

Source: vLLM 0.32, `vllm.multimodal.inputs` and `vllm.entrypoints.scale_out.token_in_token_out`.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from agents.hf.families.family import Family, ProcessedImage
from agents.hf.families.qwen_vl import QwenVL
from vlm_envs.errors import ConfigError

if TYPE_CHECKING:
    from vllm.multimodal.inputs import MultiModalKwargsItem

_RAW = 3
"""MessagePack's type of bytes that are an array's, as vLLM numbers it."""
_FLAT, _BATCHED = "flat", "batched"
_FIELDS: Mapping[str, str] = {"pixel_values": _FLAT, "image_grid_thw": _BATCHED}
"""How the arguments of Qwen's towers are put together: patches one behind another, grids as a list."""


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
