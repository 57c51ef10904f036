"""`python -m benchmarks timeline`: an iteration in step and one in which no episode waits for another, drawn."""

from __future__ import annotations

import logging
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from vlm_envs.validation import require_at_least

TITLES: dict[Literal["barrier", "async"], str] = {
    "barrier": "--rollout barrier, the turns of all episodes in step",
    "async": "--rollout async, no episode waits for another",
}


@dataclass(frozen=True, kw_only=True)
class TimelineOptions:
    """Draw one training iteration, in step and not: who waits for whom.

    The shipped FrozenLake policy plays worlds that take an uneven time, each in a thread of its own, and a model behind
    an endpoint on this machine judges its episodes, eight at a time. Writes `timeline.png` and `timeline.json`, a trace
    for https://ui.perfetto.dev or chrome://tracing.

    Attributes:
        out: Folder of the two files.
        num_groups: Start states, of four episodes each.
        world_ms: How long a world takes on average; the times are exponentially distributed.
        judge_ms: How long the model takes.
        num_threads: CPU threads of torch.
    """

    out: Path = Path("runs/timeline")
    num_groups: int = 6
    world_ms: float = 250.0
    judge_ms: float = 250.0
    num_threads: int = 1

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_groups", "num_threads")
        require_at_least(self, 0, "world_ms", "judge_ms")


def run_timeline(options: TimelineOptions) -> None:
    """Plays both iterations, writes the files and says where they are."""
    # Imported here, because an error in the options must not wait for torch
    from benchmarks.timeline.draw import length_s, write
    from benchmarks.timeline.endpoint import late_endpoint
    from benchmarks.timeline.iteration import recorded, run_config

    logging.getLogger("httpx").setLevel(logging.WARNING)
    iterations = {}
    with late_endpoint(options.judge_ms) as base_url:
        for rollout, title in TITLES.items():
            config = run_config(
                rollout,
                base_url,
                num_groups=options.num_groups,
                world_ms=options.world_ms,
                num_threads=options.num_threads,
            )
            iterations[title] = recorded(config)
            print(f"{title}: {length_s(iterations[title]):.2f} s")
    picture, traced = write(iterations, options.out)
    print(f"Picture: {picture}\nTrace:   {traced}")
