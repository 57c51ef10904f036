"""Tiles must be told apart at the smallest size an agent is shown."""

from itertools import combinations, product

import numpy as np
import pytest

from vlm_envs.errors import ConfigError
from vlm_envs.worlds.frozen_lake import SYMBOLS as LAKE_SYMBOLS
from vlm_envs.worlds.grids.grid_world import TILE_SETS, tile_set
from vlm_envs.worlds.sokoban_solver import SYMBOLS as SOKOBAN_SYMBOLS


@pytest.mark.parametrize("world", TILE_SETS)
@pytest.mark.parametrize("cell_px", [14, 28, 56])
def test_any_two_tiles_differ_clearly(world: str, cell_px: int) -> None:
    tiles = tile_set(world, cell_px)
    pictures = {symbol: tiles.picture(np.array([[code]], dtype=np.uint8)) for symbol, code in tiles.codes.items()}
    for first, second in combinations(pictures, 2):
        difference = np.abs(pictures[first].astype(int) - pictures[second].astype(int)).max(axis=2)
        share = (difference > 60).mean()
        assert share > 0.10, f"{first!r} and {second!r} differ clearly in only {share:.0%} of the pixels"


def test_every_level_symbol_has_a_tile() -> None:
    assert set(TILE_SETS["sokoban"]) == set(SOKOBAN_SYMBOLS)
    assert set(TILE_SETS["frozen_lake"]) == set(LAKE_SYMBOLS)


def test_tiles_lie_where_their_codes_are() -> None:
    tiles = tile_set("sokoban", 16)
    wall, box = tiles.codes["#"], tiles.codes["X"]
    picture = tiles.picture(np.array([[wall, box, wall]], dtype=np.uint8))
    assert picture.shape == (16, 48, 3) and picture.dtype == np.uint8
    np.testing.assert_array_equal(picture[:, :16], picture[:, 32:])
    np.testing.assert_array_equal(picture[:, 16:32], tiles.picture(np.array([[box]], dtype=np.uint8)))
    assert not np.array_equal(picture[:, :16], picture[:, 16:32])


def test_a_picture_is_fresh_so_that_painting_on_it_spoils_no_other() -> None:
    codes = np.zeros((1, 1), dtype=np.uint8)
    tiles = tile_set("sokoban", 16)
    before = tiles.picture(codes).copy()
    tiles.picture(codes)[:] = 0
    np.testing.assert_array_equal(tiles.picture(codes), before)


def test_every_allowed_size_can_be_drawn() -> None:
    for world, cell_px in product(TILE_SETS, (8, 9, 13, 256)):
        tiles = tile_set(world, cell_px)
        assert tiles.picture(tiles.read("".join(tiles.codes))).shape == (cell_px, len(tiles.codes) * cell_px, 3)


def test_tiles_are_drawn_once_per_size() -> None:
    assert tile_set("sokoban", 28) is tile_set("sokoban", 28)


@pytest.mark.parametrize("cell_px", [0, 7, -28, 28.0, True])
def test_a_size_too_small_to_read_is_refused(cell_px: object) -> None:
    with pytest.raises(ConfigError, match="cell_px must be an integer from 8 to 256"):
        tile_set("sokoban", cell_px)  # type: ignore[arg-type]
