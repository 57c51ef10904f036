"""One process of the comparison: `python -m benchmarks.trainers.run_one PEER WORK`, its last line JSON."""

from __future__ import annotations

import json
import logging
import os
import sys
from typing import Any

from benchmarks.trainers.torchvision_operators import declare_operators
from benchmarks.trainers.work import Work

SAME = "same"
TRL = "trl"


def run(what: str, work: Work) -> dict[str, Any]:
    """Returns what a peer or a mode of ours was measured at, or how alike the two are."""
    declare_operators()
    # Imported here, behind the operators, and because our side must not need TRL
    if what == SAME:
        from benchmarks.trainers.same import likeness

        return likeness(work)
    if what == TRL:
        from benchmarks.trainers.trl_peer import measured

        return measured(work).to_dict()
    from benchmarks.trainers.ours import MODES
    from benchmarks.trainers.ours import measured as measured_ours

    return measured_ours(work, MODES[what]).to_dict()


if __name__ == "__main__":
    logging.disable(logging.WARNING)
    os.environ |= {"HF_HUB_OFFLINE": "1", "TRL_EXPERIMENTAL_SILENCE": "1"}
    print(json.dumps(run(sys.argv[1], Work(**json.loads(sys.argv[2])))))
