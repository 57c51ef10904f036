"""Answers are graded and told by how much has to be magnified, as Mags-RL evaluates."""

from __future__ import annotations

import contextlib

import pytest

from agents.blind_script import ScriptAgent
from benchmarks.__main__ import main
from benchmarks.models.board.board import Board
from benchmarks.models.judged import strata_text, stratum_of
from tests.unit.agents.api import endpoint as fake

HERE = "tests.unit.benchmarks.models.test_strata"
WORLD = "VLM/ZoomQA-v0:prompt_format=direct,side_px=400,target_px=16,answer_kinds=number,categories=count"


def counts_three():
    """Returns an agent that always counts three, in many words."""
    return ScriptAgent(("<think>-</think><answer>there are 3 of them</answer>",))


def rambles():
    """Returns an agent that answers outside of the format."""
    return ScriptAgent(("I see three things there, I believe.",))


@pytest.fixture
def endpoints():
    """One that reads and grades, and one that looks."""
    with contextlib.ExitStack() as stack:
        yield [stack.enter_context(fake.FakeEndpoint()) for _ in range(2)]


def options(grader, seer):
    given = {"--answer-judge": ("grader", grader), "--zoom-judge": ("seer", seer)}
    return [
        word
        for option, (name, endpoint) in given.items()
        if endpoint is not None
        for word in (f"{option}.model", name, f"{option}.base-url", endpoint.base_url, f"{option}.max-attempts", "1")
    ]


def evaluate(tmp_path, agent, *words, episodes=6, status=0):
    start = ["evaluate", f"{HERE}:{agent}", "--world", WORLD, "--episodes", str(episodes), "--no-references"]
    assert main([*start, "--out", str(tmp_path / "board"), *words]) == status
    return Board(tmp_path / "board").episodes()


def by_place(scores):
    """Answers with one score after the other."""
    left = iter(scores)
    return lambda messages: f"<answer>{next(left)}</answer>"


def test_answers_are_graded_and_told_by_stratum(tmp_path, endpoints, capsys):
    grader, seer = endpoints
    grader.answer = lambda messages: "Close enough. <answer>0.75</answer>"
    seer.answer = by_place([1, 3, 4, 7, 8, 10])
    played = evaluate(tmp_path, "counts_three", *options(grader, seer))
    assert {each["judged"]["graded"] for each in played} == {0.75}
    assert sorted(each["judged"]["zoom_need"] for each in played) == [0.1, 0.3, 0.4, 0.7, 0.8, 1.0]
    of = {each["judged"]["zoom_need"]: stratum_of(each) for each in played}
    assert of == {0.1: "easy", 0.3: "easy", 0.4: "medium", 0.7: "medium", 0.8: "hard", 1.0: "hard"}
    assert len(grader.requests) == 6, "an answer in its form is not read out of the reply first"
    assert all("image_url" in str(request) for request in seer.requests), "it sees the picture"
    included = [each["judged"]["inclusion"] for each in played]
    truths = [each["turns"][-1]["state"]["answers"][0] for each in played]
    assert included == [float(truth == "3") for truth in truths]
    assert not any(each["success"] for each in played), "success is of the whole answer"
    table = capsys.readouterr().out.split("\n\n")[-1].splitlines()
    assert table[0].split() == ["world", "zoom", "agent", "episodes", "success", "inclusion", "graded"]
    assert [line.split()[1:2] + line.split()[3:4] for line in table[1:4]] == [
        ["easy", "2"],
        ["medium", "2"],
        ["hard", "2"],
    ]
    assert {each["judge"] for each in played} == {"exact, answers grader, zoom seer"}


@pytest.mark.soak
def test_what_has_been_graded_is_not_graded_again(tmp_path, endpoints):
    grader, seer = endpoints
    grader.answer, seer.answer = lambda messages: "<answer>0.0</answer>", lambda messages: "<answer>2</answer>"
    evaluate(tmp_path, "counts_three", *options(grader, seer), episodes=2)
    evaluate(tmp_path, "counts_three", *options(grader, seer), episodes=3)
    assert len(grader.requests) == len(seer.requests) == 3
    assert main(["rescore", str(tmp_path / "board"), *options(None, seer)]) == 0
    assert {stratum_of(each) for each in Board(tmp_path / "board").episodes()} == {"easy"}


def test_an_answer_outside_of_its_form_is_read_out_of_the_reply(tmp_path, endpoints):
    grader, _ = endpoints
    read = []

    def answers(messages):
        asked = messages[-1]["content"]
        is_reading = "Reply to read" in str(asked)
        read.append(is_reading)
        return "<answer>three</answer>" if is_reading else "<answer>1.0</answer>"

    grader.answer = answers
    (episode,) = evaluate(tmp_path, "rambles", *options(grader, None), episodes=1)
    assert read == [True, False] and episode["judged"]["graded"] == 1.0
    assert "zoom_need" not in episode["judged"] and strata_text([episode]) == ""


def test_a_refusal_is_worth_nothing_and_is_not_graded(tmp_path, endpoints):
    grader, _ = endpoints
    grader.answer = lambda messages: "<answer>Refusal</answer>"
    (episode,) = evaluate(tmp_path, "rambles", *options(grader, None), episodes=1)
    assert episode["judged"]["graded"] == 0.0 and len(grader.requests) == 1


@pytest.mark.parametrize("said", ["eleven", "<answer>11</answer>", "<answer>4.5</answer>"])
def test_who_says_nothing_that_can_be_read_is_left_out(tmp_path, endpoints, said):
    grader, seer = endpoints
    grader.answer = seer.answer = lambda messages: said
    (episode,) = evaluate(tmp_path, "counts_three", *options(grader, seer), episodes=1, status=1)
    assert "judged" not in episode
    assert stratum_of(episode) is None


def test_half_of_an_endpoint_is_refused_before_anything_is_played(tmp_path, capsys):
    words = ["evaluate", "oracle", "--world", WORLD, "--out", str(tmp_path / "board"), "--zoom-judge.model", "seer"]
    assert main(words) == 2
    assert "--zoom-judge needs both --zoom-judge.model and --zoom-judge.base-url" in capsys.readouterr().err
    assert not (tmp_path / "board").exists()
