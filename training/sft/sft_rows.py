"""Datasets to fine-tune on: read and checked, encoded with the chat template, held out, and ordered.

A dataset is a file of conversations, one row per line (`training.sft.conversations`), or a directory of
`python -m training curate`, whose episodes are the conversations that its `sft.jsonl` has. Datasets are read whole at
the beginning; rows that are broken or too long are named and left out. Texts stay in memory, images do not.
"""

from __future__ import annotations

import hashlib
import os
from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import chain, islice
from pathlib import Path
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from agents.hf.chat import ChatEncoder
from training.batch import Batch, make_batch
from training.curation.curated_data import chat_messages
from training.sft.conversations import (
    BrokenPictureError,
    BrokenRowError,
    Conversation,
    conversation,
    load_picture,
    picture_sizes,
)
from training.sft.sft_command import data_file
from training.sft.sft_config import DataSource
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError, parse_object
from vlm_envs.trajectory import Observation, Trajectory, Turn

Why = Literal["broken", "too long"]
Picture = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class LeftOut:
    """A row that is not learnt from.

    Attributes:
        file: Where it stands.
        line: In which line, from 1.
        why: Whether it is broken or longer than the context.
        reason: In words.
    """

    file: Path
    line: int
    why: Why
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """What is learnt from a data set.

    Attributes:
        source: Where it is, and how often an epoch shows its rows.
        rows: Those to train on.
        held_out: Those that only the evaluation loss is of.
        left_out: What is not learnt from.
        sha256: Of the file that was read.
    """

    source: DataSource
    rows: tuple[Conversation, ...]
    held_out: tuple[Conversation, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    sha256: str

    def num_left_out(self, why: Why) -> int:
        """Returns how many rows were left out for one reason."""
        return sum(each.why == why for each in self.left_out)

    def record(self) -> dict[str, Any]:
        """Returns the numbers, as a run writes them down."""
        return {
            "path": self.source.path,
            "weight": self.source.weight,
            "num_rows": len(self.rows),
            "num_held_out": len(self.held_out),
            "num_broken": self.num_left_out("broken"),
            "num_too_long": self.num_left_out("too long"),
            "sha256": self.sha256,
        }

    def __str__(self) -> str:
        return (
            f"{self.source.path}: {len(self.rows)} rows to train on (weight {self.source.weight:g}), "
            f"{len(self.held_out)} held out; left out: {self.num_left_out('broken')} broken, "
            f"{self.num_left_out('too long')} longer than the context"
        )


def read_data_set(source: DataSource, encoder: ChatEncoder, max_tokens: int) -> DataSet:
    """Returns the rows of a data set that can be learnt from, and names the others.

    Args:
        source: Where it is.
        encoder: The chat format of who is to learn.
        max_tokens: Most that a row may have.

    Raises:
        ConfigError: If there is no such data set, or nothing of it can be learnt from.
    """
    file, folder = data_file(source)
    content = file.read_bytes()
    if content.lstrip()[:1] == b"[":
        raise ConfigError(
            f"--data {source.path} is one JSON list, and a data set has a row a line. Write it so: "
            f"jq -c '.[]' {file.name} > {file.stem}.jsonl"
        )
    is_curated = folder != file.parent
    read = [
        _row(line, file=file, number=number, folder=folder, is_curated=is_curated)
        for number, line in enumerate(content.split(b"\n"), start=1)
        if line.strip()
    ]
    sizes = picture_sizes(path for row in read if isinstance(row, Conversation) for path in row.pictures)
    checked = [row if isinstance(row, LeftOut) else _checked(row, encoder, sizes, max_tokens) for row in read]
    data_set = DataSet(
        source=source,
        rows=tuple(row for row in checked if isinstance(row, Conversation)),
        left_out=tuple(row for row in checked if isinstance(row, LeftOut)),
        sha256=hashlib.sha256(content).hexdigest(),
    )
    _require_rows(data_set, max_tokens)
    return data_set


def told(left_out: Sequence[LeftOut], most: int = 10) -> Iterator[str]:
    """Yields a line for each row that was left out, for the first of them, and how many more there are."""
    yield from (f"left out: {each}" for each in left_out[:most])
    if len(left_out) > most:
        yield f"left out: {len(left_out) - most} more; left_out.jsonl names all"


def _row(line: bytes, *, file: Path, number: int, folder: Path, is_curated: bool) -> Conversation | LeftOut:
    """Returns the conversation in a line, or why there is none that can be learnt from."""
    try:
        row = parse_object(line, "this line")
        return conversation(chat_messages(row) if is_curated else row, file=file, line=number, folder=folder)
    except BrokenRowError as error:
        reason = str(error)
    except BrokenRunDataError as error:
        reason = f"no JSON object ({error.__cause__ or 'but another JSON value'})"
    except (KeyError, TypeError) as error:
        reason = f"no episode that `curate` recorded ({type(error).__name__}: {error})"
    return LeftOut(file=file, line=number, why="broken", reason=reason)


def _checked(
    row: Conversation,
    encoder: ChatEncoder,
    sizes: Mapping[Path, tuple[int, int] | BrokenPictureError],
    max_tokens: int,
) -> Conversation | LeftOut:
    """Returns a conversation if its pictures are there and it is short enough, else why it is left out."""
    known = {path: size for path in row.pictures if not isinstance(size := sizes[path], BrokenPictureError)}
    broken = next((str(sizes[path]) for path in row.pictures if path not in known), None)
    count = 0
    if broken is None:
        try:
            count = num_tokens(row, encoder, known)
        except ValueError as error:
            broken = f"the checkpoint's chat format does not take it: {error}"
    if broken is not None:
        return LeftOut(file=row.file, line=row.line, why="broken", reason=broken)
    if count > max_tokens:
        reason = f"{count} tokens, more than the context of {max_tokens}"
        return LeftOut(file=row.file, line=row.line, why="too long", reason=reason)
    return row


def _require_rows(read: DataSet, max_tokens: int) -> None:
    """Refuses a data set of which nothing is left."""
    if read.rows:
        return
    if not read.left_out:
        raise ConfigError(f"--data {read.source.path}: the data set is empty. Give one with rows, or leave it out.")
    remedy = (
        f"Raise --max-context-tokens if the model has more positions than {max_tokens}, show smaller pictures "
        "(--max-image-pixels), or cut the conversations."
        if read.num_left_out("too long")
        else "Repair them; relative paths of pictures begin at the folder of the file."
    )
    raise ConfigError(
        f"--data {read.source.path}: nothing is left of {len(read.left_out)} rows: "
        f"{read.num_left_out('broken')} are broken, {read.num_left_out('too long')} longer than the context. "
        f"{remedy} The first of them: {read.left_out[0]}."
    )


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


def with_held_out(sets: Sequence[DataSet], share: float, seed: int) -> list[DataSet]:
    """Returns data sets with a share of their rows held out.

    Rows that show the same pictures, or without any say the same, are held out together, in whichever set they are:
    what the evaluation loss is of was never learnt from. Where the sets lie as a whole changes nothing.

    Args:
        sets: With all rows to train on.
        share: Of all rows together, in [0, 1); it is met as nearly as whole groups allow without passing it.
        seed: Decides which.

    Raises:
        ConfigError: If nothing is left to train on, of one of the sets.
    """
    root = _common_root(sets)
    groups = [[_group(row, root, seed) for row in each.rows] for each in sets]
    sizes = Counter(chain.from_iterable(groups))
    num_left, chosen = round(share * sizes.total()), set[bytes]()
    for key in sorted(sizes):
        if sizes[key] <= num_left:
            chosen.add(key)
            num_left -= sizes[key]
    split = []
    for each, keys in zip(sets, groups, strict=True):
        kept = tuple(row for row, key in zip(each.rows, keys, strict=True) if key not in chosen)
        held_out = tuple(row for row, key in zip(each.rows, keys, strict=True) if key in chosen)
        if not kept:
            raise ConfigError(
                f"--eval-share {share:g} holds out all {len(each.rows)} rows of {each.source.path}. Lower it, use "
                "--eval-share 0, or give more rows."
            )
        split.append(replace(each, rows=kept, held_out=held_out))
    return split


def row_order(sizes: Sequence[int], weights: Sequence[float], seed: int) -> Iterator[tuple[int, int]]:
    """Yields the set and the row that come next, without end; the same for the same seed.

    An epoch shows each row of a set of weight w so many times: all rows of the set, in a new order each time, before
    any comes again. With a weight of 0.5 it shows one half of the set, and the next epoch the other. Sets are mixed
    within an epoch.

    Args:
        sizes: Rows of each set, at least one.
        weights: Of each set, above 0.
        seed: Decides the order.
    """
    epoch = 0
    while True:
        chosen = [
            (number, row)
            for number, (size, weight) in enumerate(zip(sizes, weights, strict=True))
            for row in _rows_of_epoch(size, weight, epoch, (seed, number))
        ]
        for index in np.random.default_rng((seed, epoch)).permutation(len(chosen)):
            yield chosen[index]
        epoch += 1


def _rows_of_epoch(size: int, weight: float, epoch: int, key: tuple[int, int]) -> Iterator[int]:
    """Yields what an epoch shows of a set: its part of orders of the whole set, one behind the other."""
    order, number = np.arange(0), -1
    for place in range(round(weight * size * epoch), round(weight * size * (epoch + 1))):
        if place // size != number:
            number = place // size
            order = _shuffled(size, (*key, number))
        yield int(order[place % size])


def _shuffled(size: int, key: tuple[int, ...]) -> npt.NDArray[np.int64]:
    return np.random.default_rng(key).permutation(size)


def _common_root(sets: Sequence[DataSet]) -> Path:
    """Returns the folder that all pictures of all sets lie in."""
    folders = [str(path.resolve().parent) for each in sets for row in each.rows for path in row.pictures]
    return Path(os.path.commonpath(folders)) if folders else Path()


def _group(row: Conversation, root: Path, seed: int) -> bytes:
    """Returns what rows that belong together have in common; sorted, it is in an order that the seed decides."""
    shown = [str(path.resolve().relative_to(root)) for path in row.pictures] or [repr((row.system, row.exchanges))]
    return hashlib.sha256("\n".join([str(seed), *shown]).encode("utf-8", "surrogatepass")).digest()
