"""A person in question-answering worlds: what is typed becomes the strategy's response."""

import json
from pathlib import Path

import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from vlm_envs.cli.play import frame, session_of
from vlm_envs.cli.session import Session

CHECKOUT = Path(__file__).parents[4]
SMALL = {"side_px": 600, "target_px": (20, 40), "settings": "street"}
"""Scenes that are drawn at once, and shown as they are: 10 thousandths are 6 pixels."""
ZOOM = "image_zoom_in_tool image=original_image bbox_2d="


def zoom_session(prompt_format: str = "arm", kind: str = "choice", seed: int = 0) -> Session:
    asked = {"answer_kinds": kind, "categories": {"choice": "attribute", "number": "count"}[kind]}
    session = session_of("VLM/ZoomQA-v0", seed=seed, prompt_format=prompt_format, **asked, **SMALL)
    shown = session.task.context.shown_pixels(session.state.sample)
    assert (shown.width, shown.height) == (600, 600)
    return session


def document_session(prompt_format: str = "arm") -> Session:
    pytest.importorskip("reportlab", reason="needs the tools: pip install '.[tools]'")
    return session_of("VLM/DocQA-v0", prompt_format=prompt_format, num_pages=6)


def tool_call(name: str, **arguments: object) -> str:
    call = json.dumps({"name": name, "arguments": arguments}, ensure_ascii=False)
    return f"<think></think><tool_call>{call}</tool_call>"


# --- What is typed --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt_format", "typed", "response"),
    [
        (
            "arm",
            f"{ZOOM}[400, 400, 600, 600]",
            tool_call("image_zoom_in_tool", image="original_image", bbox_2d=[400, 400, 600, 600]),
        ),
        ("mags", "<zoom>[[240, 240, 360, 360]]</zoom>", "<think><zoom>[[240, 240, 360, 360]]</zoom></think>"),
        ("ivgr_views", "[240, 240, 360, 360]", "<think>[240, 240, 360, 360]</think>"),
        ("arm", "<think>Red.</think><answer>B</answer>", "<think>Red.</think><answer>B</answer>"),
        *[
            (name, typed, f"<think></think><answer>{typed}</answer>")
            for name in ("arm", "direct", "ivgr_grounded", "ivgr_textual", "points")
            for typed in ("B", "b")
        ],
    ],
)
def test_zoom_qa_what_is_typed_becomes_the_strategys_response(prompt_format, typed, response):
    session = zoom_session(prompt_format)
    assert session.read(typed) == response
    session.act(typed)
    assert session.info["format_correct"]
    assert session.info["turn"] == 1
    assert session.over == ("answer" in response)
    if not session.over:
        assert session.state.calls[-1].succeeded, "and the region is shown"


@pytest.mark.parametrize(
    ("prompt_format", "tag", "look"),
    [("mags", "rethink", "<zoom>[[240, 240, 360, 360]]</zoom>"), ("ivgr_views", "think", "[240, 240, 360, 360]")],
)
def test_strategies_that_look_twice_take_the_answer_after_the_look(prompt_format, tag, look):
    session = zoom_session(prompt_format)
    assert "your thought with " in session.help()
    session.act("B")
    assert session.info["turn"] == 0
    assert "'B' is not an action; expected " in session.note
    session.act(look)
    assert session.picture.shape[:2] != (600, 600), "the region, enlarged"
    assert session.pictures[0].shape[:2] == (600, 600), "beside the picture that was asked about"
    assert session.help().startswith("your answer")
    assert session.read("B") == f"<{tag}></{tag}><answer>B</answer>"


def test_doc_qa_pages_are_fetched_and_found_and_zoomed_into():
    session = document_session()
    name = session.state.sample.document.name
    page, find = "doc_page_retrieval_by_index", "doc_page_retrieval_by_query"
    assert session.read(f"{page} filename={name} image_idx=3") == tool_call(page, filename=name, image_idx=3)
    written = tool_call(find, filename=name, query="annual budget")
    assert session.read(f"{find} filename={name} query=annual budget") == written
    session.act(f"{page} filename={name} image_idx=3")
    assert session.read("image_zoom_in_tool image=observation_1 bbox_2d=[0, 0, 500, 500]") == tool_call(
        "image_zoom_in_tool", image="observation_1", bbox_2d=[0, 0, 500, 500]
    )
    assert session.read("some words") == "<think></think><answer>some words</answer>"


def test_reward_judging_checks_are_called_by_name():
    session = session_of("VLM/RewardJudging-v0", tracks="instruction_following")
    check = "check_whether_has_no_arabic_number_in_response"
    assert session.read(f"{check} response=resp_1") == tool_call(check, response="resp_1")
    call = json.dumps({"name": check, "arguments": {"response": "resp_1"}})
    assert session.read(call) == f"<think></think><tool_call>{call}</tool_call>", "JSON is taken as it is"
    assert any(line.startswith(f"{check} response=...: ") for line in session.opening())
    assert len(session.help()) < 500
    session.act(f"{check} response=resp_1")
    assert session.info["turn"] == 1
    assert session.state.calls[0].succeeded


