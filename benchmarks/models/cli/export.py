"""`python -m benchmarks export`: a board as a CSV or Parquet file, and `merge`: several boards as one."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board, telling_of
from benchmarks.models.board.merge import merge
from benchmarks.models.cli.board_table import board_text
from benchmarks.models.cli.run import page_of
from benchmarks.models.measures.export import Format, exported
from vlm_envs.records.json_lines import replace_file
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class ExportOptions:
    """Write a board as a table with one row per episode; docs/boards.md describes its columns.

    Attributes:
        board: The board's folder.
        to: Format of the file.
        out: The file; episodes.csv or episodes.parquet in the board's folder if not set.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    to: Format
    out: Path | None = None


def run_export(options: ExportOptions) -> None:
    """Writes the file and prints its path."""
    board = Board(options.board)
    out = options.out or board.directory / f"episodes.{options.to}"
    require(not out.is_dir(), f"--out {out} is a folder. Name a file, such as {out / f'episodes.{options.to}'}.")
    content = exported(board, options.to)
    with telling_of(out.parent):
        replace_file(out, content)
    print(out)


@dataclass(frozen=True, kw_only=True)
class MergeOptions:
    """Merge boards with the same suite, split, and reading into a new one; every line is verified.

    Attributes:
        boards: Folders of two or more boards; they stay as they are.
        out: Folder of the new board.
    """

    boards: Annotated[tuple[Path, ...], Positional, arg(metavar="BOARD")]
    out: Path


def run_merge(options: MergeOptions) -> None:
    """Writes the new board and its page, and prints its table."""
    sources = [Board(path) for path in options.boards]
    merged = merge(options.boards, options.out)
    for source in sources[1:]:
        versions, other = merged.record.get("versions", {}), source.record.get("versions", {})
        if changed := [name for name in sorted({*versions, *other}) if versions.get(name) != other.get(name)]:
            changes = ", ".join(f"{name} {versions.get(name)} and {other.get(name)}" for name in changed)
            print(f"{sources[0].directory} and {source.directory} differ in versions: {changes}.", file=sys.stderr)
    print(board_text(merged))
    print(page_of(merged))
    num_left = sum(len(source.lines()) for source in sources) - len(merged.lines())
    if num_left:
        print(f"{num_left} episodes were on several boards and are kept once, as on the first of them.")
    print(f"No row is marked verified yet: python -m benchmarks replay {merged.directory}")
