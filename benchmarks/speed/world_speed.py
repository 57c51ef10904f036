"""Speed of worlds, their engines, judges, and workers."""

from __future__ import annotations

import functools
import itertools
import statistics
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, cast

import gymnasium as gym
import numpy as np

import vlm_envs
from agents.oracle import OracleAgent
from agents.rollout import rollout
from benchmarks.speed.speed_benchmarks import Row, per_second
from judges.state_text.exact_judge import rules_of
from judges.turn_rewards import RewardTerm, grounding_reward, shape, worldmodeling_reward
from vlm_envs.responses.formats import Representation
from vlm_envs.trajectory import Trajectory
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.vector.vector_world import LOCAL_KINDS, VectorWorld
from vlm_envs.world import World
from vlm_envs.worlds.grids.grid_levels import Direction
from vlm_envs.worlds.grids.grid_world import ACTION_NAMES

LAKE = ("SFFF", "FHFH", "FFFH", "HFFG")
"""Gymnasium's 4x4 map, so that both sides use the same level."""
ROOM = "######\n#____#\n#_X__#\n#__P_#\n#_O__#\n######"
GYMNASIUM_ACTIONS = {"Left": 0, "Down": 1, "Right": 2, "Up": 3}
GYMNASIUM_CELL_PX = 64
"""Side of a cell in Gymnasium's image of a 4x4 lake."""

BATCH_SIZE = 1024
NUM_ENVS = 16
IMPORT_LIMIT_S = 0.5

_MANY_TURNS = 10**6
"""Effectively no turn limit: episodes end only by their dynamics, on both sides."""
_CHECKOUT = Path(__file__).parents[2]
_IMPORTS = (
    "import time, gymnasium\nstart_s = time.perf_counter()\nimport vlm_envs\nprint(time.perf_counter() - start_s)"
)


def response(action_name: str) -> str:
    """Returns a complete response that executes one action."""
    return (
        "<think><observation>unknown</observation><reasoning>one move</reasoning>"
        f"<prediction>unknown</prediction></think><answer>{action_name}</answer>"
    )


def steps_per_s(*, quick: bool) -> list[Row]:
    """Measures complete steps in this process: parsing the response, moving, rendering the image, writing the state.

    The peer renders an image of the same size in each step, on the same map and with the same moves, including resets;
    it neither parses nor writes text.
    """
    num_steps, num_repeats = (60, 2) if quick else (2000, 7)
    names = [ACTION_NAMES[action] for action in np.random.default_rng(0).integers(len(ACTION_NAMES), size=num_steps)]
    lakes = [_one_world("VLM/FrozenLake-v0", desc=LAKE, **size) for size in ({}, {"cell_px": GYMNASIUM_CELL_PX})]
    sokoban = _one_world("VLM/Sokoban-v0")
    walks: list[Callable[[], object]] = [
        *(functools.partial(_walk, lake, names) for lake in lakes),
        functools.partial(_walk, sokoban, names, {"level": ROOM}),
    ]
    if (peer := _gymnasium_lake()) is not None:
        walks.append(functools.partial(_walk_gymnasium, peer, names))
    small, large, room, *peers = per_second(num_steps, walks, num_repeats)
    against = "Gymnasium's FrozenLake-v1, 256 px" if peers else "(peer needs gymnasium[toy-text])"
    return [
        Row("FrozenLake, 112 px", small, "steps/s"),
        Row("FrozenLake, 256 px", large, "steps/s", against, next(iter(peers), None)),
        Row("Sokoban, 168 px", room, "steps/s"),
    ]


def _one_world(env_id: str, **kwargs: Any) -> gym.Env[Any, Any]:
    # With so many turns, the level generator would otherwise search for very long solutions
    return vlm_envs.make(
        env_id, max_turns=_MANY_TURNS, max_solution_length=20, disable_env_checker=True, **kwargs
    ).unwrapped


def _walk(env: gym.Env[Any, Any], names: Sequence[str], options: dict[str, Any] | None = None) -> None:
    env.reset(seed=0, options=options)
    for name in names:
        _, _, terminated, truncated, _ = env.step(response(name))
        if terminated or truncated:
            env.reset(seed=0, options=options)


