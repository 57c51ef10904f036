"""A board: one folder with every episode of every agent, that grows, survives a kill, and can be handed on.

    boards/<name>/
        board.json           worlds and agents with their settings and hashes, suite, versions
        episodes.jsonl       one object per episode, only ever added to
        images/<aa>/<sha256>.png
        index.html           the page

An episode is named by its world's hash, its seed, its agent's hash and its repeat. One that a provider's failure ended
is there too, with an `error`; it is played again the next time, and counts for nobody.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from vlm_envs.errors import ConfigError
from vlm_envs.records.episode_record import TurnNotes, episode_record
from vlm_envs.records.images import ImageStore
from vlm_envs.records.json_lines import (
    MissingRunDataError,
    Record,
    append_line,
    parse_object,
    read_lines,
    replace_file,
    to_json,
)
from vlm_envs.trajectory import Trajectory

FORMAT = 1
"""Goes up when a board of before cannot be read any more."""

_BOARD, _EPISODES = "board.json", "episodes.jsonl"


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
        return cls(record["world_digest"], record["agent_digest"], int(record["seed"]), int(record["repeat"]))


class Board:
    """A board on disk. Safe for threads of one process.

    Args:
        directory: Where it is.

    Raises:
        MissingRunDataError: If there is none.
        BrokenRunDataError: If it cannot be read.
        ConfigError: If it is of another format.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        path = self.directory / _BOARD
        if not path.is_file():
            raise MissingRunDataError(f"Expected a board with a {_BOARD} in {self.directory}. Make one: {_HOW}")
        self.record = parse_object(path.read_bytes(), str(path))
        if self.record.get("format") != FORMAT:
            raise ConfigError(
                f"{path} is of format {self.record.get('format')!r}, this version reads {FORMAT}. Make it anew: {_HOW}"
            )
        self.images = ImageStore(self.directory)
        self._lock = threading.Lock()

    @classmethod
    def open(cls, directory: Path, definition: Mapping[str, Any]) -> Board:
        """Returns a board to add to: a new one, or one that is there and is defined alike.

        Args:
            directory: Where it is or will be.
            definition: `suite`, `split`, `worlds` and `agents` as `WorldSpec.record` and agents' identities give them,
                and `versions`. Worlds and agents that a board has not are added to it.

        Raises:
            ConfigError: If the board measures something else under one of these names, or the folder holds other files.
        """
        path = directory / _BOARD
        if not path.is_file():
            if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
                raise ConfigError(f"{directory} holds something else than a board. Name another folder.")
            replace_file(path, _pretty({"format": FORMAT, **definition}))
            return cls(directory)
        board = cls(directory)
        board._repair()
        merged = _merged(path, board.record, definition)
        if merged != board.record:
            replace_file(path, _pretty(merged))
            board.record = merged
        return board

    def _repair(self) -> None:
        """Cuts off a last line that a kill left half-written: what is added would be glued to it."""
        path = self.directory / _EPISODES
        content = path.read_bytes() if path.exists() else b""
        if content and not content.endswith(b"\n"):
            replace_file(path, content[: content.rfind(b"\n") + 1])

    def add(
        self,
        key: EpisodeKey,
        *,
        agent: str,
        world: str,
        episode: Trajectory | None,
        error: str = "",
        notes: Sequence[TurnNotes] = (),
        **facts: Any,
    ) -> Record:
        """Adds an episode, in the file when this returns.

        Args:
            key: Its name.
            agent: What the board calls the agent.
            world: What the board calls the world.
            episode: The episode, as far as it went; None if it never began.
            error: Why it was ended by something that is no fault of the agent's.
            notes: What judges say of each turn.
            **facts: Further numbers about it.

        Returns:
            The line.
        """
        told: Record = {"seed": key.seed}
        if episode is not None:
            turns = notes or [TurnNotes()] * len(episode.turns)
            told = episode_record(episode, turns, self.images.save)
        line = {
            **told,
            "world": world,
            "agent": agent,
            "world_digest": key.world,
            "agent_digest": key.agent,
            "repeat": key.repeat,
            "error": error,
            **facts,
        }
        with self._lock:
            append_line(self.directory / _EPISODES, line)
        return to_json(line)  # type: ignore[no-any-return]

    def lines(self) -> list[Record]:
        """Returns every line, each try of an episode by itself."""
        return read_lines(self.directory / _EPISODES)

    def episodes(self) -> list[Record]:
        """Returns every episode once, the last try where an error was tried again, in the order of their first line."""
        latest: dict[EpisodeKey, Record] = {}
        for line in self.lines():
            latest[EpisodeKey.of(line)] = line
        return list(latest.values())

    def rewrite(self, episodes: Iterable[Record]) -> None:
        """Replaces every line, all at once."""
        lines = (json.dumps(to_json(episode), allow_nan=False, separators=(",", ":")) for episode in episodes)
        replace_file(self.directory / _EPISODES, "".join(f"{line}\n" for line in lines).encode("ascii"))


_HOW = "python -m benchmarks run --agent AGENT --world WORLD --out DIR"


def _merged(path: Path, known: Record, definition: Mapping[str, Any]) -> Record:
    """Returns a board's definition with worlds and agents added; refuses what it knows differently."""
    new = to_json(definition)
    for name in ("suite", "split"):
        if known.get(name) != new.get(name):
            raise ConfigError(
                f"{path} was made with {name} {known.get(name)!r}, not {new.get(name)!r}: numbers of both do not "
                "compare. Name another folder with --out."
            )
    merged = dict(known)
    for kind in ("worlds", "agents"):
        by_label = {each["label"]: each for each in known[kind]}
        for each in new[kind]:
            before = by_label.setdefault(each["label"], each)
            if before["digest"] != each["digest"]:
                raise ConfigError(
                    f"{path} has another {each['label']} (hash {before['digest']}, now {each['digest']}): it has "
                    "changed since. Name another folder with --out."
                )
        merged[kind] = list(by_label.values())
    return merged


def _pretty(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(to_json(record), indent=2, allow_nan=False) + "\n").encode()
