"""What the reader of natural language takes from a sentence, and what it leaves."""

import pytest

from judges.state_text.grid_language import read_language
from judges.state_text.grid_relations import ALL, SOME
from judges.state_text.vocabulary import VOCABULARIES

UP, DOWN, LEFT, RIGHT, SAME_ROW, SAME_COLUMN = (0, -1), (0, 1), (1, -1), (1, 1), (0, 0), (1, 0)
SAME_PLACE = {SAME_ROW, SAME_COLUMN}


def claims(world, text):
    """{"box0 player": {(axis, sign), …}} for every pair that the text relates."""
    related = {}
    for (kind, number), sides in read_language(text, VOCABULARIES[world]).by_object.items():
        for (anchor, axis), signs in sides.items():
            pair = f"{kind}{number} {anchor[0]}{'' if anchor[0] == 'player' else anchor[1]}"
            related.setdefault(pair, set()).update((axis, sign) for sign in signs)
    return related


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("box0 is above and to the left of the player.", {"box0 player": {UP, LEFT}}),
        ("box0 is above and on the left side of the player", {"box0 player": {UP, LEFT}}),
        ("box0 is at the same row and to the right of the player.", {"box0 player": {SAME_ROW, RIGHT}}),
        ("box0 is below and at the same column as the player.", {"box0 player": {DOWN, SAME_COLUMN}}),
        ("target0 is at the same place as box0.", {"target0 box0": SAME_PLACE}),
        ("target0 is on top of box0.", {"target0 box0": SAME_PLACE}),
        # Either order is the same fact.
        ("The player is below the box.", {"box0 player": {UP}}),
        ("The box is to the right of the target.", {"target0 box0": {LEFT}}),
        # Shared subjects and objects.
        ("The player is above the box and below the target", {"box0 player": {DOWN}, "target0 player": {UP}}),
        ("The player is above the box and the target.", {"box0 player": {DOWN}, "target0 player": {DOWN}}),
        ("The box and the target are left of the player.", {"box0 player": {LEFT}, "target0 player": {LEFT}}),
        ("The target and box are at the same place", {"target0 box0": SAME_PLACE}),
        ("The box and target are in the same row and column.", {"target0 box0": SAME_PLACE}),
        # A new clause takes its own subject.
        (
            "The player is below the box, and the box is below the target.",
            {"box0 player": {UP}, "target0 box0": {UP}},
        ),
        ("The box is above and the target is to the left.", {"box0 player": {UP}, "target0 player": {LEFT}}),
        (
            "The box is above the player and the target is left of it.",
            {"box0 player": {UP}, "target0 player": {LEFT}},
        ),
        # Inversion and possessives.
        ("Above the player is the box.", {"box0 player": {UP}}),
        (
            "To the left of the player is the box, and above is the target.",
            {"box0 player": {LEFT}, "target0 player": {UP}},
        ),
        ("The box is on the player's left.", {"box0 player": {LEFT}}),
        (
            "The crate is directly right of me, right below the goal",
            {"box0 player": {RIGHT, SAME_ROW}, "target0 box0": {UP, SAME_COLUMN}},
        ),
        ("The target is northwest of the box.", {"target0 box0": {UP, LEFT}}),
        # Negation claims nothing; what follows "but" does.
        ("The box isn't above the player.", {}),
        ("The box is not above the player, but below it.", {"box0 player": {DOWN}}),
        # Movement is no relation, its result is.
        ("The player will move to the left, then push the box left to the target.", {}),
        ("After moving left, the player will be below the box.", {"box0 player": {UP}}),
        ("The player will push the box up onto the target.", {"target0 box0": SAME_PLACE}),
        # Places in the picture are no relations, as the paper's rubric asks.
        ("The player is in the top left corner and the box is on the left side of the room.", {}),
        ("The target is at the bottom.", {}),
        ("There is a wall between the player and the target.", {}),
        (
            "the player is at the bottom of the wall, with the box directly in front of the player to the "
            "right and the target directly above the box.",
            {"box0 player": {RIGHT}, "target0 box0": {UP, SAME_COLUMN}},
        ),
        # "Directly" and its relatives align the other axis, unless it is named.
        ("The box is straight above the player.", {"box0 player": {UP, SAME_COLUMN}}),
        ("The box is due west of the player.", {"box0 player": {LEFT, SAME_ROW}}),
        ("The box is exactly to the left of the player.", {"box0 player": {LEFT, SAME_ROW}}),
        ("The box is directly on the player's right.", {"box0 player": {RIGHT, SAME_ROW}}),
        ("The box is directly below and to the left of the player.", {"box0 player": {DOWN, LEFT}}),
        ("The box is neither left nor right of the player.", {"box0 player": {SAME_COLUMN}}),
        ("The box is below the player, neither to the left nor to the right.", {"box0 player": {DOWN, SAME_COLUMN}}),
        ("The box is neither above nor to the left of the player.", {}),
        # Commas for full stops, and success in the paper's words.
        (
            "The player will be below the box, the target and box will be at the same place.",
            {"box0 player": {UP}, "target0 box0": SAME_PLACE},
        ),
        ("The box and target will coincide.", {"target0 box0": SAME_PLACE}),
        ("The target and the box will overlap", {"target0 box0": SAME_PLACE}),
        ("The box will be at the target's position.", {"target0 box0": SAME_PLACE}),
        (
            "The box will be where the target is, and the player is above it.",
            {"target0 box0": SAME_PLACE, "target0 player": {DOWN}},
        ),
    ],
)
def test_sokoban_sentences(text, expected):
    assert claims("Sokoban", text) == expected


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (
            "the target is below and at the same column as the player.",
            {"target0 player": {DOWN, SAME_COLUMN}},
        ),
        ("The goal is below", {"target0 player": {DOWN}}),
        ("I am above a hole and left of the goal", {"hole0 player": {DOWN}, "target0 player": {RIGHT}}),
        ("The player falls into the hole.", {"hole0 player": SAME_PLACE}),
        ("The player will be at the goal.", {"target0 player": SAME_PLACE}),
        # "another" and numbers make new holes, "the" does not.
        (
            "There is a hole to the left of the player and another hole above the player.",
            {"hole0 player": {LEFT}, "hole1 player": {UP}},
        ),
        (
            "hole4 is above the player. hole2 is below the player.",
            {"hole0 player": {UP}, "hole1 player": {DOWN}},
        ),
        ("There is a hole above me. The hole is left of me.", {"hole0 player": {UP, LEFT}}),
        ("The hole 2 steps to the left of the player. The hole is below.", {"hole0 player": {LEFT, DOWN}}),
        # A frame is no object, and being near gives no side.
        (
            "The player is at the right side of the grid, adjacent to a hole. The goal (G) is on the left "
            "side of the player.",
            {"target0 player": {LEFT}},
        ),
        ("There is no hole above the player, and the goal is above.", {"target0 player": {UP}}),
        ("The hole is left of the goal.", {}),
        # Success in the paper's words; a purpose or an ability is none.
        *(
            (sentence, {"target0 player": SAME_PLACE})
            for sentence in (
                "The player will be at the position of the gift.",
                "The player will be at the gift's position.",
                "The gift will be at the player's position.",
                "The gift is at my position.",
                "The goal is reached.",
                "The goal has been reached by the player.",
                "The player will get to the goal.",
                "The player will arrive at the goal.",
                "The player will be where the goal is.",
                "I am going to reach the goal.",
            )
        ),
        ("To reach the goal, the player moves right.", {}),
        ("The player can reach the goal.", {}),
        ("The goal is not reached.", {}),
        ("The player gets closer to the goal.", {}),
    ],
)
def test_frozen_lake_sentences(text, expected):
    assert claims("FrozenLake", text) == expected


