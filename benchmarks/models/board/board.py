"""A board on disk: a folder with episodes of agents on the same levels, its sealed lines, and their schema."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Self

from pydantic import BaseModel, BeforeValidator, ConfigDict, ValidationError

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
    line_of,
    parse_object,
    read_lines,
    replace_file,
    to_json,
)
from vlm_envs.records.report_episodes import image_names
from vlm_envs.records.run_data import ImageStore, TurnNotes, episode_record
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import require

FORMAT = 1
"""Format version, incremented when older boards can no longer be read."""

STRICT = "strict"
"""The reading of boards and episodes that record none, from before worlds had a `reading`."""

_BOARD, _EPISODES = "board.json", "episodes.jsonl"
_HOW = "python -m benchmarks run --agent AGENT --world WORLD --out DIR"


class UnwritableBoardError(RunDataError, OSError):
    """A board cannot be written, because the disk is full or permissions are missing."""


class Board:
    """A board on disk. Safe for the threads of one process.

    Args:
        directory: The board's folder.

    Raises:
        MissingRunDataError: If there is no board.
        BrokenRunDataError: If the board cannot be read.
        ConfigError: If the board has another format.
    """

    def __init__(self, directory: str | Path) -> None:
        self.directory = Path(directory)
        path = self.directory / _BOARD
        if not path.is_file():
            raise MissingRunDataError(f"Expected a board with a {_BOARD} in {self.directory}. Make one: {_HOW}")
        self.record = parse_object(path.read_bytes(), str(path))
        if self.record.get("format") != FORMAT:
            raise ConfigError(
                f"{path} has format {self.record.get('format')!r}, but this version reads format {FORMAT}. "
                f"Create the board again: {_HOW}"
            )
        if wrong := misfit(self.record, _BoardFile):
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
        """Opens a board for writing, locked against other writers until it is closed.

        Creates the board if there is none; an existing one must have compatible settings.

        Args:
            directory: The board's folder.
            definition: `suite`, `split`, `reading`, `worlds` (from `WorldSpec.record`), `agents` (from
                `Contestant.record`), and `versions`. Worlds and agents that the board lacks are added.

        Raises:
            ConfigError: If the board has other settings, another world or agent under one of these labels, or the
                folder holds other files.
            BusyFolderError: If another process is writing to the board.
            UnwritableBoardError: If the board cannot be written.
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
        """Returns the board's entry for an agent of its definition; older boards may list it under another hash.

        Args:
            agent: The agent's entry in the definition.
        """
        entry = entry_for(agent, self.record["agents"], self.directory / _BOARD)
        assert entry is not None
        return entry

    def close(self) -> None:
        """Releases the lock; safe to call twice."""
        if self._folder_lock is not None:
            self._folder_lock.release()
            self._folder_lock = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Locks the board against other writers within the block.

        Raises:
            BusyFolderError: If another process is writing to it.
        """
        with telling_of(self.directory):
            self._folder_lock = FolderLock(self.directory)
            try:
                yield
            finally:
                self.close()

    def _repair(self) -> None:
        """Removes a half-written last line, orphaned images, and temporary files left by a killed process."""
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
        **facts: Any,
    ) -> Record:
        """Appends an episode and syncs it to disk.

        Args:
            key: The episode's key.
            agent: Label of the agent.
            world: Label of the world.
            episode: The episode, possibly incomplete; None if it never started.
            error: The failure that ended the episode, other than one of the agent's responses.
            **facts: Further fields of the line.

        Returns:
            The line as written.

        Raises:
            UnwritableBoardError: If the line cannot be written; the board is then unchanged.
        """
        with telling_of(self.directory):
            record: Record = {}
            if episode is not None:
                record = episode_record(episode, [TurnNotes()] * len(episode.turns), self.images.save)
            line = {
                **record,
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
        """Returns all lines, including failed attempts."""
        return read_episodes(self.directory / _EPISODES)

    def episodes(self) -> list[Record]:
        """Returns each episode's last attempt, in order of first appearance."""
        return list({EpisodeKey.of(line): line for line in self.lines()}.values())

    def rewrite(self, episodes: Iterable[Record]) -> None:
        """Replaces all lines atomically. The caller must hold the `writing` lock since reading them."""
        self._last_seals = None
        with telling_of(self.directory):
            replace_file(self.directory / _EPISODES, b"".join(map(line_of, resealed(episodes))), sync=True)


@contextmanager
def telling_of(directory: Path) -> Iterator[None]:
    """Converts operating-system errors in the block to `UnwritableBoardError`, with a one-line suggestion."""
    try:
        yield
    except RunDataError:
        raise
    except OSError as error:
        raise UnwritableBoardError(
            f"Cannot write to {directory}: {error.strerror or error}. The board is intact; free some space or fix the "
            "permissions, then resume with the same command."
        ) from error


def _refuse_other_files(directory: Path) -> None:
    require(
        directory.is_dir() or not directory.exists(), f"{directory} is a file. Name a folder for the board with --out."
    )
    for path in directory.glob("*"):
        require(
            path.name == LOCK or path.name.endswith(TEMPORARY),
            f"{directory} is not a board, but contains {path.name}. Name another folder.",
        )


