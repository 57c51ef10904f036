"""`python -m benchmarks forecast`: what a board would take, from a pilot."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

from tyro.conf import Positional, arg

from benchmarks.models.board.board import Board
from benchmarks.models.play.display import duration
from benchmarks.models.play.forecast import PRICE_UNKNOWN, Forecast, forecast
from benchmarks.models.text_table import text_table
from vlm_envs.validation import require


@dataclass(frozen=True, kw_only=True)
class ForecastOptions:
    """Tell from a board of a few episodes how long more would take, what it would cost, and how sure it would be.

    A pilot is a board like any other: python -m benchmarks run ... --episodes 8. The same command with more episodes
    goes on from it.

    Attributes:
        board: The pilot's folder.
        levels: Levels of each world.
    """

    board: Annotated[Path, Positional, arg(metavar="BOARD")]
    levels: tuple[int, ...] = (64, 256, 1024)

    def __post_init__(self) -> None:
        require(bool(self.levels), "--levels needs a number.")
        require(min(self.levels) >= 1, f"--levels must be at least 1; got {min(self.levels)}.")


def run_forecast(options: ForecastOptions) -> None:
    """Prints a table."""
    found = forecast(Board(options.board), options.levels)
    require(bool(found), f"{options.board} has no episode to tell anything from. Play some: python -m benchmarks run")
    print(text_table([_cells(each) for each in found]))


def _cells(each: Forecast) -> dict[str, str]:
    usd = [f"{each.usd:.2f}"] if each.usd is not None else []
    return {
        "levels": str(each.num_levels),
        "world": each.world,
        "agent": each.agent,
        "pilot": str(each.num_pilot),
        "time": duration(each.seconds),
        "tokens": "" if each.tokens is None else f"{each.tokens:,.0f}",
        "USD": " + ".join([*usd, *([PRICE_UNKNOWN] if each.is_price_unknown else [])]),
        "success within": "" if each.half_width is None else f"±{each.half_width:.3f} at most",
    }
