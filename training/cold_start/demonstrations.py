"""What a cold start imitates: episodes of the oracle as token trajectories, and random tokens to copy."""

from __future__ import annotations

import itertools
import string
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from functools import partial
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agents.agent import Agent
from agents.answering import conversations
from agents.hf.chat import ChatEncoder
from agents.hf.tiny_vlm import telling_words
from agents.registry import make_agent
from agents.rollout import WorldBatch, make_turn, reset_arguments, rollout, rollout_rows
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.world_spec import WorldSpec
from training.mixture.mixed_worlds import MixedWorlds
from training.pools.pool_levels import open_pools
from vlm_envs.errors import WorkerError
from vlm_envs.splits import split_seeds
from vlm_envs.trajectory import Observation, Trajectory, Turn, is_lost
from vlm_envs.vector.vector_world import VectorWorld

NUM_ATTEMPTS = 3
"""How often a batch of demonstrations is played before its workers are given up."""
COPYING = "copying"
"""What stands as the world of an exercise."""

FEW_WORDS = 32
"""Distinct words of every other exercise, always the same. Of few words copying is learnt soon, of many much later."""

SHORTEST = 4
"""Fewest tokens of a stretch."""


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
        Lists of `batch_size` trajectories with token ids, ready for `make_batch`; see `training.mixture.mixture_config`
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
        batch: list[Trajectory] = []
        for place in mixed.played(number):
            seeds = list(split_seeds("train", place.num_groups, start=start))
            worlds, expert = mixed.vector(place), experts[rates[place.number]]
            (max_turns,) = worlds.apply({0: attrgetter("max_turns")}).values()
            play = first_turns if number < num_first_turn_batches or max_turns == 1 else rollout
            env_ids, levels = [place.spec.env_id] * place.num_groups, mixed.next_levels(place)
            played = _despite_losses(partial(play, expert, worlds, seeds, env_ids=env_ids, levels=levels), seeds)
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


def _despite_losses(play: Callable[[], list[Trajectory]], seeds: Sequence[int]) -> list[Trajectory]:
    """Plays a batch again, in restarted workers, if one of its workers is lost; what was lost teaches nothing.

    Raises:
        WorkerError: If workers are lost three times in a row.
    """
    for attempt in range(NUM_ATTEMPTS):
        try:
            played = play()
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


def first_turns(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
) -> list[Trajectory]:
    """Returns what an agent says to the first observations; worlds, whose engines take their time, do not answer."""
    requests = WorldBatch(worlds, seeds, env_ids, levels).requests
    observations, infos = worlds.reset(**reset_arguments(requests))
    with conversations(agent, rollout_rows(worlds, requests), worlds) as asked:
        responses = asked.respond(range(len(seeds)), observations)
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


class Size(NamedTuple):
    """How large the exercises of a batch are.

    Attributes:
        num_rows: Exercises.
        num_tokens: Tokens of each.
        longest: Most tokens of a stretch; as one does not know how far back to look, one has to search.
    """

    num_rows: int
    num_tokens: int
    longest: int


NEAR, FAR = Size(num_rows=32, num_tokens=48, longest=12), Size(num_rows=12, num_tokens=128, longest=96)
"""Of the first half of the batches, in which copying is learnt, and of the second, from as far as questions are."""


def copying_exercises(
    encoder: ChatEncoder, env_ids: Sequence[str], *, num_batches: int, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields batches of exercises, half of them of a few words, half of all that tell one answer from another.

    An exercise is one turn: the prompt is a stretch of distinct random tokens and its first token again; the response
    goes on with it. So each token of a response can be told, by nothing but what came before.

    They teach a model of random weights to look up what followed a token before (*induction heads*). A small model that
    meets a name in a question and is to write it in a call has to find the name's second word by its first. From
    demonstrations alone that is learnt late, for most words of a response follow from the words before them.

    Source: Olsson et al., "In-context Learning and Induction Heads" (2022), whose test of such heads is a repeated
    stretch of random tokens.

    Args:
        encoder: Whose vocabulary it is.
        env_ids: Worlds whose words are copied, see `agents.hf.tiny_vlm.telling_words`; where they have none, all
            tokens are but special ones.
        num_batches: How many there are.
        seed: Seed of all.

    Yields:
        Lists of trajectories, ready for `make_batch`.
    """
    rng = np.random.default_rng(seed)
    words = rng.permutation(_tokens(encoder, env_ids))
    few = words[:FEW_WORDS]
    for number in range(num_batches):
        size = NEAR if 2 * number < num_batches else FAR
        yield [_exercise(few if place % 2 else words, size, rng) for place in range(size.num_rows)]


def _tokens(encoder: ChatEncoder, env_ids: Sequence[str]) -> list[int]:
    """Returns the tokens to be copied."""
    tokenizer = encoder.tokenizer
    spelt = [tokenizer.encode(f"{space}{word}") for word in telling_words(env_ids) for space in ("", " ")]
    if telling := sorted({ids[0] for ids in spelt if len(ids) == 1}):
        return telling
    special = {*encoder.suppressed_ids(), encoder.end_of_turn_id}
    return [token for token in range(len(tokenizer)) if token not in special]


def spared_tokens(encoder: ChatEncoder, env_ids: Sequence[str]) -> list[int]:
    """Returns digits, which are not to be pushed away while others are copied; none that is copied itself.

    A softmax pushes whatever is not copied into one direction, all alike. Most of that is told apart again when it is
    met; pages and answers, which one has to be told by what it is, stay at chance.
    """
    spelt = [encoder.tokenizer.encode(digit) for digit in string.digits]
    return sorted({ids[0] for ids in spelt if len(ids) == 1}.difference(_tokens(encoder, env_ids)))


def _exercise(words: npt.NDArray[np.int64], size: Size, rng: np.random.Generator) -> Trajectory:
    longest = min(size.longest, len(words) // 2)
    period = round(SHORTEST * (longest / SHORTEST) ** rng.random())
    tokens = np.resize(rng.choice(words, period, replace=False), size.num_tokens)
    nothing: Observation = {"text": ""}
    turn = Turn(
        observation=nothing,
        response_text="",
        stop_reason="stop",
        reward=0.0,
        terminated=True,
        truncated=False,
        info={},
        state={},
        prompt_ids=tokens[: period + 1],
        response_ids=tokens[period + 1 :],
        sampler_logprobs=np.zeros(size.num_tokens - period - 1, np.float32),
    )
    return Trajectory(env_id=COPYING, seed=0, turns=(turn,), final_observation=nothing, start_state_hash="")
