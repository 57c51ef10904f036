"""Verifies rows: every episode is replayed from its world, seed, and responses, and must match bit for bit.

Marks are stored next to the episodes, with a hash of the episodes they cover. A row that has since changed, by a single
added episode or removed byte, is not verified.
"""

from __future__ import annotations

import hashlib
import json
import platform
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass, field
from importlib.metadata import PackageNotFoundError, version
from typing import Any

import gymnasium as gym

import vlm_envs
from benchmarks.models.board.board import (
    ANEW,
    SEALS,
    STRICT,
    Board,
    EpisodeKey,
    RowName,
    Stored,
    broken_seal,
    in_chain,
    misfit,
    name_of,
    row_of,
)
from benchmarks.models.board.board_spec import WorldSpec, digest_of
from vlm_envs.adapter.stored import (
    changed_arguments,
    changed_functions,
    changed_since,
    defining_packages,
    differing,
    functions_changed,
    restored,
)
from vlm_envs.errors import ConfigError, VLMEnvsError
from vlm_envs.records.json_lines import BrokenRunDataError, Record, RunDataError, parse_object, replace_file
from vlm_envs.records.replay import replay
from vlm_envs.records.report_episodes import image_names
from vlm_envs.registration import make

_MARKS = "verified.json"


@dataclass(kw_only=True)
class ReplayedRow:
    """The result of replaying one agent's episodes in one world.

    Attributes:
        agent: Label of the agent.
        world: Label of the world.
        num_same: Episodes that match bit for bit.
        differences: For each other episode, its name, the turn, and the difference.
        digest: Hash of the row's episodes on the board.
        obstacle: Why the world could not be created; empty if the row was replayed.
    """

    agent: str
    world: str
    num_same: int = 0
    differences: list[str] = field(default_factory=list)
    digest: str = ""
    obstacle: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether all of its episodes match."""
        return bool(self.num_same) and not self.differences


def verify(board: Board) -> Iterator[ReplayedRow]:
    """Yields each row of a board once all of its episodes have been replayed.

    For failed attempts, only the seals and the ending are checked. Missing images are redrawn, and kept if their
    files match bit for bit.
    """
    specs = {spec["label"]: spec for spec in board.record["worlds"]}
    faults = _faults(board.lines(), board.record["agents"])
    by_row = {row: list[Record]() for row in faults} | _by_row(board.episodes())
    for label in dict.fromkeys(world for _, world in by_row):
        rows = {agent: episodes for (agent, world), episodes in by_row.items() if world == label}
        for row in _verify_world(board, specs.get(label), label, rows):
            row.differences += faults.get((row.agent, label), [])
            yield row


def changed_worlds(board: Board) -> list[str]:
    """Returns a message for each adapted world whose TOML file or functions differ from the board's record."""
    lines = []
    for world in (entry for entry in board.record["worlds"] if "adapted" in entry):
        recorded = world["env_id"], world["adapted"], board.directory
        how = f"{world['label']} is played as the board records it"
        if files := changed_functions(*recorded):
            what = functions_changed(world["env_id"], files)
            lines.append(f"{what} {world['label']} is replayed with them as they are now.")
        try:
            if keys := changed_arguments(*recorded):
                lines.append(f"{changed_since(world['env_id'], keys)}. {how}.")
        except ConfigError as error:
            lines.append(f"{how}, since it cannot be read now: {error}")
    return list(dict.fromkeys(lines))


def as_recorded(board: Board, world: Record) -> AbstractContextManager[None]:
    """Within the block, makes an adapted world's id refer to the definition that the board recorded.

    Args:
        board: The board.
        world: Its entry in `board.json`; entries of other worlds have no effect.
    """
    return restored(world.get("env_id", ""), world.get("adapted"), board.directory)


