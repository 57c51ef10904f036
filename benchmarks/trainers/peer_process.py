"""One process of the comparison: `python -m benchmarks.trainers.peer_process PEER WORK`, its last line JSON."""

from __future__ import annotations

import importlib.util
import json
import logging
import os
import sys
from dataclasses import asdict
from importlib.metadata import version
from typing import Any

from benchmarks.trainers.trainer_comparison import MODES, SAME, TRL, Work


def run(what: str, work: Work) -> dict[str, Any]:
    """Returns what a peer or a mode of ours was measured at, or how alike the two are."""
    declare_operators()
    # Imported here, behind the operators, and because our side must not need TRL
    if what == SAME:
        from benchmarks.trainers.trl_peer import likeness

        return likeness(work)
    if what == TRL:
        from benchmarks.trainers.trl_peer import measured

        return asdict(measured(work))
    from benchmarks.trainers.our_trainer import measured as measured_ours

    return asdict(measured_ours(work, MODES[what]))


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


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    print(json.dumps(run(sys.argv[1], Work(**json.loads(sys.argv[2])))))
