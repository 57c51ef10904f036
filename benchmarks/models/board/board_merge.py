"""Merges boards with the same suite, split, and reading into a new one after verifying every line."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from benchmarks.models.board.board import (
    Board,
    EpisodeKey,
    name_of,
    require_as_written,
    require_distinct,
    settings_of,
)
from benchmarks.models.board.board_spec import REFERENCES, entry_for, is_another
from benchmarks.models.board.verification import unjudged
from vlm_envs.adapter.stored import moved
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import BrokenRunDataError, Record
from vlm_envs.validation import require

_OF_TIME = frozenset({"seconds", "wall_s"})
"""Fields that differ between two runs of the same episode."""

AgentName = tuple[str, str]
"""Label and hash of an agent on a board."""


def merge(sources: Sequence[Path], out: Path) -> Board:
    """Merges the worlds, agents, and episodes of several boards into a new one; the sources are not changed.

    An episode finished on two boards is kept once if both copies are equal except for times. If they differ, merging
    fails, as the choice must not depend on the result; only for `random`, `lazy`, and `oracle`, which play on every
    board, the first board's episode is kept. All failed attempts are kept.

    A model with its settings is one agent at any server address, even if an older board recorded its address. It keeps
    its label and hash from the first board; lines from other boards are relabeled and resealed.

    Args:
        sources: Folders of the boards; a single one is copied.
        out: Folder of the new board; it must not hold a board with episodes.

    Raises:
        ConfigError: If boards differ in suite, split, or reading; a label stands for different worlds or agents; an
            episode finished on two boards differs; a line was edited; or `out` is in use.
        MissingRunDataError: If a board or one of its images is missing.
        BrokenRunDataError: If a board cannot be read.
    """
    folders = [path.resolve() for path in (*sources, out)]
    require(len(set(folders)) == len(folders), "A board is named twice, or --out is one of the boards.")
    first, *others = boards = [Board(path) for path in sources]
    for board in others:
        now = settings_of(board.record)
        for name, before in settings_of(first.record).items():
            require(
                before == now[name],
                f"{_refused(first, board)}: one has {name} {before}, the other {now[name]}, so their "
                "success rates are not comparable.",
            )
    worlds = _merged_worlds(boards, out)
    agents, names = _merged_agents(boards)
    relabeled = []
    for board, of_board in zip(boards, names, strict=True):
        lines = board.lines()
        require_as_written(board, lines, "it cannot be merged")
        relabeled.append([line | of_board.get((line["agent"], line["agent_digest"]), {}) for line in lines])
    merged_lines = _merged_lines(list(zip(boards, relabeled, strict=True)))
    definition = {name: value for name, value in first.record.items() if name != "format"}
    definition |= {"worlds": worlds, "agents": agents, "reading": settings_of(first.record)["reading"]}
    with Board.open(out, definition) as merged:
        require(not merged.lines(), f"{out} already is a board with episodes; name a new folder with --out.")
        for board in boards:
            _copy_images(board, merged)
        merged.rewrite(merged_lines)
    return Board(out)


def _merged_worlds(boards: Sequence[Board], out: Path) -> list[Record]:
    """Returns the worlds of all boards; raises `ConfigError` if a label or a hash stands for different worlds."""
    entries: dict[str, tuple[Board, Record]] = {}
    for board in boards:
        for entry in board.record["worlds"]:
            first, earlier = entries.setdefault(entry["label"], (board, entry))
            require(earlier["digest"] == entry["digest"], _differs("world", first, board, earlier, entry))
    found = [
        entry | ({"adapted": moved(entry["adapted"], board.directory, out)} if "adapted" in entry else {})
        for board, entry in entries.values()
    ]
    require_distinct("World", ((entry["label"], entry["digest"]) for entry in found))
    return found


def _merged_agents(boards: Sequence[Board]) -> tuple[list[Record], list[dict[AgentName, Record]]]:
    """Returns the agents of all boards and, for each board, the new label and hash of each of its agents.

    Raises:
        ConfigError: If a label stands for different agents, or several agents of one board would become one.
    """
    entries: list[tuple[Board, Record]] = []
    names: list[dict[AgentName, Record]] = []
    for board in boards:
        of_board: dict[AgentName, Record] = {}
        new = []
        for agent in board.record["agents"]:
            first, entry = _entry_for(agent, board, entries)
            if entry is agent:
                new.append((board, agent))
            fields = {"agent": entry["label"], "agent_digest": entry["digest"]}
            twins = [label for (label, _), found in of_board.items() if found == fields]
            require(not twins, _ambiguous(first, board, entry["label"], [*twins, agent["label"]]))
            of_board[agent["label"], agent["digest"]] = fields
        entries += new
        names.append(of_board)
    agents = [entry for _, entry in entries]
    require_distinct("Agent", ((entry["label"], entry["digest"]) for entry in agents))
    return agents, names


def _entry_for(agent: Record, board: Board, entries: Sequence[tuple[Board, Record]]) -> tuple[Board, Record]:
    """Returns the same agent's entry on an earlier board, with or without an address in its label, or else its own."""
    found = []
    for first, entry in entries:
        require(not is_another(entry, agent), _differs("agent", first, board, entry, agent))
        if entry["label"] == agent["label"]:
            return first, entry
        if entry_for(agent, [entry], board.directory) or entry_for(entry, [agent], first.directory):
            found.append((first, entry))
    if len(found) > 1:
        raise ConfigError(_ambiguous(board, found[0][0], agent["label"], [entry["label"] for _, entry in found]))
    return found[0] if found else (board, agent)


