"""A board: a folder with the episodes of agents on the same levels, its lines, and what they must hold."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

from benchmarks.models.board.board_spec import digest_of, entry_for
from vlm_envs.adapter.stored import changed_since, differing, differing_functions, functions_changed
from vlm_envs.errors import ConfigError
from vlm_envs.records.folder_lock import LOCK, FolderLock
from vlm_envs.records.json_lines import (
    TEMPORARY,
    BrokenRunDataError,
    MissingRunDataError,
    Record,
    RunDataError,
    append_line,
    parse_object,
    read_lines,
    replace_file,
    to_json,
)
from vlm_envs.records.report_episodes import image_names
from vlm_envs.records.run_data import ImageStore, TurnNotes, episode_record
from vlm_envs.trajectory import Trajectory

FORMAT = 1
"""Goes up when a board of before cannot be read any more."""

STRICT = "strict"
"""Reading of boards and episodes that record none; they were made before worlds had a `reading`."""

_BOARD, _EPISODES = "board.json", "episodes.jsonl"
_HOW = "python -m benchmarks run --agent AGENT --world WORLD --out DIR"


class UnwritableBoardError(RunDataError, OSError):
    """A board cannot be added to: its disk is full, or may not be written to."""


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
                f"{path} is of format {self.record.get('format')!r}, this version reads {FORMAT}. "
                f"Create it again: {_HOW}"
            )
        if wrong := misshapen(self.record, BOARD):
            raise BrokenRunDataError(f"{path} cannot be read: {wrong}. Repair it, or create the board again.")
        self.images = ImageStore(self.directory, sync=True)
        self._thread_lock = threading.Lock()
        self._folder_lock: FolderLock | None = None
        self._last_seals: dict[RowName, str] | None = None

    @classmethod
    def agents_in(cls, directory: Path) -> list[Record]:
        """Returns the entries of the agents on a board; none if there is no board."""
        return list(cls(directory).record["agents"]) if (directory / _BOARD).is_file() else []

    @classmethod
    def open(cls, directory: Path, definition: Mapping[str, Any]) -> Board:
        """Returns a board to add to, locked against other writers until it is closed.

        It is a new one, or one that is there and is defined alike.

        Args:
            directory: Where it is or will be.
            definition: `suite`, `split`, `reading`, `worlds` and `agents` as `WorldSpec.record` and agents' identities
                give them, and `versions`. Worlds and agents that a board has not are added to it.

        Raises:
            ConfigError: If the board measures something else under one of these names, or the folder holds other files.
            BusyFolderError: If somebody else is writing to it.
            UnwritableBoardError: If nothing can be written to it.
        """
        path = directory / _BOARD
        with telling_of(directory):
            if not path.is_file():
                _refuse_other_files(directory)
                directory.mkdir(parents=True, exist_ok=True)
            lock = FolderLock(directory)
            try:
                if not path.is_file():
                    replace_file(path, _pretty({"format": FORMAT, **definition}), sync=True)
                board = cls(directory)
                board._repair()
                board._add_to_definition(definition)
            except BaseException:
                lock.release()
                raise
        board._folder_lock = lock
        return board

    def agent_entry(self, agent: Record) -> Record:
        """Returns the entry of an agent that the board was opened with; earlier boards may have it by another hash.

        Args:
            agent: As in the definition.
        """
        entry = entry_for(agent, self.record["agents"], self.directory / _BOARD)
        assert entry is not None
        return entry

    def close(self) -> None:
        """Lets others write to it; harmless to call twice."""
        if self._folder_lock is not None:
            self._folder_lock.release()
            self._folder_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Keeps everybody else from writing to it within the block.

        Raises:
            BusyFolderError: If somebody else is.
        """
        with telling_of(self.directory):
            self._folder_lock = FolderLock(self.directory)
            try:
                yield
            finally:
                self.close()

    def _repair(self) -> None:
        """Takes away what a kill left half-written: what is added would be glued to half a line."""
        path = self.directory / _EPISODES
        content = path.read_bytes() if path.exists() else b""
        if content and not content.endswith(b"\n"):
            replace_file(path, content[: content.rfind(b"\n") + 1], sync=True)
        self.images.clean()
        for left in self.directory.glob(f".*{TEMPORARY}"):
            left.unlink(missing_ok=True)

    def _add_to_definition(self, definition: Mapping[str, Any]) -> None:
        merged = _merged(self.directory / _BOARD, self.record, definition)
        if merged != self.record:
            replace_file(self.directory / _BOARD, _pretty(merged), sync=True)
            self.record = merged

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
        """Adds an episode, on the disk when this returns.

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

        Raises:
            UnwritableBoardError: If it cannot be written; the board is as it was.
        """
        with telling_of(self.directory):
            told: Record = {}
            if episode is not None:
                turns = notes or [TurnNotes()] * len(episode.turns)
                told = episode_record(episode, turns, self.images.save)
            line = {
                **told,
                "seed": key.seed,
                "world": world,
                "agent": agent,
                "world_digest": key.world,
                "agent_digest": key.agent,
                "repeat": key.repeat,
                "error": error,
                **facts,
            }
            with self._thread_lock:
                if self._last_seals is None:
                    self._last_seals = last_seals(self.lines())
                line = sealed(line, self._last_seals.get((agent, world), ""))
                append_line(self.directory / _EPISODES, line, sync=True)
                self._last_seals |= last_seals([line])
        return line

    def has_images(self) -> bool:
        """Returns whether every image of an episode without an error is in the board's folder."""
        played = (episode for episode in self.episodes() if not episode["error"])
        return all(self.images.holds(name) for episode in played for name in image_names(episode))

    def lines(self) -> list[Record]:
        """Returns every line, each try of an episode by itself."""
        return read_episodes(self.directory / _EPISODES)

    def episodes(self) -> list[Record]:
        """Returns every episode once, the last try where an error was tried again, in the order of their first line."""
        return list({EpisodeKey.of(line): line for line in self.lines()}.values())

    def rewrite(self, episodes: Iterable[Record]) -> None:
        """Replaces every line, all at once. The caller holds the board with `writing` since reading them."""
        lines = (json.dumps(each, allow_nan=False, separators=(",", ":")) for each in resealed(episodes))
        self._last_seals = None
        with telling_of(self.directory):
            replace_file(self.directory / _EPISODES, "".join(f"{line}\n" for line in lines).encode("ascii"), sync=True)


