"""Who measures: boards of agents, speed against peers and limits, ablations."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import vlm_envs  # noqa: F401  # first of all, since it reports missing packages in one line

if TYPE_CHECKING:
    import pandas as pd


def load_board(path: str | Path) -> pd.DataFrame:
    """Returns a board as a pandas data frame with one row per episode; docs/boards.md describes its columns."""
    # Imported here, so that other commands do not load what boards need
    from benchmarks.models.measures.board_export import load_board as load

    return load(path)
