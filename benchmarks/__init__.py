"""Who measures: boards of agents, speed against peers and limits, ablations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import vlm_envs  # noqa: F401  # first, because it reports missing packages in one line
from vlm_envs.moved import alias_modules

if TYPE_CHECKING:
    import pandas as pd


def load_board(path: str | Path) -> pd.DataFrame:
    """Returns a board as a pandas data frame with one row per episode.

    docs/reference/board-columns.md describes the columns.
    """
    # Imported here, so that other commands do not load what boards need
    from benchmarks.models.measures.board_export import load_board as load

    return load(path)


alias_modules(
    {
        "benchmarks.models.board.merge": "benchmarks.models.board.board_merge",
        "benchmarks.models.board.spec": "benchmarks.models.board.board_spec",
        "benchmarks.models.board.suites": "benchmarks.models.board.board_spec",
        "benchmarks.models.measures.overall": "benchmarks.models.measures.comparisons",
        "benchmarks.models.measures.perception": "benchmarks.models.measures.perception_gaps",
    }
)  # until 0.2.0
