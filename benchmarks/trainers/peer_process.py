"""One process of the comparison: `python -m benchmarks.trainers.peer_process PEER WORK`; its last line is JSON."""

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
    """Returns the measurements of a peer or of one of our modes, or the comparison of log-probabilities."""
    declare_operators()
    # Imported after the operators are declared, and only if needed, because our side must not need TRL
    if what == SAME:
        from benchmarks.trainers.trl_peer import likeness

        return likeness(work)
    if what == TRL:
        from benchmarks.trainers.trl_peer import measured

        return asdict(measured(work))
    from benchmarks.trainers.our_trainer import measured as measured_ours

    return asdict(measured_ours(work, MODES[what]))


_libraries: list[object] = []  # operators stay declared as long as their library exists


def declare_operators() -> None:
    """Declares torchvision's operators if its own are missing; call before importing torchvision."""
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