# --- What cannot be carried out -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt_format", "typed", "said"),
    [
        ("arm", "image_zom_in_tool image=original_image", "Did you mean 'image_zoom_in_tool'?"),
        ("arm", "image_zoom_in_tool", "The argument image is missing."),
        ("arm", f"{ZOOM}[100, 100, 200]", "four numbers"),
        ("arm", f"{ZOOM}[600, 100, 200, 200]", "x1 < x2"),
        ("arm", "image_zoom_in_tool image=observation_1 bbox_2d=[0, 0, 9, 9]", "observation_1"),
        ("arm", '{"name": "image_zoom_in_tool"', "JSON"),
        ("arm", "Z", "The answer is one of A. "),
        ("mags", "<zoom>[[0, 0, 540, 540]]</zoom>", "under 40 %"),
        ("mags", "[0, 0, 60, 60]", "expected one list of boxes within <zoom> and </zoom>"),
        ("direct", f"{ZOOM}[100, 100, 200, 200]", "The answer is one of A. "),
        ("points", '{"name": "x", "arguments": {}}', "The answer is one of A. "),
    ],
)
def test_a_slip_is_explained_and_costs_no_turn(prompt_format, typed, said):
    session = zoom_session(prompt_format)
    state = session.world.state
    session.act(typed)
    assert said in session.note
    assert session.info["turn"] == 0
    assert session.world.state is state
    assert not session.over


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        ("by_index filename={name} image_idx=7", "6"),
        ("by_index filename={name} image_idx=0", "0"),
        ("by_index filename={name} image_idx=seven", "seven"),
        ("by_index filename=x.pdf image_idx=1", "x.pdf"),
        ("by_inex filename={name} image_idx=3", "Did you mean 'doc_page_retrieval_by_index'?"),
        ("by_query filename={name}", "The argument query is missing."),
        ("by_query filename={name} query=qqqxyzzy", "No page"),
    ],
)
def test_slips_about_documents_are_explained_and_cost_no_turn(arguments, said):
    session = document_session()
    session.act(f"doc_page_retrieval_{arguments.format(name=session.state.sample.document.name)}")
    assert said in session.note
    assert session.info["turn"] == 0


@pytest.mark.parametrize("number", ["3", "three", "3 mugs", "**3**", "Final answer: three"])
def test_a_number_is_asked_for_where_the_answer_is_one(number):
    session = zoom_session("direct", kind="number")
    session.act("a few")
    assert session.note == "The answer is a number, such as 3; got 'a few'."
    session.act(number)
    assert session.over


def test_a_verdict_is_asked_for_where_the_answer_is_one():
    session = session_of("VLM/RewardJudging-v0", num_pages=5, side_px=600, target_px=(20, 40))
    assert "a word or a few" not in session.observation["text"]
    session.act("no")
    assert session.note == "The answer is a verdict, as the question offers them; got 'no'."
    assert session.info["turn"] == 0


def test_a_slip_costs_no_turn_in_worlds_that_do_not_ask():
    session = session_of("VLM/FrozenLake-v0")
    session.act("Up, Upp")
    assert (session.info["turn"], session.num_actions) == (0, 0)
    assert session.note == "'Upp' is not an action; expected one of Up, Down, Left, Right. Nothing was done."


# --- Keys, pictures, the end ----------------------------------------------------------------------


def test_the_answer_is_not_shown_before_it_is_given():
    session = zoom_session()
    lines = "\n".join([*session.opening(), *frame(session, "none", session.help())])
    assert session.drawn_in_words() == []
    assert "right answer" not in lines and session.world.state.sample.facts not in lines


@pytest.mark.parametrize(("env_id", "upper"), [("VLM/Sokoban-v0", "Up"), ("VLM/Navigation-v0", "moveahead")])
def test_worlds_of_moves_are_played_with_keys_alone(env_id, upper):
    if "Navigation" in env_id:
        pytest.importorskip("panda3d", reason="needs panda3d: pip install '.[navigation]'")
    session = session_of(env_id)
    assert session.keys()["ArrowUp"] == upper
    for action in set(session.keys().values()) - {"r", "n", "q"}:
        assert session.read(action) is not None


def test_keys_are_nothing_where_an_action_has_none():
    assert zoom_session().keys() == {}


def test_who_loses_is_shown_what_would_have_been_right():
    session = zoom_session()
    key = session.state.sample.key
    right = key.answers[0].lower()
    wrong = next(letter for letter in "abcd" if letter != right)
    session.act(wrong)
    said = session.status()[2]
    assert said.startswith("Lost. Correct: ")
    assert f"{right.upper()}. {key.options['abcd'.index(right)]}" in said
    assert session.state.sample.facts in said
    session.restart()
    session.act(right)
    assert session.status()[2] == "Right."


def test_where_the_answer_stands_is_shown_and_can_be_gone_to():
    session = zoom_session()
    sample = session.state.sample
    session.act(next(letter for letter in "ABCD" if letter not in map(str.upper, sample.key.answers)))
    *_, zoom = session.status()[2].partition("Seen with: ")
    session.restart()
    session.act(zoom)
    x1, y1, x2, y2 = (side * 0.6 for side in json.loads(zoom)["arguments"]["bbox_2d"])
    box = sample.evidence[0].box
    assert x1 <= box.x1 and box.x2 <= x2 and y1 <= box.y1 and box.y2 <= y2
    assert session.state.calls[0].succeeded


def test_who_falls_into_a_hole_is_shown_a_way():
    session = session_of("VLM/FrozenLake-v0", level="PO__\n__G_\n____\n____")
    session.act("Right")
    way = session.status()[2].partition("Correct: ")[2].rstrip(".")
    assert len(way.split(", ")) == 3
    session.restart()
    session.act(way)
    assert session.info["success"]
