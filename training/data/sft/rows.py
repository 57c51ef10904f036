"""Conversations of data sets as rows of tokens, in the words of a checkpoint's own chat template."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import lru_cache
from itertools import islice
from pathlib import Path

import numpy as np
import numpy.typing as npt

from agents.hf.chat import ChatEncoder
from training.batch import Batch, make_batch
from training.data.sft.conversations import Conversation
from training.data.sft.pictures import load_picture
from vlm_envs.trajectory import Observation, Trajectory, Turn

Picture = npt.NDArray[np.uint8]


def encoded(row: Conversation, encoder: ChatEncoder, picture: Callable[[Path], Picture] = load_picture) -> Trajectory:
    """Returns a conversation with the tokens that a model reads and is to write; a row has all of its turns.

    Args:
        row: The conversation.
        encoder: The chat format.
        picture: Loads a picture's file.

    Raises:
        BrokenPictureError: If a picture cannot be loaded any more.
        ValueError: If the chat template does not take its system message, or a picture.
    """
    turns = tuple(_turn(row, number, encoder, picture) for number in range(len(row.exchanges)))
    return Trajectory(env_id="sft", seed=row.line, turns=turns, final_observation={"text": ""}, start_state_hash="")


def num_tokens(row: Conversation, encoder: ChatEncoder, sizes: Mapping[Path, tuple[int, int]]) -> int:
    """Returns how many tokens a conversation has, from its pictures' sizes alone.

    Args:
        row: The conversation.
        encoder: The chat format; it processes one picture of each size.
        sizes: Height and width of each picture.
    """
    turns = encoded(row, encoder, lambda path: _blank(*sizes[path])).turns
    return sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in turns)


def row_batches(rows: Iterator[Conversation], batch_size: int, encoder: ChatEncoder) -> Iterator[Batch]:
    """Yields batches of conversations in order, the last of which may be smaller."""
    while some := list(islice(rows, batch_size)):
        yield make_batch(
            [encoded(row, encoder) for row in some],
            [[0.0] * len(row.exchanges) for row in some],
            encoder,
            trainable=[[exchange.is_learnt for exchange in row.exchanges] for row in some],
        )


def _turn(row: Conversation, number: int, encoder: ChatEncoder, picture: Callable[[Path], Picture]) -> Turn:
    exchange, is_first = row.exchanges[number], number == 0
    content = [part if isinstance(part, str) else picture(part) for part in exchange.content]
    observation: Observation = {
        "text": "".join(part for part in content if isinstance(part, str)),
        "images": tuple(part for part in content if not isinstance(part, str)),
    }
    prompt = encoder.encode_content(content, system=row.system if is_first else "", is_first=is_first)
    response_ids = encoder.encode_response(exchange.answer)
    return Turn(
        observation=observation,
        response_text=exchange.answer,
        stop_reason="stop",
        reward=0.0,
        reward_terms={},
        terminated=number == len(row.exchanges) - 1,
        truncated=False,
        info={"success": False},
        state={},
        prompt_ids=prompt.ids,
        response_ids=response_ids,
        sampler_logprobs=np.zeros(len(response_ids), np.float32),
    )


@lru_cache(maxsize=64)
def _blank(height: int, width: int) -> Picture:
    return np.zeros((height, width, 3), np.uint8)
