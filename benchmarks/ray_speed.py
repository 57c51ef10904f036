"""How fast worlds are that are stepped together in this process, in processes, and in actors of a Ray cluster."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Mapping
from contextlib import ExitStack
from typing import Any

from benchmarks.measure import Row, median_times_s
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import VectorWorld

NUM_ENVS = 16
KINDS = ("serial", "process", "ray")
WALKS: Mapping[str, tuple[str, str]] = {
    "VLM/FrozenLake-v0": ("Right", "Left"),
    "VLM/Navigation-v0": ("rotateright", "rotateleft"),
}
"""Two actions of each world that undo each other, so that no episode ends."""


def spread_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures whole steps of 16 worlds, as many workers as there are CPUs; starting them is not counted."""
    num_steps, num_repeats = (3, 1) if quick else (40, 5)
    return [row for env_id in WALKS for row in _steps_per_s(env_id, num_steps, num_repeats)]


def _steps_per_s(env_id: str, num_steps: int, num_repeats: int) -> list[Row]:
    kwargs: dict[str, Any] = {"max_turns": 10**6, "prompt_format": "no_think"}
    if env_id == "VLM/FrozenLake-v0":
        kwargs |= {"desc": ("SFFF", "FHFH", "FFFH", "HFFG")}
    with ExitStack() as stack:
        vectors = {kind: stack.enter_context(world_vector(env_id, NUM_ENVS, workers=kind, **kwargs)) for kind in KINDS}
        walks = [functools.partial(_walk, vector, WALKS[env_id], num_steps) for vector in vectors.values()]
        rates = [num_steps * NUM_ENVS / time_s for time_s in median_times_s(walks, num_repeats)]
    name = env_id.removeprefix("VLM/").removesuffix("-v0")
    return [
        Row(
            name=f"{NUM_ENVS} of {name}, {kind}",
            median=rate,
            unit="steps/s",
            compared_with="" if kind == "serial" else "serial",
            reference=None if kind == "serial" else rates[0],
        )
        for kind, rate in zip(vectors, rates, strict=True)
    ]


def _walk(vector: VectorWorld, actions: tuple[str, str], num_steps: int) -> None:
    vector.reset(seed=0)
    for action in itertools.islice(itertools.cycle(actions), num_steps):
        vector.step([f"<answer>{action}</answer>"] * vector.num_envs)
