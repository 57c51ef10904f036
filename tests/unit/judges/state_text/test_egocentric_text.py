"""What the reader of a search takes from a sentence, and what it leaves."""

import pytest

from judges.state_text.egocentric_text import read_egocentric_text

SOFA_BED_LAMP = ("sofa", "bed", "lamp")


def claims(text):
    """{"lamp": "left 2.0"} for everything that something is claimed of."""
    said = {}
    for mention in read_egocentric_text(text, {"toaster", "rubberduck"}):
        words = [
            *sorted(direction.replace(" ", "+") for direction in mention.directions),
            *map(str, sorted(mention.distances_m)),
        ]
        if words:
            said["target" if mention.is_target else mention.name] = " ".join(words)
    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("the toaster is ahead at 2.59 m.", {"toaster": "ahead 2.59"}),
        ("the rubber duck is to the right at 0.94 m.", {"rubberduck": "right 0.94"}),
        ("the sofa is behind at 1.00 m.", {"sofa": "back 1.0"}),
        # Words for the four directions.
        ("The toaster is in front of me.", {"toaster": "ahead"}),
        ("The toaster is straight ahead.", {"toaster": "ahead"}),
        ("There's a toaster right in front of the player", {"toaster": "ahead"}),
        ("The lamp is forward, and the bed is at the rear.", {"lamp": "ahead", "bed": "back"}),
        ("The lamp is behind you and the bed is to your right.", {"lamp": "back", "bed": "right"}),
        ("On my left-hand side is a bed.", {"bed": "left"}),
        # Units and numbers.
        ("The toaster is 2.6 metres away.", {"toaster": "2.6"}),
        ("The toaster is two meters ahead", {"toaster": "ahead 2.0"}),
        ("The toaster is 150 cm ahead", {"toaster": "ahead 1.5"}),
        ("toaster: ahead, 2.6", {"toaster": "ahead 2.6"}),
        ("I am 2.6 m from the toaster.", {"toaster": "2.6"}),
        ("The distance to the target is 3 m", {"target": "3.0"}),
        ("There are 2 chairs on the left", {"chair": "left"}),
        # Lists, before and after their direction.
        ("The sofa, the bed and the lamp are on the left, 2 m away.", dict.fromkeys(SOFA_BED_LAMP, "left 2.0")),
        ("To my left, there is a sofa, a bed and a lamp.", dict.fromkeys(SOFA_BED_LAMP, "left")),
        ("To my left is a sofa and to my right is a bed.", {"sofa": "left", "bed": "right"}),
        ("I see a sofa on the left and a bed on the right.", {"sofa": "left", "bed": "right"}),
        ("I see a sofa, and the bed is on the right.", {"bed": "right"}),
        ("Left: sofa, trash can. Right: coffee table", {"sofa": "left", "trashcan": "left", "coffeetable": "right"}),
        ("sofa (left, 0.94 m), bed (right, 1.2 m)", {"sofa": "left 0.94", "bed": "right 1.2"}),
        ("- sofa: left\n- bed: right", {"sofa": "left", "bed": "right"}),
        # The first thing named is the subject; "it" is the thing named last.
        ("The lamp on the table is to the right.", {"lamp": "right"}),
        ("The target is the toaster. It is ahead, and it's 2 m away.", {"target": "ahead 2.0"}),
        ("The target, the toaster, is ahead.", {"target": "ahead", "toaster": "ahead"}),
        # Seen from elsewhere, or in the picture: no claim.
        ("The lamp is to the left of the sofa.", {}),
        ("The lamp is behind the sofa.", {}),
        ("The lamp is in front of the sofa, 0.5 m from it.", {}),
        ("The lamp is 0.5 m from the sofa, ahead of me.", {"lamp": "ahead"}),
        ("The lamp is on the right side of the image.", {}),
        # Movement and negation: no claim.
        ("I turn left and move 0.5 m ahead.", {}),
        ("After turning right, the toaster will be ahead.", {"toaster": "ahead"}),
        ("I rotate left so that the toaster is on the right", {"toaster": "right"}),
        ("The toaster is not ahead.", {}),
        ("There's no lamp or sofa on the left, but a bed on the right.", {"bed": "right"}),
        ("The toaster isn't visible and the lamp is on the left.", {"lamp": "left"}),
        # A combined direction is one claim, alternatives are two, and a nuance is none.
        ("The toaster is ahead and to the left.", {"toaster": "ahead+left"}),
        ("The toaster is in front of me, to the left.", {"toaster": "ahead+left"}),
        ("The toaster is behind me on the right.", {"toaster": "back+right"}),
        ("To my front-left is the toaster.", {"toaster": "ahead+left"}),
        ("Ahead and to the left, there is a toaster.", {"toaster": "ahead+left"}),
        ("The toaster is ahead and to the left is a sofa.", {"toaster": "ahead", "sofa": "left"}),
        ("The sofa is ahead, on the left a lamp.", {"sofa": "ahead", "lamp": "left"}),
        ("The toaster is ahead or to the left.", {"toaster": "ahead left"}),
        ("The lamp is ahead and to the left of the sofa.", {}),
        ("I will move forward-left to reach the toaster.", {}),
        # What the player faces is ahead.
        ("I will be facing the toaster.", {"toaster": "ahead"}),
        ("I am directly facing the toaster, and the lamp is on the left.", {"toaster": "ahead", "lamp": "left"}),
        ("The chair is facing the toaster.", {}),
        ("I need to turn to face the toaster.", {}),
        ("Facing left, I see the toaster.", {}),
        ("The toaster is ahead, slightly to the left.", {"toaster": "ahead"}),
        # Nothing that is known.
        ("The wumpus is on the left.", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_sentences(text, expected):
    assert claims(text) == expected


def test_what_stands_in_the_list_is_marked():
    mentions = read_egocentric_text(
        "the toaster is ahead at 2 m. visible: the toaster is ahead. the bed is to the left.", ()
    )
    assert [(mention.name, mention.is_listed) for mention in mentions] == [
        ("toaster", False),
        ("toaster", True),
        ("bed", True),
    ]


@pytest.mark.parametrize("word", ["info", "information", "inframe", "nanny"])
def test_a_word_that_starts_like_inf_or_nan_is_no_number(word):
    assert claims(f"The {word} says that the toaster is ahead, 2 m away.") == {"toaster": "ahead 2.0"}
