"""How fast worlds, their engines, judges, and workers of Ray are."""

from __future__ import annotations

import functools
import itertools
import os
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np

import vlm_envs
from agents.oracle import OracleAgent
from benchmarks.speed.speed_benchmarks import Row, median_times_s
from judges.state_text.exact_judge import rules_of
from judges.turn_rewards import RewardTerm, grounding_reward, shape, worldmodeling_reward
from vlm_envs.responses.formats import Representation
from vlm_envs.trajectory import Trajectory, Turn
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import LOCAL_KINDS, VectorWorld
from vlm_envs.world import World
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
_CHECKOUT = Path(__file__).parents[2]
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


JUDGE_LIMIT_PER_S = 500.0
JUDGED_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/Navigation-v0")
"""One world of each kind of rules that can be played without an engine. PrimitiveSkill's take less time than these."""


def judged_turns_per_s(*, quick: bool) -> list[Row]:
    """Measures shaping rewards of the oracle's turns, in every world and representation."""
    num_turns, num_repeats = (8, 2) if quick else (200, 7)
    terms: list[RewardTerm] = [grounding_reward(), worldmodeling_reward()]
    rows = []
    for env_id in JUDGED_WORLDS:
        for representation in rules_of(env_id).representations:
            turns = oracle_turns(env_id, representation, num_turns)
            (time_s,) = median_times_s([functools.partial(shape, turns, terms)], num_repeats)
            rows.append(
                Row(
                    name=f"{env_id.removeprefix('VLM/')}, {representation}",
                    median=num_turns / time_s,
                    unit="turns/s",
                    compared_with="limit",
                    reference=JUDGE_LIMIT_PER_S,
                    is_limit=True,
                )
            )
    return rows


def oracle_turns(env_id: str, representation: Representation, num_turns: int) -> list[Trajectory]:
    """Returns episodes of one turn, the oracle's first, on as many training levels.

    Args:
        env_id: The world.
        representation: How states are written.
        num_turns: Levels, and episodes.
    """
    world = cast("World[Any, Any]", vlm_envs.make(env_id, representation=representation, obs_mode="text").unwrapped)
    oracle = OracleAgent()
    episodes = []
    for seed in range(num_turns):
        observation, info = world.reset(seed=seed)
        state: Mapping[str, Any] = info["state"]
        response = oracle.write(world)
        shown, reward, terminated, truncated, info = world.step(response)
        turn = Turn(
            observation=observation,
            response_text=response,
            stop_reason="stop",
            reward=reward,
            reward_terms=info["reward_terms"],
            terminated=terminated,
            truncated=truncated,
            info=info,
            state=state,
        )
        episodes.append(
            Trajectory(env_id=env_id, seed=seed, turns=(turn,), final_observation=shown, start_state_hash="")
        )
    return episodes


NAVIGATION_LIMIT_PER_S = 1000.0
SVG_LIMIT_PER_S = 100.0
PRIMITIVE_LIMIT_PER_S = 3.0
NUM_ARMS = 16


def navigation_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures moves in furnished homes, each with its picture of 255 px and its state in words."""
    world = _world("VLM/Navigation-v0", max_turns=200, max_actions_per_turn=1)
    num_steps, num_repeats = (40, 2) if quick else (2000, 7)
    seeds = itertools.count()  # for all repeats: homes and motions seen before would come from a cache
    rate = num_steps / median_times_s([lambda: _walk_at_random(world, seeds, num_steps)], num_repeats)[0]
    world.close()
    return [_limited("Navigation, 255 px", rate, "steps/s", NAVIGATION_LIMIT_PER_S)]


def svg_turns_per_s(*, quick: bool) -> list[Row]:
    """Measures drawings that are read, rasterised, compared with their target and shown beside it; no two are equal."""
    world = _world("VLM/SVG-v0")
    num_turns, num_repeats = (10, 2) if quick else (200, 5)
    rng = np.random.default_rng(0)  # one generator for all repeats: a drawing seen before would come from a cache

    def draw() -> None:
        for turn in range(num_turns):
            if turn % world.max_turns == 0:
                world.reset(seed=int(rng.integers(10**6)))
            world.step(world.write_response([world.task.sample_action(world.state, rng)]))

    rate = num_turns / median_times_s([draw], num_repeats)[0]
    world.close()
    return [_limited("SVG, 224 px", rate, "turns/s", SVG_LIMIT_PER_S)]


def primitive_actions_per_s(*, quick: bool) -> list[Row]:
    """Measures the arm's primitives, planned ones, with a picture of 256 px after each; then many arms at once."""
    world = _world("VLM/PrimitiveSkill-v0", max_turns=6, max_actions_per_turn=1)
    num_actions, num_repeats = (2, 2) if quick else (24, 5)
    planned = _planned(world)
    rate = num_actions / median_times_s([lambda: _follow_plans(world, planned, num_actions)], num_repeats)[0]
    world.close()
    return [
        _limited("PrimitiveSkill, 256 px", rate, "actions/s", PRIMITIVE_LIMIT_PER_S),
        *_many_arms(num_arms=2 if quick else NUM_ARMS, num_turns=1 if quick else 3, one_arm_per_s=rate),
    ]