def _faults(lines: Iterable[Record], agents: Iterable[Record]) -> dict[RowName, list[str]]:
    """Returns by row the faults of its lines that can be found without replaying."""
    digests = {
        entry["label"]: entry["digest"] for entry in agents if digest_of(entry.get("identity")) == entry["digest"]
    }
    faults: dict[RowName, list[str]] = defaultdict(list)
    played: set[EpisodeKey] = set()
    for line, follows in in_chain(lines):
        key, is_first = EpisodeKey.of(line), row_of(line) not in faults
        is_known = digests.get(line["agent"]) == line["agent_digest"]
        found = {
            "has another agent than board.json": is_first and not is_known,
            f"does not follow the line before it: a line between them was removed or changed; {ANEW}": not follows,
            "was already played, and only errors are retried": key in played,
            **(_faults_of_error(line) if line["error"] else {}),
        }
        if not line["error"]:
            played.add(key)
        faults[row_of(line)] += [f"{name_of(line)} {fault}" for fault, is_there in found.items() if is_there]
    return {row: of_row for row, of_row in faults.items() if of_row}


def _faults_of_error(line: Record) -> dict[str, bool]:
    """Returns the faults that a line of a failed attempt may have, each with whether it applies."""
    turns = line.get("turns", [])
    has_failed = any(turn.get("worker_error") or turn.get("agent_error") for turn in turns)
    has_ended = bool(turns) and (turns[-1]["terminated"] or not has_failed)
    is_whole = broken_seal(line) is None
    return {
        "is not as it was written": not is_whole,
        "was completed, but is marked as an error": is_whole and has_ended,
    }


def _verify_world(
    board: Board, spec: Record | None, label: str, by_agent: Mapping[str, Sequence[Record]]
) -> Iterator[ReplayedRow]:
    fault, obstacle = "the board has no such world", ""
    world: gym.Env[Any, Any] | None = None
    if spec is not None:
        try:
            with as_recorded(board, spec):
                fault, world = _fault(spec, board), make_recorded(spec)
        except (VLMEnvsError, LookupError, TypeError, gym.error.Error) as error:
            fault, obstacle = "", str(error)
    for agent, episodes in by_agent.items():
        row = ReplayedRow(agent=agent, world=label, digest=_digest(board, (agent, label), episodes), obstacle=obstacle)
        row.differences += [f"{agent} in {label}: {fault}"] if fault else []
        for episode in episodes:
            if world is None:
                break
            if difference := _difference(episode, world.unwrapped, board):
                row.differences.append(f"{name_of(episode)}, {difference}")
            else:
                row.num_same += 1
        yield row
    if world is not None:
        world.close()


def make_recorded(entry: Record) -> gym.Env[Any, Any]:
    """Creates the world of an entry of `board.json`."""
    spec = _spec(entry)
    return make(spec.env_id, **spec.made_with, split=spec.split, disable_env_checker=True)


def _fault(entry: Record, board: Board) -> str:
    """Returns how a world differs from the one of the board; empty if it does not."""
    now, split = _spec(entry).record(board.directory), board.record.get("split")
    then = {"reading": STRICT, **entry}
    if now["digest"] != then["digest"]:
        return f"the world has changed since (hash {then['digest']}, now {now['digest']})"
    if then["split"] != split:
        return f"its split is {then['split']!r}, but that of board.json is {split!r}"
    adapted: Record = now.pop("adapted", {})
    if keys := differing(then.get("adapted") or adapted, adapted):
        return f"board.json has other values of {', '.join(keys)}"
    wrong = next((name for name in now if then.get(name) != now[name]), None)
    return "" if wrong is None else f"its {wrong} is {now[wrong]!r}, but board.json has {then.get(wrong)!r}"


def _spec(entry: Record) -> WorldSpec:
    kwargs = {name: tuple(value) if isinstance(value, list) else value for name, value in entry["kwargs"].items()}
    return WorldSpec(env_id=entry["env_id"], kwargs=kwargs, split=entry["split"], reading=entry.get("reading", STRICT))


def _difference(episode: Record, world: gym.Env[Any, Any], board: Board) -> str:
    """Returns the first turn of an episode that differs, and how; empty if none does."""
    then, now = episode.get("reading", STRICT), getattr(world, "reading", STRICT)
    if then != now:
        return f"outside of its turns: its reading is {then!r}, but board.json has {now!r}"
    if difference := replay(episode, world, board.images.load, board.images.restore):
        return str(difference)
    turn = broken_seal(episode)
    if turn is None:
        return ""
    where = f"turn {turn}" if turn else "outside of its turns"
    return f"{where}: the world's part is the same, but another part was edited"


class _Mark(Stored):
    agent: str
    world: str
    digest: str


class _MarksFile(Stored):
    rows: list[_Mark]


