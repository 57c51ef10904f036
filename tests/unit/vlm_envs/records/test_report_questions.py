"""How reports show question-answering episodes: question, answers, tool calls as sentences, marks on images."""

import json

import pytest

from vlm_envs.records.report_episodes import shown_episode
from vlm_envs.records.report_mistakes import call_of, first_mistake, question_of

STATE = {
    "question": "What color is the mug?",
    "answers": ["b"],
    "answer_kind": "choice",
    "options": ["red", "blue"],
    "strategy": "arm",
    "shown_size": [200, 100],
    "evidence": [],
    "evidence_pages": [],
}


def turn(action, *, images=(), text="", terminated=False, effective=True, **more):
    return {
        "text": text,
        "images": list(images),
        "response": action,
        "stop_reason": "stop",
        "sections": {},
        "actions": [action],
        "reward": 0.0,
        "parse_error": None,
        "terminated": terminated,
        "truncated": False,
        "action_effective": effective,
        "state": STATE,
        **more,
    }


def episode(*turns, success=False, state=STATE):
    turns = [{**each, "state": state} for each in turns]
    return {
        "env_id": "VLM/ZoomQA-v0",
        "seed": 1,
        "success": success,
        "turns": turns,
        "final": {"text": "", "images": []},
    }


def call(name, **arguments):
    return json.dumps({"name": name, "arguments": arguments})


def zoom(image, *box):
    return call("image_zoom_in_tool", image=image, bbox_2d=list(box))


def test_an_answer_and_the_correct_one_are_shown_with_the_texts_of_their_options():
    lost = episode(turn("A", images=["x"], terminated=True))
    question = shown_episode("1/0", lost)["question"]
    assert (question["text"], question["answered"], question["correct"]) == (STATE["question"], "A. red", "B. blue")
    assert question["options"] == ["A. red", "B. blue"]
    mistake = first_mistake(lost)
    assert mistake.kind == "wrong answer" and "A. red" in mistake.detail and "B. blue" in mistake.detail


def test_without_an_answer_none_is_invented():
    unanswered = episode(turn(zoom("original_image", 0, 0, 500, 500), images=["x"], truncated=True))
    assert question_of(unanswered)["answered"] is None
    assert first_mistake(unanswered).kind == "ran out of turns"


def test_zooms_are_sentences_that_name_images_as_the_page_numbers_them_and_boxes_on_their_source():
    stored = (
        "<tool_response>\nShown. Stored as observation_1; tools can be called on it by that name.\n</tool_response>"
    )
    played = episode(
        turn(zoom("original_image", 100, 200, 300, 400), images=["x", "y"]),
        turn(zoom("observation_1", 0, 0, 1000, 500), images=["z"], text=stored),
        turn("B", terminated=True),
        success=True,
    )
    sentences = [call_of(played, index) for index in range(3)]
    assert sentences[0]["sentence"] == "Zoomed into [100, 200, 300, 400] of image 1"
    assert sentences[1]["sentence"] == "Zoomed into [0, 0, 1000, 500] of image 3"
    assert sentences[2] is None
    marks = [(mark["image"], mark["box"]) for mark in question_of(played)["marks"]]
    assert marks == [(0, [0.1, 0.2, 0.3, 0.4]), (2, [0.0, 0.0, 1.0, 0.5])]


def test_a_refused_call_says_why_is_not_drawn_and_is_not_blamed_for_a_wrong_answer():
    played = episode(
        turn(zoom("nothing", 0, 0, 10, 10), images=["x"], effective=False),
        turn(
            "A",
            text="<tool_response>\nError (unknown_image): There is no image nothing.\n</tool_response>",
            terminated=True,
        ),
    )
    assert call_of(played, 0)["refused"] == "There is no image nothing."
    assert question_of(played)["marks"] == []
    assert first_mistake(played).kind == "wrong answer"


@pytest.mark.parametrize(
    ("written", "sentence"),
    [
        (call("doc_page_retrieval_by_query", filename="a.pdf", query="tax"), "Searched a.pdf for “tax”"),
        (call("doc_page_retrieval_by_index", filename="a.pdf", image_idx=3), "Opened page 3 of a.pdf"),
        (call("count_words", text="resp_1", most=4), 'Called count_words(text="resp_1", most=4)'),
        ("{not JSON", "Called a tool"),
        (call("image_zoom_in_tool", image="original_image"), "Zoomed into an unreadable region of image 1"),
        ('{"name": "x", "arguments": [1]}', "Called x"),
    ],
)
def test_every_call_is_a_sentence_whatever_the_model_wrote(written, sentence):
    assert call_of(episode(turn(written, images=["x"])), 0)["sentence"] == sentence