def _many_arms(*, num_arms: int, num_turns: int, one_arm_per_s: float) -> list[Row]:
    """Measures arms in worker processes beside one arm in this process, and how many processors they keep busy."""
    kwargs: dict[str, Any] = {"max_turns": 6, "max_actions_per_turn": 1}
    start_s, start_cpu_s = time.perf_counter(), _children_cpu_s()
    seeds = itertools.count()
    # Spawned, because the processor time of a fork server's children is not counted as ours
    with world_vector("VLM/PrimitiveSkill-v0", num_arms, workers="process", start_method="spawn", **kwargs) as arms:

        def play() -> None:
            arms.reset(seed=list(itertools.islice(seeds, num_arms)))
            for _ in range(num_turns):
                worlds = cast("list[World[Any, Any]]", arms.get_attr("unwrapped"))
                arms.step([each.write_response((each.dynamics.plan(each.state) or (None,))[:1]) for each in worlds])

        time_s = median_times_s([play], 2)[0]
    busy = (_children_cpu_s() - start_cpu_s) / (time.perf_counter() - start_s)
    name = f"PrimitiveSkill, {num_arms} in processes"
    return [
        Row(
            name=name,
            median=num_arms * num_turns / time_s,
            unit="actions/s",
            compared_with="one, in this process",
            reference=one_arm_per_s,
        ),
        Row(
            name=f"{name}, from start to end",
            median=busy,
            unit="busy CPU s/s",
            compared_with="CPUs here",
            reference=float(os.cpu_count() or 1),
        ),
    ]


def _children_cpu_s() -> float:
    """Returns the processor time of child processes that have ended."""
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def _limited(name: str, rate: float, unit: str, limit: float) -> Row:
    return Row(name=name, median=rate, unit=unit, compared_with="limit", reference=limit, is_limit=True)


def _world(env_id: str, **kwargs: Any) -> World[Any, Any]:
    return cast("World[Any, Any]", vlm_envs.make(env_id, disable_env_checker=True, **kwargs).unwrapped)


def _walk_at_random(world: World[Any, Any], seeds: Iterator[int], num_steps: int) -> None:
    """Takes random moves, in a new home whenever an episode ends."""
    rng = np.random.default_rng(0)
    over = True
    for _ in range(num_steps):
        if over:
            world.reset(seed=next(seeds))
        _, _, terminated, truncated, _ = world.step(world.write_response([world.task.sample_action(world.state, rng)]))
        over = terminated or truncated


def _follow_plans(world: World[Any, Any], planned: Iterator[object], num_actions: int) -> None:
    """Carries out the next planned actions."""
    for action in itertools.islice(planned, num_actions):
        world.step(world.write_response([action]))


def _planned(world: World[Any, Any]) -> Iterator[object]:
    """Yields planned actions one by one; each is carried out before the next is asked for."""
    for seed in itertools.count():
        world.reset(seed=seed)
        yield from world.dynamics.plan(world.state) or ()


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
        walks = [functools.partial(_walk_vector, vector, WALKS[env_id], num_steps) for vector in vectors.values()]
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


def _walk_vector(vector: VectorWorld, actions: tuple[str, str], num_steps: int) -> None:
    vector.reset(seed=0)
    for action in itertools.islice(itertools.cycle(actions), num_steps):
        vector.step([f"<answer>{action}</answer>"] * vector.num_envs)