def settings_of(record: Mapping[str, Any]) -> dict[str, str]:
    """Returns the settings that two boards must share for their success rates to be comparable."""
    suite = record.get("suite")
    named = f"{suite.get('name')} version {suite.get('version')} (hash {suite.get('digest')})" if suite else "none"
    return {"reading": record.get("reading", STRICT), "suite": named, "split": repr(record.get("split"))}


def _merged(path: Path, known: Record, definition: Mapping[str, Any]) -> Record:
    """Returns a board's definition with new worlds and agents added; raises `ConfigError` if they contradict it."""
    new = to_json(definition)
    after = settings_of(new)
    for name, before in settings_of(known).items():
        hint = "" if name == "suite" else f", or add --{name} {before}"
        require(
            before == after[name],
            f"{path} was made with {name} {before}, not {after[name]}, so their success rates are not comparable. "
            f"Name another folder with --out{hint}.",
        )
    by_label = {world["label"]: world for world in known["worlds"]}
    has_new_adapted = any("adapted" in world and world["label"] not in by_label for world in new["worlds"])
    for world in new["worlds"]:
        earlier = by_label.setdefault(world["label"], world)
        adapted = earlier.get("adapted", {}), world.get("adapted", {})
        keys = differing(*adapted) if all(adapted) else []
        require(
            earlier["digest"] == world["digest"],
            f"{path} has another {world['label']} (hash {earlier['digest']}, now {world['digest']}): "
            f"{changed_since(world['env_id'], keys) if keys else 'it has changed since'}. Name another folder with "
            "--out.",
        )
        if files := differing_functions(*adapted):
            raise ConfigError(
                f"{path}: {functions_changed(world['env_id'], files)} Episodes before and after are not "
                "comparable. Undo the change, or name another folder with --out."
            )
    agents = list(known["agents"])
    agents += [agent for agent in new["agents"] if entry_for(agent, agents, path) is None]
    merged = {**known, "worlds": list(by_label.values()), "agents": agents}
    if has_new_adapted and "versions" in known:
        merged["versions"] = {**new.get("versions", {}), **known["versions"]}  # with the packages of new worlds
    for kind in ("worlds", "agents"):
        require_distinct(f"{path}:", ((entry["label"], entry["digest"]) for entry in merged[kind]))
    return merged


def _pretty(record: Mapping[str, Any]) -> bytes:
    return (json.dumps(to_json(record), indent=2, allow_nan=False) + "\n").encode()


SEALS = _SEAL, _TURN_SEALS, _AFTER = "digest", "turn_digests", "after"
"""Fields of a line that reveal whether it was edited or an earlier line of its row was removed."""

RowName = tuple[str, str]
"""Labels of an agent and a world."""


@dataclass(frozen=True)
class EpisodeKey:
    """The identity of an episode.

    Attributes:
        world: The world's hash.
        agent: The agent's hash.
        seed: Seed of the level.
        repeat: Index among the episodes on the level, from 0.
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
    """Raises `ConfigError` if two names have the same hash, as their episodes would overwrite each other.

    Args:
        kind: Prefix of the message, such as an option.
        digests: Pairs of name and hash.
    """
    names: dict[str, str] = {}
    for name, digest in digests:
        if (before := names.setdefault(digest, name)) != name:
            raise ConfigError(f"{kind} {name} is the same as {before}. Leave one of them out, or keep the first name.")


ANEW = "without this and all later lines of its agent in its world, run plays them again"
"""How to repair a row with a missing or damaged line."""


def read_episodes(path: Path) -> list[Record]:
    """Returns all lines of a board's file, except a half-written last one.

    Raises:
        BrokenRunDataError: If another line is not an episode of a board; the message gives its number.
    """
    lines = read_lines(path)
    for number, line in enumerate(lines, start=1):
        if wrong := misfit(line, _FailedEpisode if line.get("error") else _Episode):
            raise BrokenRunDataError(f"{path}, line {number} is not an episode of a board: {wrong}; {ANEW}.")
    return lines


def row_of(line: Mapping[str, Any]) -> RowName:
    """Returns the row of a line."""
    return line["agent"], line["world"]


def name_of(line: Mapping[str, Any]) -> str:
    """Returns a description of a line's episode for messages."""
    return f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']}"


def last_seals(lines: Iterable[Mapping[str, Any]]) -> dict[RowName, str]:
    """Returns the seal of each row's last line."""
    return {row_of(line): str(line.get(_SEAL)) for line in lines}


def in_chain(lines: Iterable[Record]) -> Iterator[tuple[Record, bool]]:
    """Yields each line with whether its seal links to the previous line of its row."""
    seals: dict[RowName, Any] = {}
    for line in lines:
        row = row_of(line)
        yield line, line.get(_AFTER) == seals.get(row, "")
        seals[row] = line.get(_SEAL)