def _ambiguous(first: Board, other: Board, label: str, labels: Sequence[str]) -> str:
    return (
        f"{_refused(first, other)}: {' and '.join(labels)} of {other.directory} are the same model at different "
        f"addresses, and both could be {label} of {first.directory}."
    )


def _differs(kind: str, first: Board, other: Board, entry: Record, now: Record) -> str:
    return (
        f"{_refused(first, other)}: {now['label']} is a different {kind} on each (hash {entry['digest']} and "
        f"{now['digest']}): its settings or version differ. Play it again on one of them, with the other's "
        "settings or under another name (as=NAME)."
    )


def _refused(first: Board, other: Board) -> str:
    return f"{first.directory} and {other.directory} cannot be merged"


def _merged_lines(boards: Sequence[tuple[Board, Sequence[Record]]]) -> list[Record]:
    """Returns the lines of all boards, with each finished episode once, after all of its failed attempts."""
    failed: dict[EpisodeKey, list[Record]] = {}
    finished: dict[EpisodeKey, Record] = {}
    holders: dict[EpisodeKey, Board] = {}
    for board, lines in boards:
        for line in lines:
            key = EpisodeKey.of(line)
            failed.setdefault(key, [])
            if line["error"]:
                failed[key].append(line)
            elif key not in finished or _replaces(line, finished[key], holders[key], board):
                finished[key], holders[key] = line, board
    return [line for key, tries in failed.items() for line in (*tries, *([finished[key]] if key in finished else []))]


def _replaces(line: Record, kept: Record, holder: Board, board: Board) -> bool:
    """Returns whether an episode replaces the same one of an earlier board because it has more verdicts.

    Raises:
        ConfigError: If they were played or judged differently.
    """
    where = f"{name_of(line)} is on both {holder.directory} and {board.directory}"
    if _content(kept) != _content(line):
        require(
            line["agent"] in REFERENCES,
            f"{where}, and was played differently. Only one can count: leave one of the boards out, or replay the "
            "agent there under another name (as=NAME).",
        )
        return False
    before, now = _judgment(kept), _judgment(line)
    num_missing = [len(episode.get("unjudged") or ()) for episode in (kept, line)]
    is_resumed = kept.get("judge") == line.get("judge") and num_missing[0] != num_missing[1]
    require(
        before == now or None in (before, now) or is_resumed,
        f"{where}, and was judged differently. Judge both alike with python -m benchmarks rescore.",
    )
    return now is not None and (before is None or num_missing[1] < num_missing[0])


def _content(line: Record) -> Record:
    """Returns the content on which boards must agree: all but times, addresses, seals, and judgments."""
    turns = [
        {**turn, "usage": {name: used for name, used in turn["usage"].items() if name not in _OF_TIME}}
        for turn in line["turns"]
    ]
    compared = {name: value for name, value in line.items() if name not in (*_OF_TIME, "address")}
    return unjudged({**compared, "turns": turns})


def _judgment(line: Record) -> object:
    """Returns the judgment of an episode; None if it was not judged."""
    if line.get("judge") is None:
        return None
    return line["judge"], line.get("judged"), [turn["scores"] for turn in line["turns"]]


def _copy_images(source: Board, target: Board) -> None:
    """Copies all images of the episodes; raises `BrokenRunDataError` if one was changed."""
    shown = (part for line in source.lines() for part in [*line.get("turns", []), line.get("final") or {}])
    for name in dict.fromkeys(name for part in shown for name in part.get("images", ())):
        content = source.images.load(name)
        if hashlib.sha256(content).hexdigest() != name:
            raise BrokenRunDataError(f"Image {name} of {source.directory} was changed. Copy it again.")
        target.images.add(content)
