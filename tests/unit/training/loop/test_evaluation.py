"""What an evaluation's line says."""

import pytest

from agents.registry import make_agent
from training.config.worlds.spec import WorldSpec
from training.loop.evaluation import evaluate, told


@pytest.mark.parametrize(
    ("spec", "played"),
    [
        (
            WorldSpec(env_id="VLM/SVG-v0", kwargs={"resolution": 112, "max_turns": 1}),
            "VLM/SVG-v0 test success 1.000 [0.342, 1.000], similarity 1.000 over 2 levels",
        ),
        (
            WorldSpec(env_id="VLM/FrozenLake-v0"),
            "VLM/FrozenLake-v0 test success 1.000 [0.342, 1.000] over 2 levels",
        ),
    ],
    ids=["graded", "solved or not"],
)
def test_the_line_has_the_measure_that_the_table_of_results_has(spec, played):
    evaluation = evaluate(make_agent("oracle"), spec, split="test", num_episodes=2)
    assert told("after", evaluation.record(), whose=", at temperature 0") == f"after: {played}, at temperature 0"


@pytest.mark.parametrize(("agent", "expected"), [("oracle", 1.0), ("random", None)])
def test_turns_to_success_are_recorded_where_an_episode_is_solved(agent, expected):
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"max_actions_per_turn": 16})
    record = evaluate(make_agent(agent), spec, split="test", num_episodes=2).record()
    assert record["num_turns"] >= 1
    assert record.get("turns_to_success") == expected