def _gymnasium_lake() -> gym.Env[Any, Any] | None:
    """Returns the peer, or None if it cannot render."""
    try:
        env = gym.make(
            "FrozenLake-v1", desc=list(LAKE), is_slippery=False, render_mode="rgb_array", disable_env_checker=True
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
    """Measures 1,024 levels moved by action indices in one call: dynamics against the scalar step, then with images."""
    actions = np.random.default_rng(0).integers(0, 4, BATCH_SIZE)
    rows = []
    for name in ("FrozenLake", "Sokoban"):
        world: Any = _one_world(f"VLM/{name}-v0")
        states = [world.dynamics.generate(world.np_random, "train") for _ in range(BATCH_SIZE)]
        batch = world.batch_type.of(states)
        moves = [(state.move, tuple(Direction)[action]) for state, action in zip(states, actions, strict=True)]
        vector = gym.make_vec(f"VLM/{name}-v0", BATCH_SIZE, action_mode="discrete", num_levels=BATCH_SIZE)
        vector.reset(seed=0)
        calls = [
            functools.partial(batch.move, actions, None),
            functools.partial(lambda moves: [move(direction) for move, direction in moves], moves),
            functools.partial(vector.step, actions),
        ]
        fast, slow, shown = per_second(BATCH_SIZE, calls, 2 if quick else 30)
        rows += [
            Row(f"{name}, {BATCH_SIZE} states a call", fast, "steps/s", "the scalar step", slow),
            Row(f"{name}, with images", shown, "steps/s"),
        ]
    return rows


def import_time_s(*, quick: bool) -> list[Row]:
    """Measures `import vlm_envs` in a fresh interpreter that has imported Gymnasium already."""
    command = [sys.executable, "-c", _IMPORTS]
    outputs = [
        subprocess.run(command, cwd=_CHECKOUT, capture_output=True, text=True, timeout=120, check=True).stdout
        for _ in range(1 if quick else 5)
    ]
    return [
        Row.limited("import vlm_envs, after gymnasium", statistics.median(map(float, outputs)), "s", IMPORT_LIMIT_S)
    ]


JUDGE_LIMIT_PER_S = 500.0
JUDGED_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/Navigation-v0")
"""One world per kind of rules that runs without an engine. PrimitiveSkill's rules take less time than these."""


def judged_turns_per_s(*, quick: bool) -> list[Row]:
    """Measures shaping rewards of the oracle's turns, in every world and representation."""
    num_turns, num_repeats = (8, 2) if quick else (200, 7)
    terms: list[RewardTerm] = [grounding_reward(), worldmodeling_reward()]
    rows = []
    for env_id in JUDGED_WORLDS:
        for representation in rules_of(env_id).representations:
            episodes = oracle_turns(env_id, representation, num_turns)
            (rate,) = per_second(num_turns, [functools.partial(shape, episodes, terms)], num_repeats)
            rows.append(Row.limited(f"{env_id[4:-3]}, {representation}", rate, "turns/s", JUDGE_LIMIT_PER_S))
    return rows


def oracle_turns(env_id: str, representation: Representation, num_turns: int) -> list[Trajectory]:
    """Returns single-turn episodes, the oracle's first turn on each of `num_turns` training levels."""
    with world_vector(env_id, num_turns, representation=representation, obs_mode="text") as worlds:
        episodes = rollout(OracleAgent(), worlds, range(num_turns), env_ids=[env_id] * num_turns)
    return [replace(episode, turns=episode.turns[:1]) for episode in episodes]


@dataclass(frozen=True, kw_only=True)
class EngineCase:
    """A world whose engine has a speed limit.

    Attributes:
        title: Its name in the table.
        unit: Counted events per second.
        limit: Minimum rate.
        num_turns: Turns per repeat.
        num_repeats: Number of repeats.
        is_planned: Whether actions are planned; otherwise they are random.
        kwargs: Arguments of the world.
    """

    title: str
    unit: str
    limit: float
    num_turns: int
    num_repeats: int = 5
    is_planned: bool = False
    kwargs: dict[str, Any] = field(default_factory=dict)


ENGINES = {
    "VLM/Navigation-v0": EngineCase(
        title="Navigation, 255 px",
        unit="steps/s",
        limit=1000.0,
        num_turns=2000,
        num_repeats=7,
        kwargs={"max_turns": 200, "max_actions_per_turn": 1},
    ),
    "VLM/SVG-v0": EngineCase(title="SVG, 224 px", unit="turns/s", limit=100.0, num_turns=200),
    "VLM/PrimitiveSkill-v0": EngineCase(
        title="PrimitiveSkill, 256 px",
        unit="actions/s",
        limit=3.0,
        num_turns=24,
        is_planned=True,
        kwargs={"max_turns": 6, "max_actions_per_turn": 1},
    ),
}


def engine_turns_per_s(env_id: str, *, quick: bool) -> list[Row]:
    """Measures turns of a world of `ENGINES`, including the image and the state text."""
    case = ENGINES[env_id]
    num_turns, num_repeats = (case.num_turns // 12, 2) if quick else (case.num_turns, case.num_repeats)
    # Shared by all repeats, because previously seen homes, motions, and drawings would come from a cache
    seeds, rng = itertools.count(), np.random.default_rng(0)

    def action(world: World[Any, Any]) -> Any:
        plan = world.dynamics.plan(world.state) if case.is_planned else None
        return plan[0] if plan else world.task.sample_action(world.state, rng)

    with closing(vlm_envs.make(env_id, disable_env_checker=True, **case.kwargs).unwrapped) as made:
        world = cast("World[Any, Any]", made)
        (rate,) = per_second(num_turns, [lambda: _play(world, action, seeds, num_turns)], num_repeats)
    return [Row.limited(case.title, rate, case.unit, case.limit)]


def _play(
    world: World[Any, Any], action: Callable[[World[Any, Any]], Any], seeds: Iterator[int], num_turns: int
) -> None:
    """Plays single-action turns, on a new level whenever an episode ends."""
    is_over = True
    for _ in range(num_turns):
        if is_over:
            world.reset(seed=next(seeds))
        _, _, terminated, truncated, _ = world.step(world.write_response([action(world)]))
        is_over = terminated or truncated


KINDS = ("serial", "process", "ray")
WALKS: dict[str, tuple[tuple[str, str], dict[str, Any]]] = {
    "VLM/FrozenLake-v0": (("Right", "Left"), {"desc": LAKE}),
    "VLM/Navigation-v0": (("rotateright", "rotateleft"), {}),
}
"""Two actions per world that undo each other, so that no episode ends, and the world's arguments."""


def vector_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures complete steps of 16 FrozenLake worlds by kind of worker, without startup."""
    return _by_workers("VLM/FrozenLake-v0", LOCAL_KINDS, quick=quick)


def spread_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures complete steps of 16 worlds by kind of worker, with a worker per CPU, without startup."""
    return [row for env_id in WALKS for row in _by_workers(env_id, KINDS, quick=quick)]


def _by_workers(env_id: str, kinds: Sequence[str], *, quick: bool) -> list[Row]:
    num_steps, num_repeats = (3, 1) if quick else (40, 5)
    actions, kwargs = WALKS[env_id]
    kwargs = {"max_turns": _MANY_TURNS, "prompt_format": "no_think", **kwargs}
    with ExitStack() as stack:
        vectors = [stack.enter_context(world_vector(env_id, NUM_ENVS, workers=kind, **kwargs)) for kind in kinds]
        walks = [functools.partial(_walk_vector, vector, actions, num_steps) for vector in vectors]
        serial, *others = per_second(num_steps * NUM_ENVS, walks, num_repeats)
    name = f"{NUM_ENVS} of {env_id[4:-3]}"
    return [
        Row(f"{name}, {kinds[0]}", serial, "steps/s"),
        *(
            Row(f"{name}, {kind}", rate, "steps/s", "serial", serial)
            for kind, rate in zip(kinds[1:], others, strict=True)
        ),
    ]


def _walk_vector(vector: VectorWorld, actions: tuple[str, str], num_steps: int) -> None:
    vector.reset(seed=0)
    for action in itertools.islice(itertools.cycle(actions), num_steps):
        vector.step([f"<answer>{action}</answer>"] * vector.num_envs)
