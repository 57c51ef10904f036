"""How fast the worlds on engines are, whole steps with pictures, against the rates they promise."""

from __future__ import annotations

import itertools
import os
import resource
import time
from collections.abc import Iterator
from typing import Any, cast

import numpy as np

import vlm_envs
from benchmarks.measure import Row, median_times_s
from vlm_envs.vector.make_vec import world_vector
from vlm_envs.world import World

NAVIGATION_LIMIT_PER_S = 1000.0
SVG_LIMIT_PER_S = 100.0
PRIMITIVE_LIMIT_PER_S = 3.0
NUM_ARMS = 16


def navigation_steps_per_s(*, quick: bool) -> list[Row]:
    """Measures moves in furnished homes, each with its picture of 255 px and its state in words."""
    world = _world("VLM/Navigation-v0", max_turns=200, max_actions_per_turn=1)
    num_steps, num_repeats = (40, 2) if quick else (2000, 7)
    seeds = itertools.count()  # for all repeats: homes and motions seen before would come from a cache
    rate = num_steps / median_times_s([lambda: _walk(world, seeds, num_steps)], num_repeats)[0]
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
    with world_vector("VLM/PrimitiveSkill-v0", num_arms, workers="process", **kwargs) as arms:

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


def _walk(world: World[Any, Any], seeds: Iterator[int], num_steps: int) -> None:
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
