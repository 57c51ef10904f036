"""Training data of a cold start: oracle episodes as token trajectories, and random tokens to copy."""

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
"""Number of attempts to play a batch of demonstrations despite worker failures."""
COPYING = "copying"
"""Value of `env_id` in exercises."""

FEW_WORDS = 32
"""Number of distinct words in every other exercise, always the same ones: copying few words is learned much sooner."""

SHORTEST = 4
"""Minimum number of tokens per stretch."""


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
    """Yields batches of oracle episodes on training levels, endlessly and without repeating a seed.

    A world with a `cold_start_pool` takes its levels from the pool, epoch by epoch. Worlds of one turn are not
    stepped, because no later turn would show the result.

    Args:
        specs: The worlds, in proportion to their `cold_start_weight` or, without one, their weight.
        encoder: Encodes conversations as token ids.
        batch_size: Episodes, or first turns, per batch.
        mistake_rate: Fraction of actions that are random instead of planned.
        suboptimal_rate: Fraction of suboptimal plans, in worlds without their own rate.
        tells_plan: Whether the expert states the goal of its plan.
        start: Index of the first training seed.
        num_first_turn_batches: Number of initial batches with first turns only.

    Yields:
        Lists of `batch_size` trajectories with token ids, ready for `make_batch`; see
        `training.mixture.mixture_config` for odd sizes with iVGR's partner worlds.
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
        for share in mixed.played(number):
            seeds = list(split_seeds("train", share.num_groups, start=start))
            worlds, expert = mixed.vector(share), experts[rates[share.number]]
            (max_turns,) = worlds.apply({0: attrgetter("max_turns")}).values()
            play = first_turns if number < num_first_turn_batches or max_turns == 1 else rollout
            env_ids, levels = [share.spec.env_id] * share.num_groups, mixed.next_levels(share)
            played = _despite_losses(partial(play, expert, worlds, seeds, env_ids=env_ids, levels=levels), seeds)
            batch += [tokenized(trajectory, encoder) for trajectory in played]
        start += batch_size
        yield batch


def expert_of(spec: WorldSpec, config: ColdStartConfig, *, seed: int) -> Agent | None:
    """Returns the expert of a cold start in a world; None without a cold start or with recorded episodes."""
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
    """Returns the fraction of suboptimal plans of a world: its own, or the common one."""
    return suboptimal_rate if spec.cold_start_suboptimal_rate is None else spec.cold_start_suboptimal_rate


def _despite_losses(play: Callable[[], list[Trajectory]], seeds: Sequence[int]) -> list[Trajectory]:
    """Plays a batch, and repeats it in restarted workers if a worker is lost.

    Raises:
        WorkerError: If workers are lost `NUM_ATTEMPTS` times in a row.
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
        "row. See the warnings above; check the world's engine and the machine's memory."
    )


def first_turns(
    agent: Agent,
    worlds: VectorWorld,
    seeds: Sequence[int],
    *,
    env_ids: Sequence[str],
    levels: Sequence[str] | None = None,
) -> list[Trajectory]:
    """Returns an agent's responses to the first observations, without stepping the worlds, which may be slow."""
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
    """Returns a text trajectory with the token ids that a model would have read and written."""
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
    """Size of the copying exercises in a batch.

    Attributes:
        num_rows: Number of exercises.
        num_tokens: Tokens per exercise.
        longest: Maximum tokens per stretch; varying lengths force the model to search rather than look back a fixed
            distance.
    """

    num_rows: int
    num_tokens: int
    longest: int


NEAR, FAR = Size(num_rows=32, num_tokens=48, longest=12), Size(num_rows=12, num_tokens=128, longest=96)
"""Exercise sizes in the first half of the batches, and in the second, whose distances are those of questions."""


def copying_exercises(
    encoder: ChatEncoder, env_ids: Sequence[str], *, num_batches: int, seed: int
) -> Iterator[list[Trajectory]]:
    """Yields batches of copying exercises, half of them with few words, half with all words that distinguish answers.

    An exercise is one turn: the prompt is a stretch of distinct random tokens followed by its first token; the
    response continues the repetition. So each token of a response can be predicted, but only from the tokens before
    it.

    They teach a model with random weights to look up what followed a token earlier (*induction heads*). To copy a
    name from a question into a call, a small model must find the name's second word from its first. Demonstrations
    alone teach this late, because most words of a response follow from the preceding words.

    Source: Olsson et al., "In-context Learning and Induction Heads" (2022), whose test of such heads is a repeated
    stretch of random tokens.

    Args:
        encoder: Encoder with the vocabulary.
        env_ids: Worlds whose words are copied, see `agents.hf.tiny_vlm.telling_words`; without such words, all tokens
            except special ones.
        num_batches: Number of batches.
        seed: Seed of the exercises.

    Yields:
        Lists of trajectories, ready for `make_batch`.
    """
    rng = np.random.default_rng(seed)
    words = rng.permutation(_tokens(encoder, env_ids))
    few = words[:FEW_WORDS]
    for number in range(num_batches):
        size = NEAR if 2 * number < num_batches else FAR
        yield [_exercise(few if index % 2 else words, size, rng) for index in range(size.num_rows)]


def _tokens(encoder: ChatEncoder, env_ids: Sequence[str]) -> list[int]:
    """Returns the tokens to copy."""
    tokenizer = encoder.tokenizer
    encoded = [tokenizer.encode(f"{space}{word}") for word in telling_words(env_ids) for space in ("", " ")]
    if telling := sorted({ids[0] for ids in encoded if len(ids) == 1}):
        return telling
    special = {*encoder.suppressed_ids(), encoder.end_of_turn_id}
    return [token for token in range(len(tokenizer)) if token not in special]


def spared_tokens(encoder: ChatEncoder, env_ids: Sequence[str]) -> list[int]:
    """Returns the digit tokens to mask out of the softmax in copying exercises, except digits that are copied.

    The softmax would push the embeddings of all tokens that are never copied into the same direction. Training on
    demonstrations later separates most of them again, but digits in page numbers and answers would stay at chance.
    """
    encoded = [encoder.tokenizer.encode(digit) for digit in string.digits]
    return sorted({ids[0] for ids in encoded if len(ids) == 1}.difference(_tokens(encoder, env_ids)))


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
