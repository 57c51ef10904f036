"""The one reader of responses: strict about tags, exact about action lists, calm about anything."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.responses.formats import FORMATS, KNOWN_TAGS, QA_FORMATS
from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS, ActionGrammar, ParsedResponse, parse_response

MOVES = {"up": 0, "down": 1, "left": 2, "right": 3}
COMMAS = ActionGrammar(parse=lambda text: MOVES.get(text.lower()), expected="one of Up, Down, Left, Right")
BARS = ActionGrammar(parse=lambda text: text if text.startswith("pick(") else None, separator="|", expected="pick")
WHOLE = ActionGrammar(parse=lambda text: text or None, separator="", expected="markup")

FULL = "<think><observation>o</observation><reasoning>r</reasoning><prediction>p</prediction></think>"

any_text = st.text(st.characters(), max_size=200)  # surrogates and control characters included
tag_soup = st.lists(st.one_of(st.sampled_from(sorted(KNOWN_TAGS)), st.sampled_from(["Up", ",", " ", "x"]), any_text))


def read(text: str, name: str = "no_think", max_actions: int = 3) -> ParsedResponse[int]:
    return parse_response(text, FORMATS[name], COMMAS, max_actions)


# --- Any text ---------------------------------------------------------------------------------------


@given(text=st.one_of(any_text, tag_soup.map("".join)), name=st.sampled_from(sorted(FORMATS)))
def test_never_raises_and_always_explains(text: str, name: str) -> None:
    parsed = read(text, name)
    assert parsed.format_correct == (parsed.error is None)
    assert len(parsed.actions) <= 3
    if parsed.format_correct:
        assert parsed.actions, "a correct format carries out something"
    if parsed.error is not None:
        parsed.error.encode("utf-8")  # an explanation is shown to a model, so it holds no lone surrogate


@given(
    texts=st.fixed_dictionaries({name: any_text for name in ("think", "observation", "reasoning", "prediction")}),
    actions=st.lists(st.sampled_from(["Up", "down", "LEFT", "Right"]), min_size=1, max_size=3),
    name=st.sampled_from(sorted(FORMATS)),
)
def test_what_write_writes_is_read_back(texts: dict[str, str], actions: list[str], name: str) -> None:
    sections = {**texts, "answer": ", ".join(actions)}
    if any(tag in text for text in sections.values() for tag in KNOWN_TAGS):
        return
    parsed = read(FORMATS[name].write(sections), name)
    assert parsed.format_correct
    assert parsed.sections == {section: sections[section].strip() for section in FORMATS[name].sections}
    assert parsed.actions == tuple(MOVES[action.lower()] for action in actions)


@pytest.mark.parametrize(
    "text",
    [
        "<" * 1_000_000,
        "<answer>" * 125_000,
        "<answer>" + "Up," * 333_000,
        "<think>" + "</" * 500_000,
        "\ud800" * 1_000_000,
        "<answer>" + "Up," * 33_000 + "</answer>",  # just short enough to be read
        "<" * 99_980 + "<answer>",
    ],
    ids=["angles", "tags", "commas", "halves", "surrogates", "longest list", "longest prose"],
)
def test_a_megabyte_costs_little_time(text: str) -> None:
    start_s = time.process_time()
    for name in FORMATS:
        read(text, name)
    assert time.process_time() - start_s < 5.0


def test_too_long_is_refused_with_both_numbers() -> None:
    padding = " " * MAX_RESPONSE_CHARS
    parsed = read(f"<answer>Up</answer>{padding}")
    assert parsed.actions == ()
    assert parsed.error == "the response has 100019 characters, more than the 100000 allowed"
    assert read(f"<answer>Up</answer>{padding[19:]}").format_correct, "the limit itself is allowed"


# --- Tags -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text", "error"),
    [
        ("no_think", "", "<answer> is missing"),
        ("no_think", "<answer>Up", "</answer> is missing"),
        ("no_think", "Up</answer>", "expected <answer> but found </answer>"),
        ("no_think", "Sure! <answer>Up</answer>", "text before <answer> is outside every section"),
        ("no_think", "<answer>Up</answer> ok", "text follows </answer>"),
        (
            "no_think",
            "<answer>Up</answer><answer>Down</answer>",
            "<answer> comes after the end of the response",
        ),
        ("no_think", "<Answer>Up</Answer>", "<answer> is missing"),
        ("no_think", "<answer >Up</answer>", "expected <answer> but found </answer>"),
        ("no_think", "<think>hm</think><answer>Up</answer>", "expected <answer> but found <think>"),
        ("free_think", "<answer>Up</answer>", "expected <think> but found <answer>"),
        (
            "free_think",
            "<think>a</think> b <answer>Up</answer>",
            "text before <answer> is outside every section",
        ),
        ("free_think", "<think><think>a</think><answer>Up</answer>", "expected </think> but found <think>"),
        (
            "free_think",
            "<think>say <answer></think><answer>Up</answer>",
            "expected </think> but found <answer>",
        ),
        # A tag of another strategy may not stand inside a section either
        (
            "free_think",
            "<think><prediction></think><answer>Up</answer>",
            "expected </think> but found <prediction>",
        ),
        ("grounding_worldmodeling", f"{FULL}Up", "<answer> is missing"),
        (
            "grounding_worldmodeling",
            f"{FULL.replace('<think>', '<think>so:')}<answer>Up</answer>",
            "text before <observation> is outside every section",
        ),
        ("grounding", f"{FULL}<answer>Up</answer>", "expected </think> but found <prediction>"),
        ("worldmodeling", f"{FULL}<answer>Up</answer>", "expected <reasoning> but found <observation>"),
    ],
)
def test_wrong_tags_move_nothing_and_are_named(name: str, text: str, error: str) -> None:
    parsed = read(text, name)
    assert parsed.error == error
    assert (parsed.actions, parsed.sections, parsed.format_correct) == ((), {}, False)


def test_white_space_between_tags_is_free() -> None:
    spread = "\n " + FULL.replace("><", "> \n <") + "\t<answer> \nUp </answer>\n\n"
    parsed = read(spread, "grounding_worldmodeling")
    assert parsed.format_correct
    assert parsed.sections == {"observation": "o", "reasoning": "r", "prediction": "p", "answer": "Up"}


def test_other_markup_inside_a_section_is_text() -> None:
    parsed = read("<think>a < b, <b>bold</b> </ answer></think><answer>Up</answer>", "free_think")
    assert parsed.sections["think"] == "a < b, <b>bold</b> </ answer>"


# --- Actions ----------------------------------------------------------------------------------------


def answer(actions: str, max_actions: int = 3) -> ParsedResponse[int]:
    return read(f"<answer>{actions}</answer>", max_actions=max_actions)


def test_a_list_at_the_limit_is_whole() -> None:
    parsed = answer("Up, Down,Left")
    assert (parsed.actions, parsed.format_correct) == ((0, 1, 2), True)


def test_a_list_beyond_the_limit_is_cut_at_no_cost() -> None:
    parsed = answer("Up,Down,Left,Right,Up")
    assert (parsed.actions, parsed.format_correct) == ((0, 1, 2), True)


def test_what_is_cut_is_not_judged() -> None:
    parsed = answer("Up,Down,Left,Jump")
    assert (parsed.actions, parsed.format_correct) == ((0, 1, 2), True)


def test_the_first_invalid_action_stops_the_turn_and_earlier_ones_stand() -> None:
    parsed = answer("Up, Jump, Left")
    assert parsed.actions == (0,)
    assert not parsed.format_correct
    assert parsed.error == "'Jump' is not an action; expected one of Up, Down, Left, Right"
    assert parsed.sections == {"answer": "Up, Jump, Left"}, "the tags were right"


@pytest.mark.parametrize("actions", ["Jump, Up", ",Up", "Up Down", "Up;Down", "Up.", "[Up]", "0"])
def test_an_invalid_first_action_carries_out_nothing(actions: str) -> None:
    parsed = answer(actions)
    assert (parsed.actions, parsed.format_correct) == ((), False)


def test_a_trailing_comma_is_an_empty_action() -> None:
    parsed = answer("Up,")
    assert (parsed.actions, parsed.format_correct) == ((0,), False)
    assert parsed.error == "'' is not an action; expected one of Up, Down, Left, Right"
    assert answer("Up,", max_actions=1).format_correct, "beyond the limit it is cut like any other"


@pytest.mark.parametrize("actions", ["", "  \n "])
def test_an_empty_answer_is_explained(actions: str) -> None:
    parsed = answer(actions)
    assert (parsed.actions, parsed.format_correct) == ((), False)
    assert parsed.error == "<answer> is empty; expected one of Up, Down, Left, Right"


def test_a_long_invalid_action_is_quoted_in_part() -> None:
    error = answer("x" * 5000).error
    assert error is not None
    assert "x" * 60 + "…" in error
    assert "x" * 61 not in error


def test_separators_of_other_grammars() -> None:
    text = "<answer>pick(1,2,3) | pick(4,5,6)</answer>"
    assert parse_response(text, FORMATS["no_think"], BARS, 2).actions == ("pick(1,2,3)", "pick(4,5,6)")
    markup = "<answer><svg>a, b | c</svg></answer>"
    assert parse_response(markup, FORMATS["no_think"], WHOLE, 1).actions == ("<svg>a, b | c</svg>",)


# --- Several endings, several rounds ------------------------------------------------------------------

CALLS = ActionGrammar(
    parse=lambda text: ("answer", text),
    parse_in={"tool_call": lambda text: ("call", text)},
    separator="",
    expected="it",
)


def read_arm(text: str) -> ParsedResponse[tuple[str, str]]:
    return parse_response(text, QA_FORMATS["arm"], CALLS, 1)


def test_the_ending_says_what_the_action_is() -> None:
    assert read_arm("<think>t</think><tool_call>{}</tool_call>").actions == (("call", "{}"),)
    assert read_arm("<think>t</think><answer>{}</answer>").actions == (("answer", "{}"),)


def test_text_after_the_first_call_is_as_if_never_written() -> None:
    parsed = read_arm("<think>t</think><tool_call>1</tool_call><tool_call>2</tool_call><answer>3</answer>")
    assert parsed.actions == (("call", "1"),)
    assert parsed.format_correct


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("<think>t</think>", "<tool_call> or <answer> is missing"),
        ("<think>t</think><think>", "expected <tool_call> or <answer> but found <think>"),
        (
            "<think>t</think><answer>a</answer><tool_call>c</tool_call>",
            "<tool_call> comes after the end of the response",
        ),
        ("<think>t</think><tool_call> </tool_call>", "<tool_call> is empty; expected it"),
        (
            "<think><tool_response>yes</tool_response></think><answer>a</answer>",
            "expected </think> but found <tool_res",
        ),
        ("<tool_call>c</tool_call>", "expected <think> but found <tool_call>"),
    ],
)
def test_what_is_wrong_with_a_response_of_two_endings(text: str, error: str) -> None:
    parsed = read_arm(text)
    assert parsed.actions == ()
    assert parsed.error is not None
    assert parsed.error.startswith(error)


def test_actions_among_the_thoughts() -> None:
    grammar = ActionGrammar(
        parse=lambda text: None, parse_in={"think": lambda text: text.upper()}, separator="", expected="it"
    )
    parsed = parse_response("<think>go</think><answer>", QA_FORMATS["mags"].at(0), grammar, 1)
    assert parsed.actions == ("GO",)
    assert parsed.sections == {"think": "go"}


@given(
    text=st.one_of(any_text, tag_soup.map("".join)),
    name=st.sampled_from(sorted(QA_FORMATS)),
    turn=st.integers(0, 1),
)
def test_no_text_raises_in_any_strategy_of_worlds_that_ask(text: str, name: str, turn: int) -> None:
    parsed = parse_response(text, QA_FORMATS[name].at(turn), CALLS, 1)
    assert parsed.format_correct == (parsed.error is None) == bool(parsed.actions)
