"""FrozenLake's pictures and texts."""

from __future__ import annotations

import numpy as np
import pytest

from vlm_envs.errors import ConfigError
from vlm_envs.worlds.frozen_lake import FrozenLakeView, parse_level

DRAWN_LAKE = "___G\nO___\n__O_\n_P__"  # VAGEN's symbolic example.


def test_structured_data_and_text() -> None:
    state, view = parse_level(DRAWN_LAKE), FrozenLakeView()
    assert view.structured(state) == {
        "player_position": (3, 1),
        "target_position": (0, 3),
        "hole_positions": [(1, 0), (2, 2)],
        "grid_size": (4, 4),
    }
    assert view.describe(state, "structured") == (
        "{player_position: (3, 1), target_position: (0, 3), hole_positions: [(1, 0), (2, 2)], grid_size: (4, 4)}"
    )


def test_symbols_and_sentences() -> None:
    state, view = parse_level(DRAWN_LAKE), FrozenLakeView()
    assert view.describe(state, "symbolic") == DRAWN_LAKE
    assert view.describe(state, "natural_language") == (
        "the target is above and to the right of the player. "
        "hole0 is above and to the left of the player. "
        "hole1 is above and to the right of the player."
    )


def test_a_player_in_a_hole_is_at_the_same_place() -> None:
    view = FrozenLakeView()
    assert "hole0 is at the same place as the player" in view.describe(parse_level("X_\n_G"), "natural_language")


def test_an_unknown_representation_is_refused() -> None:
    with pytest.raises(ConfigError, match="representation must be one of"):
        FrozenLakeView().describe(parse_level(DRAWN_LAKE), "image")


@pytest.mark.parametrize("cell_px", [16, 28, 56])
def test_the_picture_has_one_tile_a_cell(cell_px: int) -> None:
    picture = FrozenLakeView(cell_px).image(parse_level(DRAWN_LAKE))
    assert picture.shape == (4 * cell_px, 4 * cell_px, 3) and picture.dtype == np.uint8
    tiles = picture.reshape(4, cell_px, 4, cell_px, 3).transpose(0, 2, 1, 3, 4)
    np.testing.assert_array_equal(tiles[0, 0], tiles[3, 3])
    np.testing.assert_array_equal(tiles[1, 0], tiles[2, 2])
    assert len({tiles[cell].tobytes() for cell in [(0, 0), (0, 3), (1, 0), (3, 1)]}) == 4


def test_the_three_ends_of_a_walk_look_different() -> None:
    view = FrozenLakeView()
    pictures = [view.image(parse_level(level)) for level in ("P_\n_G", "X_\n_G", "*_\n__")]
    corners = {picture[:28, :28].tobytes() for picture in pictures}
    assert len(corners) == 3
