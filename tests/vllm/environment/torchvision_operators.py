"""Lets torchvision be imported where the extension with its operators does not load.

`make test-vllm` puts this file into the server's environment, with a `.pth` line that imports it in every process:
torchvision describes two operators of its extension when it is imported, and vLLM imports it in processes of its own.
They are declared here, not implemented; nothing that the server does calls them.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType

_OPERATORS = ("nms", "qnms")
_libraries: list[object] = []  # What is declared lasts as long as its library


class _BeforeTorchvision(MetaPathFinder):
    """Declares the operators just before torchvision is imported; finds nothing itself."""

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """Returns None. See `MetaPathFinder`."""
        if fullname == "torchvision":
            sys.meta_path.remove(self)
            import torch

            library = torch.library.Library("torchvision", "FRAGMENT")
            for name in _OPERATORS:
                library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
            _libraries.append(library)
        return None


sys.meta_path.insert(0, _BeforeTorchvision())
