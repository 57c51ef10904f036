"""A board's lines: what names an episode, and the seals by which a line shows that nobody has changed it."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from benchmarks.models.spec import digest_of
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError, Record, read_lines, to_json

SEALS = _SEAL, _TURN_SEALS = "digest", "turn_digests"
"""Fields by which a line shows that nobody has changed it."""

_Kinds = Mapping[str, type | tuple[type, ...]]
_NEEDED: _Kinds = {
    **dict.fromkeys(("world", "agent", "world_digest", "agent_digest", "error"), str),
    **dict.fromkeys(("seed", "repeat"), int),
}
_OF_PLAYED: _Kinds = {"turns": list, "final": dict, "success": bool, "total_reward": (int, float)}


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


def read_episodes(path: Path) -> list[Record]:
    """Returns every line of a board's file, without a half-written last one.

    Raises:
        BrokenRunDataError: If one of the others is no episode of a board; it names the line.
    """
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        kinds = _NEEDED if line.get("error") else {**_NEEDED, **_OF_PLAYED}
        if wrong := [name for name, kind in kinds.items() if not isinstance(line.get(name), kind)]:
            raise BrokenRunDataError(
                f"{path}, line {number} is no episode of a board: {wrong[0]} is {line.get(wrong[0])!r}. Remove the "
                "line, and what it held is played again."
            )
    return lines


def sealed(line: Mapping[str, Any]) -> Record:
    """Returns a line with hashes of each turn and of the rest, in place of those it may have."""
    plain: Record = to_json({name: value for name, value in line.items() if name not in SEALS})
    plain[_TURN_SEALS] = [digest_of(turn) for turn in plain.get("turns", ())]
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
