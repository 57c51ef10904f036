"""What an evaluation's line says."""

from collections import Counter
from dataclasses import replace

import pytest

from agents.registry import make_agent
from training.config.world_spec import WorldSpec
from training.loop.evaluation import evaluate, told
from vlm_envs.statistics.success_rates import repeated_interval, wilson_interval


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


def test_seeds_that_give_one_level_are_a_cluster():
    evaluation = evaluate(make_agent("oracle"), WorldSpec(env_id="VLM/FrozenLake-v0"), split="test", num_episodes=8)
    counts = Counter(trajectory.start_state_hash for trajectory in evaluation.trajectories).values()
    record = evaluation.record()
    assert (record["num_episodes"], record["num_levels"]) == (8, 7)
    assert (record["success_low"], record["success_high"]) == repeated_interval([*counts], [*counts])
    assert "8 episodes on 7 levels" in told("after", record)
    mixed = replace(evaluation, trajectories=evaluation.trajectories[1:]).record()
    assert (mixed["num_episodes"], mixed["num_levels"]) == (7, 7)
    assert (mixed["success_low"], mixed["success_high"]) == wilson_interval(7, 7)


def test_questions_about_one_image_are_a_cluster():
    evaluation = evaluate(make_agent("oracle"), WorldSpec(env_id="VLM/FrozenLake-v0"), split="test", num_episodes=8)
    for number, trajectory in enumerate(evaluation.trajectories):
        trajectory.turns[-1].info["cluster"] = f"image {number // 2}"
    record = evaluation.record()
    assert (record["success_low"], record["success_high"]) == pytest.approx(wilson_interval(4, 4))


@pytest.mark.parametrize(("agent", "expected"), [("oracle", 1.0), ("random", None)])
def test_turns_to_success_are_recorded_where_an_episode_is_solved(agent, expected):
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"max_actions_per_turn": 16})
    record = evaluate(make_agent(agent), spec, split="test", num_episodes=2).record()
    assert record["num_turns"] >= 1
    assert record.get("turns_to_success") == expected
