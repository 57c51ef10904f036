"""The numbers of the moves are a public contract: Up, Down, Left, Right."""

from vlm_envs.worlds.grids.grid_levels import Direction


def test_action_numbers_names_and_deltas() -> None:
    assert [(int(d), d.title, d.delta) for d in Direction] == [
        (0, "Up", (-1, 0)),
        (1, "Down", (1, 0)),
        (2, "Left", (0, -1)),
        (3, "Right", (0, 1)),
    ]


def test_neighbour_of_a_cell() -> None:
    assert Direction.LEFT.from_cell((3, 3)) == (3, 2)
