"""Lets torchvision be imported beside a torch for CPUs, of which the index may have no build of it.

TRL's users have torchvision, with which transformers reads pictures faster than with Pillow. Its build for GPUs has an
extension that a torch for CPUs does not load, and two operators of it are described at import. They are declared here,
not implemented; nothing that reads pictures calls them.
"""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

_libraries: list[object] = []  # What is declared lasts as long as its library


def declare_operators() -> None:
    """Declares the operators where torchvision's own are not there; to be called before it is imported."""
    if _libraries or importlib.util.find_spec("torchvision") is None or version("torchvision").endswith("+cpu"):
        return
    import torch

    if torch.version.cuda is not None:
        return
    library = torch.library.Library("torchvision", "FRAGMENT")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _libraries.append(library)
