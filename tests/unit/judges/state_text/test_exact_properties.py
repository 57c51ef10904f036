"""What must hold for every state and every string."""

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from judges.state_text.exact_judge import ExactJudge
from judges.state_text.vocabulary import VOCABULARIES

REPRESENTATIONS = ("natural_language", "symbolic", "structured")
SIZE = 6
cells = st.tuples(st.integers(0, SIZE - 1), st.integers(0, SIZE - 1))
symbols = {
    "Sokoban": {"": "_", "t": "O", "b": "X", "p": "P", "bt": "*", "pt": "S"},
    "FrozenLake": {"": "_", "h": "O", "t": "G", "p": "P", "hp": "X", "pt": "*"},
}


@st.composite
def states(draw, world):
    if world == "Sokoban":
        player, *boxes = draw(st.lists(cells, min_size=2, max_size=5, unique=True))
        targets = draw(st.lists(cells, min_size=len(boxes), max_size=len(boxes), unique=True))
        objects = {"box_positions": boxes, "target_positions": targets}
    else:
        target, *holes = draw(st.lists(cells, min_size=1, max_size=6, unique=True))
        player = draw(cells)
        objects = {"target_position": target, "hole_positions": holes}
    return {"player_position": player, **objects, "grid_size": (SIZE, SIZE)}


def sentence(name, cell, anchor_name, anchor):
    """The relation sentence as the worlds write it."""
    vertical, horizontal = ((a > b) - (a < b) for a, b in zip(cell, anchor, strict=True))
    rows = {-1: "above", 0: "at the same row", 1: "below"}[vertical]
    columns = {-1: "to the left of", 0: "at the same column as", 1: "to the right of"}[horizontal]
    side = "at the same place as" if vertical == horizontal == 0 else f"{rows} and {columns}"
    return f"{name} is {side} {anchor_name}"


def write(world, representation, state, order=lambda objects: objects):
    """An independent writer of state text; `order` permutes each kind's objects and so their names."""
    if representation == "structured":
        return "{" + ", ".join(f"{key}: {value}" for key, value in state.items()) + "}"
    things = {key[0]: [value] if isinstance(value, tuple) else order(value) for key, value in state.items()}
    del things["g"]
    if representation == "symbolic":
        return "\n".join(
            "".join(
                symbols[world]["".join(k for k in sorted(things) if (row, column) in things[k])]
                for column in range(SIZE)
            )
            for row in range(SIZE)
        )
    player = things["p"][0]
    if world == "FrozenLake":
        lines = [sentence("the target", things["t"][0], "the player", player)]
        lines += [sentence(f"hole{i}", hole, "the player", player) for i, hole in enumerate(things["h"])]
    else:
        boxes, targets = list(enumerate(things["b"])), list(enumerate(things["t"]))
        lines = [sentence(f"box{i}", box, "the player", player) for i, box in boxes]
        lines += [sentence(f"target{i}", target, "the player", player) for i, target in targets]
        lines += [sentence(f"target{i}", t, f"box{j}", b) for i, t in targets for j, b in boxes]
    return ". ".join(lines) + "."


@pytest.mark.parametrize("world", VOCABULARIES)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
@given(data=st.data())
def test_the_truth_scores_exactly_one(world, representation, data):
    state = data.draw(states(world))
    if representation == "symbolic" and state["player_position"] in state.get("hole_positions", ()):
        state["hole_positions"] = [state["player_position"]]
    if representation == "symbolic" and state["player_position"] == state.get("target_position"):
        state["hole_positions"] = []
    assert ExactJudge(world, representation).score(write(world, representation, state), state).value == 1.0


@pytest.mark.parametrize("world", VOCABULARIES)
@given(data=st.data())
def test_the_numbering_of_objects_is_free(world, data):
    state = data.draw(states(world))
    text = write(world, "natural_language", state, order=lambda cells: cells[::-1])
    assert ExactJudge(world, "natural_language").score(text, state).value == 1.0


FRAGMENTS = """
    the a another box box0 box1 hole hole7 target goal player it is are will move not no but and , . ; same
    row column place above below left right top of to on at in corner 's its # _ O X P * S G ( ) [ ] { } : 3
    player_position box_positions: target_position: hole_positions: (1,2) [[3,4]] -9999999999999999999
"""
fragments = st.sampled_from([*FRAGMENTS.split(), "\n"])


@pytest.mark.parametrize("world", VOCABULARIES)
@pytest.mark.parametrize("representation", REPRESENTATIONS)
@given(data=st.data(), text=st.text() | st.lists(fragments, max_size=80).map(" ".join) | st.text("#_OXP*SG\n"))
def test_any_string_gets_a_score_between_zero_and_one(world, representation, data, text):
    result = ExactJudge(world, representation).score(text, data.draw(states(world)))
    assert 0.0 <= result.value <= 1.0
    assert all(0.0 <= part <= 1.0 for part in result.per_category.values())
    assert result.per_category.keys() == {category.name for category in VOCABULARIES[world].categories}


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize(
    "unit",
    ["a", " ", "(", "box", "box0 ", "'", "box_positions: [(", "a box is above the player and ", "*\n", "1,",
     "box{i} is above the player. target is left of box{i}. "],
)  # fmt: skip
def test_a_wall_of_text_is_judged_in_bounded_time(representation, unit):
    text = "".join(unit.replace("{i}", str(i)) for i in range(300_000 // len(unit)))
    state = {
        "player_position": (3, 3),
        "box_positions": [(1, 1), (2, 1), (2, 2)],
        "target_positions": [(1, 2), (4, 4)],
    }
    judge = ExactJudge("Sokoban", representation)
    start = time.process_time()
    judge.score(text, state)
    assert time.process_time() - start < 5.0  # linear: well below 1 s; quadratic: minutes


def test_more_boxes_than_can_be_tried_in_every_pairing_still_score_their_truth():
    # Nine boxes have 362,880 pairings. Below and to one side of the player only targets tell them apart.
    boxes = [(row, row) for row in range(1, 10)]
    state = {
        "player_position": (0, 5),
        "box_positions": boxes,
        "target_positions": boxes,
        "grid_size": (10, 10),
    }
    result = ExactJudge("Sokoban", "natural_language").score(write("Sokoban", "natural_language", state), state)
    assert result.value == 1.0
