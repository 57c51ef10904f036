"""How fast the worlds are: whole steps, bare dynamics, vectors of worlds, and the import."""

from __future__ import annotations

import functools
import itertools
import statistics
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import gymnasium as gym
import numpy as np

import vlm_envs
from benchmarks.measure import Row, median_times_s
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import LOCAL_KINDS
from vlm_envs.worlds.grids.grid_levels import Direction
from vlm_envs.worlds.grids.grid_world import ACTION_NAMES

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
"""Gymnasium's own 4x4 map, so that both sides walk over the same ice."""
ROOM = "######\n#____#\n#_X__#\n#__P_#\n#_O__#\n######"
GYMNASIUM_ACTIONS = {"Left": 0, "Down": 1, "Right": 2, "Up": 3}
GYMNASIUM_CELL_PX = 64
"""Side of a cell in the picture that Gymnasium draws of a 4x4 lake."""

BATCH_SIZE = 1024
NUM_VECTOR_ENVS = 16
IMPORT_LIMIT_S = 0.5

_MANY_TURNS = 10**6
"""No turn limit in practice: episodes end by what happens in the world, on both sides alike."""
_CHECKOUT = Path(__file__).parents[1]
_IMPORTS = (
    "import time, gymnasium\nstart_s = time.perf_counter()\nimport vlm_envs\nprint(time.perf_counter() - start_s)"
)


def response(action_name: str) -> str:
    """Returns a whole response that carries out one action."""
    return (
        "<think><observation>unknown</observation><reasoning>one move</reasoning>"
        f"<prediction>unknown</prediction></think><answer>{action_name}</answer>"
    )


def steps_per_s(*, quick: bool) -> list[Row]:
    """Measures whole steps in this process: read the response, move, draw the picture, write the state.

    The peer draws a picture of the same size each step, on the same map and with the same moves, resets
    included; it reads no text and writes none.
    """
    num_steps, num_repeats = (60, 2) if quick else (2000, 7)
    names = _random_names(num_steps)
    peer = _gymnasium_lake()
    lake = _one_world("VLM/FrozenLake-v0", desc=LAKE)
    large_lake = _one_world("VLM/FrozenLake-v0", desc=LAKE, cell_px=GYMNASIUM_CELL_PX)
    sokoban = _one_world("VLM/Sokoban-v0")
    walks: list[Callable[[], object]] = [
        functools.partial(_walk, lake, names, None),
        functools.partial(_walk, large_lake, names, None),
        functools.partial(_walk, sokoban, names, ROOM),
    ]
    if peer is not None:
        walks.append(functools.partial(_walk_gymnasium, peer, names))
    rates = [num_steps / time_s for time_s in median_times_s(walks, num_repeats)]
    return [
        Row(name="FrozenLake, 112 px", median=rates[0], unit="steps/s"),
        Row(
            name="FrozenLake, 256 px",
            median=rates[1],
            unit="steps/s",
            compared_with="Gymnasium's FrozenLake-v1, 256 px"
            if peer is not None
            else "(peer needs gymnasium[toy-text])",
            reference=rates[3] if peer is not None else None,
        ),
        Row(name="Sokoban, 168 px", median=rates[2], unit="steps/s"),
    ]


def _random_names(num_steps: int) -> list[str]:
    rng = np.random.default_rng(0)
    return [ACTION_NAMES[action] for action in rng.integers(len(ACTION_NAMES), size=num_steps)]


