"""A board's lines: what names an episode, and the seals by which a line shows that it was not changed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models.board.shapes import EPISODE, FAILED_EPISODE, misshapen
from benchmarks.models.board.spec import digest_of
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError, Record, read_lines, to_json

SEALS = _SEAL, _TURN_SEALS, _AFTER = "digest", "turn_digests", "after"
"""Fields by which a line shows that it was not changed and that none before it in its row was removed."""

RowName = tuple[str, str]
"""Agent and world, as the board calls them."""


@dataclass(frozen=True)
class EpisodeKey:
    """What names an episode.

    Attributes:
        world: The world's hash.
        agent: The agent's hash.
        seed: Its level.
        repeat: Which of several episodes on the level it is, from 0.
    """

    world: str
    agent: str
    seed: int
    repeat: int = 0

    @classmethod
    def of(cls, record: Mapping[str, Any]) -> EpisodeKey:
        """Returns the key of a stored episode."""
        return cls(record["world_digest"], record["agent_digest"], record["seed"], record["repeat"])


def require_distinct(kind: str, digests: Iterable[tuple[str, str]]) -> None:
    """Raises `ConfigError` if two names have one hash: episodes are kept by hash, and would take each other's place.

    Args:
        kind: What it is, for the message.
        digests: Names and hashes.
    """
    names: dict[str, str] = {}
    for name, digest in digests:
        if (before := names.setdefault(digest, name)) != name:
            raise ConfigError(f"{kind} {name} is the same as {before}. Leave one of them out, or keep the first name.")


ANEW = "without this and all later lines of its agent in its world, run plays them again"
"""What helps a row of which a line is missing or damaged."""


def read_episodes(path: Path) -> list[Record]:
    """Returns every line of a board's file, without a half-written last one.

    Raises:
        BrokenRunDataError: If one of the others is no episode of a board; it names the line.
    """
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        if wrong := misshapen(line, FAILED_EPISODE if line.get("error") else EPISODE):
            raise BrokenRunDataError(f"{path}, line {number} is no episode of a board: {wrong}; {ANEW}.")
    return lines


def row_of(line: Mapping[str, Any]) -> RowName:
    """Returns whose line it is."""
    return line["agent"], line["world"]


def last_seals(lines: Iterable[Mapping[str, Any]]) -> dict[RowName, str]:
    """Returns the seal of each row's last line."""
    return {row_of(line): str(line.get(_SEAL)) for line in lines}


def resealed(lines: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Yields lines with seals of what they hold now, each after the one before it in its row."""
    last: dict[RowName, str] = {}
    for line in lines:
        resealed_line = sealed(line, last.get(row_of(line), ""))
        last[row_of(line)] = resealed_line[_SEAL]
        yield resealed_line


def follows(line: Mapping[str, Any], before: Mapping[str, Any] | None) -> bool:
    """Returns whether a line was written after another one of its row, with none between; None for the first."""
    return bool(line.get(_AFTER) == ("" if before is None else before.get(_SEAL)))


def sealed(line: Mapping[str, Any], after: str = "") -> Record:
    """Returns a line with hashes of each turn and of the rest, in place of those it may have.

    Args:
        line: The line.
        after: Seal of the line before it in its row; empty for the first.
    """
    plain: Record = to_json({name: value for name, value in line.items() if name not in SEALS})
    plain[_TURN_SEALS] = [digest_of(turn) for turn in plain.get("turns", ())]
    plain[_AFTER] = after
    return {**plain, _SEAL: _seal(plain)}


def broken_seal(line: Mapping[str, Any]) -> int | None:
    """Returns where a line is not what was written.

    Returns:
        A turn, counted from 1; 0 for something outside of the turns; None if it is as it was written.
    """
    turns, seals = line.get("turns", ()), line.get(_TURN_SEALS)
    if not isinstance(seals, list) or line.get(_SEAL) != _seal(line):
        return 0
    changed = (
        number for number, (turn, seal) in enumerate(zip(turns, seals, strict=False), 1) if digest_of(turn) != seal
    )
    return next(changed, None if len(turns) == len(seals) else 0)


def _seal(line: Mapping[str, Any]) -> str:
    """Returns the hash of a line, of its turns the hashes only."""
    return digest_of({name: value for name, value in line.items() if name not in ("turns", _SEAL)})
