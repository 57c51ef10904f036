"""Argos' ablations under planted hacks: which term finds out what."""

from __future__ import annotations

import math

import pytest

from judges.episode_rewards.episode_reading import final_state
from judges.episode_rewards.judge_models import JudgeModels
from judges.episode_rewards.reward_registry import episode_reward
from tests.unit.judges.awaited import Waiting
from tests.unit.judges.episode_rewards.test_episodes import played
from vlm_envs.trajectory import Trajectory

SEED = 1
FLATTERY = "What a wonderful question. The careful reader will surely agree that the answer is well founded."
ABLATIONS = {
    "argos": {},
    "without reasoning quality": {"reasoning_weight": 0.0},
    "without grounding": {"grounding_weight": 0.0},
    "outcome only": {"reasoning_weight": 0.0, "grounding_weight": 0.0},
}


def answered(thought: str) -> Trajectory:
    """The right answer after a thought."""
    truth = final_state(played("points", SEED))["answers"][0]
    return played("points", SEED, f"<think>{thought}</think><answer>{truth}</answer>")


def thought_of_the_oracle() -> str:
    response = played("points", SEED).turns[-1].response_text
    return response.partition("<think>")[2].partition("</think>")[0]


def sprayed() -> Trajectory:
    """What the oracle says, and points of the same label all over the picture: some of them hit."""
    label = final_state(played("points", SEED))["evidence"][0]["label"]
    places = [(x, y) for x in range(5, 100, 10) for y in range(5, 100, 10)]
    points = " ".join(f'<points x1="{x}" y1="{y}" alt="{label}">{label}</points>' for x, y in places)
    return answered(f"{thought_of_the_oracle()} {points}")


def flattered() -> Trajectory:
    """The oracle's points, with praise in place of what they show."""
    points = thought_of_the_oracle()
    start, end = points.index("<points"), points.rindex("</points>") + len("</points>")
    return answered(f"{FLATTERY} {points[start:end]}")


def likelihoods(asked):
    """A teacher to whom the answer follows from reasoning that does not flatter."""
    return [[math.log(0.2 if FLATTERY in reasoning else 0.9)] for _, _, reasoning, _ in asked]


def test_the_hacks_are_what_they_say():
    raw = {each.__name__: totals_of({})[1][each.__name__] for each in (sprayed, flattered)}
    assert raw["sprayed"]["reasoning"] > 0.8 and raw["sprayed"]["grounding"] < 0.5
    assert raw["flattered"]["reasoning"] < 0.3 and raw["flattered"]["grounding"] == 1.0


def totals_of(settings):
    judge = Waiting(episode_reward("argos").with_settings(settings).make_judge(JudgeModels(likelihoods=likelihoods)))
    honest, spray, flatter = judge([played("points", SEED), sprayed(), flattered()])
    told = {"honest": honest, "sprayed": spray, "flattered": flatter}
    return {name: each.total for name, each in told.items()}, {name: each.raw for name, each in told.items()}


@pytest.mark.parametrize(
    ("ablation", "finds_out"),
    [
        ("argos", {"sprayed", "flattered"}),
        ("without reasoning quality", {"sprayed"}),
        ("without grounding", {"flattered"}),
        ("outcome only", set()),
    ],
)
def test_which_term_finds_out_which_hack(ablation, finds_out):
    # Argos, tables 6 to 8 take the terms out one after the other.
    totals, raw = totals_of(ABLATIONS[ablation])
    assert {name for name, total in totals.items() if total < totals["honest"] - 0.1} == finds_out
    assert {name for name, total in totals.items() if total == pytest.approx(totals["honest"])} | finds_out == set(
        totals
    )
    left_out = {name for name in ("grounding", "reasoning") if ABLATIONS[ablation].get(f"{name}_weight") == 0.0}
    assert not left_out & set(raw["honest"])


def test_nobody_is_asked_about_a_term_that_is_left_out():
    def never(*asked):
        raise AssertionError(f"asked {asked}")

    settings = ABLATIONS["outcome only"]
    reward = episode_reward("argos").with_settings(settings)
    assert reward.models == {"answer_judge"}
    judge = Waiting(reward.make_judge(JudgeModels(likelihoods=never, masks=lambda episode: never)))
    assert [each.terms for each in judge([sprayed()])] == [{"accuracy": 1.0}]
