"""Hand-computed scores of a search. F1 = 2 · correct / (claimed + true); 0.5 direction + 0.2 distance + 0.3 visible."""

import pytest

from judges.state_text.egocentric_rules import EgocentricRules
from judges.state_text.exact_judge import ExactJudge


def thing(type_, direction, distance):
    return {"type": type_, "direction_to_player": direction, "distance_to_player": distance}


# The paper's example, appendix D.1.1, with the toaster in sight.
STATE = {
    "target_obj_type": "Toaster",
    "target_distance_to_player": 2.59,
    "target_direction_to_player": "ahead",
    "visible_objects": [
        thing("Cabinet", "left", 0.94),
        thing("Drawer", "left", 1.18),
        thing("CounterTop", "left", 1.33),
        thing("Toaster", "ahead", 2.59),
    ],
}
HIDDEN = STATE | {"target_direction_to_player": "back", "visible_objects": STATE["visible_objects"][:3]}


def score(text, state=STATE, representation="natural_language", **rules):
    return ExactJudge("VLM/Navigation-v0", representation, rules=EgocentricRules(**rules)).score(text, state)


class TestStructured:
    @pytest.mark.parametrize("text", [str(STATE), str(STATE).replace("'", ""), str(STATE).replace("'", '"')])
    def test_python_json_and_bare_words_read_the_same(self, text):
        assert score(text, representation="structured").value == 1.0

    def test_a_wrong_direction_costs_half(self):
        text = str(STATE).replace("player': 'ahead'", "player': 'right'", 1)
        assert score(text, representation="structured").value == pytest.approx(0.5)

    def test_a_missed_object_costs_recall(self):
        text = str(STATE | {"visible_objects": STATE["visible_objects"][:3]})
        # Visible: 3 claimed and right, 4 true. But the target is said to be ahead, where it is seen, so it is named.
        assert score(text, representation="structured").value == 1.0
        text = str(STATE | {"visible_objects": STATE["visible_objects"][1:]})
        # 3 right of 3 claimed, 4 true: 0.7 + 0.3 · 6/7.
        assert score(text, representation="structured").value == pytest.approx(0.7 + 0.3 * 6 / 7)

    def test_an_object_that_is_not_there_costs_precision(self):
        text = str(STATE | {"visible_objects": [*STATE["visible_objects"], thing("Dragon", "left", 1.0)]})
        assert score(text, representation="structured").value == pytest.approx(0.7 + 0.3 * 8 / 9)

    def test_a_right_type_in_a_wrong_direction_is_wrong(self):
        text = "{visible_objects: [{type: Cabinet, direction: right}, {type: Drawer, direction: left}]}"
        # 1 right of 2 claimed, 4 true.
        assert score(text, representation="structured").per_category["visible_objects"] == pytest.approx(2 / 6)

    def test_what_is_said_of_another_target_is_wrong(self):
        text = str(STATE).replace("Toaster", "Sofa", 1)
        assert score(text, representation="structured").value == pytest.approx(0.3)


class TestDistance:
    @pytest.mark.parametrize(
        ("claimed", "is_right"),
        [("2.59", True), ("2.97", True), ("2.21", True), ("2.99", False), ("2.19", False), ("nan", False)],
    )
    def test_fifteen_percent_of_a_far_distance(self, claimed, is_right):
        # 15 % of 2.59 m are 0.389 m.
        text = f"{{target_distance_to_player: {claimed}}}"
        assert score(text, representation="structured").per_category["target_distance"] == float(is_right)

    @pytest.mark.parametrize(("claimed", "is_right"), [("0.75", True), ("0.25", True), ("0.76", False)])
    def test_a_quarter_metre_when_near(self, claimed, is_right):
        near = STATE | {"target_distance_to_player": 0.5}
        text = f"{{target_distance_to_player: {claimed}}}"
        assert score(text, near, "structured").per_category["target_distance"] == float(is_right)

    def test_a_wrong_distance_takes_from_the_direction_what_a_right_one_adds(self):
        plain = score("The toaster is ahead.").value
        assert score("The toaster is ahead at 2.6 m.").value == pytest.approx(plain + 0.2)
        assert score("The toaster is ahead at 4 m.").value == pytest.approx(plain - 0.2)

    def test_tolerances_are_arguments(self):
        text = "The toaster is 2.8 m away."
        strict = score(text, tolerance_m=0.1, relative_tolerance=0.0)
        assert (score(text).per_category["target_distance"], strict.per_category["target_distance"]) == (1.0, 0.0)

    def test_two_distances_that_agree_are_one_claim(self):
        result = score("The toaster is at 2.59 m. The toaster is about 2.6 metres away.")
        assert result.per_category["target_distance"] == 1.0

    @pytest.mark.parametrize("number", ["inf", "1e999", "9" * 500, "-5", "nan"])
    def test_absurd_numbers_are_data(self, number):
        assert score(f"The toaster is {number} m away.").value < 0.31


