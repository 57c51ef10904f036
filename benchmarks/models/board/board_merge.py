"""Several boards become one: the same suite, split, and reading, every line verified, and nothing lost."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.models.board.board import (
    SEALS,
    STRICT,
    Board,
    EpisodeKey,
    RowName,
    broken_seal,
    follows,
    require_distinct,
    row_of,
)
from benchmarks.models.board.board_spec import REFERENCES, entry_for, is_another
from vlm_envs.adapter.stored import moved
from vlm_envs.records.json_lines import BrokenRunDataError, Record, to_json
from vlm_envs.validation import require

_OF_TIME = frozenset({"seconds", "wall_s"})
"""Fields that differ between two runs of the same episode."""

AgentName = tuple[str, str]
"""Label and hash of an agent on one board."""

_NOT_COMPARED = {*SEALS, *_OF_TIME, "address", "judged", "judge", "unjudged"}
"""Fields in which two boards need not agree on an episode."""


def merge(sources: Sequence[Path], out: Path) -> Board:
    """Writes a new board with the worlds, agents, and episodes of several; they stay as they are.

    An episode that is finished on two boards is kept once if both are equal except for times. If they differ, it is
    refused, because which one counts must not depend on its result; only of `random`, `lazy`, and `oracle`, which play
    on every board, the first board's episode counts. Failed tries are kept, those of every board.

    A model and its settings are one agent wherever it was served, also if an earlier board recorded its address. It
    keeps the label and the hash that it has on the first board; lines of other boards are relabeled and sealed again.

    Args:
        sources: Folders of at least two boards.
        out: Folder of the new board; it must not hold a board with episodes.

    Raises:
        ConfigError: If boards differ in suite, split, or reading; if a world or an agent of one name is another one; if
            an episode is finished on two boards and differs; if a line is not as it was written; or if `out` is in use.
        MissingRunDataError: If a board or one of its images is missing.
        BrokenRunDataError: If a board cannot be read.
    """
    require(len(sources) > 1, "Name at least two boards to merge.")
    require(len({path.resolve() for path in sources}) == len(sources), "A board is named twice.")
    require(out.resolve() not in {path.resolve() for path in sources}, f"--out {out} is one of the boards.")
    boards = [Board(path) for path in sources]
    for board in boards[1:]:
        _require_comparable(boards[0], board)
    worlds = _merged_worlds(boards, out)
    agents, names = _merged_agents(boards)
    lines = _merged_lines([
        (board, [line | of_board.get((line["agent"], line["agent_digest"]), {}) for line in _verified_lines(board)])
        for board, of_board in zip(boards, names, strict=True)
    ])  # fmt: skip
    definition = {name: value for name, value in boards[0].record.items() if name != "format"}
    definition |= {"worlds": worlds, "agents": agents, "reading": _reading(boards[0])}
    with Board.open(out, definition) as merged:
        require(not merged.lines(), f"{out} is a board with episodes already; name a new folder with --out.")
        for board in boards:
            _copy_images(board, merged)
        merged.rewrite(lines)
    return Board(out)


def _merged_worlds(boards: Sequence[Board], out: Path) -> list[Record]:
    """Returns the worlds of all boards; raises `ConfigError` if one label or one hash stands for different worlds."""
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
    """Returns the agents of all boards, and by board the fields that lines of each of its agents get.

    Raises:
        ConfigError: If one label stands for different agents, or several agents of one board would become one.
    """
    entries: list[tuple[Board, Record]] = []
    names: list[dict[AgentName, Record]] = []
    for board in boards:
        of_board: dict[AgentName, Record] = {}
        earlier = list(entries)
        for entry in board.record["agents"]:
            first, same = _entry_for(entry, board, earlier)
            if same is entry:
                entries.append((board, entry))
            fields = {"agent": same["label"], "agent_digest": same["digest"]}
            twins = [label for (label, _), found in of_board.items() if found == fields]
            require(not twins, _ambiguous(first, board, same["label"], [*twins, entry["label"]]))
            of_board[entry["label"], entry["digest"]] = fields
        names.append(of_board)
    agents = [entry for _, entry in entries]
    require_distinct("Agent", ((entry["label"], entry["digest"]) for entry in agents))
    return agents, names


def _entry_for(agent: Record, board: Board, entries: Sequence[tuple[Board, Record]]) -> tuple[Board, Record]:
    """Returns the entry of the same agent on an earlier board, whichever has an address in its label; else its own."""
    for first, entry in entries:
        require(not is_another(entry, agent), _differs("agent", first, board, entry, agent))
    found = [
        (first, entry)
        for first, entry in entries
        if entry_for(agent, [entry], board.directory) or entry_for(entry, [agent], first.directory)
    ]
    found = [pair for pair in found if pair[1]["label"] == agent["label"]] or found
    labels = [entry["label"] for _, entry in found]
    require(len(found) < 2, _ambiguous(board, found[0][0] if found else board, agent["label"], labels))
    return found[0] if found else (board, agent)


def _ambiguous(first: Board, other: Board, label: str, labels: Sequence[str]) -> str:
    return (
        f"{_refused(first, other)}: {' and '.join(labels)} of {other.directory} are the same model at different "
        f"addresses, and both could be {label} of {first.directory}."
    )


def _differs(kind: str, first: Board, other: Board, entry: Record, now: Record) -> str:
    is_agent = kind == "agent"
    return (
        f"{_refused(first, other)}: both have {'an' if is_agent else 'a'} {kind} called {now['label']}, but its "
        f"settings or its version differ (hash {entry['digest']} and {now['digest']}). Play one of them again "
        f"under the other's settings{', or under another name (as=NAME)' if is_agent else ''}."
    )


def _refused(first: Board, other: Board) -> str:
    return f"{first.directory} and {other.directory} cannot be merged"


def _reading(board: Board) -> str:
    return str(board.record.get("reading", STRICT))


def _require_comparable(first: Board, other: Board) -> None:
    """Raises `ConfigError` if two boards do not measure the same."""
    for name, values in {
        "reading": (_reading(first), _reading(other)),
        "split": (first.record.get("split"), other.record.get("split")),
        "suite": (_suite(first), _suite(other)),
    }.items():
        require(
            values[0] == values[1],
            f"{_refused(first, other)}: the {name} of one is {values[0]}, that of the other {values[1]}, so their "
            "success rates are not comparable.",
        )


def _suite(board: Board) -> str:
    suite: Mapping[str, Any] | None = board.record.get("suite")
    return "none" if not suite else f"{suite.get('name')} {suite.get('version')} (hash {suite.get('digest')})"


def _verified_lines(board: Board) -> list[Record]:
    """Returns a board's lines; raises `ConfigError` for one that was changed, or after which one is missing."""
    before: dict[RowName, Record] = {}
    lines = board.lines()
    for line in lines:
        wrong = "" if broken_seal(line) is None else "is not as it was written"
        if not wrong and not follows(line, before.get(row_of(line))):
            wrong = "does not follow the line before it, so one was removed or changed"
        require(
            not wrong,
            f"{board.directory} cannot be merged: {line['agent']} in {line['world']}, seed {line['seed']}, repeat "
            f"{line['repeat']} {wrong}. See: python -m benchmarks replay {board.directory}",
        )
        before[row_of(line)] = line
    return lines


