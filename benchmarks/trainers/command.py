"""What `python -m benchmarks trainer` does and prints."""

from __future__ import annotations

import json
import sys

from benchmarks.trainers.compare import (
    CaseResult,
    TrainerOptions,
    compare,
    in_own_process,
    report,
    require_peer,
    require_same,
)
from benchmarks.trainers.run_one import SAME
from benchmarks.trainers.table import lines


def run_trainer(options: TrainerOptions) -> None:
    """Compares, tells of each process on stderr, and prints the table.

    Raises:
        ConfigError: If the peer is not installed, or a process fails.
        UnequalWorkError: If the trainers do not see the same trajectory alike.
    """
    require_peer(options.peer)
    options = options.as_quick() if options.quick else options
    likeness = in_own_process(SAME, options.cases()[0])
    print(
        f"The same trajectories in both: log-probabilities of {likeness['num_tokens']:,} tokens differ by "
        f"{likeness['max_difference']:.1e} at most."
    )
    require_same(options.peer, likeness)
    results = [CaseResult(work=work) for work in options.cases()]
    for name, result in compare(options, results):
        case = f"worlds {result.work.world_ms:g} ms, judge {result.work.judge_ms:g} ms"
        print(f"{case}: {name} takes {result.medians[name].iteration_s:.2f} s an iteration", file=sys.stderr)
    print(*lines(results, options.peer), sep="\n")
    if options.json is not None:
        told = report(options, likeness, results)
        options.json.write_text(json.dumps(told, indent=2) + "\n", encoding="utf-8")