def test_points_and_evidence_are_drawn_in_their_frames():
    thought = 'In frame 2 at 0.5 seconds I see the <points x1="50" y1="25" alt="cup">cup</points>.'
    evidence = [{"label": "cup", "box": [40, 20, 60, 30], "frame": 2}]
    state = {**STATE, "strategy": "points", "evidence": evidence}
    played = episode(turn("A", images=["x", "y"], terminated=True, sections={"think": thought}), state=state)
    point, box = question_of(played)["marks"]
    assert (point["image"], point["point"], point["label"]) == (1, [0.5, 0.25], "cup")
    assert (box["image"], box["box"], box["is_truth"]) == (1, [0.4, 0.2, 0.6, 0.3], True)


@pytest.mark.parametrize(
    ("coordinates", "extent"), [("thousandths", (1000, 1000)), ("pixels", (448, 224))], ids=["thousandths", "pixels"]
)
def test_marks_lie_where_the_coordinates_of_the_world_say(coordinates, extent):
    width, height = extent
    evidence = [{"label": "cup", "box": [0.25 * width, 0.5 * height, 0.5 * width, height]}]
    state = {**STATE, "coordinates": coordinates, "evidence": evidence}  # 200 x 100 pixels in an image of 448 x 224.
    point = f'<points x1="{0.25 * width:g}" y1="{0.5 * height:g}" alt="cup">cup</points>'
    pointed = episode(turn("A", images=["x"], terminated=True, sections={"think": point}), state=state)
    assert [mark.get("point") or mark["box"] for mark in question_of(pointed)["marks"]] == [
        [0.25, 0.5],
        [0.25, 0.5, 0.5, 1.0],
    ]
    zoom = f"<zoom>[[0, 0, {0.5 * width:g}, {0.25 * height:g}]]</zoom>"
    zoomed = episode(turn(zoom, images=["x"]), state={**state, "strategy": "mags", "evidence": []})
    [mark] = question_of(zoomed)["marks"]
    assert mark["box"] == [0.0, 0.0, 0.5, 0.25]


def test_zooms_of_a_thought_are_boxes_in_pixels_of_the_first_image():
    played = episode(
        turn("<zoom>[[20, 10, 60, 50]]</zoom>", images=["x"]),
        turn("B", images=["z"], terminated=True),
        state={**STATE, "strategy": "mags"},
        success=True,
    )
    assert call_of(played, 0)["sentence"] == "Zoomed into [20, 10, 60, 50] of image 1"
    [mark] = question_of(played)["marks"]
    assert mark["box"] == [0.1, 0.1, 0.3, 0.5]


def test_texts_to_judge_are_shown_without_their_quotation_marks():
    prompt = "Picture x.\nresp_1:\n| It is red.\n| Surely.\nresp_2:\n| It is blue.\nQuestion: ?"
    texts = question_of(episode(turn("B", text=prompt, terminated=True)))["texts"]
    assert texts == [("resp_1", "It is red.\nSurely."), ("resp_2", "It is blue.")]


def test_other_worlds_have_no_question():
    other = episode(turn("Up", terminated=True), state={"player": [0, 0]})
    assert "question" not in shown_episode("1/0", other) and call_of(other, 0) is None
    assert first_mistake(other).kind == "lost"


def test_what_was_sent_and_received_is_shown_where_it_was_recorded():
    recorded = {
        "summary": "I stand at the door.",
        "request": {"model": "m"},
        "raw": {"id": "r1"},
        "stop_detail": "full",
    }
    [with_all, without] = shown_episode("1/0", episode(turn("A", **recorded), turn("B", terminated=True)))["turns"]
    assert with_all["summary"] == recorded["summary"] and with_all["stop_detail"] == "full"
    assert json.loads(with_all["request"]) == recorded["request"] and json.loads(with_all["raw"]) == recorded["raw"]
    assert not recorded.keys() & without.keys()