class TestNaturalLanguage:
    def test_the_target_out_of_sight_is_not_claimed_to_be_seen(self):
        text = "The toaster is behind me at 2.6 m. The cabinet, the drawer and the counter are on the left."
        assert score(text, HIDDEN).value == 1.0

    def test_silence_on_what_is_seen_costs_three_tenths(self):
        assert score("The toaster is behind me at 2.6 m.", HIDDEN).value == pytest.approx(0.7)

    def test_seeing_nothing_is_right_where_nothing_is_to_be_seen(self):
        blind = HIDDEN | {"visible_objects": []}
        assert score("the toaster is behind at 2.59 m. visible: nothing.", blind).value == 1.0

    def test_a_general_name_is_matched_as_well_as_can_be(self):
        # "a lamp" fits both, "the floor lamp" one of them: two right, whichever comes first.
        lamps = HIDDEN | {"visible_objects": [thing("FloorLamp", "left", 1.0), thing("TableLamp", "left", 2.0)]}
        text = "A lamp is on the left. The floor lamp is on the left."
        assert score(text, lamps).per_category["visible_objects"] == 1.0

    def test_a_special_name_is_wrong_for_another_kind(self):
        lamps = HIDDEN | {"visible_objects": [thing("FloorLamp", "left", 1.0)]}
        assert score("The table lamp is on the left.", lamps).per_category["visible_objects"] == 0.0

    def test_only_the_five_nearest_have_to_be_named(self):
        many = HIDDEN | {"visible_objects": [thing(f"Chair{'abcdefg'[i]}", "left", 1.0 + i) for i in range(7)]}
        names = [f"the chair{letter} is to the left. " for letter in "abcdefg"]
        for named in (names[:5], names):
            assert score("visible: " + "".join(named), many).per_category["visible_objects"] == 1.0
        # Of the nearest five two are missing, two further ones are there: 5 right of 5 claimed, 5 + 2 true.
        assert score("visible: " + "".join(names[2:]), many).per_category["visible_objects"] == pytest.approx(10 / 12)


class TestCombinedDirections:
    PHRASES = (
        "ahead and to the left",
        "to our front-left",
        "forward-left",
        "diagonally ahead on the left",
        "front left",
    )

    @pytest.mark.parametrize("phrase", PHRASES)
    @pytest.mark.parametrize(("direction", "expected"), [("ahead", 1.0), ("left", 0.5), ("right", 0.0), ("back", 0.0)])
    def test_the_primary_direction_counts_in_full_and_the_side_by_half(self, phrase, direction, expected):
        state = STATE | {"target_direction_to_player": direction}
        assert score(f"The toaster is {phrase}.", state).per_category["target_direction"] == expected
        text = f"{{target_direction_to_player: {phrase}}}"
        assert score(text, state, "structured").per_category["target_direction"] == expected

    def test_a_thing_in_sight_may_be_to_the_front_left(self):
        result = score("The cabinet is on the left. The toaster is ahead and to the left.")
        assert result.per_category["visible_objects"] == pytest.approx(2 * 2 / (2 + 4))

    @pytest.mark.parametrize(
        "text", ["The toaster is ahead or to the left.", "The toaster is ahead. It is to the left."]
    )
    def test_alternatives_and_contradictions_are_not_combined(self, text):
        assert score(text).per_category["target_direction"] == 0.0


class TestShotgun:
    def test_every_direction_for_the_target_is_none(self):
        text = " ".join(f"The toaster is {side}." for side in ("ahead", "behind", "to the left", "to the right"))
        assert score(text).per_category["target_direction"] == 0.0
        assert score("The toaster is ahead or to the left.").per_category["target_direction"] == 0.0

    def test_every_distance_for_the_target_is_none(self):
        text = " ".join(f"The toaster is {metres} m away." for metres in range(1, 9))
        assert score(text).per_category["target_distance"] == 0.0

    def test_everything_everywhere_pays_little(self):
        types = "sofa bed lamp chair table sink toilet mug vase bowl cabinet drawer toaster".split()  # noqa: SIM905
        sides = ("ahead", "to the left", "to the right", "behind")
        text = "visible: " + " ".join(f"the {each} is {side}." for each in types for side in sides)
        # Three of 52 claimed are right, of four true ones.
        assert score(text).value == pytest.approx(0.3 * 2 * 3 / (52 + 4))

    def test_repeating_what_is_right_costs_precision(self):
        text = "The cabinet is on the left. " * 7
        assert score(text).per_category["visible_objects"] == pytest.approx(2 / (7 + 4))
