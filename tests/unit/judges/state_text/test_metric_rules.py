"""Hand-computed scores of a table. F1 = 2 · correct / (claimed + true); 0.7 cubes + 0.3 all else."""

import itertools
from statistics import fmean

import pytest

from judges.state_text.exact_judge import ExactJudge
from judges.state_text.metric_rules import MetricRules

# The paper's example, appendix D.1.1.
STATE = {
    "left_target_position": (80, -100, 0),
    "right_target_position": (80, 100, 0),
    "red_cube_position": (83, -102, 20),
    "green_cube_position": (-47, 95, 20),
}
ALIGN = {"red_cube_position": (129, -119, 20), "green_cube_position": (108, 124, 20)}
DRAWER = {"red_cube_position": (60, 100, 20), "drawer_handle_position": (110, 0, 40), "drawer_open_mm": 120}


def score(text, state=STATE, representation="structured", **rules):
    return ExactJudge("VLM/PrimitiveSkill-v0", representation, rules=MetricRules(**rules)).score(text, state)


class TestStructured:
    @pytest.mark.parametrize(
        "text", [str(STATE), str(STATE).replace("'", ""), str(STATE).replace("(", "[").replace(")", "]")]
    )
    def test_python_json_and_bare_words_read_the_same(self, text):
        assert score(text).value == 1.0

    def test_the_papers_short_keys_are_read(self):
        # Appendix C writes {red_cube: (100, 100, 40)}.
        assert score("{red_cube: (83, -102, 20), green_block: (-47, 95, 20)}").per_category == {
            "cubes": 1.0,
            "others": 0.0,
        }

    @pytest.mark.parametrize(
        "text",
        [
            "{red cube: (83, -102, 20), green cube: (-47, 95, 20)}",
            '{"red_cube": {"x": 83, "y": -102, "z": 20}, "green_cube": {"x": -47, "y": 95, "z": 20}}',
            '{"red_cube": {"position": [83, -102, 20]}, "green_cube": {"position": [-47, 95, 20]}}',
            "{red_cube: x=83, y=-102, z=20; green_cube: x=-47, y=95, z=20}",
            '{"red_cube": {"z": 20, "y": -102, "x": 83}, "green_cube": {"y": 95, "x": -47, "z": 20}}',
            '{"red_cube": {"x": "83", "y": "-102", "z": "20"}, "green_cube": ["-47", "95", "20"]}',
            '{"red-cube": [83, -102, 20], "green-cube-position": [-47, 95, 20]}',
            "The state is red cube position: (83, -102, 20), green cube position: (-47, 95, 20)",
        ],
    )
    def test_spaced_keys_and_nested_coordinates_are_read(self, text):
        result = score(text)
        assert result.per_category == {"cubes": 1.0, "others": 0.0}
        assert result.precision == 1.0

    def test_a_cube_out_of_place_halves_the_cubes(self):
        assert score(str(STATE).replace("(83,", "(33,")).value == pytest.approx(0.7 * 0.5 + 0.3)

    def test_exchanged_colours_are_wrong(self):
        text = "{red_cube_position: (-47, 95, 20), green_cube_position: (83, -102, 20)}"
        assert score(text).value == 0.0

    def test_a_missed_target_costs_recall(self):
        text = "{red_cube: (83, -102, 20), green_cube: (-47, 95, 20), left_target: (80, -100, 0)}"
        assert score(text).value == pytest.approx(0.7 + 0.3 * 2 / 3)

    def test_a_cube_that_is_not_there_costs_precision(self):
        text = str(STATE)[:-1] + ", 'blue_cube_position': (0, 0, 20)}"
        assert score(text).value == pytest.approx(0.7 * 4 / 5 + 0.3)

    def test_how_far_the_drawer_stands_open_is_an_entry_of_its_own(self):
        assert score(str(DRAWER), DRAWER).value == 1.0
        assert score(str(DRAWER | {"drawer_open_mm": 60}), DRAWER).value == pytest.approx(0.7 + 0.3 * 0.5)


class TestWeights:
    def test_a_table_of_cubes_gives_them_the_whole_weight(self):
        assert score("{red_cube: (129, -119, 20), green_cube: (0, 0, 20)}", ALIGN).value == pytest.approx(0.5)
        assert score("{red_cube: (0, 0, 20)}", ALIGN).value == 0.0


