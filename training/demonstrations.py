"""Oracle episodes as token trajectories, for the supervised cold start."""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from agents.agent import Agent
from agents.hf.chat import ChatEncoder
from agents.oracle import OracleAgent
from agents.rollout import rollout
from training.config import WorldSpec
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Trajectory, Turn
from vlm_envs.vector import VectorWorld


def demonstrations(
    specs: Sequence[WorldSpec],
    encoder: ChatEncoder,
    *,
    batch_size: int,
    mistake_rate: float = 0.0,
    careless_rate: float = 0.0,
    start: int = 0,
    num_first_turn_batches: int = 0,
) -> Iterator[list[Trajectory]]:
    """Yields batches of oracle episodes on training levels, without end and without repeating a seed.

    Args:
        specs: Worlds, drawn in proportion to their weights.
        encoder: Chat format the texts are tokenised in.
        batch_size: Episodes per batch.
        mistake_rate: Probability of a random action in place of the planned one.
        careless_rate: Probability of a carelessly planned turn.
        start: Index of the first training seed.
        num_first_turn_batches: How many batches, at the start, are of first turns only.

    Yields:
        Lists of `batch_size` trajectories with token ids, ready for `make_batch`.
    """
    counts = shares([spec.weight for spec in specs], batch_size)
    with_worlds = [
        (spec, spec.make_vector(count, split="train"), count)
        for spec, count in zip(specs, counts, strict=True)
        if count
    ]
    teacher = OracleAgent(mistake_rate=mistake_rate, careless_rate=careless_rate, seed=start)
    for number in itertools.count():
        play = first_turns if number < num_first_turn_batches else rollout
        batch: list[Trajectory] = []
        for spec, worlds, count in with_worlds:
            seeds = list(split_seeds("train", count, start=start))
            played = play(teacher, worlds, seeds, env_ids=[spec.env_id] * count)
            batch += [tokenized(trajectory, encoder) for trajectory in played]
        start += batch_size
        yield batch


def first_turns(agent: Agent, worlds: VectorWorld, seeds: Sequence[int], *, env_ids: Sequence[str]) -> list[Trajectory]:
    """Returns what an agent says to the first observations; the worlds, whose engines take their time, do not answer.

    Args:
        agent: Who says it.
        worlds: N worlds.
        seeds: N reset seeds.
        env_ids: N registered ids, for the record.
    """
    observations, infos = worlds.reset(seed=list(seeds))
    agent.start(worlds)
    responses = agent.respond(range(len(seeds)), observations)
    return [
        Trajectory(
            env_id=env_id,
            seed=seed,
            turns=(
                Turn(
                    observation=observation,
                    state=info["state"],
                    response_text=response.text,
                    stop_reason=response.stop_reason,
                    reward=0.0,
                    reward_terms={},
                    terminated=False,
                    truncated=False,
                    info=info,
                ),
            ),
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


def shares(weights: Sequence[float], total: int) -> list[int]:
    """Returns integers in proportion to the weights that sum to `total` (largest remainders)."""
    exact = np.asarray(weights, float) / sum(weights) * total
    shares = np.floor(exact).astype(int)
    for index in np.argsort(shares - exact, kind="stable")[: total - shares.sum()]:
        shares[index] += 1
    return [int(share) for share in shares]