@contextmanager
def telling_of(directory: Path) -> Iterator[None]:
    """Has what the system refuses within the block told in one line, with the remedy."""
    try:
        yield
    except RunDataError:
        raise
    except OSError as error:
        raise UnwritableBoardError(
            f"Cannot write to {directory}: {error.strerror or error}. What is on the board is kept; make room or "
            "change its rights, and the same command goes on."
        ) from error


def _refuse_other_files(directory: Path) -> None:
    """Raises `ConfigError` for a folder of somebody else's."""
    if directory.exists() and not directory.is_dir():
        raise ConfigError(f"{directory} is a file. Name a folder for the board with --out.")
    strange = [each for each in directory.glob("*") if each.name != LOCK and not each.name.endswith(TEMPORARY)]
    if strange:
        raise ConfigError(f"{directory} holds something else than a board ({strange[0].name}). Name another folder.")


def _merged(path: Path, known: Record, definition: Mapping[str, Any]) -> Record:
    """Returns a board's definition with worlds and agents added; refuses what it knows differently."""
    new = to_json(definition)
    before, now = (record.get("reading", STRICT) for record in (known, new))
    if before != now:
        raise ConfigError(
            f"{path} was made with --reading {before}, not {now}: their success rates are not comparable. Add "
            f"--reading {before}, or choose another folder with --out."
        )
    for name in ("suite", "split"):
        if known.get(name) != new.get(name):
            raise ConfigError(
                f"{path} was made with {name} {_told(known.get(name))}, not {_told(new.get(name))}: numbers of both "
                "do not compare. Name another folder with --out."
            )
    by_label = {world["label"]: world for world in known["worlds"]}
    known_labels = set(by_label)
    for world in new["worlds"]:
        before = by_label.setdefault(world["label"], world)
        if before["digest"] != world["digest"]:
            raise ConfigError(
                f"{path} has another {world['label']} (hash {before['digest']}, now {world['digest']}): "
                f"{_change(before, world)}. Name another folder with --out."
            )
        if files := differing_functions(before.get("adapted", {}), world.get("adapted", {})):
            raise ConfigError(
                f"{path}: {functions_changed(world['env_id'], files)} Episodes before and after do not "
                "compare. Undo the change, or name another folder with --out."
            )
    versions = known.get("versions", {})
    if any("adapted" in world for label, world in by_label.items() if label not in known_labels):
        versions = {**new.get("versions", {}), **versions}  # with the packages of new adapted worlds
    agents = list(known["agents"])
    agents += [agent for agent in new["agents"] if entry_for(agent, agents, path) is None]
    merged = {**known, "worlds": list(by_label.values()), "agents": agents}
    if "versions" in known:
        merged["versions"] = versions
    for kind in ("worlds", "agents"):
        require_distinct(f"{path}:", ((entry["label"], entry["digest"]) for entry in merged[kind]))
    return merged


def _change(before: Record, now: Record) -> str:
    """Returns what has changed of a world."""
    keys = differing(before["adapted"], now["adapted"]) if "adapted" in before and "adapted" in now else []
    return changed_since(now["env_id"], keys) if keys else "it has changed since"


