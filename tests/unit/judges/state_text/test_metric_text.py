"""What the reader of a table takes from a sentence, and what it leaves."""

import pytest

from judges.state_text.metric_rules import read_metric_text

P, Q = "(83, -102, 20)", "(-47,95,20)"
AT_P, AT_Q = (83, -102, 20), (-47, 95, 20)
BOTH = {"cube red": [AT_P], "cube green": [AT_Q]}


def claims(text):
    """{"cube red": [position, …]} for everything that is claimed."""
    said = {}
    for claim in read_metric_text(text):
        said.setdefault(" ".join(sorted(claim.name)), []).append(claim.value)
    return said


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        (f"the red cube is at {P}. the green cube is at {Q}.", BOTH),
        (f"the left target is at {P}.", {"left target": [AT_P]}),
        (f"the drawer handle is at {P}.", {"drawer handle": [AT_P]}),
        (f"Red block: {P}; green block: {Q}", BOTH),
        (f"red_cube_position {P}", {"cube red": [AT_P]}),
        ("The red cube is at [x=83, y=-102, z=20]", {"cube red": [AT_P]}),
        ("The red cube is at (83 mm, -102mm, 20 mm)", {"cube red": [AT_P]}),
        ("the red cube is at (83.5, -102, 20.)", {"cube red": [(83.5, -102, 20)]}),
        # Several at once.
        (f"The red and the green cube are at {P} and {Q}.", BOTH),
        (f"The red cube and the green cube are at {P} and {Q}, respectively", BOTH),
        (f"The left and right targets are at {P} and {Q}", {"left target": [AT_P], "right target": [AT_Q]}),
        (f"I see the red cube {P}, the green cube {Q}", BOTH),
        # The subject of the clause has the position.
        (f"The red cube is on the left target at {P} and the green cube is at {Q}", BOTH),
        (f"The red cube is on the table and the green cube is at {Q}", {"cube green": [AT_Q]}),
        (f"The red cube on the left target at {P}, the green cube at {Q}", BOTH),
        (f"At {P} is the red cube, at {Q} is the green cube.", BOTH),
        (f"{P} and {Q} are the red and the green cube.", BOTH),
        (f"At {P} or {Q} is the red cube.", {"cube red": [AT_P, AT_Q]}),
        (f"The red cube is inside the drawer at {P}", {"cube red": [AT_P]}),
        (f"the drawer inside is at {P}.", {"drawer inside": [AT_P]}),
        (f"The red cube is close. It is at {P}.", {"cube red": [AT_P]}),
        # Actions and negations claim nothing, results do.
        ("pick(83,-102,20)|place(-47,95,20)", {}),
        (f"I pick up the red cube at {P} and place it at {Q}.", {"cube red": [AT_P]}),
        (f"I will place the red cube at {Q}.", {}),
        (f"I will place the red cube at {P}, and the green cube is at {Q}.", {"cube green": [AT_Q]}),
        (f"After placing it at {Q}, the red cube will be at {Q}.", {"cube red": [AT_Q]}),
        (f"The red cube will be placed at {Q}.", {"cube red": [AT_Q]}),
        (f"The red cube is not at {P}.", {}),
        (f"The red cube isn't at {P}, and the green cube is at {Q}", {"cube green": [AT_Q]}),
        # Alternatives are two claims.
        (f"The red cube is at {P} or {Q}.", {"cube red": [AT_P, AT_Q]}),
        # How far the drawer stands open.
        ("the drawer is open by 120 mm.", {"drawer open": [(120,)]}),
        ("The drawer is 12 cm open", {"drawer open": [(120,)]}),
        ("The drawer is closed.", {"drawer open": [(0,)]}),
        ("The drawer is not closed.", {}),
        ("The drawer is closed by pushing it 120 mm", {"drawer open": [(0,)]}),
        ("The red cube is 20 mm above the table.", {}),
        # Nothing to read.
        (f"Positions: [{P}, {Q}]", {}),
        ("The red cube is at (1, 2).", {}),
        # Positions without brackets.
        ("The red cube is at x=83, y=-102, z=20.", {"cube red": [AT_P]}),
        ("Red cube: x: 83, y: -102 and z: 20", {"cube red": [AT_P]}),
        ("The red cube is at 83, -102, 20, and the green cube is at -47, 95, 20.", BOTH),
        ("The red cube is at 83.0, -102.0, 20.0 mm", {"cube red": [AT_P]}),
        ("The red cube is at 83, -102.", {}),
        ("The red cube is one of 1, 2, 3, 4.", {}),
        ("", {}),
    ],
)  # fmt: skip
def test_sentences(text, expected):
    assert claims(text) == {name: [pytest.approx(value) for value in values] for name, values in expected.items()}
