"""A person in question-answering worlds: what is typed, pressed or pulled up becomes the strategy's response."""

import json
from pathlib import Path

import numpy as np
import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from vlm_envs.cli.play import Window, fitted, frame, session_of
from vlm_envs.cli.session import Session

CHECKOUT = Path(__file__).parents[4]
SMALL = {"side_px": 600, "target_px": (20, 40), "settings": "street"}
"""Scenes that are drawn at once, and shown as they are: 1 percent is 6 pixels."""


def zoom_session(prompt_format: str = "arm", kind: str = "choice", seed: int = 0) -> Session:
    asked = {"answer_kinds": kind, "categories": {"choice": "attribute", "number": "count"}[kind]}
    session = session_of("VLM/ZoomQA-v0", seed=seed, prompt_format=prompt_format, **asked, **SMALL)
    shown = session.place.task.context.shown_pixels(session.place.state.sample)
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
            "zoom 40 40 60 60",
            tool_call("image_zoom_in_tool", image="original_image", bbox_2d=[400, 400, 600, 600]),
        ),
        (
            "arm",
            "ZOOM 10.04, 20, 50%, 90.01 of original_image",
            tool_call("image_zoom_in_tool", image="original_image", bbox_2d=[100, 200, 500, 901]),
        ),
        ("mags", "zoom 40 40 60 60", "<think><zoom>[[240, 240, 360, 360]]</zoom></think>"),
        ("mags", "zoom 0 0 10 10; 50 50 60 60", "<think><zoom>[[0, 0, 60, 60], [300, 300, 360, 360]]</zoom></think>"),
        ("ivgr_views", "zoom 40 40 60 60", "<think>[240, 240, 360, 360]</think>"),
        *[
            (name, typed, f"<think></think><answer>{written}</answer>")
            for name in ("arm", "direct", "ivgr_grounded", "ivgr_textual", "points")
            for typed, written in (("B", "B"), ("answer b", "b"))
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
        assert session.place.state.calls[-1].succeeded, "and the region is shown"


@pytest.mark.parametrize(
    ("coordinates", "sides"), [("thousandths", "[400, 400, 600, 600]"), ("pixels", "[179.2, 179.2, 268.8, 268.8]")]
)
def test_zoom_qa_percents_of_the_screen_become_the_coordinates_of_the_world(coordinates, sides):
    kwargs = {"prompt_format": "mags", "coordinates": coordinates, "categories": "attribute", "max_pixels": 224 * 900}
    session = session_of("VLM/ZoomQA-v0", seed=0, **kwargs, **SMALL)
    assert session.picture.shape == (448, 448, 3)  # Without the margin that a model is shown.
    assert session.read("zoom 40 40 60 60") == f"<think><zoom>[{sides}]</zoom></think>"


@pytest.mark.parametrize(("prompt_format", "tag"), [("mags", "rethink"), ("ivgr_views", "think")])
def test_strategies_that_look_twice_take_the_answer_after_the_look(prompt_format, tag):
    session = zoom_session(prompt_format)
    session.act("B")
    assert session.info["turn"] == 0
    assert "First: zoom" in session.note
    session.act("zoom 40 40 60 60")
    assert session.picture.shape[:2] != (600, 600), "the region, enlarged"
    assert session.read("zoom 40 40 60 60") is None
    assert "Answer from what you see" in session.note
    assert session.read("B") == f"<{tag}></{tag}><answer>B</answer>"


def test_doc_qa_pages_are_fetched_and_found_and_zoomed_into():
    session = document_session()
    name = session.place.state.sample.document.name
    assert session.read("page 3") == tool_call("doc_page_retrieval_by_index", filename=name, image_idx=3)
    assert session.read("find annual budget") == tool_call(
        "doc_page_retrieval_by_query", filename=name, query="annual budget"
    )
    session.act("page 3")
    assert session.read("zoom 0 0 50 50") == tool_call(
        "image_zoom_in_tool", image="observation_1", bbox_2d=[0, 0, 500, 500]
    ), "a zoom is into what is looked at"
    assert session.read("some words") == "<think></think><answer>some words</answer>"


def test_reward_judging_checks_are_called_by_name():
    session = session_of("VLM/RewardJudging-v0", tracks="instruction_following")
    check = "check_whether_has_no_arabic_number_in_response"
    assert session.read(f"call {check} response=resp_1") == tool_call(check, response="resp_1")
    call = json.dumps({"name": check, "arguments": {"response": "resp_1"}})
    assert session.read(call) == f"<think></think><tool_call>{call}</tool_call>", "JSON is taken as it is"
    assert session.read("call") is None
    assert check in session.note
    session.act(f"call {check} response=resp_1")
    assert session.info["turn"] == 1
    assert session.place.state.calls[0].succeeded


# --- What cannot be carried out -------------------------------------------------------------------


@pytest.mark.parametrize(
    ("prompt_format", "typed", "said"),
    [
        ("arm", "zom 10 10 20 20", "Did you mean 'zoom'? To answer with these very words: answer zom 10 10 20 20"),
        ("arm", "zoom", "left, upper, right and lower side in percents"),
        ("arm", "zoom 10 10 20", "got '10 10 20'"),
        ("arm", "zoom 10 10 20 twenty", "got '10 10 20 twenty'"),
        ("arm", "zoom 60 10 20 20", "left before right"),
        ("arm", "zoom 10 10 20 120", "They are 0 to 100"),
        ("arm", "zoom nan 10 20 20", "They are 0 to 100"),
        ("arm", "zoom 1 1 2 2 of observation_1", "There is no picture 'observation_1'"),
        ("arm", "show orignal_image", "Did you mean 'original_image'?"),
        ("arm", "page 7", "There is no 'page' here"),
        ("arm", "call image_zoom", "Did you mean 'image_zoom_in_tool'?"),
        ("arm", "call image_zoom_in_tool original_image", "NAME=VALUE"),
        ("arm", 'call "x', "No closing quotation"),
        ("arm", '{"name": "image_zoom_in_tool"', "JSON"),
        ("arm", "Z", "The answer is one of A. "),
        ("arm", "answer", "answer takes the answer"),
        ("mags", "zoom 0 0 90 90", "under 40 %"),
        ("mags", "zoom 0 0 10 10; 20", "got '20'"),
        ("direct", "zoom 10 10 20 20", "There is no 'zoom' here (prompt_format 'direct'). Answer from what you see."),
        ("points", '{"name": "x", "arguments": {}}', "There is no 'call' here"),
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
    ("typed", "said"),
    [
        ("page 7", "page takes a number from 1 to 6"),
        ("page 0", "from 1 to 6"),
        ("page seven", "got 'seven'"),
        ("page ²", "got '²'"),
        ("pge 3", "Did you mean 'page'?"),
        ("find", "find takes the words"),
        ("find qqqxyzzy", "No page"),
        ("help", "What can be typed stands below. To answer with this very word: answer help"),
        ("?", "What can be typed stands below."),
    ],
)
def test_slips_about_documents_are_explained_and_cost_no_turn(typed, said):
    session = document_session()
    session.act(typed)
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


def test_arrows_turn_pages():
    session = document_session()
    assert session.keys() == {"Right": "page 1"}
    session.act("page 1")
    assert session.keys() == {"Right": "page 2"}
    session.act("page 5")
    assert session.keys() == {"Left": "page 4", "Right": "page 6"}
    session.act("page 6")
    assert session.keys() == {"Left": "page 5"}
    session.restart()
    assert session.keys() == {"Right": "page 1"}


def test_arrows_move_a_region_as_far_as_the_picture_goes():
    session = zoom_session()
    assert session.keys() == {}
    session.act("zoom 0 40 20 60")
    assert session.keys() == {
        "Right": "zoom 10 40 30 60 of original_image",
        "Up": "zoom 0 30 20 50 of original_image",
        "Down": "zoom 0 50 20 70 of original_image",
    }
    session.act(session.keys()["Right"])
    assert session.keys()["Left"] == "zoom 0 40 20 60 of original_image"


def test_arrows_are_nothing_where_no_tool_can_be_called():
    session = zoom_session("mags")
    session.act("zoom 40 40 60 60")
    assert session.keys() == {}


def test_the_answer_is_not_shown_before_it_is_given():
    session = zoom_session()
    lines = "\n".join([*session.opening(), *frame(session, "none", session.help(), "")])
    assert session.drawn_in_words() == []
    assert "right answer" not in lines and session.world.state.sample.facts not in lines


@pytest.mark.parametrize(("env_id", "upper"), [("VLM/Sokoban-v0", "Up"), ("VLM/Navigation-v0", "moveahead")])
def test_worlds_of_moves_are_played_with_keys_alone(env_id, upper):
    if "Navigation" in env_id:
        pytest.importorskip("panda3d", reason="needs panda3d: pip install '.[navigation]'")
    session = session_of(env_id)
    assert session.needs_no_line
    assert session.keys()["Up"] == upper
    for action in set(session.keys().values()):
        assert session.read(action) is not None


def test_pictures_are_shown_again_without_a_turn_and_zoomed_into():
    session = zoom_session()
    first = session.picture
    session.act("zoom 0 0 50 50")
    assert session.picture.shape == (300, 300, 3)
    session.act("show original_image")
    assert session.info["turn"] == 1
    assert np.array_equal(session.picture, first)
    assert '"image": "original_image"' in session.read("zoom 1 1 20 20")
    session.act("show observation_1")
    assert '"image": "observation_1"' in session.read("zoom 1 1 20 20")


def test_who_loses_is_shown_what_would_have_been_right():
    session = zoom_session()
    key = session.place.state.sample.key
    right = key.answers[0].lower()
    wrong = next(letter for letter in "abcd" if letter != right)
    session.act(wrong)
    said = session.status()[2]
    assert said.startswith("Lost. Right would have been: ")
    assert f"{right.upper()}. {key.options['abcd'.index(right)]}" in said
    assert session.place.state.sample.facts in said
    session.restart()
    session.act(right)
    assert session.status()[2] == "Right."


def test_where_the_answer_stands_is_shown_and_can_be_gone_to():
    session = zoom_session()
    sample = session.place.state.sample
    session.act(next(letter for letter in "ABCD" if letter not in map(str.upper, sample.key.answers)))
    *_, zoom = session.status()[2].partition("Seen with: ")
    assert zoom.endswith(".")
    zoom = zoom.removesuffix(".")
    session.restart()
    session.act(zoom)
    x1, y1, x2, y2 = (float(side) * 6 for side in zoom.split()[1:])
    box = sample.evidence[0].box
    assert x1 <= box.x1 and box.x2 <= x2 and y1 <= box.y1 and box.y2 <= y2
    assert session.place.state.calls[0].succeeded


def test_who_falls_into_a_hole_is_shown_a_way():
    session = session_of("VLM/FrozenLake-v0", level="PO__\n__G_\n____\n____")
    session.act("Right")
    way = session.status()[2].partition("Right would have been: ")[2].rstrip(".")
    assert len(way.split(", ")) == 3
    session.restart()
    session.act(way)
    assert session.info["success"]


# --- The window -----------------------------------------------------------------------------------


def test_pictures_in_a_window_fit_the_screen():
    assert fitted(np.zeros((2000, 4000, 3), np.uint8), (1000, 600)).size == (1000, 500)
    assert fitted(np.zeros((100, 100, 3), np.uint8), (1000, 600)).size == (400, 400)
    assert fitted(np.zeros((168, 168, 3), np.uint8), (200, 200)).size == (168, 168), "never larger than it may be"


@pytest.fixture
def root():
    tkinter = pytest.importorskip("tkinter", reason="this Python has no tkinter")
    try:
        root = tkinter.Tk()
    except tkinter.TclError:
        pytest.skip("needs a display, such as Xvfb")
    yield root
    root.destroy()


def test_the_mouse_pulls_up_a_region(root):
    session = zoom_session()
    window = Window(root, session)
    width, height = window.size
    window._from = (int(0.2 * width), int(0.8 * height))
    window.zoom_to(int(0.6 * width), int(0.5 * height))
    assert session.info["turn"] == 1
    box = json.loads(session.place.state.calls[0].text)["arguments"]["bbox_2d"]
    assert np.abs(np.subtract(box, [200, 500, 600, 800])).max() <= 3
    window._from = (10, 10)
    window.zoom_to(11, 11)
    assert session.info["turn"] == 1, "a click is no region"


def test_slips_stay_in_the_windows_field_and_answers_leave_it(root):
    session = zoom_session()
    window = Window(root, session)
    window.field.insert(0, "zom 1 1 2 2")
    window.submit()
    assert window.field.get() == "zom 1 1 2 2"
    assert "Did you mean 'zoom'" in window.text.get("1.0", "end")
    window.field.delete(0, "end")
    window.field.insert(0, session.place.state.sample.key.answers[0])
    window.press("Right")
    assert session.info["turn"] == 0, "arrows are the field's while something is in it"
    window.submit()
    assert session.info["success"]
    assert window.field.get() == ""


def test_arrows_turn_pages_in_a_window(root):
    session = document_session()
    window = Window(root, session)
    window.press("Right")
    assert session.looked == 1
    window.press("q")
    assert root.winfo_exists(), "a letter is typed, not a command"


def test_keys_move_in_a_window(root):
    session = session_of("VLM/FrozenLake-v0", level="P___\n__G_\n____\n____")
    window = Window(root, session)
    for key in ("Right", "d", "S"):
        window.press(key)
    assert session.info["success"]
    window.press("r")
    assert session.num_actions == 0
