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

    def receive_weights(self, part: str, number: str, num_parts: str) -> None:
        """Keeps a part of the weights; with the last one, all are taken.

        Args:
            part: Tensors by name, as safetensors writes them, in base64.
            number: Which part it is, from 1, with which everything that came before is forgotten.
            num_parts: How many there are.
        """
        parts: list[bytes] = [] if int(number) == 1 else vars(self).get("_weight_parts", [])
        parts.append(base64.b64decode(part))
        vars(self)["_weight_parts"] = parts
        if int(number) < int(num_parts):
            return
        del vars(self)["_weight_parts"]
        if len(parts) != int(num_parts):
            raise ValueError(f"Of {num_parts} parts of the weights only {len(parts)} came; send all of them again.")
        worker: Any = self
        worker.reload_weights(weights_iterator=_tensors(parts))


def _tensors(parts: list[bytes]) -> Iterator[tuple[str, Tensor]]:
    for part in parts:
        yield from safetensors.torch.load(part).items()
