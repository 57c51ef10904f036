"""Many equally large Sokoban rooms, played at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.grids.batch import DELTAS, BatchStep, GridBatch
from vlm_envs.worlds.grids.task import STEP_PENALTY
from vlm_envs.worlds.sokoban.task import BOX_REWARD, SUCCESS_REWARD

_WALL, _TARGET, _BOX = 1, 2, 4


class SokobanBatch(GridBatch):
    """N rooms; what is on a cell is the sum of wall, target and box."""

    symbols = "_#O?X?*?P?S?????"

    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player, who pushes at most one box; see `GridBatch.move`."""
        ahead = self.player + DELTAS[actions]
        # The cell behind an outer wall lies outside the room; it is never pushed into, so any cell will do
        behind = np.clip(ahead + DELTAS[actions], 0, np.array(self.cells.shape[1:]) - 1)
        at_ahead, at_behind = self.at(ahead), self.at(behind)
        here, there = self.cells[at_ahead], self.cells[at_behind]
        has_box = here & _BOX > 0
        moves = (here & _WALL == 0) & ~(has_box & (there & (_WALL | _BOX) > 0))
        pushed = has_box & moves
        self.cells[at_ahead] ^= pushed * np.uint8(_BOX)
        self.cells[at_behind] ^= pushed * np.uint8(_BOX)
        self.player = np.where(moves[:, None], ahead, self.player)
        pushed_on = pushed * ((there & _TARGET) // _TARGET - (here & _TARGET) // float(_TARGET))
        solved = ~(self.cells & (_TARGET | _BOX) == _BOX).any(axis=(1, 2))
        return BatchStep(STEP_PENALTY + BOX_REWARD * pushed_on + SUCCESS_REWARD * solved, solved, solved)
