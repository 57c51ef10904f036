"""What papers' rewards pay by default is what they paid before their constants could be set.

The numbers were written down by the code before that. After a change that is meant to change them,
`python -m tests.unit.judges.episode_rewards.test_unchanged` writes them anew.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from judges.episode_rewards.episode_reading import final_state
from judges.scores import JudgeScore
from tests.unit.judges.episode_rewards.test_episodes import played
from tests.unit.judges.episodes import episode_judge, with_response, with_state
from vlm_envs.trajectory import Trajectory

RECORDED = Path(__file__).with_name("unchanged.json")

STRATEGIES = {
    "arm_exploration": ("arm",),
    "arm_accuracy": ("arm",),
    "mags_stage_1": ("mags",),
    "mags_stage_2": ("mags",),
    "argos": ("points",),
    "ivgr": ("ivgr_grounded", "ivgr_textual"),
}

WRITTEN = {
    "arm": (("<think>So.</think><answer>A</answer>",), ("<think>So.</think>",)),
    "mags": (
        (
            "<think>A red thing and a blue one lie near it. <zoom>[[10, 10, 60, 60], [0, 0, 399, 399]]</zoom></think>",
            "<rethink>One two three four five six and no more.</rethink><answer>B</answer>",
        ),
        ("<think>red red red red red red red blue blue a b c <zoom>[[10, 10, 60, 60]]</zoom></think>", "It is B."),
        ("<think>See. <zoom>[]</zoom></think>", "<rethink>a b c d e</rethink><answer>close to it</answer>"),
    ),
    "points": (
        ('<think>The <points x1="50" y1="50" alt="it">red mug</points>.</think><answer>A</answer>',),
        ("<think>No point.</think><answer>2</answer>",),
        ("<think>No point.</think><answer>TRUTH</answer>",),
        ('<think>The <points x1="1" y1="1" alt="it">red mug</points>.</think><answer>TRUTH</answer>',),
    ),
    "ivgr_grounded": (
        ("<think>It is there [10, 10, 90, 90].</think><answer>TRUTH</answer>",),
        ("<think>It is there [10, 10, 90, 90].</think><answer>A</answer>",),
        ("It is there [10, 10, 90, 90]. <answer>2</answer>",),
    ),
    "ivgr_textual": (
        ("<think>Something else, and a blue lamp.</think><answer>TRUTH</answer>",),
        ("<think>A red mug.</think><answer>A</answer>",),
        ("<answer>2</answer>",),
    ),
}
"""Responses beside the oracle's, for each strategy; TRUTH is the right answer."""


def graded(question: str, truth: str, answer: str) -> JudgeScore:
    return JudgeScore(value=0.75 if len(answer) > 8 else 0.25)


def episodes_of(strategy: str) -> list[Trajectory]:
    episodes = []
    for seed in range(4):
        episodes.append(played(strategy, seed))
        truth = final_state(episodes[-1])["answers"][0]
        for said in WRITTEN[strategy]:
            episodes.append(played(strategy, seed, *(text.replace("TRUTH", truth) for text in said)))
    wrong = with_response(
        with_state(played(strategy, 0), answer="no such"), "<think>So.</think><answer>no such</answer>"
    )
    return [*episodes, wrong]


def rewards_of(name: str) -> list[dict[str, Any]]:
    episodes = [episode for strategy in STRATEGIES[name] for episode in episodes_of(strategy)]
    rewards = episode_judge(name, answer_judge=graded)(episodes)
    return [{"terms": dict(each.terms), "raw": dict(each.raw), "available": each.available} for each in rewards]


@pytest.mark.parametrize("name", STRATEGIES)
def test_every_reward_pays_what_it_paid(name):
    recorded = json.loads(RECORDED.read_text(encoding="utf-8"))[name]
    assert rewards_of(name) == recorded
    assert len({sum(each["terms"].values()) for each in recorded}) >= 3, "and not the same for everything"


if __name__ == "__main__":
    told = {name: rewards_of(name) for name in STRATEGIES}
    lines = ",\n".join(f"{json.dumps(name)}: {json.dumps(rewards)}" for name, rewards in told.items())
    RECORDED.write_text(f"{{\n{lines}\n}}\n", encoding="utf-8")
