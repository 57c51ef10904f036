"""Hand-computed scores of each representation and world.

F1 = 2 · correct / (claimed + true); of sides in natural language 2 · (correct − wrong) / (claimed + true), at least 0.
"""

import math

import pytest

from judges.scores import JudgeScore
from judges.state_text.exact_judge import ExactJudge

SOKOBAN = {
    "player_position": (4, 2),
    "box_positions": [(3, 2)],
    "target_positions": [(3, 1)],
    "grid_size": (6, 6),
}
LAKE = {
    "player_position": (3, 1),
    "target_position": (0, 3),
    "hole_positions": [(1, 0), (2, 2)],
    "grid_size": (4, 4),
}
LAKE_WITHOUT_HOLES = {
    "player_position": (0, 0),
    "target_position": (3, 3),
    "hole_positions": [],
    "grid_size": (4, 4),
}


def score(world, representation, text, state):
    return ExactJudge(world, representation).score(text, state)


class TestStructured:
    def test_the_papers_example_is_read_in_full(self):
        text = "{player_position: (4, 2), box_positions: [(3, 2)],\ntarget_positions: [(3, 1)], grid_size: (6, 6)}"
        assert score("Sokoban", "structured", text, SOKOBAN).value == 1.0

    @pytest.mark.parametrize(
        "text",
        [
            '{"player_position": [4, 2], "box_positions": [[3, 2]], "target_positions": [[3, 1]]}',
            "{'player_position': (4,2), 'box_position': (3,2), 'target_position': (3,1)}",
            "Player: (4, 2); Boxes = [(3, 2)]; Goals = [(3, 1)]",
        ],
    )
    def test_json_python_and_loose_keys_read_the_same(self, text):
        assert score("Sokoban", "structured", text, SOKOBAN).value == 1.0

    def test_a_misplaced_box_halves_the_box_category_only(self):
        result = score(
            "Sokoban",
            "structured",
            "{player_position: (4, 2), box_positions: [(3, 3)], target_positions: [(3, 1)]}",
            SOKOBAN,
        )
        # box: the player is right, the box is not: 2·1/(2+2). target: 2·2/(2+2).
        assert result.per_category == {"box": 0.5, "target": 1.0}
        assert result.value == 0.75

    def test_a_misplaced_player_lowers_every_category(self):
        result = score(
            "FrozenLake",
            "structured",
            "{player_position: (1, 0), target_position: (3, 3), hole_positions: []}",
            LAKE_WITHOUT_HOLES,
        )
        # goal: 2·1/(2+2); holes: only the wrong player is claimed, 2·0/(1+1).
        assert result.per_category == {"goal": 0.5, "holes": 0.0}
        assert result.value == pytest.approx(0.35)

    def test_a_missed_hole_costs_recall_with_weight_three_tenths(self):
        result = score(
            "FrozenLake",
            "structured",
            "{player_position: (3, 1), target_position: (0, 3), hole_positions: [(2, 2)]}",
            LAKE,
        )
        # holes: player and one hole of two: 2·2/(2+3) = 0.8; 0.7 + 0.3·0.8.
        assert result.value == pytest.approx(0.94)

    def test_the_order_of_objects_is_free(self):
        text = "{player_position: (3, 1), target_position: (0, 3), hole_positions: [(2, 2), (1, 0)]}"
        assert score("FrozenLake", "structured", text, LAKE).value == 1.0

    def test_the_players_cell_cannot_be_given_twice(self):
        text = "{player_position: (4, 2), player_position: (4, 3), box_positions: [(3, 2)]}"
        # box: the box is right, both player cells count as claimed: 2·1/(3+2).
        assert score("Sokoban", "structured", text, SOKOBAN).per_category["box"] == pytest.approx(0.4)


class TestSymbolic:
    def test_the_papers_lake_is_read_in_full(self):
        assert score("FrozenLake", "symbolic", "___G\nO___\n__O_\n_P__", LAKE).value == 1.0

    @pytest.mark.parametrize(
        "text",
        [
            "Here is the map:\n```\n___G\nO___\n__O_\n_P__\n```\nThe goal is far.",
            "_ _ _ G\nO _ _ _\n_ _ O _\n_ P _ _",
            "___G\\nO___\\n__O_\\n_P__",
            "\n\n___G\r\nO___\r\n__O_\r\n_P__\r\n",
        ],
    )
    def test_fences_spaces_and_escaped_newlines_do_not_matter(self, text):
        assert score("FrozenLake", "symbolic", text, LAKE).value == 1.0

    def test_a_grid_moved_down_by_one_row_is_wrong(self):
        assert score("FrozenLake", "symbolic", "____\n___G\nO___\n__O_\n_P__", LAKE).value == 0.0

    def test_symbols_for_two_things_in_one_cell(self):
        solved = {"player_position": (1, 1), "box_positions": [(1, 2)], "target_positions": [(1, 2), (1, 1)]}
        assert score("Sokoban", "symbolic", "####\n#S*#\n####", solved).value == 1.0
        drowned = {"player_position": (0, 1), "target_position": (1, 1), "hole_positions": [(0, 1)]}
        assert score("FrozenLake", "symbolic", "_X\n_G", drowned).value == 1.0
        arrived = {"player_position": (1, 1), "target_position": (1, 1), "hole_positions": []}
        assert score("FrozenLake", "symbolic", "__\n_*", arrived).value == 1.0

    def test_a_box_one_column_off(self):
        result = score("Sokoban", "symbolic", "######\n#____#\n#____#\n#O_X_#\n#_P__#\n######", SOKOBAN)
        assert result.per_category == {"box": 0.5, "target": 1.0}


