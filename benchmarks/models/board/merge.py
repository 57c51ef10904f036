"""Several boards become one: the same suite, split, and reading, every line verified, and nothing lost."""

from __future__ import annotations

import hashlib
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from benchmarks.models.board.board import STRICT, Board
from benchmarks.models.board.lines import SEALS, EpisodeKey, RowName, broken_seal, follows, row_of
from benchmarks.models.board.spec import REFERENCES
from vlm_envs.errors import require
from vlm_envs.records.json_lines import BrokenRunDataError, Record, to_json

_OF_TIME = frozenset({"seconds", "wall_s"})
"""Fields that differ between two runs of the same episode."""


def merge(sources: Sequence[Path], out: Path) -> Board:
    """Writes a new board with the worlds, agents, and episodes of several; they stay as they are.

    An episode that is finished on two boards is kept once if both are equal except for times. If they differ, it is
    refused, because which one counts must not depend on its result; only of `random`, `lazy`, and `oracle`, which play
    on every board, the first board's episode counts. Failed tries are kept, those of every board.

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
    lines = _merged_lines([(board, _verified_lines(board)) for board in boards])
    with Board.open(out, _definition(boards)) as merged:
        require(not merged.lines(), f"{out} is a board with episodes already; name a new folder with --out.")
        for board in boards:
            _copy_images(board, merged)
        merged.rewrite(lines)
    return Board(out)


def _definition(boards: Sequence[Board]) -> Record:
    """Returns what the first board says of itself, with the worlds and agents of all."""
    merged = {name: value for name, value in boards[0].record.items() if name != "format"}
    for kind in ("worlds", "agents"):
        entries: dict[str, Record] = {}
        for board in boards:
            entries |= {each["label"]: each for each in board.record[kind] if each["label"] not in entries}
        merged[kind] = list(entries.values())
    return merged | {"reading": _reading(boards[0])}


def _reading(board: Board) -> str:
    return str(board.record.get("reading", STRICT))


def _require_comparable(first: Board, other: Board) -> None:
    """Raises `ConfigError` if two boards do not measure the same."""
    names = f"{first.directory} and {other.directory}"
    for name, values in {
        "reading": (_reading(first), _reading(other)),
        "split": (first.record.get("split"), other.record.get("split")),
        "suite": (_suite(first), _suite(other)),
    }.items():
        require(
            values[0] == values[1],
            f"{names} cannot be merged: the {name} of one is {values[0]}, that of the other {values[1]}, so their "
            "success rates are not comparable.",
        )
    for kind in ("worlds", "agents"):
        known = {each["label"]: each["digest"] for each in first.record[kind]}
        labels = {each["digest"]: each["label"] for each in first.record[kind]}
        for each in other.record[kind]:
            noun, label = kind.removesuffix("s"), each["label"]
            require(
                known.get(label, each["digest"]) == each["digest"],
                f"{names} cannot be merged: both have a {noun} called {label}, but its settings or its version differ "
                f"(hash {known.get(label)} and {each['digest']}). Play one of them again under the other's settings"
                f"{', or under another name (as=NAME)' if kind == 'agents' else ''}.",
            )
            require(
                labels.get(each["digest"], label) == label,
                f"{names} cannot be merged: the {noun} {labels.get(each['digest'])} is called {label} on the other.",
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
            known, same = finished.setdefault(key, (board, line))
            where = (
                f"{line['agent']} in {line['world']}, seed {line['seed']}, repeat {line['repeat']} is on both "
                f"{known.directory} and {board.directory}"
            )
            is_same = _content(same) == _content(line)
            if not is_same and line["agent"] in REFERENCES:
                continue
            require(
                is_same,
                f"{where}, and was played differently. Both cannot count: leave one of the boards out, or play the "
                "agent there again under another name (as=NAME).",
            )
            judgments = [_judgment(each) for each in (same, line)]
            require(
                judgments[0] == judgments[1] or None in judgments,
                f"{where}, and was judged differently. Judge both alike with python -m benchmarks rescore.",
            )
            if judgments[0] is None:
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
    """Returns what two boards must agree on: everything except times, seals, and judges' scores."""
    told = {name: value for name, value in line.items() if name not in (*SEALS, *_OF_TIME, "judged", "judge")}
    turns = [
        {**turn, "scores": None, "usage": {name: used for name, used in turn["usage"].items() if name not in _OF_TIME}}
        for turn in line["turns"]
    ]
    return to_json({**told, "turns": turns})


def _judgment(line: Record) -> Any:
    """Returns what a judge says of an episode; None if nobody judged it."""
    if line.get("judge") is None:
        return None
    return to_json([line["judge"], line.get("judged"), [turn["scores"] for turn in line["turns"]]])


def _copy_images(source: Board, target: Board) -> None:
    """Copies every image that episodes name; raises `BrokenRunDataError` for one that was changed."""
    shown = (each for line in source.lines() for each in [*line.get("turns", []), line.get("final") or {}])
    for name in dict.fromkeys(name for each in shown for name in each.get("images", ())):
        content = source.images.load(name)
        if hashlib.sha256(content).hexdigest() != name:
            raise BrokenRunDataError(f"Image {name} of {source.directory} was changed. Copy it again.")
        target.images.add(content)
