"""A board as a table of text: its page's columns, in its page's order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from benchmarks.models.board.agent_identity import short_names
from benchmarks.models.board.board import Board
from benchmarks.models.board.verification import verified_rows
from benchmarks.models.measures.measures import rows
from benchmarks.models.measures.overall import OverallRow, overall
from benchmarks.models.page.columns import columns
from benchmarks.models.text_table import text_table

_ON_THE_PAGE_ONLY = ("actions × best", "ruined", "seconds")
"""What would make lines too long; what worlds and judges measure is left to the page, too."""


def board_text(board: Board) -> str:
    """Returns a row for each agent in each world, and with several worlds a row for each agent over all of them.

    Worlds are in the board's order, and in each the most successful agent comes first.
    """
    episodes = board.episodes()
    verified = verified_rows(board, episodes)
    places = {world["label"]: place for place, world in enumerate(board.record["worlds"])}
    found = rows(board.lines(), board.record["worlds"])
    found = [replace(row, metrics={}, judged={}, num_unjudged=None) for row in found]
    names = short_names(list(dict.fromkeys(row.agent for row in found)))
    found.sort(key=lambda row: (places.get(row.world, len(places)), -row.success, row.agent))
    measured = [column for column in columns(found) if column.title not in _ON_THE_PAGE_ONLY]
    table = []
    for index, row in enumerate(found):
        low, high = row.interval
        table.append({
            "world": row.world,
            "agent": names[row.agent],
            "success": f"{row.success:.3f} ({low:.3f} to {high:.3f})" if row.num_episodes else "–",
            **{column.title: column.texts[index] for column in measured},
            "verified": "yes" if (row.agent, row.world) in verified else "",
        })  # fmt: skip
    return "\n\n".join(filter(None, (text_table(table), overall_text(overall(episodes), names))))


def overall_text(rows: Sequence[OverallRow], names: Mapping[str, str] | None = None) -> str:
    """Returns the agents over all worlds as a table under a heading; empty unless there are several worlds."""
    if not rows or rows[0].num_worlds < 2:
        return ""
    short = dict(names or {})
    table = [
        {
            "agent": short.get(row.agent, row.agent),
            "mean success": f"{row.success:.3f} ({row.low:.3f} to {row.high:.3f})",
            "mean rank": f"{row.mean_rank:.1f}",
            "below lazy": "yes" if row.below_lazy else "",
            "not distinguished from": ", ".join(short.get(agent, agent) for agent in row.indistinguishable_from),
        }
        for row in rows
    ]
    return f"All {rows[0].num_worlds} worlds that every contestant has played:\n{text_table(table)}"
