"""How many turns per second the exact judge scores, observation and prediction both."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any, cast

import vlm_envs
from agents.oracle import OracleAgent
from benchmarks.measure import Row, median_times_s
from judges.state_text.exact_judge import rules_of
from judges.turn_rewards import RewardTerm, grounding_reward, shape, worldmodeling_reward
from vlm_envs.responses.formats import Representation
from vlm_envs.trajectory import Trajectory, Turn
from vlm_envs.world import World

LIMIT_PER_S = 500.0
ENV_IDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0", "VLM/Navigation-v0")
"""One world of each kind of rules that can be played without an engine. PrimitiveSkill's take less time than these."""


def turns_per_s(*, quick: bool) -> list[Row]:
    """Measures shaping rewards of the oracle's turns, in every world and representation."""
    num_turns, num_repeats = (8, 2) if quick else (200, 7)
    terms: list[RewardTerm] = [grounding_reward(), worldmodeling_reward()]
    rows = []
    for env_id in ENV_IDS:
        for representation in rules_of(env_id).representations:
            turns = oracle_turns(env_id, representation, num_turns)
            (time_s,) = median_times_s([functools.partial(shape, turns, terms)], num_repeats)
            rows.append(
                Row(
                    name=f"{env_id.removeprefix('VLM/')}, {representation}",
                    median=num_turns / time_s,
                    unit="turns/s",
                    compared_with="limit",
                    reference=LIMIT_PER_S,
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
