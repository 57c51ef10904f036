"""Many equally large frozen lakes, walked over at once."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from vlm_envs.worlds.frozen_lake.dynamics import SLIPPED_ACTIONS
from vlm_envs.worlds.frozen_lake.task import SUCCESS_REWARD
from vlm_envs.worlds.grids.batch import DELTAS, BatchStep, GridBatch
from vlm_envs.worlds.grids.task import STEP_PENALTY

_SLIPPED = np.array(SLIPPED_ACTIONS, np.intp)
_HOLE, _GOAL = 1, 2


class FrozenLakeBatch(GridBatch):
    """N lakes."""

    symbols = "_OGPX*"

    def move(self, actions: NDArray[np.intp], draws: NDArray[np.float64] | None) -> BatchStep:
        """Moves every player; see `GridBatch.move`."""
        if draws is not None:
            actions = _SLIPPED[actions, (draws * 3).astype(np.intp)]
        ahead = self.player + DELTAS[actions]
        is_inside = ((ahead >= 0) & (ahead < self.cells.shape[1:])).all(axis=1)
        is_held = self.cells[self.at(self.player)] > 0
        self.player = np.where((is_inside & ~is_held)[:, None], ahead, self.player)
        below = self.cells[self.at(self.player)]
        success = below == _GOAL
        return BatchStep(np.where(success, SUCCESS_REWARD, STEP_PENALTY), success, below > 0)