class TestNaturalLanguage:
    def test_the_papers_wrong_example_earns_nothing(self):
        # Appendix D.1.1: box left of the player in its row; target above and left of both.
        state = {"player_position": (2, 3), "box_positions": [(2, 2)], "target_positions": [(1, 1)]}
        text = "The player is below the box and the target is below the box."
        result = score("Sokoban", "natural_language", text, state)
        assert (result.value, result.num_facts_read) == (0.0, 2)

    def test_the_papers_right_example_earns_what_it_says(self):
        # Appendix D.1.1: box above and right of the player; target straight above it, left of the box.
        state = {"player_position": (4, 1), "box_positions": [(3, 2)], "target_positions": [(2, 1)]}
        text = "The box is above the player and the target is to the left of the box"
        result = score("Sokoban", "natural_language", text, state)
        # box: one axis of the two true: 2·1/(1+2). target: one of four (two axes, two anchors): 2·1/(1+4).
        assert result.per_category == {"box": pytest.approx(2 / 3), "target": pytest.approx(2 / 5)}
        assert result.value == pytest.approx(0.5 * 2 / 3 + 0.5 * 2 / 5)

    def test_a_wrong_side_cancels_a_right_one(self):
        state = {"player_position": (0, 0), "target_position": (2, 1), "hole_positions": [(1, 1), (2, 2)]}
        text = "The goal is below. A hole is below and to the left of the player. Another hole is to the right."
        result = score("FrozenLake", "natural_language", text, state)
        # goal: 2·1/(1+2); holes: below and right are right, left is wrong: 2·(2−1)/(3+4).
        assert result.value == pytest.approx(0.7 * 2 / 3 + 0.3 * 2 / 7)

    def test_an_aligned_axis_need_not_be_mentioned(self):
        state = {"player_position": (0, 0), "target_position": (2, 0), "hole_positions": []}
        below = score("FrozenLake", "natural_language", "The goal is below the player.", state)
        aligned = score("FrozenLake", "natural_language", "The goal is directly below the player.", state)
        assert below.value == aligned.value == 1.0

    def test_directly_is_wrong_where_the_other_axis_differs(self):
        state = {"player_position": (0, 0), "target_position": (2, 1), "hole_positions": []}
        below = score("FrozenLake", "natural_language", "The goal is below the player.", state)
        directly = score("FrozenLake", "natural_language", "The goal is directly below the player.", state)
        # goal: 2·1/(1+2) against 2·(1−1)/(2+2); silence on holes is right.
        assert below.value == pytest.approx(0.7 * 2 / 3 + 0.3)
        assert directly.value == pytest.approx(0.3)

    def test_silence_on_holes_is_right_only_where_there_are_none(self):
        text = "The target is below and to the right of the player."
        assert score("FrozenLake", "natural_language", text, LAKE_WITHOUT_HOLES).value == 1.0
        with_hole = LAKE_WITHOUT_HOLES | {"hole_positions": [(0, 1)]}
        assert score("FrozenLake", "natural_language", text, with_hole).value == pytest.approx(0.7)

    def test_a_hole_that_is_not_there_costs_the_hole_category(self):
        text = "The target is below and to the right of the player. hole0 is above the player."
        assert score("FrozenLake", "natural_language", text, LAKE_WITHOUT_HOLES).value == pytest.approx(0.7)

    def test_matching_is_optimal_where_greedy_is_not(self):
        # Player (2, 2). Hole A (1, 1) is above and left, hole B (1, 2) is above. "hole0 above" fits both,
        # "hole1 left" only A. Giving hole0 the first that fits, A, leaves hole1 nothing: 1 right, not 2.
        state = {"player_position": (2, 2), "target_position": (3, 2), "hole_positions": [(1, 1), (1, 2)]}
        text = "hole0 is above the player. hole1 is to the left of the player."
        result = score("FrozenLake", "natural_language", text, state)
        # Hole B is straight above, which "above" implies: 2·(2+1)/(2+1+4).
        assert result.per_category["holes"] == pytest.approx(6 / 7)

    def test_names_of_boxes_are_free_but_must_be_kept(self):
        # Both boxes are above and left of the player, so only their relations to the target tell them apart.
        state = {"player_position": (4, 4), "box_positions": [(1, 1), (3, 3)], "target_positions": [(2, 2)]}
        boxes = "box0 is above and to the left of the player. box1 is above and to the left of the player. "
        target = "target0 is above and to the left of the player. "
        swapped = "target0 is above and to the left of box0. target0 is below and to the right of box1."
        mixed = "target0 is above and to the right of box0. target0 is below and to the right of box1."
        assert score("Sokoban", "natural_language", boxes + target + swapped, state).value == 1.0
        # target: 2 facts on the player, 3 of the 4 box relations are right and one is wrong: 2·(5−1)/(6+6).
        result = score("Sokoban", "natural_language", boxes + target + mixed, state)
        assert result.per_category == {"box": 1.0, "target": pytest.approx(4 / 6)}