def groups(text):
    """[(count, {(axis, sign), …})] for every hole or group of holes, in order."""
    read = read_language(text, VOCABULARIES["FrozenLake"])
    return [
        (read.counts.get(name, 1), {(axis, sign) for (_, axis), signs in sides.items() for sign in signs})
        for name, sides in sorted(read.by_object.items())
        if name[0] == "hole"
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Two holes are below and to the right of the player.", [(2, {DOWN, RIGHT})]),
        ("Both holes are below the player.", [(2, {DOWN})]),
        ("Both of the holes are below.", [(2, {DOWN})]),
        ("There are 3 holes above me.", [(3, {UP})]),
        ("The three holes are above.", [(3, {UP})]),
        ("The player is above two holes.", [(2, {DOWN})]),
        ("A pair of holes is below the player.", [(2, {DOWN})]),
        ("There are holes to the left of the player.", [(SOME, {LEFT})]),
        ("There are several dangerous holes to the left of the player.", [(SOME, {LEFT})]),
        ("All holes are below the player.", [(ALL, {DOWN})]),
        ("There are no holes below the player.", []),
        # Later words for a group.
        ("There are two holes. Both are below the player.", [(2, {DOWN})]),
        ("There are two holes. They are below the player.", [(2, {DOWN})]),
        ("There are two holes. The holes are below the player.", [(2, {DOWN})]),
        ("There is a hole above. Another hole is below. Both holes are left of me.", [(1, {UP, LEFT}), (1, {DOWN, LEFT})]),  # noqa: E501
        ("There are two holes below and two other holes above.", [(2, {DOWN}), (2, {UP})]),
        # Members, and a plural on opposite sides.
        ("There are two holes: one above the player and one to the left of it.", [(1, {UP}), (1, {LEFT})]),
        ("Two holes are below: one is directly below, the other is to the right.", [(0, {DOWN}), (1, {DOWN, SAME_COLUMN}), (1, {DOWN, RIGHT})]),  # noqa: E501
        ("There are holes above and below the player.", [(1, {UP}), (1, {DOWN})]),
        ("The hole is above or below the player.", [(1, {UP, DOWN})]),
    ],
)  # fmt: skip
def test_plurals_and_numbers(text, expected):
    assert groups(text) == expected
