"""The five strategies are the tags of VAGEN Table 5, in order; question-answering worlds have their own."""

from __future__ import annotations

import pytest

from vlm_envs.responses.formats import (
    FORMATS,
    KNOWN_TAGS,
    QA_FORMATS,
    REPRESENTATIONS,
    SECTION_MEANING,
    ResponseFormat,
)

WRITTEN = {
    "no_think": "<answer>A</answer>",
    "free_think": "<think>T</think><answer>A</answer>",
    "grounding": "<think><observation>O</observation><reasoning>R</reasoning></think><answer>A</answer>",
    "worldmodeling": "<think><reasoning>R</reasoning><prediction>P</prediction></think><answer>A</answer>",
    "grounding_worldmodeling": (
        "<think><observation>O</observation><reasoning>R</reasoning><prediction>P</prediction></think>"
        "<answer>A</answer>"
    ),
}
SECTIONS = {"think": "T", "observation": "O", "reasoning": "R", "prediction": "P", "answer": "A"}


def test_there_are_five_strategies_and_three_representations() -> None:
    assert set(FORMATS) == set(WRITTEN)
    assert REPRESENTATIONS == ("natural_language", "symbolic", "structured")


@pytest.mark.parametrize("name", WRITTEN)
def test_written_form(name: str) -> None:
    assert FORMATS[name].name == name
    assert FORMATS[name].write(SECTIONS) == WRITTEN[name]


@pytest.mark.parametrize("name", WRITTEN)
def test_tags_are_those_of_the_written_form_in_order(name: str) -> None:
    places = [WRITTEN[name].index(tag) for tag in FORMATS[name].tag_sequences[0]]
    assert places == sorted(places)
    rest = WRITTEN[name]
    for tag in FORMATS[name].tag_sequences[0]:
        rest = rest.replace(tag, "", 1)
    assert "<" not in rest


def test_tags_of_a_format_of_ones_own() -> None:
    own = ResponseFormat(name="own", thoughts=("prediction",))
    assert own.tag_sequences[0] == ("<think>", "<prediction>", "</prediction>", "</think>", "<answer>", "</answer>")
    assert own.sections == ("prediction", "answer")


def test_a_missing_section_is_an_error() -> None:
    with pytest.raises(KeyError, match="prediction"):
        FORMATS["worldmodeling"].write({"reasoning": "R", "answer": "A"})


def test_known_tags_are_all_that_strategies_use_and_what_tools_speak_in() -> None:
    names = ("think", "observation", "reasoning", "prediction", "answer", "rethink", "tool_call", "tool_response")
    assert {f"<{name}>" for name in names} | {f"</{name}>" for name in names} == KNOWN_TAGS


@pytest.mark.parametrize("name", WRITTEN)
def test_the_prompt_shows_the_format_with_every_section_explained(name: str) -> None:
    (skeleton,) = FORMATS[name].skeletons()
    hints = {section: f"({SECTION_MEANING[section]})" for section in SECTIONS}
    assert skeleton == FORMATS[name].write(hints)


def test_a_format_with_two_endings_writes_the_one_that_is_there() -> None:
    arm = QA_FORMATS["arm"]
    assert arm.write({"think": "T", "tool_call": "C"}) == "<think>T</think><tool_call>C</tool_call>"
    assert arm.write({"think": "T", "answer": "A"}) == "<think>T</think><answer>A</answer>"
    assert arm.skeletons({"think": "t", "tool_call": "c", "answer": "a"}) == (
        "<think>(t)</think><tool_call>(c)</tool_call>",
        "<think>(t)</think><answer>(a)</answer>",
    )


def test_mags_thinks_first_and_answers_from_the_second_turn_on() -> None:
    mags = QA_FORMATS["mags"]
    assert mags.at(0).write({"think": "T"}) == "<think>T</think>"
    assert mags.at(1).write({"rethink": "R", "answer": "A"}) == "<rethink>R</rethink><answer>A</answer>"
    assert mags.at(2) is mags.at(1)
    assert mags.at(0).action_sections == ("think",)
    assert FORMATS["grounding"].at(3) is FORMATS["grounding"]


@pytest.mark.parametrize(
    ("name", "text", "kept"),
    [
        ("arm", "<think>T</think><tool_call>C</tool_call> and <answer>A</answer>", 40),
        ("arm", "<think>T</think><answer>A</answer>", 34),
        ("mags", "<think>T</think> I go on", 16),
        ("direct", "<think>T</think><answer>A</answer> more", 39),
    ],
)
def test_where_a_response_counts_as_over(name: str, text: str, kept: int) -> None:
    assert QA_FORMATS[name].cut(text) == text[:kept]