class TestNothingToRead:
    @pytest.mark.parametrize("representation", ["natural_language", "symbolic", "structured"])
    @pytest.mark.parametrize("text", ["", "   \n", "The ice is nice.", "{}"])
    def test_no_facts_score_zero_also_where_there_are_no_holes(self, representation, text):
        result = score("FrozenLake", representation, text, LAKE_WITHOUT_HOLES)
        assert (result.value, result.num_facts_read, result.available) == (0.0, 0, True)
        assert result.reason == "no fact could be read"


class TestPrecision:
    @pytest.mark.parametrize(
        ("text", "precision"),
        [
            ("The player is below the box, and the box is right of the target.", 1.0),
            ("The player is below the box, and the box is left of the target.", 0.5),
            ("The player is above the box.", 0.0),
            ("box0 is above and to the left of the player.", 0.5),
        ],
    )
    def test_is_the_share_of_claims_that_are_true(self, text, precision):
        result = score("Sokoban", "natural_language", text, SOKOBAN)
        assert result.precision == precision
        assert result.value < 1.0

    def test_of_no_claims_is_undefined(self):
        assert math.isnan(score("Sokoban", "natural_language", "The floor is clean.", SOKOBAN).precision)

    def test_of_a_missing_score_is_undefined(self):
        assert math.isnan(JudgeScore.unavailable("no answer").precision)


class TestShotgun:
    def test_every_cell_for_everything(self):
        cells = [(row, column) for row in range(6) for column in range(6)]
        text = f"player_position: {cells[0]}, {cells}; box_positions: {cells}; target_positions: {cells}"
        # The player contradicts itself; per category 1 right of 36 + 36 claimed and 2 true: 2/74.
        assert score("Sokoban", "structured", text, SOKOBAN).value == pytest.approx(2 / 74)

    def test_a_grid_of_one_symbol(self):
        # 36 cells claimed for box and for target, none for the player: 2·1/(36+2).
        text = "\n".join(["******"] * 6)
        assert score("Sokoban", "symbolic", text, SOKOBAN).value == pytest.approx(2 / 38)

    def test_every_side_of_the_same_thing_contradicts_itself(self):
        sides = ("above", "below", "to the left of", "to the right of", "at the same place as")
        text = " ".join(f"The {thing} is {side} the player." for thing in ("goal", "hole") for side in sides)
        assert score("FrozenLake", "natural_language", text, LAKE).value == 0.0
        assert score("FrozenLake", "natural_language", "The goal is above or below the player.", LAKE).value == 0.0

    def test_a_hole_on_every_side_pays_nothing(self):
        text = " ".join(
            f"There is a hole {vertical} and to the {horizontal} of the player."
            for vertical in ("above", "below", "at the same row")
            for horizontal in ("left", "right")
        )
        result = score("FrozenLake", "natural_language", text, LAKE)
        # Six holes of two facts claimed: 4 of 12 facts are right, and the wrong ones cancel them.
        assert result.per_category["holes"] == result.value == 0.0


class TestMisuse:
    def test_unknown_world_suggests_the_one_meant(self):
        with pytest.raises(ValueError, match="Did you mean 'Sokoban'"):
            ExactJudge("VLM/Sokobn-v0", "structured")

    def test_unknown_representation(self):
        with pytest.raises(ValueError, match="representation"):
            ExactJudge("Sokoban", "prose")

    def test_state_of_another_world(self):
        with pytest.raises(ValueError, match="'box_positions'"):
            score("Sokoban", "structured", "{player_position: (3, 1)}", LAKE)