def require_as_written(board: Board, lines: Iterable[Record], consequence: str) -> None:
    """Raises `ConfigError` if a line was edited or the line before it was removed.

    Args:
        board: The board.
        lines: All of its lines.
        consequence: The action that is therefore not taken, as a clause.
    """
    for line, follows in in_chain(lines):
        fault = "is not as it was written"
        if broken_seal(line) is None:
            fault = "" if follows else "does not follow the line before it: one was removed or changed"
        require(
            not fault,
            f"{name_of(line)} of {board.directory} {fault}, so {consequence}. See what differs: "
            f"python -m benchmarks replay {board.directory}",
        )


def resealed(lines: Iterable[Mapping[str, Any]]) -> Iterator[Record]:
    """Yields lines with new seals for their current content, linked in order within each row."""
    last: dict[RowName, str] = {}
    for line in lines:
        row = row_of(line)
        new = sealed(line, last.get(row, ""))
        last[row] = new[_SEAL]
        yield new


def sealed(line: Mapping[str, Any], after: str = "") -> Record:
    """Returns a line with hashes of each turn and of the rest, replacing existing ones.

    Args:
        line: The line.
        after: Seal of the previous line of its row; empty for the first.
    """
    plain: Record = to_json({name: value for name, value in line.items() if name not in SEALS})
    plain[_TURN_SEALS] = [digest_of(turn) for turn in plain.get("turns", ())]
    plain[_AFTER] = after
    return {**plain, _SEAL: _seal(plain)}


def broken_seal(line: Mapping[str, Any]) -> int | None:
    """Returns which part of a line was edited.

    Returns:
        A turn, counted from 1; 0 for something outside the turns; None if nothing was edited.
    """
    turns, seals = line.get("turns", ()), line.get(_TURN_SEALS)
    if not isinstance(seals, list) or len(turns) != len(seals) or line.get(_SEAL) != _seal(line):
        return 0
    pairs = enumerate(zip(turns, seals, strict=True), start=1)
    return next((number for number, (turn, seal) in pairs if digest_of(turn) != seal), None)


def _seal(line: Mapping[str, Any]) -> str:
    """Returns the hash of a line, in which turns are represented by their hashes."""
    return digest_of({name: value for name, value in line.items() if name not in ("turns", _SEAL)})


_Number = Annotated[float, BeforeValidator(lambda value: float(value) if isinstance(value, bool) else value)]
"""A number; booleans in metrics are converted to numbers."""


class Stored(BaseModel):
    """An object in a file; undeclared fields may have any value."""

    model_config = ConfigDict(strict=True, extra="allow")


class _Shown(Stored):
    text: str
    images: list[str]
    system: str = ""


class _Turn(_Shown):
    response: str
    stop_reason: str
    actions: list[str]
    sections: dict[str, str | None]
    parse_error: str | None
    action_effective: bool | None
    optimal_actions_before: int | None
    optimal_actions_left: int | None
    terminated: bool
    truncated: bool
    scores: dict[str, _Number | None]
    usage: dict[str, _Number]
    reward: _Number = 0.0
    thoughts: str = ""
    model: str = ""
    stop_detail: str = ""
    unread: str = ""
    state_text: str | None = None
    worker_error: str | None = None
    agent_error: str | None = None
    state_hash: str | None = None


class _Unjudged(Stored):
    of: str
    turn: int = 0
    kept: str = ""


class _FailedEpisode(Stored):
    world: str
    agent: str
    world_digest: str
    agent_digest: str
    error: str
    seed: int
    repeat: int
    turns: list[_Turn] = []
    final: _Shown | None = None
    success: bool = False
    total_reward: _Number = 0.0
    usd: _Number | None = None
    tokens: _Number | None = None
    wall_s: _Number | None = None
    seconds: _Number | None = None
    metrics: dict[str, _Number | None] = {}
    judged: dict[str, _Number | None] = {}
    judge: str | None = None
    unjudged: list[_Unjudged] = []
    start_state_hash: str | None = None
    cluster: str = ""
    digest: str = ""
    reading: str = ""
    expects_observation: bool = False
    address: str = ""


class _Episode(_FailedEpisode):
    turns: list[_Turn]
    final: _Shown
    success: bool
    total_reward: _Number


class _Adapted(Stored):
    env: str
    name: str
    file: str = ""
    functions: dict[str, Any] = {}


class _World(Stored):
    label: str
    digest: str
    env_id: str
    split: str
    kwargs: dict[str, Any]
    adapted: _Adapted = _Adapted(env="", name="")


class _Agent(Stored):
    label: str
    digest: str
    identity: dict[str, Any] = {}


class _BoardFile(Stored):
    worlds: list[_World]
    agents: list[_Agent]
    suite: dict[str, Any] | None = None
    split: str | None = None
    reading: str = ""
    versions: dict[str, Any] = {}


def misfit(record: Record, model: type[BaseModel]) -> str:
    """Returns the first field that does not match the model, as `"turns[1].usage is 'x'"`; empty if all match."""
    try:
        model.model_validate(record)
    except ValidationError as error:
        wrong = error.errors()[0]
        path = "".join(f"[{part}]" if isinstance(part, int) else f".{part}" for part in wrong["loc"])
        found = "missing" if wrong["type"] == "missing" else repr(wrong["input"])
        return f"{path.lstrip('.')} is {found if len(found) <= 80 else f'{found[:79]}…'}"
    return ""