def _one_world(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    # With so many turns the level generator would otherwise look for very long solutions.
    return vlm_envs.make(
        env_id, max_turns=_MANY_TURNS, max_solution_length=20, disable_env_checker=True, **kwargs
    ).unwrapped


def _walk(env: gym.Env[Any, Any], names: Sequence[str], level: str | None) -> None:
    options = None if level is None else {"level": level}
    env.reset(seed=0, options=options)
    for name in names:
        _, _, terminated, truncated, _ = env.step(response(name))
        if terminated or truncated:
            env.reset(seed=0, options=options)


def _gymnasium_lake() -> gym.Env[Any, Any] | None:
    """Returns the peer, or None where it cannot draw."""
    try:
        env = gym.make(
            "FrozenLake-v1",
            desc=list(LAKE),
            is_slippery=False,
            render_mode="rgb_array",
            disable_env_checker=True,
        ).unwrapped
        env.reset(seed=0)
        env.render()
    except gym.error.DependencyNotInstalled:
        return None
    return env


def _walk_gymnasium(env: gym.Env[Any, Any], names: Sequence[str]) -> None:
    env.reset(seed=0)
    env.render()
    for name in names:
        _, _, terminated, truncated, _ = env.step(GYMNASIUM_ACTIONS[name])
        env.render()
        if terminated or truncated:
            env.reset(seed=0)
            env.render()


def batched_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures 1,024 levels moved by numbers in one call: bare dynamics against the scalar step, then with pictures."""
    num_repeats = 2 if quick else 30
    actions = np.random.default_rng(0).integers(0, 4, BATCH_SIZE)
    rows = []
    for name in ("FrozenLake", "Sokoban"):
        world: Any = _one_world(f"VLM/{name}-v0")
        states = [world.dynamics.generate(world.np_random, "train") for _ in range(BATCH_SIZE)]
        batch = world.batch_type.of(states)
        moves = [(state.move, tuple(Direction)[action]) for state, action in zip(states, actions, strict=True)]
        vector = gym.make_vec(f"VLM/{name}-v0", BATCH_SIZE, action_mode="discrete", num_levels=BATCH_SIZE)
        vector.reset(seed=0)
        fast_s, slow_s, shown_s = median_times_s(
            [
                functools.partial(batch.move, actions, None),
                functools.partial(lambda moves: [move(direction) for move, direction in moves], moves),
                functools.partial(vector.step, actions),
            ],
            num_repeats,
        )
        bare = Row(
            name=f"{name}, {BATCH_SIZE} states a call",
            median=BATCH_SIZE / fast_s,
            unit="steps/s",
            compared_with="the scalar step",
            reference=BATCH_SIZE / slow_s,
        )
        rows += [bare, Row(name=f"{name}, with pictures", median=BATCH_SIZE / shown_s, unit="steps/s")]
    return rows


def vector_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures whole steps of 16 worlds stepped together, by where they run; starting them is not counted."""
    num_steps, num_repeats = (5, 2) if quick else (60, 5)
    vectors = {
        workers: world_vector("VLM/FrozenLake-v0", NUM_VECTOR_ENVS, workers=workers, desc=LAKE, max_turns=_MANY_TURNS)
        for workers in LOCAL_KINDS
    }
    try:
        calls = [functools.partial(_bounce, vector, num_steps) for vector in vectors.values()]
        times_s = median_times_s(calls, num_repeats)
    finally:
        for vector in vectors.values():
            vector.close()
    rates = [num_steps * NUM_VECTOR_ENVS / time_s for time_s in times_s]
    return [
        Row(
            name=f"{NUM_VECTOR_ENVS} worlds, {workers}",
            median=rate,
            unit="steps/s",
            compared_with="" if workers == "serial" else "serial",
            reference=None if workers == "serial" else rates[0],
        )
        for workers, rate in zip(vectors, rates, strict=True)
    ]


def _bounce(vector: Any, num_steps: int) -> None:
    """Walks to and fro on safe ice, so that no episode ends."""
    vector.reset(seed=0)
    for name in itertools.islice(itertools.cycle(("Right", "Left")), num_steps):
        vector.step([response(name)] * NUM_VECTOR_ENVS)


def import_time_s(*, quick: bool) -> list[Row]:
    """Measures `import vlm_envs` in a fresh interpreter that has imported Gymnasium already."""
    times_s = []
    for _ in range(1 if quick else 5):
        shown = subprocess.run(
            [sys.executable, "-c", _IMPORTS],
            cwd=_CHECKOUT,
            capture_output=True,
            text=True,
            timeout=120,
            check=True,
        )
        times_s.append(float(shown.stdout))
    return [
        Row(
            name="import vlm_envs, after gymnasium",
            median=statistics.median(times_s),
            unit="s",
            compared_with="limit",
            reference=IMPORT_LIMIT_S,
            is_limit=True,
        )
    ]