def _merged_lines(boards: Sequence[tuple[Board, Sequence[Record]]]) -> list[Record]:
    """Returns the lines of all boards, each finished episode once and after all of its failed tries."""
    finished: dict[EpisodeKey, tuple[Board, Record]] = {}
    failed: dict[EpisodeKey, list[Record]] = defaultdict(list)
    order: dict[EpisodeKey, None] = {}
    for board, lines in boards:
        for line in lines:
            key = EpisodeKey.of(line)
            order[key] = None
            if line["error"]:
                failed[key].append(line)
                continue
            first, same = finished.setdefault(key, (board, line))
            where = (
                f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']} is on both "
                f"{first.directory} and {board.directory}"
            )
            is_same = _content(same) == _content(line)
            if not is_same and line["agent"] in REFERENCES:
                continue
            require(
                is_same,
                f"{where}, and was played differently. Both cannot count: leave one of the boards out, or play the "
                "agent there again under another name (as=NAME).",
            )
            judgments = [_judgment(episode) for episode in (same, line)]
            num_missing = [len(episode.get("unjudged") or ()) for episode in (same, line)]
            is_resumed = same.get("judge") == line.get("judge") and num_missing[0] != num_missing[1]
            require(
                judgments[0] == judgments[1] or None in judgments or is_resumed,
                f"{where}, and was judged differently. Judge both alike with python -m benchmarks rescore.",
            )
            if judgments[1] is not None and (judgments[0] is None or num_missing[1] < num_missing[0]):
                finished[key] = board, line
    return list(_in_order(order, failed, finished))


def _in_order(
    order: Iterable[EpisodeKey],
    failed: Mapping[EpisodeKey, Sequence[Record]],
    finished: Mapping[EpisodeKey, tuple[Board, Record]],
) -> Iterator[Record]:
    for key in order:
        yield from failed.get(key, ())
        if key in finished:
            yield finished[key][1]


def _content(line: Record) -> Any:
    """Returns what two boards must agree on: everything except times, addresses, seals, and judges' scores."""
    compared = {name: value for name, value in line.items() if name not in _NOT_COMPARED}
    turns = [
        {**turn, "scores": None, "usage": {name: used for name, used in turn["usage"].items() if name not in _OF_TIME}}
        for turn in line["turns"]
    ]
    return to_json({**compared, "turns": turns})


def _judgment(line: Record) -> Any:
    """Returns what a judge says of an episode; None if it was not judged."""
    if line.get("judge") is None:
        return None
    return to_json([line["judge"], line.get("judged"), [turn["scores"] for turn in line["turns"]]])


def _copy_images(source: Board, target: Board) -> None:
    """Copies every image that episodes name; raises `BrokenRunDataError` for one that was changed."""
    shown = (part for line in source.lines() for part in [*line.get("turns", []), line.get("final") or {}])
    for name in dict.fromkeys(name for part in shown for name in part.get("images", ())):
        content = source.images.load(name)
        if hashlib.sha256(content).hexdigest() != name:
            raise BrokenRunDataError(f"Image {name} of {source.directory} was changed. Copy it again.")
        target.images.add(content)
