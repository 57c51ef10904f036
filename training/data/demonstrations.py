"""Oracle episodes as token trajectories, for the supervised cold start."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from operator import attrgetter

import numpy as np

from agents.agent import Agent
from agents.hf.chat import ChatEncoder
from agents.registry import make_agent
from agents.rollout import is_lost, rollout
from agents.turns import make_turn, reset_arguments
from training.config.supervised.cold_start import ColdStartConfig
from training.config.worlds.spec import WorldSpec
from training.data.worlds.mix import MixedWorlds
from training.data.worlds.pools import open_pools
from vlm_envs.errors import WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory, Turn
from vlm_envs.vector.vector_world import VectorWorld

NUM_ATTEMPTS = 3
"""How often a batch of demonstrations is played before its workers are given up."""


def demonstrations(
    specs: Sequence[WorldSpec],
    encoder: ChatEncoder,
    *,
    batch_size: int,
    mistake_rate: float = 0.0,
    suboptimal_rate: float = 0.0,
    tells_plan: bool = False,
    start: int = 0,
    num_first_turn_batches: int = 0,
) -> Iterator[list[Trajectory]]:
    """Yields batches of oracle episodes on training levels, without end and without repeating a seed.

    Where a world has a `cold_start_pool`, its levels are those of that, epoch by epoch. A world of one turn does not
    answer, for nobody would read it.

    Args:
        specs: The worlds, drawn in proportion to their `cold_start_weight` or, without one, their weight.
        encoder: Writes conversations as token ids.
        batch_size: Episodes, or first turns, of a batch.
        mistake_rate: Share of actions that are random in place of the planned ones.
        suboptimal_rate: Share of plans that are suboptimal, in worlds that have no rate of their own.
        tells_plan: Whether the expert says what its whole plan wants to come to.
        start: Index of the first training seed.
        num_first_turn_batches: How many batches, the first ones, are of first turns only.

    Yields:
        Lists of `batch_size` trajectories with token ids, ready for `make_batch`; see `training.config.worlds.shares`
        for an odd number that iVGR's partners share.
    """
    specs = [spec if spec.cold_start_weight is None else replace(spec, weight=spec.cold_start_weight) for spec in specs]
    pools = open_pools([spec.cold_start_pool for spec in specs], seed=start)
    mixed = MixedWorlds(specs, batch_size, pools=pools)
    rates = [_rate_of(spec, suboptimal_rate) for spec in specs]
    experts = {
        rate: make_agent("oracle", mistake_rate=mistake_rate, suboptimal_rate=rate, tells_plan=tells_plan, seed=start)
        for rate in dict.fromkeys(rates)
    }
    for number in itertools.count():
        play = first_turns if number < num_first_turn_batches else _episodes
        batch: list[Trajectory] = []
        for place in mixed.played(number):
            seeds = list(split_seeds("train", place.num_groups, start=start))
            env_ids = [place.spec.env_id] * place.num_groups
            levels, expert = mixed.next_levels(place), experts[rates[place.number]]
            played = _despite_losses(play, expert, mixed.vector(place), seeds, env_ids=env_ids, levels=levels)
            batch += [tokenized(trajectory, encoder) for trajectory in played]
        start += batch_size
        yield batch


def expert_of(spec: WorldSpec, config: ColdStartConfig, *, seed: int) -> Agent | None:
    """Returns the expert that a cold start shows in a world; None where it shows none, or recorded episodes."""
    if config.num_steps == 0 or config.data is not None:
        return None
    return make_agent(
        "oracle",
        mistake_rate=config.mistake_rate,
        suboptimal_rate=_rate_of(spec, config.suboptimal_rate),
        tells_plan=config.tells_plan,
        seed=seed,
    )


def _rate_of(spec: WorldSpec, suboptimal_rate: float) -> float:
    """Returns the share of a world's plans that are suboptimal: its own, or that of all."""
    return suboptimal_rate if spec.cold_start_suboptimal_rate is None else spec.cold_start_suboptimal_rate


def _despite_losses(
    play: Callable[..., list[Trajectory]],
    expert: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
) -> list[Trajectory]:
    """Plays a batch again, in workers started anew, if one of its workers is lost; what was lost teaches nothing.

    Raises:
        WorkerError: If workers are lost three times in a row.
    """
    for attempt in range(NUM_ATTEMPTS):
        try:
            played = play(expert, worlds, seeds, env_ids=env_ids, levels=levels)
        except WorkerError:
            if attempt == NUM_ATTEMPTS - 1:
                raise
        else:
            if not any(map(is_lost, played)):
                return played
    raise WorkerError(
        f"Episodes on the levels {min(seeds)} to {max(seeds)} were lost with their workers {NUM_ATTEMPTS} times in a "
        "row. The warnings above say how; look after the world's engine and the machine's memory."
    )


def _episodes(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
) -> list[Trajectory]:
    """Returns an agent's episodes; of worlds that end after one turn, what `first_turns` does."""
    (max_turns,) = worlds.apply({0: attrgetter("max_turns")}).values()
    play = first_turns if max_turns == 1 else rollout
    return play(agent, worlds, seeds, env_ids=env_ids, levels=levels)


def first_turns(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
) -> list[Trajectory]:
    """Returns what an agent says to the first observations; worlds, whose engines take their time, do not answer."""
    observations, infos = worlds.reset(**reset_arguments(seeds, levels))
    agent.start(worlds)
    responses = agent.respond(range(len(seeds)), observations)
    return [
        Trajectory(
            env_id=env_id,
            seed=seed,
            turns=(make_turn(observation, info, response, info),),
            final_observation=observation,
            start_state_hash=info["state_hash"],
            policy_version=agent.policy_version,
        )
        for env_id, seed, observation, response, info in zip(
            env_ids, seeds, observations, responses, infos["env"], strict=True
        )
    ]


def tokenized(trajectory: Trajectory, encoder: ChatEncoder) -> Trajectory:
    """Returns a text trajectory with the tokens a model would have read and written."""
    turns: list[Turn] = []
    for number, turn in enumerate(trajectory.turns):
        prompt = encoder.encode(turn.observation, is_first=number == 0)
        response_ids = encoder.encode_response(turn.response_text)
        turns.append(
            replace(
                turn,
                prompt_ids=prompt.ids,
                response_ids=response_ids,
                sampler_logprobs=np.zeros(len(response_ids), np.float32),
            )
        )
    return replace(trajectory, turns=tuple(turns))