def mark(board: Board, replayed: Iterable[ReplayedRow]) -> None:
    """Records which rows are verified; earlier marks are kept for rows that could not be replayed.

    Raises:
        BusyFolderError: If another process is writing to the board.
        UnwritableBoardError: If the board cannot be written.
    """
    rows = [*replayed]
    marks = [
        {"agent": row.agent, "world": row.world, "num_episodes": row.num_same, "digest": row.digest}
        for row in rows
        if row.is_verified
    ]
    if kept := {(row.agent, row.world) for row in rows if row.obstacle}:
        marks += [entry for entry in _marks(board) if row_of(entry) in kept]
    now = versions(world.get("adapted") for world in board.record["worlds"])
    content = json.dumps({"rows": marks, "versions": now}, indent=2) + "\n"
    with board.writing():
        replace_file(board.directory / _MARKS, content.encode(), sync=True)


def verified_rows(board: Board, episodes: Sequence[Record]) -> set[RowName]:
    """Returns the rows that are verified and have not changed since, including their images.

    Args:
        board: The board.
        episodes: All of its episodes.
    """
    by_row = _by_row(episodes)
    return {row for row in marked_rows(board, episodes) if _has_images(board, by_row[row])}


def marked_rows(board: Board, episodes: Sequence[Record]) -> set[RowName]:
    """Returns the rows that are verified and have not changed since; their images may be missing."""
    marked = {row_of(entry): entry["digest"] for entry in _marks(board)}
    return {
        row for row, of_row in _by_row(episodes).items() if row in marked and _digest(board, row, of_row) == marked[row]
    }


def _marks(board: Board) -> list[Record]:
    path = board.directory / _MARKS
    if not path.is_file():
        return []
    marks = parse_object(path.read_bytes(), str(path))
    if wrong := misfit(marks, _MarksFile):
        raise BrokenRunDataError(f"{path} cannot be read: {wrong}. Remove it; replay writes it again.")
    return list(marks["rows"])


def _by_row(episodes: Iterable[Record]) -> dict[RowName, list[Record]]:
    """Returns the episodes of each row, without failed ones."""
    by_row: dict[RowName, list[Record]] = defaultdict(list)
    for episode in episodes:
        if not episode["error"]:
            by_row[row_of(episode)].append(episode)
    return by_row


def _has_images(board: Board, episodes: Iterable[Record]) -> bool:
    """Returns whether all images of the episodes are present and unchanged."""
    names = {name for episode in episodes for name in image_names(episode)}
    try:
        return all(hashlib.sha256(board.images.load(name)).hexdigest() == name for name in names)
    except (RunDataError, OSError):
        return False


def _digest(board: Board, row: RowName, episodes: Iterable[Record]) -> str:
    """Returns the hash of a row's current content, independent of its seals and of judgments."""
    agent, world = row
    rest = {name: value for name, value in board.record.items() if name not in ("worlds", "agents")}
    entries = [
        *(entry for entry in board.record["agents"] if entry["label"] == agent),
        *(entry for entry in board.record["worlds"] if entry["label"] == world),
    ]
    return digest_of([rest, entries, sorted(digest_of(unjudged(episode)) for episode in episodes)])


def unjudged(episode: Record) -> Record:
    """Returns an episode without seals and judgments."""
    plain = {name: value for name, value in episode.items() if name not in ("judged", "judge", "unjudged", *SEALS)}
    return {**plain, "turns": [{**turn, "scores": None} for turn in episode["turns"]]}


_PACKAGES = (
    *("gymnasium", "numpy", "pillow", "torch", "transformers", "stable-baselines3"),
    *("openai", "anthropic", "google-genai", "panda3d"),
)


def versions(adapted: Iterable[Mapping[str, Any] | None] = ()) -> dict[str, str]:
    """Returns the versions of this project, Python, and the installed packages that affect results.

    Args:
        adapted: Arguments of adapted worlds, whose packages are added; None for other worlds.
    """
    found = {"vlm-envs": vlm_envs.__version__, "python": platform.python_version()}
    for package in _PACKAGES:
        try:
            found[package] = version(package)
        except PackageNotFoundError:
            continue
    for arguments in filter(None, adapted):
        found |= defining_packages(arguments)
    return found
