"""Lets a vLLM server be sent its weights: `--worker-extension-cls agents.vllm.worker.WeightReceiver`.

It is imported by the server's workers, in vLLM's environment; a server that shares a folder with the trainer needs none
of it. Nothing here imports any other file of this project.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import safetensors.torch
from torch import Tensor


class WeightReceiver:
    """Becomes a part of vLLM's worker, whose `reload_weights` takes what came."""

    def receive_weights(self, part: str, is_first: str, is_last: str) -> None:
        """Keeps a part of the weights; with the last one, all are taken.

        Args:
            part: Tensors by name, as safetensors writes them, in base64.
            is_first: `"1"` for the first part, before which nothing counts; else empty.
            is_last: `"1"` for the last one, else empty.
        """
        parts: list[bytes] = [] if is_first else vars(self).setdefault("_weight_parts", [])
        parts.append(base64.b64decode(part))
        vars(self)["_weight_parts"] = parts
        if is_last:
            worker: Any = self
            worker.reload_weights(weights_iterator=_tensors(parts))
            vars(self)["_weight_parts"] = []


def _tensors(parts: list[bytes]) -> Iterator[tuple[str, Tensor]]:
    for part in parts:
        yield from safetensors.torch.load(part).items()
