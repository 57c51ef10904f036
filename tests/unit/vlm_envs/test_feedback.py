"""In every world with actions, an action that changes nothing is told as such, and one that does is told as done."""

from __future__ import annotations

import pytest

from vlm_envs import make


def feedback(env_id, level, *answers, **kwargs):
    """Returns the first line of the last observation after some answers."""
    env = make(env_id, prompt_format="no_think", **kwargs)
    env.reset(options={"level": level} if level else None, seed=0)
    for answer in answers:
        observation, *_ = env.step(f"<answer>{answer}</answer>")
    return observation["text"].splitlines()[0]


SOKOBAN = "######\n#P___#\n#_X__#\n#_O__#\n#____#\n######"
LAKE = "P___\n____\n____\n___G"


@pytest.mark.parametrize(
    ("env_id", "level", "answer", "told"),
    [
        ("VLM/Sokoban-v0", SOKOBAN, "Up, Left", "No effect: Up, Left."),
        ("VLM/Sokoban-v0", SOKOBAN, "Up, Right", "Done: Up (no effect), Right."),
        ("VLM/FrozenLake-v0", LAKE, "Up", "No effect: Up."),
        ("VLM/FrozenLake-v0", LAKE, "Down, Left, Right", "Done: Down, Left (no effect), Right."),
    ],
)
def test_a_wall_is_told(env_id, level, answer, told):
    assert feedback(env_id, level, answer) == told


def test_navigation_tells_a_tilt_that_is_at_its_limit():
    told = feedback("VLM/Navigation-v0", None, "lookup, lookup, lookup, rotateleft")
    assert told == "Done: lookup, lookup, lookup (no effect), rotateleft."


def test_the_arm_tells_what_had_no_effect_and_why():
    told = "No effect: place(0,0,20)."
    assert feedback("VLM/PrimitiveSkill-v0", None, "place(0,0,20)", obs_mode="text") == told
    env = make("VLM/PrimitiveSkill-v0", prompt_format="no_think", obs_mode="text")
    env.reset(seed=0)
    observation, *_ = env.step("<answer>place(0,0,20)</answer>")
    assert "\nReason: place(0,0,20) found nothing in the gripper.\n" in observation["text"]


def test_a_tool_call_that_failed_is_not_told_as_done():
    env = make("VLM/ZoomQA-v0", prompt_format="arm")
    env.reset(seed=0)
    call = '{"name": "no_such_tool", "arguments": {}}'
    observation, *_ = env.step(f"<think></think><tool_call>{call}</tool_call>")
    assert observation["text"].splitlines()[0].startswith("No effect: ")


def test_the_same_drawing_again_is_no_new_one():
    pytest.importorskip("cairosvg")
    drawing = '<svg viewBox="0 0 10 10"><rect width="5" height="5"/></svg>'
    assert feedback("VLM/SVG-v0", None, drawing) == f"Done: {drawing[:60]}."
    assert feedback("VLM/SVG-v0", None, drawing, drawing, max_turns=3) == f"No effect: {drawing[:60]}."


def test_a_drawing_that_cannot_be_drawn_has_no_effect_however_often_it_comes():
    pytest.importorskip("cairosvg")
    broken, drawing = "<svg></svg>", '<svg viewBox="0 0 10 10"><rect width="5" height="5"/></svg>'
    for before in ([], [broken], [drawing], [drawing, broken]):
        assert feedback("VLM/SVG-v0", None, *before, broken, max_turns=4) == f"No effect: {broken}."
    assert feedback("VLM/SVG-v0", None, broken, drawing, max_turns=3) == f"Done: {drawing[:60]}."
