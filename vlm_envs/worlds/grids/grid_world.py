"""The base classes of grid worlds: task, view, and world; and the tile art that a view lays images out of.

A tile set is drawn once per size and kept; an image is then one lookup of pixels per cell.
"""

from __future__ import annotations

import tomllib
from abc import ABC, abstractmethod
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from PIL import Image, ImageDraw

from vlm_envs.errors import ConfigError
from vlm_envs.parts import Task, View
from vlm_envs.responses.formats import REPRESENTATIONS, structured_text
from vlm_envs.responses.parsing import ActionGrammar
from vlm_envs.validation import require_choice, require_positive
from vlm_envs.world import World
from vlm_envs.worlds.grids.grid_levels import Direction, GridDynamics, GridStateT, Relation, relations_text
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


_ART: dict[str, Any] = tomllib.loads(Path(__file__).with_name("grid_tiles.toml").read_text(encoding="utf-8"))
_COLORS, _PARTS = _ART["colors"], _ART["parts"]

TILE_SETS: dict[str, dict[str, list[list[Any]]]] = {world: _ART[world] for world in ("sokoban", "frozen_lake")}
"""Shapes of each level symbol, by world: name of a method of `Canvas`, color, and the other arguments."""

_SUPERSAMPLING = 4


class Canvas:
    """A canvas for one cell; coordinates and lengths are in cells, (0, 0) is the top left.

    Shapes are drawn at four times the size and scaled down, because Pillow does not antialias.

    Args:
        cell_px: Side of the finished image in pixels.
    """

    def __init__(self, cell_px: int) -> None:
        self._cell_px = cell_px
        self._side = cell_px * _SUPERSAMPLING
        self._image = Image.new("RGB", (self._side, self._side))
        self._draw = ImageDraw.Draw(self._image)

    def draw(self, shapes: list[list[Any]], down: float = 0.0) -> None:
        """Draws shapes with a vertical offset."""
        for name, fill, *arguments in shapes:
            if name == "part":
                self.draw(_PARTS[fill], down + arguments[0])
            else:
                getattr(self, name)(_COLORS[fill], down, *arguments)

    def rectangle(
        self, fill: str, down: float, left: float, top: float, right: float, bottom: float, radius: float = 0.0
    ) -> None:
        """Draws a filled rectangle with rounded corners."""
        self._draw.rounded_rectangle(self._box(left, down + top, right, down + bottom), radius * self._side, fill)

    def ellipse(
        self, fill: str, down: float, x: float, y: float, radius_x: float, radius_y: float | None = None
    ) -> None:
        """Draws a filled ellipse; a circle unless `radius_y` is given."""
        self._draw.ellipse(self._around(x, down + y, radius_x, radius_x if radius_y is None else radius_y), fill)

    def pie(self, fill: str, down: float, x: float, y: float, radius: float, start_deg: float, end_deg: float) -> None:
        """Draws a slice of a circle, clockwise from `start_deg`; 0 degrees points right."""
        self._draw.pieslice(self._around(x, down + y, radius, radius), start_deg, end_deg, fill)

    def polygon(self, fill: str, down: float, *coordinates: float) -> None:
        """Draws a filled polygon; x and y alternate."""
        self._draw.polygon(self._points(down, coordinates), fill)

    def line(self, fill: str, down: float, width: float, *coordinates: float) -> None:
        """Draws a line through points, with round ends and joints; x and y alternate."""
        self._draw.line(self._points(down, coordinates), fill, self._width(width), joint="curve")
        for x, y in (coordinates[:2], coordinates[-2:]):
            self.ellipse(fill, down, x, y, width / 2)

    def arc(
        self, fill: str, down: float, x: float, y: float, radius: float, start_deg: float, end_deg: float, width: float
    ) -> None:
        """Draws a part of a circle's rim, clockwise from `start_deg`; 0 degrees points right."""
        self._draw.arc(self._around(x, down + y, radius, radius), start_deg, end_deg, fill, self._width(width))

    def pixels(self) -> NDArray[np.uint8]:
        """Returns the finished image as uint8[cell_px, cell_px, 3]."""
        return np.array(self._image.resize((self._cell_px, self._cell_px), Image.Resampling.BOX), np.uint8)

    def _points(self, down: float, coordinates: tuple[float, ...]) -> list[tuple[float, float]]:
        pairs = zip(coordinates[::2], coordinates[1::2], strict=True)
        return [(x * self._side, (down + y) * self._side) for x, y in pairs]

    def _width(self, width: float) -> int:
        return max(1, round(width * self._side))

    def _around(self, x: float, y: float, radius_x: float, radius_y: float) -> tuple[float, float, float, float]:
        return self._box(x - radius_x, y - radius_y, x + radius_x, y + radius_y)

    def _box(self, left: float, top: float, right: float, bottom: float) -> tuple[float, float, float, float]:
        # Pillow includes the last pixel; without the 1 a full-width shape would bleed over by one pixel
        left, top, right, bottom = left * self._side, top * self._side, right * self._side - 1, bottom * self._side - 1
        return left, top, max(left, right), max(top, bottom)


MIN_CELL_PX, MAX_CELL_PX = 8, 256
"""Smaller figures would be indistinguishable."""


class TileSet:
    """The rendered tiles of one world at one size.

    Args:
        world: `"sokoban"` or `"frozen_lake"`.
        cell_px: Side of a tile in pixels.
    """

    def __init__(self, world: str, cell_px: int) -> None:
        self.cell_px = require_positive("cell_px", cell_px, minimum=MIN_CELL_PX, maximum=MAX_CELL_PX)
        drawings = TILE_SETS[world]
        self.codes = {symbol: code for code, symbol in enumerate(drawings)}
        self._table = bytes(self.codes.get(chr(code), 0) for code in range(256))
        pixels = np.stack([_drawn(shapes, cell_px) for shapes in drawings.values()])
        self._row_numbers = np.arange(cell_px)[:, None]
        # One item per pixel row of a tile, so that an image is copied in the largest possible chunks
        self._pixel_rows = pixels.reshape(len(drawings) * cell_px, -1).view(f"V{3 * cell_px}")[:, 0]

    def read(self, level: str) -> NDArray[np.uint8]:
        """Returns the codes of the symbols in a level text, uint8[num_rows, num_cols]."""
        text = f"{level}\n"
        codes = np.frombuffer(text.encode().translate(self._table), np.uint8)
        return codes.reshape(-1, text.index("\n") + 1)[:, :-1]

    def picture(self, codes: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Renders one grid, or many grids of equal size.

        Args:
            codes: uint8[..., num_rows, num_cols], the entry of `self.codes` for each cell.

        Returns:
            uint8[..., num_rows * cell_px, num_cols * cell_px, 3], a new array.
        """
        *batch, num_rows, num_cols = codes.shape
        rows = codes[..., :, None, :] * np.intp(self.cell_px) + self._row_numbers
        pixels = self._pixel_rows.take(rows).view(np.uint8)
        return pixels.reshape(*batch, num_rows * self.cell_px, num_cols * self.cell_px, 3)


def _drawn(shapes: list[list[Any]], cell_px: int) -> NDArray[np.uint8]:
    canvas = Canvas(cell_px)
    canvas.draw(shapes)
    return canvas.pixels()


@lru_cache(maxsize=32, typed=True)
def tile_set(world: str, cell_px: int) -> TileSet:
    """Returns the tiles of a world at a size; cached."""
    return TileSet(world, cell_px)


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
