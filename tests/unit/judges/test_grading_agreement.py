"""Worlds and rewards read an answer alike, whatever markup is around it."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache

import pytest

from judges.episode_rewards.argos import ArgosModels
from judges.episode_rewards.ivgr import IvgrQuery, format_reward
from judges.episode_rewards.mags import MagsRollout, read_rollout
from judges.grading import extract_answer
from judges.scores import JudgeScore
from tests.unit.judges.awaited import answer_reward, argos_reward, grade_answer, grounded_reward, match_answer
from tests.unit.vlm_envs.qa.quiz import Quiz
from vlm_envs.qa.qa_context import PictureContext
from vlm_envs.qa.qa_world import QAWorld
from vlm_envs.qa.strategies import STRATEGIES
from vlm_envs.responses.answers import AnswerKey, anls, inclusion, score_answer

WRAPPERS = [
    "%s",
    r"\boxed{%s}",
    "<|begin_of_box|>%s<|end_of_box|>",
    "**%s**",
    "*%s*",
    "`%s`",
    "```\n%s\n```",
    '"%s"',
    "“%s”",
    "[%s]",
    "（%s）",
    r"\text{%s}",
    "$%s$",
    "Final answer: %s",
    "**Answer:** %s",
    "The correct answer is %s.",
    "%s。",
]

KEYS = {
    "choice": (AnswerKey(kind="choice", answers=("B",), options=("red", "blue", "green")), "B", "A"),
    "option text": (AnswerKey(kind="choice", answers=("B",), options=("red", "blue", "green")), "blue", "red"),
    "letter and text": (AnswerKey(kind="choice", answers=("B",), options=("red", "blue")), "B (blue)", "B (red)"),
    "unknown options": (AnswerKey(kind="choice", answers=("B",)), "B", "C"),
    "count": (AnswerKey(kind="number", answers=("40",)), "40", "41"),
    "count in words": (AnswerKey(kind="number", answers=("40",)), "forty people", "forty-one"),
    "float": (AnswerKey(kind="number", answers=("12.5",)), "12.6", "14"),
    "exact": (AnswerKey(kind="exact", answers=("black", "dark")), "Black", "white"),
    "code": (AnswerKey(kind="exact", answers=("__init__.py",)), "__init__.py", "init.py"),
    "formula": (AnswerKey(kind="exact", answers=("5*3",)), "5*3", "53"),
    "anls": (AnswerKey(kind="anls", answers=("Kasimir Garrick",)), "Kasimir Garrick", "Berta Holm"),
    "name": (AnswerKey(kind="anls", answers=("Kasimir Garrick",), tolerance=0.0), "Kasimir Garrick", "Hanno Garrick"),
    "verdict": (AnswerKey(kind="verdict", answers=("2",)), "resp_2", "resp_1"),
    "true or false": (AnswerKey(kind="verdict", answers=("True",)), "True", "False"),
    "list": (AnswerKey(kind="list", answers=('["Alice", "Bob"]',)), '["Bob", "Alice"]', '["Bob", "Carl"]'),
    "semantic": (AnswerKey(kind="semantic", answers=("a black cat",)), "A black cat", "a dog"),
}
PAIRS = [
    outer.replace("%s", inner)
    for outer, inner in itertools.product(WRAPPERS, WRAPPERS)
    if not (outer[0] == "*" == inner[0] and outer[-1] != inner[-1])  # not expressible in Markdown
]


def says_dog_is_wrong(question: str, truth: str, answer: str) -> JudgeScore:
    """A judge that accepts the answers that it knows, and only without markup."""
    return JudgeScore(value=float(answer.rstrip(".。").casefold() in ("a black cat", "kitty")))


class OneKey(Quiz):
    """Squares whose answers are compared with one key."""

    def __init__(self, key: AnswerKey) -> None:
        self.key = key

    def find(self, sample_id):
        """Returns the square of a number, with the key."""
        return replace(super().find(sample_id), key=self.key)


@cache
def world(key: AnswerKey, reading: str = "strict", prompt_format: str = "points") -> QAWorld:
    return QAWorld(
        name="Quiz",
        goal="Answer a question.",
        source=OneKey(key),
        context=PictureContext(max_pixels=10_000),
        strategies=STRATEGIES,
        prompt_format=prompt_format,
        reading=reading,
    )


def success(key: AnswerKey, response: str) -> bool:
    """Whether the world counts the response as success."""
    played = world(key)
    played.reset(seed=1)
    *_, info = played.step(response)
    assert info["format_correct"]
    return bool(info["success"])


def rewards(key: AnswerKey, response: str, answer: str) -> list[float]:
    """What each reward and each function that compares answers says."""
    query = IvgrQuery(query_id="1", key=key)
    rollout = MagsRollout(round_1="", round_2=response, width_px=10, height_px=10)
    return [
        score_answer(answer, key),
        match_answer(answer, key, says_dog_is_wrong).value,
        match_answer(extract_answer(response), key, says_dog_is_wrong).value,
        argos_reward(response, key, ArgosModels(answer=says_dog_is_wrong)).raw["accuracy"],
        grounded_reward(response, query, says_dog_is_wrong).raw["accuracy"],
        answer_reward(read_rollout(rollout), key).value,
    ]


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.sample(6)
def test_worlds_and_rewards_agree_on_right_and_wrong_answers_in_every_wrapper(name):
    key, right, wrong = KEYS[name]
    for wrapper in WRAPPERS:
        answer = wrapper % right
        response = f"<think>I look.</think><answer>{answer}</answer>"
        found = rewards(key, response, answer)
        if name in ("anls", "float"):
            found.pop()  # Mags-RL wants the truth's own words
        assert min(found) >= (0.8 if name == "anls" else 1.0), (answer, found)
        assert success(key, response), answer
        assert format_reward(response) == 1.0
        answer = wrapper % wrong
        response = f"<think>I look.</think><answer>{answer}</answer>"
        assert max(rewards(key, response, answer)) == 0.0, answer
        assert not success(key, response), answer


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.sample(6)
def test_two_wrappers_do_not_change_what_an_answer_is_worth(name):
    key, right, wrong = KEYS[name]
    for wrapper in PAIRS:
        assert match_answer(wrapper % right, key, says_dog_is_wrong).value >= 0.8, wrapper
        assert match_answer(wrapper % wrong, key, says_dog_is_wrong).value == 0.0, wrapper


@pytest.mark.parametrize("wrapper", WRAPPERS)
def test_a_judge_grades_and_the_metrics_compare_the_answer_without_its_wrapper(wrapper):
    key = AnswerKey(kind="semantic", answers=("a black cat",))
    assert match_answer(wrapper % "kitty", key, says_dog_is_wrong).value == 1.0
    assert grade_answer(wrapper % "kitty", key, says_dog_is_wrong).value == 1.0
    assert inclusion(wrapper % "a black cat", key.answers) == 1.0
    assert anls(wrapper % "a black cat", key.answers) > 0.9


@pytest.mark.parametrize("empty", [r"\boxed{}", "****", "<|begin_of_box|> <|end_of_box|>", '""', "``"])
def test_an_empty_wrapper_is_no_answer(empty):
    key = AnswerKey(kind="semantic", answers=("a",))
    assert match_answer(empty, key).value == 0.0
    assert grade_answer(empty, key, says_dog_is_wrong).reason == "no answer, or one that is too long"


@pytest.mark.parametrize(
    "response",
    [
        r"<think>I look.</think>\boxed{B}",
        "<think>I look.</think><answer>B",
        "<think>so <answer>B</answer>",
        r"<think>\boxed{B}</think>",
    ],
)
def test_rewards_read_no_answer_where_worlds_read_none(response):
    key = KEYS["choice"][0]
    assert argos_reward(response, key, ArgosModels()).raw["accuracy"] == 0.0
    played = world(key)
    played.reset(seed=1)
    played.step(response)
    assert played.state.answer is None


FRAMES = {
    "<think>a</think><answer>B</answer><think>check</think>": "B",
    "<rethink>a</rethink><answer>B</answer><rethink>check": "B",
    "<answer>B</answer>": "B",
    "<Answer>B</Answer>": "B",
    "<ANSWER>B</answer>": "B",
    "<THINK><answer>B</answer></THINK>": None,
    "<Think>a</THINK><answer>B</answer>": "B",
    "<rethink><answer>A</answer></rethink><answer>B</answer>": "B",
    "<answer>A</answer></ReThink><answer>B</answer>": "B",
    "<answer>A</answer></think>": None,
    "<answer>A</answer><answer>B</answer>": "B",
    "<answer>A</answer> No: <Answer>B</Answer>": "B",
    "<answer>B</answer><answer>A": "B",
    "<answer>A<answer>B</answer></answer>": "B",
    "<answer>B": None,
    "<think><answer>B</answer>": None,
    "I think B.": None,
    "": None,
    "Sure! <answer>so <|begin_of_box|>B<|end_of_box|></answer> Bye.": "B",
    r"Sure! <answer>so \boxed{A}, no, \boxed{B}</answer>": "B",
    r"<think>\boxed{B}</think>": None,
    "＜answer＞B＜/answer＞": None,
    "<answer>B</answer><|im_end|>": "B",
    "```\n<answer>\nB\n</answer>\n```": "B",
}
"""Frames of an answer, and the answer in each."""


@pytest.mark.parametrize("prompt_format", ["points", "direct"])
@pytest.mark.parametrize("response", FRAMES)
def test_a_lenient_world_and_rewards_find_the_same_answer_in_every_frame(response, prompt_format):
    key, answer = KEYS["choice"][0], FRAMES[response]
    played = world(key, "lenient", prompt_format)
    played.reset(seed=1)
    *_, info = played.step(response)
    assert played.state.answer == extract_answer(response) == answer
    right = float(answer == "B")
    assert info["success"] is bool(right)
    assert argos_reward(response, key, ArgosModels()).raw["accuracy"] == right
