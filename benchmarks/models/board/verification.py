"""Verified: every episode of a row was played again from its world, seed and responses, and was the same to the bit.

The mark stands beside the episodes, with a hash of those it speaks of. A row that has changed since, by an episode more
or a byte less, has none.
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
    MARKS,
    SEALS,
    STRICT,
    Board,
    EpisodeKey,
    RowName,
    broken_seal,
    follows,
    misshapen,
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
from vlm_envs.registration import make

_MARKS = "verified.json"


@dataclass(kw_only=True)
class ReplayedRow:
    """One agent's episodes in one world, played again.

    Attributes:
        agent: What the board calls it.
        world: What the board calls it.
        num_same: Episodes that are the same to the bit.
        differences: Of each of the others, which it is, in which turn, and what differs.
        digest: Hash of the episodes, as they are on the board.
        obstacle: Why nothing was replayed; empty if the world could be made.
    """

    agent: str
    world: str
    num_same: int = 0
    differences: list[str] = field(default_factory=list)
    digest: str = ""
    obstacle: str = ""

    @property
    def is_verified(self) -> bool:
        """Whether all of its episodes are the same."""
        return bool(self.num_same) and not self.differences


def verify(board: Board) -> Iterator[ReplayedRow]:
    """Yields each row of a board when all of its episodes have been played again.

    Of tries that a failure ended, the seals and the end are looked at only. Images that are missing are drawn again
    and kept if their files are the same to the bit.
    """
    specs = {spec["label"]: spec for spec in board.record["worlds"]}
    lines = board.lines()
    faults = _faults(lines, board.record["agents"])
    by_world: dict[str, dict[str, list[Record]]] = defaultdict(lambda: defaultdict(list))
    for agent, label in faults:
        by_world[label][agent] = []
    for episode in _played(board.episodes()):
        by_world[episode["world"]][episode["agent"]].append(episode)
    for label, by_agent in by_world.items():
        for row in _verify_world(board, specs.get(label), label, by_agent):
            row.differences += faults.get((row.agent, label), [])
            yield row


def changed_worlds(board: Board) -> list[str]:
    """Returns a line for each adapted world whose TOML file or functions differ from what the board records."""
    lines = []
    for world in board.record["worlds"]:
        if "adapted" not in world:
            continue
        recorded = world["env_id"], world["adapted"], board.directory
        if files := changed_functions(*recorded):
            what = functions_changed(world["env_id"], files)
            lines.append(f"{what} {world['label']} is replayed with them as they are now.")
        try:
            keys = changed_arguments(*recorded)
        except ConfigError as error:
            lines.append(f"{world['label']} is played as the board records it, since it cannot be read now: {error}")
            continue
        if keys:
            what = changed_since(world["env_id"], keys)
            lines.append(f"{what}. {world['label']} is played as the board records it.")
    return list(dict.fromkeys(lines))


def as_recorded(board: Board, world: Record) -> AbstractContextManager[None]:
    """Has the id of an adapted world stand for what the board records, within the block.

    Args:
        board: The board.
        world: Its entry in `board.json`; others change nothing.
    """
    return restored(world.get("env_id", ""), world.get("adapted"), board.directory)


def _faults(lines: Iterable[Record], agents: Iterable[Record]) -> dict[RowName, list[str]]:
    """Returns by row what is wrong with its lines apart from what its world decides."""
    known = {each["label"]: each["digest"] for each in agents if digest_of(each.get("identity")) == each["digest"]}
    faults: dict[RowName, list[str]] = defaultdict(list)
    before: dict[RowName, Record] = {}
    played: set[EpisodeKey] = set()
    for line in lines:
        row, key = row_of(line), EpisodeKey.of(line)
        told = []
        if row not in before and known.get(line["agent"]) != line["agent_digest"]:
            told.append("names another agent than board.json does")
        if not follows(line, before.get(row)):
            told.append(f"does not follow the line before it: one between them was taken away, or changed; {ANEW}")
        if key in played:
            told.append("was played before already, and only errors are tried again")
        if line["error"]:
            told += filter(None, [_fault_of_error(line)])
        else:
            played.add(key)
        before[row] = line
        where = f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']}"
        faults[row] += [f"{where} {each}" for each in told]
    return {row: of_row for row, of_row in faults.items() if of_row}


def _fault_of_error(line: Record) -> str:
    """Returns why a line is not of an episode that a failure ended; empty if it may be."""
    turns = line.get("turns", [])
    if broken_seal(line) is not None:
        return "is not as it was written"
    told = [reason for turn in turns if (reason := turn.get("worker_error") or turn.get("agent_error"))]
    if turns and (turns[-1]["terminated"] or not told):
        return "came to its end, yet counts as an error"
    return ""


def _verify_world(
    board: Board, spec: Record | None, label: str, by_agent: Mapping[str, Sequence[Record]]
) -> Iterator[ReplayedRow]:
    rows = [
        ReplayedRow(agent=agent, world=label, digest=_digest(board, (agent, label), played))
        for agent, played in by_agent.items()
    ]
    fault = obstacle = ""
    world = None
    try:
        with as_recorded(board, spec or {}):
            fault = "the board has no such world" if spec is None else _fault(spec, board)
            world = None if spec is None else _world(spec)
    except (VLMEnvsError, LookupError, TypeError, gym.error.Error) as error:
        obstacle = str(error)
    for row in rows:
        row.obstacle = obstacle
        if fault:
            row.differences.append(f"{row.agent} in {label}: {fault}")
        if world is not None:
            _replay_row(row, by_agent[row.agent], world, board)
        yield row
    if world is not None:
        world.close()


def _replay_row(row: ReplayedRow, episodes: Iterable[Record], world: gym.Env[Any, Any], board: Board) -> None:
    for episode in episodes:
        if difference := _difference(episode, world.unwrapped, board):
            where = f"{row.agent} in {row.world}, seed {episode['seed']}, repeat {episode['repeat']}"
            row.differences.append(f"{where}, {difference}")
        else:
            row.num_same += 1


def _world(spec: Record) -> gym.Env[Any, Any]:
    return make(spec["env_id"], **_spec(spec).made_with, split=spec["split"], disable_env_checker=True)


def _fault(spec: Record, board: Board) -> str:
    """Returns why a world is not the one that the board was made with; empty if it is."""
    now, split = _spec(spec).record(board.directory), board.record.get("split")
    spec = {"reading": STRICT, **spec}
    if now["digest"] != spec["digest"]:
        return f"the world has changed since (hash {spec['digest']}, now {now['digest']})"
    if spec["split"] != split:
        return f"its split is {spec['split']!r}, that of board.json {split!r}"
    adapted: Record = now.pop("adapted", {})
    recorded: Record = spec.get("adapted") or adapted
    if keys := differing(recorded, adapted):
        return f"board.json says something else of {', '.join(keys)}"
    wrong = next((name for name in now if spec.get(name) != now[name]), None)
    return "" if wrong is None else f"board.json says its {wrong} is {spec.get(wrong)!r}, it is {now[wrong]!r}"


def _spec(spec: Record) -> WorldSpec:
    """Returns the spec of a world on a board."""
    reading = spec.get("reading", STRICT)
    return WorldSpec(env_id=spec["env_id"], kwargs=_kwargs(spec), split=spec["split"], reading=reading)


def _kwargs(spec: Record) -> dict[str, Any]:
    return {name: tuple(value) if isinstance(value, list) else value for name, value in spec["kwargs"].items()}


def _difference(episode: Record, world: gym.Env[Any, Any], board: Board) -> str:
    """Returns the turn of an episode that is not what it was, and what differs; empty if there is none."""
    then, now = episode.get("reading", STRICT), getattr(world, "reading", STRICT)
    if then != now:
        return f"outside of its turns: its reading is {then!r}, but board.json has {now!r}"
    if difference := replay(episode, world, board.images.load, board.images.restore):
        return str(difference)
    turn = broken_seal(episode)
    if turn is None:
        return ""
    what = "what the world decides is the same, but something else is not what was written"
    return f"turn {turn}: {what}" if turn else f"outside of its turns: {what}"


def mark(board: Board, replayed: Iterable[ReplayedRow]) -> None:
    """Records which rows are verified; earlier marks are kept for rows that could not be replayed.

    Raises:
        BusyFolderError: If somebody is writing to the board.
        UnwritableBoardError: If nothing can be written to it.
    """
    rows = [*replayed]
    marks = [
        {"agent": row.agent, "world": row.world, "num_episodes": row.num_same, "digest": row.digest}
        for row in rows
        if row.is_verified
    ]
    if kept := {(row.agent, row.world) for row in rows if row.obstacle}:
        marks += [each for each in _marks(board) if (each["agent"], each["world"]) in kept]
    now = versions(world.get("adapted") for world in board.record["worlds"])
    content = json.dumps({"rows": marks, "versions": now}, indent=2) + "\n"
    with board.writing():
        replace_file(board.directory / _MARKS, content.encode(), sync=True)


def verified_rows(board: Board, episodes: Sequence[Record]) -> set[RowName]:
    """Returns which rows were verified and have not changed since, their images included.

    Args:
        board: The board.
        episodes: All of its episodes.
    """
    marked = marked_rows(board, episodes)
    return {row for row, of_row in _by_row(episodes).items() if row in marked and _has_pictures(board, of_row)}


def marked_rows(board: Board, episodes: Sequence[Record]) -> set[RowName]:
    """Returns which rows were verified and have not changed since, whether or not their images are there."""
    marked = {(each["agent"], each["world"]): each["digest"] for each in _marks(board)}
    by_row = _by_row(episodes)
    return {row for row, of_row in by_row.items() if row in marked and _digest(board, row, of_row) == marked[row]}


def _marks(board: Board) -> list[Record]:
    path = board.directory / _MARKS
    if not path.is_file():
        return []
    marks = parse_object(path.read_bytes(), str(path))
    if wrong := misshapen(marks, MARKS):
        raise BrokenRunDataError(f"{path} cannot be read: {wrong}. Remove it; replay writes it again.")
    return list(marks["rows"])


def _by_row(episodes: Iterable[Record]) -> dict[RowName, list[Record]]:
    by_row: dict[RowName, list[Record]] = defaultdict(list)
    for episode in _played(episodes):
        by_row[row_of(episode)].append(episode)
    return by_row


def _has_pictures(board: Board, episodes: Iterable[Record]) -> bool:
    """Returns whether all pictures of episodes are the files that were written."""
    shown = (each for episode in episodes for each in [*episode["turns"], episode["final"]])
    names = {name for each in shown for name in each.get("images", ())}
    try:
        return all(hashlib.sha256(board.images.load(name)).hexdigest() == name for name in names)
    except (RunDataError, OSError):
        return False


def _played(episodes: Iterable[Record]) -> list[Record]:
    return [episode for episode in episodes if not episode["error"]]


def _digest(board: Board, row: RowName, episodes: Iterable[Record]) -> str:
    """Returns the hash of a row as it is now, whatever seals say; judges may change their minds."""
    said = {name: value for name, value in board.record.items() if name not in ("worlds", "agents")}
    entries = [
        each
        for kind, name in zip(("agents", "worlds"), row, strict=True)
        for each in board.record[kind]
        if each["label"] == name
    ]
    return digest_of([said, entries, sorted(digest_of(_unjudged(episode)) for episode in episodes)])


def _unjudged(episode: Record) -> Record:
    told = {name: value for name, value in episode.items() if name not in ("judged", "judge", "unjudged", *SEALS)}
    return {**told, "turns": [{**turn, "scores": None} for turn in episode["turns"]]}


_PACKAGES = (
    *("gymnasium", "numpy", "pillow", "torch", "transformers", "stable-baselines3"),
    *("openai", "anthropic", "google-genai", "panda3d"),
)


def versions(adapted: Iterable[Mapping[str, Any] | None] = ()) -> dict[str, str]:
    """Returns the versions of this project, of Python, and of the packages that are installed.

    Args:
        adapted: Arguments of adapted worlds, whose packages are included; None for other worlds.
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
