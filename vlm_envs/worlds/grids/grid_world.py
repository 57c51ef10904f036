"""The base classes of grid worlds: task, view, and world."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from vlm_envs.errors import ConfigError
from vlm_envs.parts import Task, View
from vlm_envs.responses.formats import REPRESENTATIONS, structured_text
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.validation import require_choice
from vlm_envs.world import World
from vlm_envs.worlds.grids.grid_levels import Direction, GridDynamics, GridStateT, Relation, relations_text
from vlm_envs.worlds.grids.grid_tiles import tile_set
from vlm_envs.worlds.grids.grid_vector import DiscreteVector, GridBatch

ACTION_NAMES = tuple(direction.title for direction in Direction)


def parse_direction(text: str) -> int | None:
    """Returns the action with a name, ignoring case, or None."""
    name = text.capitalize()
    return ACTION_NAMES.index(name) if name in ACTION_NAMES else None


STEP_PENALTY = -0.1


class GridTask(Task[GridStateT, int], ABC):
    """A task with the actions Up, Down, Left, and Right."""

    action_names = ACTION_NAMES
    grammar = ActionGrammar(parse=parse_direction, separator=",", expected="one of " + ", ".join(ACTION_NAMES))

    def write_action(self, action: int) -> str:
        """Returns the direction's name."""
        return Direction(action).title

    def noop_terms(self) -> dict[str, float]:
        """Returns one step penalty, so that doing nothing is never free."""
        return {"step": STEP_PENALTY}

    def explain(self, action: int, next_state: GridStateT) -> str:
        """Returns the move and the resulting position."""
        return f"{self.write_action(action)} to {next_state.player}"


def representation_help(*, natural_language: str, symbols: str, structured: str) -> Mapping[str, str]:
    """Returns one sentence per representation on how to write states, with a world's own examples."""
    return {
        "natural_language": f"Describe states by how things lie to each other, such as: {natural_language}",
        "symbolic": f"Write states as rows of symbols: {symbols}.",
        "structured": f"Write states as {structured} with (row, column) from the top left, counting from 0.",
    }


class GridView(View[GridStateT]):
    """Images and texts of levels.

    Args:
        cell_px: Side of one cell in pixels; 8 to 256.

    Attributes:
        tiles_of: The world whose tiles are used.
    """

    tiles_of: ClassVar[str]

    def __init__(self, cell_px: int = 28) -> None:
        """Draws the tiles, unless this size is cached."""
        self.cell_px = cell_px
        self.tiles = tile_set(self.tiles_of, cell_px)

    def image(self, state: GridStateT) -> NDArray[np.uint8]:
        """Returns the level's image, uint8[num_rows * cell_px, num_cols * cell_px, 3]."""
        return self.tiles.picture(self.tiles.read(state.level_text()))

    @abstractmethod
    def relations(self, state: GridStateT) -> tuple[Relation, ...]:
        """Returns the spatial relations between things, in the order of the sentences."""

    def describe(self, state: GridStateT, representation: str) -> str:
        """Returns the level as sentences, rows of symbols, or a dictionary; raises `ConfigError` for anything else."""
        require_choice("representation", representation, REPRESENTATIONS)
        if representation == "symbolic":
            return state.level_text()
        if representation == "structured":
            return structured_text(self.structured(state))
        return relations_text(self.relations(state))


class GridWorld(World[GridStateT, int]):
    """A world on a grid of cells, each shown as a tile.

    Args:
        dynamics: States and transitions.
        view: Images and texts of states.
        task: Goal and rewards.
        **world_kwargs: See `World`.
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
        """Returns a batch of these worlds with numeric actions; see `DiscreteVector` for the arguments."""
        if self.obs_mode != "image":
            raise ConfigError(f"action_mode='discrete' needs obs_mode='image'; got obs_mode={self.obs_mode!r}.")
        return DiscreteVector(self, num_envs=num_envs, num_levels=num_levels)
