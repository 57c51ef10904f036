"""`python -m benchmarks replay`: plays a board again, bit by bit, and marks the rows that are the same."""

from __future__ import annotations

import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board, UnwritableBoardError
from benchmarks.models.board.verification import changed_worlds, mark, verify
from benchmarks.models.cli.run import page_of

EXIT_DIFFERS = 1
EXIT_REFUSED = 2


@dataclass(frozen=True, kw_only=True)
class ReplayOptions:
    """Play every episode of a board again and compare it bit by bit; rows that pass are marked verified.

    Images that the board's folder lacks are drawn again, and kept if they are the same to the bit. Rows of a world that
    cannot be made here keep their marks.

    Attributes:
        board: The board's folder.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]


def run_replay(options: ReplayOptions) -> int:
    """Replays a board; 1 if something differs, else 2 if a world cannot be made."""
    board = Board(options.board)
    for line in changed_worlds(board):
        print(line, file=sys.stderr)
    replayed = []
    for row in verify(board):
        replayed.append(row)
        for line in row.differences:
            print(f"DIFFERS: {line}", file=sys.stderr)
        if row.obstacle:
            print(f"error: {row.agent} in {row.world} cannot be replayed: {row.obstacle}", file=sys.stderr)
            continue
        told = "verified" if row.is_verified else f"NOT VERIFIED, {len(row.differences)} differ"
        same = "1 episode is" if row.num_same == 1 else f"{row.num_same} episodes are"
        print(f"{row.agent} in {row.world}: {same} the same to the bit; {told}", flush=True)
    try:
        mark(board, replayed)
        print(page_of(board))
    except UnwritableBoardError as error:
        print(f"The rows are not marked. {error}", file=sys.stderr)
    if any(row.differences for row in replayed):
        return EXIT_DIFFERS
    return EXIT_REFUSED if any(row.obstacle for row in replayed) else 0
