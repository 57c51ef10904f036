"""Free thoughts that tell what is seen: how right they are."""

from __future__ import annotations

import pytest

from agents.registry import make_agent
from judges.turn_rewards import score_thoughts
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate
from vlm_envs.trajectory import Turn


def turn(said: str, *, seen: dict[str, str] | None = None, format_correct: bool = True) -> Turn:
    return Turn(
        observation={"text": ""},
        response_text=f"<think>{said}</think><answer>Ahead</answer>",
        stop_reason="stop",
        reward=0.0,
        terminated=False,
        truncated=False,
        info={"format_correct": format_correct, "sections": {"think": said} if format_correct else {}},
        state={},
        seen_sections={"think": "5 ahead, 2 left"} if seen is None else seen,
    )


@pytest.mark.parametrize(
    ("said", "expected"),
    [
        ("5 ahead, 2 left", 1.0),
        ("  2 LEFT ,5  ahead", 1.0),
        ("5 ahead, 2 right", 0.5),
        ("5 ahead", 2 / 3),
        ("4 ahead, 5 ahead, 6 ahead, 1 left, 2 left, 3 left", 0.5),
        ("5 ahead, 5 ahead, 2 left", 1.0),
        ("15 ahead, 2", 0.0),
        ("", 0.0),
    ],
)
def test_a_fact_counts_as_it_is_and_what_is_claimed_besides_costs(said, expected):
    assert score_thoughts(turn(said)) == pytest.approx(expected)


def test_a_response_out_of_the_format_says_nothing():
    assert score_thoughts(turn("5 ahead, 2 left", format_correct=False)) == 0.0


def test_formats_without_such_thoughts_and_those_that_judges_read_have_no_score():
    assert score_thoughts(turn("5 ahead", seen={})) is None
    assert score_thoughts(turn("5 ahead", seen={"observation": "5 ahead"})) is None


def played(env_id, agent="oracle", **kwargs):
    result = evaluate(make_agent(agent), WorldSpec(env_id=env_id, kwargs=kwargs), split="val", num_episodes=2)
    return [turn for each in result.trajectories for turn in each.turns]


def test_an_expert_tells_what_it_sees_before_it_moves():
    pytest.importorskip("panda3d", reason="needs panda3d: pip install '.[sim]'")
    turns = played("VLM/Navigation-v0", prompt_format="free_think", max_actions_per_turn=2, min_solution_length=4)
    assert len(turns) >= 4
    assert {score_thoughts(turn) for turn in turns} == {1.0}
    assert [turn.info["seen_sections"] for turn in turns] != [turn.seen_sections for turn in turns]


def test_a_world_that_tells_no_such_thoughts_has_no_score():
    turns = played("VLM/FrozenLake-v0", prompt_format="free_think")
    assert {score_thoughts(turn) for turn in turns} == {None}
    (first, *_) = played("VLM/FrozenLake-v0")
    assert first.seen_sections == {"observation": first.state_text} and score_thoughts(first) is None
