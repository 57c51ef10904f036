"""Facts of true states, which a probe is asked for."""

from benchmarks.probe.facts import MAX_CLASSES, facts_of, is_number


def test_places_of_equal_lists_are_facts_and_constants_are_none():
    states = [{"player": (row, 1), "goal": (0, 3), "size": (4, 4)} for row in (0, 1, 2)]
    assert facts_of(states) == {"player": {"player.0": [0, 1, 2]}}


def test_of_several_positions_the_facts_are_which_there_are():
    states = [{"holes": [(0, 1), (1, 1)]}, {"holes": [(1, 1), (2, 2)]}, {"holes": [(0, 1), (1, 1)]}]
    assert facts_of(states)["holes"] == {
        "holes has (0, 1)": [True, False, True],
        "holes has (2, 2)": [False, True, False],
    }


def test_lists_of_several_lengths_are_sets_whose_rare_elements_nobody_is_asked_for():
    states = [{"seen": ["Bed", "Lamp"] if number % 2 else ["Lamp"]} for number in range(40)]
    states[0]["seen"] = ["Lamp", "Sofa"]
    assert list(facts_of(states)["seen"]) == ["seen has 'Bed'"]


def test_what_is_nested_is_named_by_its_place():
    states = [{"shapes": [{"kind": kind, "box": [1.0, 2.0]}]} for kind in ("circle", "square")]
    assert facts_of(states) == {"shapes": {"shapes.0.kind": ["circle", "square"]}}


def test_many_numbers_are_a_number_and_many_texts_are_left_out():
    many = MAX_CLASSES + 1
    facts = facts_of([{"distance": number / 2, "id": str(number), "held": None} for number in range(many)])
    assert list(facts) == ["distance"] and is_number(facts["distance"]["distance"])
    assert not is_number([0.5, 1.5] * many), "few numbers are classes"
