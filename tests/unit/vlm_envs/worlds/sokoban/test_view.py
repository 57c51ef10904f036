"""Sokoban's pictures and texts."""

from __future__ import annotations

import numpy as np
import pytest

from judges.state_text.exact import ExactJudge
from vlm_envs import make
from vlm_envs.errors import ConfigError
from vlm_envs.worlds.sokoban import SokobanView
from vlm_envs.worlds.sokoban_solver import parse_level

# The room of VAGEN's structured example: player (4, 2), box (3, 2), target (3, 1), size (6, 6).
ROOM = "######\n#____#\n#____#\n#OX__#\n#_P__#\n######"


def test_structured_data_and_text_are_the_papers() -> None:
    state, view = parse_level(ROOM), SokobanView()
    assert view.structured(state) == {
        "player_position": (4, 2),
        "box_positions": [(3, 2)],
        "target_positions": [(3, 1)],
        "grid_size": (6, 6),
    }
    assert view.describe(state, "structured") == (
        "{player_position: (4, 2), box_positions: [(3, 2)], target_positions: [(3, 1)], grid_size: (6, 6)}"
    )


def test_structured_states_may_tell_the_inner_walls() -> None:
    env = make("VLM/Sokoban-v0", tell_walls=True, representation="structured")
    room = "######\n#__###\n#_#__#\n#OX__#\n#_P__#\n######"
    observation, info = env.reset(options={"level": room})
    walls = [(1, 3), (1, 4), (2, 2)]
    assert info["state"]["wall_positions"] == walls
    assert info["state_text"].endswith("grid_size: (6, 6), wall_positions: [(1, 3), (1, 4), (2, 2)]}")
    assert "wall_positions: [(1, 4), (2, 2)]} with (row, column)" in observation["text"]
    judge = ExactJudge("VLM/Sokoban-v0", "structured")
    assert judge.score(info["state_text"], info["state"]).value == 1.0
    paper = make("VLM/Sokoban-v0", representation="structured")
    plain, _ = paper.reset(options={"level": room})
    assert "wall_positions" not in plain["text"] and np.array_equal(plain["image"], observation["image"])
    with pytest.raises(ConfigError, match="Use representation='structured'"):
        make("VLM/Sokoban-v0", tell_walls=True)


def test_symbols_and_sentences() -> None:
    state, view = parse_level(ROOM), SokobanView()
    assert view.describe(state, "symbolic") == ROOM
    assert view.describe(state, "natural_language") == (
        "box0 is above and at the same column as the player. "
        "target0 is above and to the left of the player. "
        "target0 is at the same row and to the left of box0."
    )


def test_two_boxes_are_named_in_reading_order_and_compared_with_both_targets() -> None:
    relations = SokobanView().relations(parse_level("#######\n#P_X_X#\n#_O_O_#\n#######"))
    assert [(relation.subject, relation.object) for relation in relations] == [
        ("box0", "the player"),
        ("box1", "the player"),
        ("target0", "the player"),
        ("target1", "the player"),
        ("target0", "box0"),
        ("target0", "box1"),
        ("target1", "box0"),
        ("target1", "box1"),
    ]
    assert relations[0].horizontal == 1 and relations[4].horizontal == -1


def test_positions_are_plain_integers_for_json() -> None:
    state = SokobanView().structured(parse_level(ROOM))
    assert all(type(number) is int for number in state["player_position"] + state["box_positions"][0])


def test_an_unknown_representation_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"representation must be one of .*Did you mean 'symbolic'"):
        SokobanView().describe(parse_level(ROOM), "symbolical")


@pytest.mark.parametrize("cell_px", [16, 28, 56])
def test_the_picture_has_one_tile_a_cell(cell_px: int) -> None:
    view = SokobanView(cell_px)
    picture = view.image(parse_level(ROOM))
    assert picture.shape == (6 * cell_px, 6 * cell_px, 3) and picture.dtype == np.uint8

    def tile(row: int, column: int) -> np.ndarray:
        return picture[row * cell_px : (row + 1) * cell_px, column * cell_px : (column + 1) * cell_px]

    np.testing.assert_array_equal(tile(0, 0), tile(5, 3))
    np.testing.assert_array_equal(tile(1, 1), tile(4, 4))
    distinct = {tile(*cell).tobytes() for cell in [(0, 0), (1, 1), (3, 1), (3, 2), (4, 2)]}
    assert len(distinct) == 5


def test_a_piece_on_a_target_looks_different_from_the_piece_alone() -> None:
    view = SokobanView(28)
    rooms = ["######\n#P_XO#\n######", "######\n#S_X_#\n######", "######\n#P_*_#\n######"]
    pictures = [view.image(parse_level(room)) for room in rooms]
    player, player_on_target = pictures[0][28:56, 28:56], pictures[1][28:56, 28:56]
    box, box_on_target = pictures[0][28:56, 84:112], pictures[2][28:56, 84:112]
    assert not np.array_equal(player, player_on_target)
    # A box on its target turns from wood to green.
    assert box[..., 0].mean() > box[..., 1].mean()
    assert box_on_target[6:22, 6:22, 1].mean() > box_on_target[6:22, 6:22, 0].mean() + 50
