"""Lenient reading: what is executed of a response that is not in the format, and what stays that of strict reading."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.qa.qa_context import Answer, CallTool, Zoom
from vlm_envs.qa.strategies import STRATEGIES
from vlm_envs.responses.formats import FORMATS, KNOWN_TAGS, QA_FORMATS
from vlm_envs.responses.parsing import (
    MAX_RESPONSE_CHARS,
    READINGS,
    ActionGrammar,
    ParsedResponse,
    parse_response,
    read_response,
)
from vlm_envs.worlds.navigation.navigation_levels import GRAMMAR as NAVIGATION
from vlm_envs.worlds.primitive_skill.skill_planner import GRAMMAR as ARM
from vlm_envs.worlds.svg.svg_world import SvgTask

MOVES = {"up": "Up", "down": "Down", "left": "Left", "right": "Right"}
COMMAS = ActionGrammar(parse=lambda text: MOVES.get(text.lower()), expected="one of Up, Down, Left, Right")
THOUGHTS = {
    "no_think": "",
    "free_think": "<think>The goal is to the right.</think>",
    "grounding_worldmodeling": "<think><observation>o</observation><reasoning>r</reasoning>"
    "<prediction>p</prediction></think>",
}
SVG = '<svg viewBox="0 0 64 64"><text x="1" y="9">A, B; C</text></svg>'

WRAPPED = {
    "a code fence": "```\n{thoughts}<answer>{actions}</answer>\n```",
    "a code fence with a language": "```xml\n{thoughts}<answer>{actions}</answer>\n```",
    "a greeting": "Sure! Here is my move:\n{thoughts}<answer>{actions}</answer>",
    "a closing sentence": "{thoughts}<answer>{actions}</answer>\nI hope this helps.",
    "an end-of-turn token": "{thoughts}<answer>{actions}</answer><|im_end|>",
    "a thought that the template opened": "I should go right.</think>\n<answer>{actions}</answer>",
    "a thought of the model's own": "<think>Hm, an <answer>Up</answer>?</think>\n{thoughts}<answer>{actions}</answer>",
    "an empty thought": "<think></think>\n{thoughts}<answer>{actions}</answer>",
    "a box": "{thoughts}<|begin_of_box|><answer>{actions}</answer><|end_of_box|>",
    "the answer alone": "<answer>{actions}</answer>",
    "capital tags": "{thoughts}<Answer>{actions}</ANSWER>",
    "an earlier answer": "{thoughts}<answer>Up</answer> No:\n<answer>{actions}</answer>",
    "a thought behind": "<answer>{actions}</answer>\n<think>That should do.</think>",
}
"""Right actions in wrappings that models write, around the answer."""

MARKED = {
    "brackets": "[{}]",
    "round brackets": "({})",
    "bold": "**{}**",
    "quotes": '"{}"',
    "a box": r"\boxed{{{}}}",
    "GLM's box": "<|begin_of_box|>{}<|end_of_box|>",
    "code": "`{}`",
    "a fence": "```\n{}\n```",
    "an end-of-turn token": "{}<|im_end|>",
    "a period": "{}.",
    "a full-width period": "{}。",
    "white space": "\n  {}  \n",
    "bold brackets and a period": "**[{}].**",
}
"""Markup around a whole list of actions."""

any_text = st.text(st.characters(), max_size=200)
tag_soup = st.lists(st.one_of(st.sampled_from(sorted(KNOWN_TAGS)), st.sampled_from(["Up", ",", " ", "[", "```"])))


def read(
    text: str,
    name: str = "free_think",
    grammar: ActionGrammar = COMMAS,
    max_actions: int = 3,
    reading: str = "lenient",
) -> ParsedResponse:
    return read_response(text, FORMATS[name], grammar, max_actions, reading)


def asked(text: str, strategy: str, turn: int = 0) -> ParsedResponse:
    """What a question-answering world reads of a response leniently."""
    known = STRATEGIES[strategy]
    grammar = ActionGrammar(
        parse=Answer,
        parse_in=known.readers(),
        lenient_in=known.lenient_readers(),
        separator="",
        expected=known.expected,
    )
    return read_response(text, QA_FORMATS[strategy].at(turn), grammar, 1, "lenient")


# --- Lists of actions ---------------------------------------------------------------------------------


@pytest.mark.parametrize("name", THOUGHTS)
@pytest.mark.parametrize("wrapping", WRAPPED)
def test_wrappings_around_the_answer_do_not_discard_its_actions(wrapping: str, name: str) -> None:
    text = WRAPPED[wrapping].format(thoughts=THOUGHTS[name], actions="Right, Down")
    assert read(text, name).actions == ("Right", "Down")


@pytest.mark.parametrize("markup", MARKED)
def test_markup_around_a_list_does_not_discard_its_actions(markup: str) -> None:
    text = f"{THOUGHTS['free_think']}<answer>{MARKED[markup].format('Right, Down')}</answer>"
    assert read(text).actions == ("Right", "Down")


@pytest.mark.parametrize(
    "answer",
    ["Right，Down", "Right; Down", "Right；Down", "Right\nDown", "Right,\n\nDown", "Right、Down", "Right | Down",
     "**Right**, **Down**", '["Right", "Down"]', "`Right`, `Down`", "Ｒｉｇｈｔ，Ｄｏｗｎ", "Right, Down,"],
)  # fmt: skip
def test_other_separators_and_markup_around_each_action_are_read(answer: str) -> None:
    assert read(f"<answer>{answer}</answer>", "no_think").actions == ("Right", "Down")


@pytest.mark.parametrize(
    "answer",
    ["1. Right\n2. Down", "1) Right\n2) Down", "(1) Right\n(2) Down", "1.Right\n2.Down", "- Right\n- Down",
     "* Right\n* Down", "• Right\n• Down", "1. **Right**\n2. **Down**", "Step 1: Right\nStep 2: Down",
     "1. Right, 2. Down", "Right. Down.", "Right and Down", "Right, and Down", "Right, then Down", "Right then Down",
     "Right, and then Down.",
     "Right -> Down", "Right → Down", "Right => Down", "**Right** -> **Down**", "[Right -> Down]",
     "Actions: Right, Down", "Action: Right; Down", "**Actions:** Right, Down", "My final answer: Right -> Down",
     "Actions:\n1. Right\n2. Down", "**Actions: Right, Down**", "Right, Down (to reach the goal)"],
)  # fmt: skip
def test_common_ways_to_write_a_list_are_read(answer: str) -> None:
    parsed = read(f"<answer>{answer}</answer>", "no_think")
    assert (parsed.actions, parsed.unread) == (("Right", "Down"), "")
    assert read(f"<answer>{answer}</answer>", "no_think", reading="strict").actions in ((), ("Right",))


@pytest.mark.parametrize("answer", ["- Right", "1. Right", "Action: Right", "* Right"])
def test_a_list_of_one_action_is_read(answer: str) -> None:
    assert read(f"<answer>{answer}</answer>", "no_think").actions == ("Right",)


@pytest.mark.parametrize(
    "answer",
    ["Do not go Right", "Do not go Right. Down", "Not Right and Down", "Right or Down", "Right (2)", "2 Right",
     "Right 2", "Right (or Down)", "Right and not Down", "- Right\n- jump", "1. jump\n2. Right", "Actions: none",
     "Actions:", "and", "1.", "Right Actions: Down", "Right. Is it? No. Answer: Down", "Right. Answer: Down"],
)  # fmt: skip
def test_a_list_with_a_piece_that_is_not_an_action_executes_nothing(answer: str) -> None:
    parsed = read(f"<answer>{answer}</answer>", "no_think")
    assert parsed.actions == ()
    assert parsed.unread


def test_a_long_numbered_list_is_cut_at_the_maximum() -> None:
    listed = "".join(f"{number}. Right\n" for number in range(1, 13))
    parsed = read(f"<answer>{listed}</answer>", "no_think")
    assert parsed.actions == ("Right",) * 3


@pytest.mark.parametrize("later", ["<answer></answer>", "I put it in `<answer></answer>`.", "<Answer> \n </Answer>"])
def test_a_later_blank_answer_does_not_discard_the_last_one_with_content(later: str) -> None:
    text = f"Sure! <answer>Up</answer> <answer>Right</answer> {later}"
    assert read(text).actions == ("Right",)
    assert asked(text, "direct").actions == (Answer("Right"),)


@pytest.mark.parametrize(
    ("answer", "actions"),
    [
        ("Right, jump, Down", ("Right",)),
        ("[Right, jump, Down]", ("Right",)),
        ("jump, Right", ()),
        ("Right, Right, Right, jump", ("Right", "Right", "Right")),
        ("Right; Down; Left; Up", ("Right", "Down", "Left")),
        ("I go right", ()),
        ("", ()),
    ],
)
def test_the_first_invalid_action_stops_a_list_and_the_maximum_cuts_it(answer: str, actions: tuple[str, ...]) -> None:
    parsed = read(f"Sure! <answer>{answer}</answer>", "no_think")
    assert parsed.actions == actions
    assert bool(parsed.unread) == (not actions)


@pytest.mark.parametrize(
    "text",
    [
        "Right, Down",
        "<answer>Right, Down",
        "<think>I go <answer>Right</answer></think>",
        "<answer>Right</answer></think>",
        "<think>I go <answer>Right</answer>",
        "<observation>Right</observation>",
        "",
    ],
    ids=["no tag", "no closing tag", "in a thought", "in a thought of the template's", "unclosed thought", "other tag",
         "nothing"],
)  # fmt: skip
def test_without_a_complete_answer_outside_of_thoughts_nothing_is_read(text: str) -> None:
    parsed = read(text)
    assert parsed.actions == ()
    assert "complete <answer>" in parsed.unread


@pytest.mark.parametrize(
    ("text", "actions"),
    [
        ("<answer>Right, Down, jump<Answer>Up</Answer></answer>", ("Right", "Down")),
        ("<answer>Right, <THINK> jump</answer>", ("Right",)),
    ],
)
def test_tags_in_another_case_within_an_answer_do_not_discard_the_actions_before_them(
    text: str, actions: tuple[str, ...]
) -> None:
    assert read(text, "no_think", reading="strict").actions == actions
    assert read(text, "no_think").actions == actions


@pytest.mark.parametrize("wrapping", WRAPPED)
def test_lenient_reading_never_changes_the_format_or_its_error(wrapping: str) -> None:
    for name, thoughts in THOUGHTS.items():
        text = WRAPPED[wrapping].format(thoughts=thoughts, actions="Right, Down")
        strict, lenient = (read(text, name, reading=reading) for reading in READINGS)
        assert lenient.format_correct == strict.format_correct
        assert lenient.error == strict.error
        assert lenient.sections == strict.sections


@given(text=st.one_of(any_text, tag_soup.map("".join)), name=st.sampled_from(sorted(FORMATS)))
def test_lenient_reading_never_raises_and_reads_whatever_strict_reading_does(text: str, name: str) -> None:
    strict, lenient = (read(text, name, reading=reading) for reading in READINGS)
    assert strict == parse_response(text, FORMATS[name], COMMAS, 3)
    assert lenient.actions[: len(strict.actions)] == strict.actions
    assert (lenient.format_correct, lenient.error) == (strict.format_correct, strict.error)
    assert bool(lenient.unread) == (not lenient.actions)
    if strict.format_correct:
        assert lenient == strict


@pytest.mark.parametrize(
    "answer",
    ["x," * 45_000, "[" * 45_000 + "]" * 45_000, " " * 95_000 + "x", "```\n" + " " * 95_000, "x;" * 45_000,
     r"\boxed{" * 13_000 + "}" * 5_000, "Up;" * 31_000, "1. Up\n" * 16_000, "Up and " * 14_000 + "x",
     "Up " + " (" * 48_000, "Up" + " " * 95_000 + "and x", "Up and" * 330,
     "</s>" * 23_000, "**" * 45_000, "`" * 95_000, "." * 95_000],
    ids=["pieces", "brackets", "blanks", "open fence", "semicolons", "boxes", "actions", "items", "words", "remarks",
         "gaps", "short words", "end tokens", "bold", "ticks",
         "periods"],
)  # fmt: skip
def test_a_response_of_any_shape_is_read_in_little_time(answer: str) -> None:
    start_s = time.process_time()
    read(f"Sure! <answer>{answer}</answer>")
    read("<think>" * 14_000)
    assert time.process_time() - start_s < 2.0


def test_too_long_a_response_is_not_read_leniently_either() -> None:
    parsed = read(f"<answer>Right</answer>{' ' * MAX_RESPONSE_CHARS}", "no_think")
    assert parsed.actions == ()


# --- Other grammars -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "answer",
    ["moveahead; rotateleft", "[moveahead, rotateleft]", "**moveahead**, `rotateleft`.", "MoveAhead\nRotateLeft"],
)
def test_navigation_reads_its_actions(answer: str) -> None:
    parsed = read(f"Sure! <answer>{answer}</answer>", "no_think", NAVIGATION)
    assert [action.title for action in parsed.actions] == ["moveahead", "rotateleft"]


@pytest.mark.parametrize(
    "answer",
    [
        "pick(62,-55,20) | place(1,2,3)",
        "pick(62, -55, 20), place(1, 2, 3)",
        "pick(62,-55,20); place(1,2,3).",
        "pick(62,-55,20)\nplace(1,2,3)",
        "[pick(62,-55,20) | place(1,2,3)]",
        "```\npick(62,-55,20) | place(1,2,3)\n```",
        '["pick(62,-55,20)", "place(1,2,3)"]',
        "pick(62，-55，20)｜place（1,2,3）",
        "pick(62.0, -55.0, 20.0) | place(1,2,3.00)",
        "1. pick(62,-55,20)\n2. place(1,2,3)",
        "1) pick(62, -55, 20)\n2) place(1, 2, 3)",
        "- pick(62,-55,20)\n- place(1,2,3)",
        "pick(62,-55,20). place(1,2,3).",
        "pick(62, -55, 20), then place(1, 2, 3)",
        "pick(62,-55,20) and place(1,2,3)",
        "pick(62,-55,20) -> place(1,2,3)",
        "Actions: pick(62,-55,20) | place(1,2,3)",
        "pick(62,-55,20) | place(1,2,3) (to stack the cubes)",
    ],
)
def test_separators_do_not_break_the_arguments_of_primitives(answer: str) -> None:
    parsed = read(f"Sure! <answer>{answer}</answer>", "no_think", ARM)
    assert [str(action) for action in parsed.actions] == ["pick(62,-55,20)", "place(1,2,3)"]


@pytest.mark.parametrize("reading", READINGS)
def test_whole_numbers_of_primitives_may_be_written_as_floats_and_others_not(reading: str) -> None:
    parsed = read("<answer>pick(-16.0, 55.00, 20) | pick(1.5,2,3)</answer>", "no_think", ARM, reading=reading)
    assert [str(action) for action in parsed.actions] == ["pick(-16,55,20)"]
    assert not parsed.format_correct


@pytest.mark.parametrize(
    "answer",
    [SVG, f"```svg\n{SVG}\n```", f"```\n{SVG}\n```", f"\n{SVG}\n", f"`{SVG}`", f"{SVG}<|im_end|>"],
)
def test_a_drawing_is_executed_as_it_is_written_whatever_is_around_it(answer: str) -> None:
    for text in (f"Sure! <answer>{answer}</answer>", f"Hm.</think>\n<answer>{answer}</answer>"):
        assert read(text, "free_think", SvgTask.grammar, 1).actions == (SVG,)


@pytest.mark.parametrize("inside", [r"\boxed{A}", "```", "**", "; , |", "“x”"])
def test_what_stands_within_a_drawing_is_kept(inside: str) -> None:
    drawing = f"<svg><text>{inside}</text></svg>"
    assert read(f"Sure! <answer>{drawing}</answer>", "no_think", SvgTask.grammar, 1).actions == (drawing,)


# --- Formats of question-answering worlds -------------------------------------------------------------

CALL = '{"name": "image_zoom_in_tool", "arguments": {"image": "original_image", "bbox_2d": [0, 0, 500, 500]}}'
AS_TEXT = json.dumps({**json.loads(CALL), "arguments": json.dumps(json.loads(CALL)["arguments"])})


@pytest.mark.parametrize("strategy", ["direct", "points", "ivgr_grounded", "arm"])
@pytest.mark.parametrize("answer", ["B", "**B**", "```\nB\n```", r"\boxed{B}", "B<|im_end|>"])
def test_an_answer_is_read_out_of_its_wrappings(answer: str, strategy: str) -> None:
    assert asked(f"Sure!\n<answer>{answer}</answer> Bye.", strategy).actions == (Answer("B"),)


@pytest.mark.parametrize(
    "answer", ["A and B", "A, then B", "1. A\n2. B", "- A", "A -> B", "Answer: B", "A. B", "A (to B)"]
)
def test_an_answer_to_a_question_is_never_a_list(answer: str) -> None:
    assert asked(f"Sure! <answer>{answer}</answer>", "direct").actions == (Answer(answer),)


@pytest.mark.parametrize("text", ["<answer>A</answer><answer>B</answer>", "<think>x</think><answer>B</answer></s>"])
def test_of_two_answers_the_last_counts(text: str) -> None:
    assert asked(text, "direct").actions == (Answer("B"),)


@pytest.mark.parametrize("call", [CALL, f"```json\n{CALL}\n```", AS_TEXT, f"```json\n{AS_TEXT}\n```"])
@pytest.mark.parametrize(
    "wrapping",
    ["<think>t</think><tool_call>{}</tool_call>", "t</think>\n<tool_call>{}</tool_call>",
     "Sure! <Tool_Call>{}</tool_call>", "<answer>A</answer><tool_call>{}</tool_call>"],
)  # fmt: skip
def test_a_call_is_read_out_of_its_fence_and_with_arguments_as_text(call: str, wrapping: str) -> None:
    assert asked(wrapping.format(call), "arm").actions == (CallTool(CALL),)


def test_a_call_that_is_none_stays_as_it_is_for_the_tools_error_message() -> None:
    assert asked("<think>t</think><tool_call>zoom!</tool_call>", "arm").actions == (CallTool("zoom!"),)


def test_what_follows_a_call_is_cut_as_in_strict_reading() -> None:
    made_up = f"Sure! <tool_call>{CALL}</tool_call><tool_response>x</tool_response><answer>A</answer>"
    assert asked(made_up, "arm").actions == (CallTool(CALL),)


@pytest.mark.parametrize(
    "text",
    [
        "<think>Look at [1, 2, 3, 4].</think>",
        "Look at [1, 2, 3, 4].</think>",
        "Sure! <think>Look at [1, 2, 3, 4].</think>",
        "```\n<think>Look at [1, 2, 3, 4].</think>\n```",
        "Maybe [5, 6, 7, 8]?</think>\n<think>Look at [1, 2, 3, 4].</think>",
        "Maybe [5, 6, 7, 8]?</think>\nLook at [1, 2, 3, 4].",
        "Look at [1, 2, 3, 4].",
    ],
)
def test_boxes_of_a_first_thought_are_read_with_or_without_its_tags(text: str) -> None:
    assert asked(text, "ivgr_views").actions == (Zoom(((1.0, 2.0, 3.0, 4.0),)),)


@pytest.mark.parametrize(
    "text",
    [
        "Look: <zoom>[[1, 2, 3, 4]]</zoom></think>",
        "<think>Hm.</think>\n<think>Maybe <zoom>[[5, 6, 7, 8]]</zoom>, no, <zoom>[[1, 2, 3, 4]]</zoom></think>",
        "<think>It is small.</think>\n<zoom>[[1, 2, 3, 4]]</zoom>",
        "<think><zoom>[1, 2, 3, 4]</zoom></think>",
        "<think><zoom>```json\n[[1, 2, 3, 4]]\n```</zoom></think>",
    ],
)
def test_the_last_complete_zoom_is_read(text: str) -> None:
    assert asked(text, "mags").actions == (Zoom(((1.0, 2.0, 3.0, 4.0),)),)


@pytest.mark.parametrize("text", ["<think>It is [1, 2, 3, 4].</think>", "<think><zoom>[[1, 2, 3, 4]]</think>"])
def test_boxes_outside_of_a_complete_zoom_are_no_zoom(text: str) -> None:
    assert asked(text, "mags").actions == ()


def test_the_second_thought_of_a_zooming_strategy_is_a_thought() -> None:
    text = "<rethink>Not <answer>A</answer>.</rethink>\n<answer>B</answer>\nDone."
    assert asked(text, "mags", turn=1).actions == (Answer("B"),)
