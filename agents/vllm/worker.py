"""Lets a vLLM server receive weights over HTTP: `--worker-extension-cls agents.vllm.worker.WeightReceiver`.

It is imported by the server's workers, in vLLM's environment; a server that shares a folder with the trainer does not
need it. This file imports no other file of this project.
"""

from __future__ import annotations

import base64
from collections.abc import Iterator
from typing import Any

import safetensors.torch
from torch import Tensor


class WeightReceiver:
    """Mixed into vLLM's worker, whose `reload_weights` loads the received weights."""

    def receive_weights(self, part: str, number: str, num_parts: str) -> None:
        """Stores a part of the weights; the last part loads them all.

        Args:
            part: Tensors by name, as safetensors writes them, in base64.
            number: Index of the part, from 1; part 1 discards all earlier parts.
            num_parts: Number of parts.
        """
        parts: list[bytes] = [] if int(number) == 1 else vars(self).get("_weight_parts", [])
        parts.append(base64.b64decode(part))
        vars(self)["_weight_parts"] = parts
        if int(number) < int(num_parts):
            return
        del vars(self)["_weight_parts"]
        if len(parts) != int(num_parts):
            raise ValueError(f"Only {len(parts)} of {num_parts} parts of the weights arrived; send all of them again.")
        worker: Any = self
        worker.reload_weights(weights_iterator=_tensors(parts))


def _tensors(parts: list[bytes]) -> Iterator[tuple[str, Tensor]]:
    for part in parts:
        yield from safetensors.torch.load(part).items()
