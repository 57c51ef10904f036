"""What all grid worlds share, and the vector environment of those whose actions are numbers."""

from __future__ import annotations

from typing import Any, ClassVar

from vlm_envs.errors import ConfigError
from vlm_envs.world import World
from vlm_envs.worlds.grids.batch import GridBatch
from vlm_envs.worlds.grids.discrete_vector import DiscreteVector
from vlm_envs.worlds.grids.dynamics import GridDynamics
from vlm_envs.worlds.grids.state import GridStateT
from vlm_envs.worlds.grids.task import GridTask
from vlm_envs.worlds.grids.view import GridView


class GridWorld(World[GridStateT, int]):
    """A world on a grid of cells, each shown as a tile.

    Args:
        dynamics: States and how they change.
        view: State to picture and words.
        task: Goal and rewards.
        **world_kwargs: As in `World`.
    """

    dynamics: GridDynamics[GridStateT]
    view: GridView[GridStateT]
    batch_type: ClassVar[type[GridBatch]]

    def __init__(
        self,
        dynamics: GridDynamics[GridStateT],
        view: GridView[GridStateT],
        task: GridTask[GridStateT],
        **world_kwargs: Any,
    ) -> None:
        super().__init__(dynamics, view, task, **world_kwargs)
        num_rows, num_cols = dynamics.shape
        self.set_picture_shape((num_rows * view.cell_px, num_cols * view.cell_px, 3))

    def discrete_vector(self, num_envs: int, *, num_levels: int | None = None) -> DiscreteVector[GridStateT]:
        """Returns many of these worlds, moved by numbers; arguments as in `DiscreteVector`."""
        if self.obs_mode != "image":
            raise ConfigError(f"Worlds with action_mode='discrete' show pictures only; got obs_mode={self.obs_mode!r}.")
        budget = self.max_turns * self.max_actions_per_turn
        return DiscreteVector(
            self.dynamics,
            self.view.tiles,
            self.batch_type,
            num_envs=num_envs,
            num_levels=num_levels,
            split=self.split,
            max_steps=budget if self.max_steps is None else min(budget, self.max_steps),
        )
