"""Data sets to fine-tune on: read whole in the beginning; what is broken or too long is named and left out.

A data set is a file of conversations, a row a line (`training.data.sft.conversations`), or a directory of
`python -m training curate`, whose episodes are the conversations that its `sft.jsonl` has. Texts stay in memory,
pictures do not.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

from agents.hf.chat import ChatEncoder
from training.config.supervised.sft import DataSource
from training.data.curation.curated import chat_messages
from training.data.sft.conversations import BrokenRowError, Conversation, conversation
from training.data.sft.pictures import BrokenPictureError, picture_sizes
from training.data.sft.rows import num_tokens
from training.preflight.sft import data_file
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError, parse_object

Why = Literal["broken", "too long"]


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