def _told(value: Any) -> str:
    """Returns a suite or a split for people."""
    if isinstance(value, dict):
        return f"{value.get('name')} version {value.get('version')} (hash {value.get('digest')})"
    return "none" if value is None else repr(value)


def _pretty(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(to_json(record), indent=2, allow_nan=False) + "\n").encode()


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


_TEXT, _NUMBER, _TRUTH = (str, type(None)), (int, float), (bool, type(None))
_COUNT, _NUMBER_OR_NONE = (int, type(None)), (int, float, type(None))

OPTIONAL = "?"
"""How the name of a field ends that need not be there."""

_MISSING = object()

_NUMBERS = {"*": _NUMBER_OR_NONE}
_SHOWN = {"text": str, "images": [str], "system?": str}
_TURN = {
    "actions": [str],
    "parse_error": _TEXT,
    "action_effective": _TRUTH,
    "optimal_actions_before": _COUNT,
    "optimal_actions_left": _COUNT,
    "terminated": bool,
    "truncated": bool,
    "scores": {"*": _NUMBER_OR_NONE},
    "usage": {"*": _NUMBER},
    "sections": {"*": _TEXT},
    **_SHOWN,
    **dict.fromkeys(("response", "stop_reason", "thoughts?", "model?"), str),
    **dict.fromkeys(("state_text?", "state_text_after?", "worker_error?", "agent_error?", "state_hash?"), _TEXT),
    **dict.fromkeys(("reward_terms?", "shaping?", "credit?"), _NUMBERS),
    "reward?": _NUMBER,
    "context_full?": bool,
    **dict.fromkeys(("stop_detail?", "summary?"), str),
    **dict.fromkeys(("request?", "raw?"), dict),
    "unread?": str,
}
_NAMED = {
    **dict.fromkeys(("world", "agent", "world_digest", "agent_digest", "error"), str),
    **dict.fromkeys(("seed", "repeat"), int),
    **dict.fromkeys(("usd?", "tokens?", "wall_s?", "seconds?", "uncounted?"), _NUMBER_OR_NONE),
    **dict.fromkeys(("metrics?", "judged?"), _NUMBERS),
    "judge?": _TEXT,
    "start_state_hash?": _TEXT,
    "cluster?": str,
    "digest?": str,
    "reading?": str,
    "expects_observation?": bool,
    "address?": str,
    "unjudged?": [{"of": str, "turn?": int, "kept?": str}],
}

EPISODE = {**_NAMED, "turns": [_TURN], "final": _SHOWN, "success": bool, "total_reward": _NUMBER}
FAILED_EPISODE = {**_NAMED, "turns?": [_TURN], "final?": _SHOWN, "success?": bool, "total_reward?": _NUMBER}
BOARD = {
    "worlds": [
        {
            **dict.fromkeys(("label", "digest", "env_id", "split", "reading?"), str),
            "kwargs": dict,
            "max_actions_per_turn?": int,
            "adapted?": {"env": str, "name": str, "file?": str, "functions?": dict},
        }
    ],
    "agents": [{"label": str, "digest": str, "identity?": dict}],
    "suite?": (dict, type(None)),
    "split?": _TEXT,
    "reading?": str,
    "versions?": dict,
}
MARKS = {"rows": [{"agent": str, "world": str, "digest": str}]}


def misshapen(value: Any, shape: Any, where: str = "") -> str:
    """Returns where a value is not of a shape, and what is there: `"turns[1].usage is 'x'"`; empty if it is.

    Args:
        value: As JSON gives it.
        shape: A type or several; `[shape]` for a list of such; or an object's fields, `"*"` for all of any name.
        where: What the value is called.
    """
    parts: list[tuple[str, Any, Any]] | None
    if isinstance(shape, list):
        parts = (
            [(f"{where}[{index}]", each, shape[0]) for index, each in enumerate(value)]
            if isinstance(value, list)
            else None
        )
    elif not isinstance(shape, dict):
        parts = [] if isinstance(value, shape) else None
    elif not isinstance(value, dict):
        parts = None
    elif "*" in shape:
        parts = [(f"{where}.{name}", each, shape["*"]) for name, each in value.items()]
    else:
        parts = [
            (f"{where}.{name}".lstrip("."), value.get(name, _MISSING), each)
            for name, each in ((field.removesuffix(OPTIONAL), each) for field, each in shape.items())
            if name in value or name in shape
        ]
    if parts is None:
        told = "missing" if value is _MISSING else repr(value)
        return f"{where or 'it'} is {told if len(told) <= 80 else f'{told[:79]}…'}"
    return next(filter(None, (misshapen(each, of, name) for name, each, of in parts)), "")
