"""Random tokens to copy: what makes heads form that look up what followed before (*induction heads*).

A small model that meets a name in a question and is to write it in a call has to find the name's second word by its
first. In demonstrations alone that is learnt late, for most words of a response follow from the words before them.
Here nothing does: a stretch of random tokens is said over and over, and what comes next is only known by who finds
where the last token stood before.

Source: Olsson et al., "In-context Learning and Induction Heads" (2022), whose test of such heads is a repeated stretch
of random tokens.
"""

from __future__ import annotations

import string
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from agents.hf.chat import ChatEncoder
from agents.hf.tiny_vlm import telling_words
from vlm_envs.trajectory import Observation, Trajectory, Turn

COPYING = "copying"
"""What stands as the world of an exercise."""

FEW_WORDS = 32
"""Distinct words of every other exercise, always the same. Of few words copying is learnt soon, of many much later."""

SHORTEST = 4
"""Fewest tokens of a stretch."""


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
        reward_terms={},
        terminated=True,
        truncated=False,
        info={},
        state={},
        prompt_ids=tokens[: period + 1],
        response_ids=tokens[period + 1 :],
        sampler_logprobs=np.zeros(size.num_tokens - period - 1, np.float32),
    )
    return Trajectory(env_id=COPYING, seed=0, turns=(turn,), final_observation=nothing, start_state_hash="")
