"""What judges say of a board's rows, as a table of text."""

from __future__ import annotations

from collections.abc import Sequence

from benchmarks.models.board.agent_identity import with_short_names
from benchmarks.models.judged.strata import strata_text
from benchmarks.models.measures.measures import Row, rows
from benchmarks.models.text_table import text_table
from vlm_envs.records.json_lines import Record

_NO_VERDICT = "no verdict"


def judged_text(episodes: Sequence[Record]) -> str:
    """Returns success and judges' measures of every row; a measure that does not apply to it is left empty.

    Where a judge has said how much must be magnified, a second table tells them by stratum.
    """
    episodes = with_short_names(episodes)
    found = rows(episodes)
    names = list(dict.fromkeys(name for row in found for name in row.judged))
    names += [_NO_VERDICT] if any(row.num_unjudged for row in found) else []
    of_rows = text_table(
        [_told(row, names) for row in sorted(found, key=lambda row: (row.world, -row.success, row.agent))]
    )
    return "\n\n".join(filter(None, (of_rows, strata_text(episodes))))


def _told(row: Row, names: Sequence[str]) -> dict[str, str]:
    low, high = row.interval
    success = f"{row.success:.3f} ({low:.3f} to {high:.3f})" if row.num_episodes else "–"
    told = {"world": row.world, "agent": row.agent, "success": success, "episodes": str(row.num_episodes)}
    told |= {name: f"{row.judged[name]:.3f}" if name in row.judged else "" for name in names if name != _NO_VERDICT}
    if _NO_VERDICT in names:
        told[_NO_VERDICT] = f"{row.num_unjudged:,} of {row.num_asked:,}" if row.num_unjudged else ""
    return told