class TestTolerance:
    @pytest.mark.parametrize(
        ("claimed", "is_right"),
        [("(93, -112, 30)", True), ("(94, -102, 20)", False), ("(83, -91, 20)", False), ("(83, -102, 30.1)", False)],
    )
    def test_ten_millimeters_in_each_coordinate(self, claimed, is_right):
        # VAGEN, appendix D.1.1: x, y and z each within ±10.
        text = f"{{red_cube_position: {claimed}}}"
        assert (score(text).value > 0.0) is is_right

    def test_it_is_an_argument(self):
        assert score("{red_cube_position: (85, -102, 20)}", tolerance_mm=1.0).value == 0.0
        assert score("{red_cube_position: (33, -102, 20)}", tolerance_mm=50.0).value > 0.0

    @pytest.mark.parametrize("number", ["nan", "NaN", "inf", "-Infinity", "1e999", "9" * 400])
    def test_absurd_numbers_are_wrong_claims(self, number):
        result = score(f"{{red_cube_position: ({number}, -102, 20)}}")
        assert (result.value, result.num_facts_read) == (0.0, 1)


class TestNamedTargets:
    @pytest.mark.parametrize(
        ("text", "cubes"),
        [
            ("The red cube is on the left target, the green cube is near the right target.", 1.0),
            ("The red cube will be on the left target.", 2 / 3),
            ("The red cube is close to the left target.", 2 / 3),
            ("The red and green cubes are on the left and right targets.", 0.5),
            ("The red cube is on the right target.", 0.0),
            ("The green cube is on the right target.", 0.0),
            ("The green cube is near the left target.", 0.0),
            ("The red cube is on the blue target.", 0.0),
            ("The red cube is on the left target and on the right target.", 0.0),
            ("The red cube is not on the left target.", 0.0),
            ("I will place the red cube on the left target.", 0.0),
            ("The red cube is to the left of the left target.", 0.0),
        ],
    )
    def test_a_cube_may_be_placed_by_a_targets_name(self, text, cubes):
        assert score(text, representation="natural_language").per_category["cubes"] == pytest.approx(cubes)

    def test_a_cube_held_above_a_target_is_not_on_it(self):
        held = STATE | {"red_cube_position": (83, -102, 120)}
        assert score("The red cube is on the left target.", held, "natural_language").value == 0.0


class TestShotgun:
    def test_two_positions_of_one_cube_are_none(self):
        text = "{red_cube: (83, -102, 20), red_cube: (0, 0, 20)}"
        assert score(text).per_category["cubes"] == 0.0

    def test_two_positions_that_are_both_right_are_one(self):
        assert score("{red_cube: (83, -102, 20), red_cube: (85, -100, 20)}").per_category["cubes"] == pytest.approx(
            2 / 3
        )

    @pytest.mark.parametrize(
        "text",
        ["[(83,-102,20),(-47,95,20),(80,-100,0),(80,100,0)]",
         "{cube: [(83, -102, 20), (-47, 95, 20)], target: [(80, -100, 0), (80, 100, 0)]}"],
    )  # fmt: skip
    def test_copying_the_prompts_nameless_positions_earns_nothing(self, text):
        assert score(text).value == 0.0

    @pytest.mark.parametrize("num_cubes", [2, 3])
    def test_dealing_out_the_prompts_positions_blindly_pays_the_targets_and_a_share_of_the_cubes(self, num_cubes):
        # On average one of n cubes is dealt its own position: 0.7 / n + 0.3.
        places = [(83, -102, 20), (-47, 95, 20), (0, 0, 20)][:num_cubes]
        names = [f"{colour}_cube_position" for colour in ("red", "green", "blue")][:num_cubes]
        targets = {key: STATE[key] for key in ("left_target_position", "right_target_position")}
        state = dict(zip(names, places, strict=True)) | targets
        dealt = [dict(zip(names, order, strict=True)) | targets for order in itertools.permutations(places)]
        assert fmean(score(str(each), state).value for each in dealt) == pytest.approx(0.7 / num_cubes + 0.3)

    def test_the_only_cube_needs_no_colour(self):
        assert score("{cube_position: (60, 100, 20)}", DRAWER).per_category["cubes"] == 1.0

    def test_every_name_at_every_position(self):
        positions = ["(83, -102, 20)", "(-47, 95, 20)", "(80, -100, 0)", "(80, 100, 0)"]
        text = ", ".join(f"{key}: {position}" for key in STATE for position in positions)
        # No two of these places are within 20 mm of each other, or two claims would agree.
        assert score(text).value == 0.0
