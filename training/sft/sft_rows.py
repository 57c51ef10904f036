"""Datasets to fine-tune on: read and checked, encoded with the chat template, held out, and ordered.

A dataset is a file of conversations, one row per line (`training.sft.conversations`), or a directory of
`python -m training curate`, whose episodes give the same conversations as its `sft.jsonl`. Datasets are read
completely at the start; rows that are broken or too long are reported and left out. Texts stay in memory; images do
not.
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
    """A row that is left out of training.

    Attributes:
        file: File of the row.
        line: Line number, from 1.
        why: Whether it is broken or longer than the context.
        reason: Error message.
    """

    file: Path
    line: int
    why: Why
    reason: str

    def __str__(self) -> str:
        return f"{self.file}, line {self.line}: {self.reason}"


@dataclass(frozen=True, kw_only=True)
class DataSet:
    """The rows of a dataset, split by use.

    Attributes:
        source: The dataset and its weight.
        rows: Rows to train on.
        held_out: Rows for the evaluation loss.
        left_out: Rows that are not used.
        sha256: Hash of the file.
    """

    source: DataSource
    rows: tuple[Conversation, ...]
    held_out: tuple[Conversation, ...] = ()
    left_out: tuple[LeftOut, ...] = ()
    sha256: str

    def num_left_out(self, why: Why) -> int:
        """Returns the number of rows left out for one reason."""
        return sum(row.why == why for row in self.left_out)

    def record(self) -> dict[str, Any]:
        """Returns the statistics for the records of a run."""
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
    """Reads a dataset and separates usable rows from those to leave out.

    Args:
        source: The dataset.
        encoder: Chat format of the model to train.
        max_tokens: Maximum number of tokens per row.

    Raises:
        ConfigError: If the dataset does not exist or has no usable row.
    """
    file, folder = data_file(source)
    content = file.read_bytes()
    if content.lstrip()[:1] == b"[":
        raise ConfigError(
            f"--data {source.path} is one JSON list, but a dataset must have one row per line. Convert it: jq -c "
            f"'.[]' {file.name} > {file.stem}.jsonl"
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
    """Yields one line for each of the first rows that were left out, and the number of further ones."""
    yield from (f"left out: {row}" for row in left_out[:most])
    if len(left_out) > most:
        yield f"left out: {len(left_out) - most} more; left_out.jsonl lists all"


def _row(line: bytes, *, file: Path, number: int, folder: Path, is_curated: bool) -> Conversation | LeftOut:
    """Returns the conversation in a line, or the reason to leave it out."""
    try:
        row = parse_object(line, "this line")
        return conversation(chat_messages(row) if is_curated else row, file=file, line=number, folder=folder)
    except BrokenRowError as error:
        reason = str(error)
    except BrokenRunDataError as error:
        reason = f"not a JSON object ({error.__cause__ or 'but another JSON value'})"
    except (KeyError, TypeError) as error:
        reason = f"not an episode recorded by `curate` ({type(error).__name__}: {error})"
    return LeftOut(file=file, line=number, why="broken", reason=reason)


def _checked(
    row: Conversation,
    encoder: ChatEncoder,
    sizes: Mapping[Path, tuple[int, int] | BrokenPictureError],
    max_tokens: int,
) -> Conversation | LeftOut:
    """Returns a conversation if its images are readable and it is short enough, else the reason to leave it out."""
    found = {path: size for path in row.pictures if not isinstance(size := sizes[path], BrokenPictureError)}
    broken = next((str(sizes[path]) for path in row.pictures if path not in found), None)
    count = 0
    if broken is None:
        try:
            count = num_tokens(row, encoder, found)
        except ValueError as error:
            broken = f"the checkpoint's chat format does not support it: {error}"
    if broken is not None:
        return LeftOut(file=row.file, line=row.line, why="broken", reason=broken)
    if count > max_tokens:
        reason = f"{count} tokens, more than the context of {max_tokens}"
        return LeftOut(file=row.file, line=row.line, why="too long", reason=reason)
    return row


def _require_rows(read: DataSet, max_tokens: int) -> None:
    """Raises `ConfigError` if a dataset has no usable row."""
    if read.rows:
        return
    if not read.left_out:
        raise ConfigError(f"--data {read.source.path}: the dataset is empty. Add rows, or remove the option.")
    remedy = (
        f"Raise --max-context-tokens if the model has more positions than {max_tokens}, use smaller images "
        "(--max-image-pixels), or shorten the conversations."
        if read.num_left_out("too long")
        else "Repair them; image paths are relative to the folder of the file."
    )
    raise ConfigError(
        f"--data {read.source.path}: none of {len(read.left_out)} rows is usable: {read.num_left_out('broken')} are "
        f"broken, {read.num_left_out('too long')} longer than the context. "
        f"{remedy} The first one: {read.left_out[0]}."
    )


def encoded(row: Conversation, encoder: ChatEncoder, picture: Callable[[Path], Picture] = load_picture) -> Trajectory:
    """Returns a conversation as one trajectory with prompt and target tokens for all turns.

    Args:
        row: The conversation.
        encoder: The chat format.
        picture: Loads an image file.

    Raises:
        BrokenPictureError: If an image can no longer be loaded.
        ValueError: If the chat template does not support its system message or an image.
    """
    turns = tuple(_turn(row, number, encoder, picture) for number in range(len(row.exchanges)))
    return Trajectory(env_id="sft", seed=row.line, turns=turns, final_observation={"text": ""}, start_state_hash="")


def num_tokens(row: Conversation, encoder: ChatEncoder, sizes: Mapping[Path, tuple[int, int]]) -> int:
    """Returns the number of tokens of a conversation, computed from image sizes without loading images.

    Args:
        row: The conversation.
        encoder: The chat format; it processes one blank image per size.
        sizes: Height and width of each image.
    """
    turns = encoded(row, encoder, lambda path: _blank(*sizes[path])).turns
    return sum(len(turn.prompt_ids) + len(turn.response_ids) for turn in turns)


def row_batches(rows: Iterator[Conversation], batch_size: int, encoder: ChatEncoder) -> Iterator[Batch]:
    """Yields batches of conversations in order; the last one may be smaller."""
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
    """Returns datasets with a share of their rows held out.

    Rows with the same images, or with the same texts if there are none, are held out together, also across datasets,
    so that nothing in the evaluation loss is trained on. Moving all datasets together does not change the split.

    Args:
        sets: Datasets with all rows in `rows`.
        share: Maximum fraction of all rows, in `[0, 1)`; groups are never split to reach it.
        seed: Seed of the choice.

    Raises:
        ConfigError: If a dataset has no row left to train on.
    """
    root = _common_root(sets)
    groups = [[_group(row, root, seed) for row in dataset.rows] for dataset in sets]
    sizes = Counter(chain.from_iterable(groups))
    num_left, chosen = round(share * sizes.total()), set[bytes]()
    for key in sorted(sizes):
        if sizes[key] <= num_left:
            chosen.add(key)
            num_left -= sizes[key]
    split = []
    for dataset, keys in zip(sets, groups, strict=True):
        kept = tuple(row for row, key in zip(dataset.rows, keys, strict=True) if key not in chosen)
        held_out = tuple(row for row, key in zip(dataset.rows, keys, strict=True) if key in chosen)
        if not kept:
            raise ConfigError(
                f"--eval-share {share:g} holds out all {len(dataset.rows)} rows of {dataset.source.path}. Lower it, "
                "use --eval-share 0, or add rows."
            )
        split.append(replace(dataset, rows=kept, held_out=held_out))
    return split


def row_order(sizes: Sequence[int], weights: Sequence[float], seed: int) -> Iterator[tuple[int, int]]:
    """Yields dataset index and row index of the next row, endlessly; deterministic for a seed.

    An epoch shows each row of a dataset with weight w for w times: all rows in a new random order before any repeats.
    With a weight of 0.5, an epoch shows one half of the dataset and the next epoch the other half. Datasets are mixed
    within an epoch.

    Args:
        sizes: Number of rows of each dataset, at least one.
        weights: Weight of each dataset, above 0.
        seed: Seed of the order.
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
    """Yields the rows of a dataset in an epoch: the epoch's slice of concatenated permutations of all rows."""
    order, number = np.arange(0), -1
    for position in range(round(weight * size * epoch), round(weight * size * (epoch + 1))):
        if position // size != number:
            number = position // size
            order = _shuffled(size, (*key, number))
        yield int(order[position % size])


def _shuffled(size: int, key: tuple[int, ...]) -> npt.NDArray[np.int64]:
    return np.random.default_rng(key).permutation(size)


def _common_root(sets: Sequence[DataSet]) -> Path:
    """Returns the common folder of all images of all datasets."""
    folders = [str(path.resolve().parent) for dataset in sets for row in dataset.rows for path in row.pictures]
    return Path(os.path.commonpath(folders)) if folders else Path()


def _group(row: Conversation, root: Path, seed: int) -> bytes:
    """Returns the key of rows that are held out together; sorting keys gives an order that depends on the seed."""
    shown = [str(path.resolve().relative_to(root)) for path in row.pictures] or [repr((row.system, row.exchanges))]
    return hashlib.sha256("\n".join([str(seed), *shown]).encode("utf-8", "surrogatepass")).digest()
