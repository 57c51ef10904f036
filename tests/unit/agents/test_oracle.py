"""The oracle solves everything and says only true things; the random agent only keeps the format."""

from __future__ import annotations

import pytest

from agents.agent import Response
from agents.oracle import OracleAgent, RandomAgent
from judges.state_text.exact_judge import ExactJudge
from tests.unit.episodes import play
from vlm_envs import make
from vlm_envs.errors import SolverLimitError
from vlm_envs.responses.formats import FORMATS, REPRESENTATIONS

ENV_IDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")

BEHIND_A_WALL = """######
#____#
#____#
#PX#O#
#____#
######"""
TWO_BOXES = """#######
#P____#
#_X_X_#
#_O_O_#
#######"""


def judged(turn, section, truth, *, env_id, representation):
    return ExactJudge(env_id, representation).score(turn.info["sections"][section], truth).value


@pytest.mark.parametrize("representation", REPRESENTATIONS)
@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_the_oracle_succeeds_and_tells_the_truth(env_id, prompt_format, representation):
    asked = {"prompt_format": prompt_format, "representation": representation}
    for trajectory in play(OracleAgent(), range(3), env_id=env_id, max_turns=(3,), **asked):
        assert trajectory.success
        for turn in trajectory.turns:
            assert turn.info["format_correct"], turn.response_text
            sections = turn.info["sections"]
            for section, truth in (("observation", turn.state), ("prediction", turn.info["state"])):
                if section in sections:
                    assert judged(turn, section, truth, env_id=env_id, representation=representation) == 1.0


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_an_expert_that_errs_still_tells_the_truth(env_id):
    asked = {"prompt_format": "grounding_worldmodeling", "representation": "structured"}
    trajectories = play(OracleAgent(mistake_rate=1.0), range(12), env_id=env_id, max_turns=(3,), **asked)
    assert not all(trajectory.success for trajectory in trajectories)
    for trajectory in trajectories:
        for turn in trajectory.turns:
            for section, truth in (("observation", turn.state), ("prediction", turn.info["state"])):
                assert judged(turn, section, truth, env_id=env_id, representation="structured") == 1.0


@pytest.mark.parametrize("env_id", ENV_IDS)
def test_a_suboptimal_expert_fails_more_and_still_tells_the_truth(env_id):
    asked = {"prompt_format": "grounding_worldmodeling", "representation": "structured"}
    optimal, suboptimal = (
        play(OracleAgent(suboptimal_rate=rate), range(40), env_id=env_id, max_turns=(3,), **asked)
        for rate in (0.0, 1.0)
    )
    assert all(trajectory.success for trajectory in optimal)
    assert not all(trajectory.success for trajectory in suboptimal)
    for trajectory in suboptimal:
        for turn in trajectory.turns:
            assert turn.info["format_correct"]
            for section, truth in (("observation", turn.state), ("prediction", turn.info["state"])):
                assert judged(turn, section, truth, env_id=env_id, representation="structured") == 1.0


def test_an_expert_may_tell_its_whole_plan_before_its_reasons_for_a_turn():
    def reasons(**settings):
        world = make("VLM/Sokoban-v0", prompt_format="grounding_worldmodeling").unwrapped
        world.reset(options={"level": BEHIND_A_WALL})
        return world.step(OracleAgent(**settings).write(world))[-1]["sections"]["reasoning"]

    moves = "Down to (4, 1); Right to (4, 2); Up to (3, 2)"
    assert reasons() == moves
    assert reasons(tells_plan=True) == f"box to (2, 2), (2, 3), (2, 4), (3, 4); {moves}"
    hasty = reasons(tells_plan=True, suboptimal_rate=1.0)
    assert hasty.startswith("box to (3, 3), (3, 4); Right"), "which way it would go if there were no wall"
    assert reasons(tells_plan=True, mistake_rate=1.0).count("box") == 0, "nobody tells a plan that is not kept to"


def test_of_several_boxes_each_way_is_told_in_the_order_of_pushes():
    world = make("VLM/Sokoban-v0", dim_room=(5, 7), num_boxes=2).unwrapped
    world.reset(options={"level": TWO_BOXES})
    assert world.task.intention(world.state, world.dynamics.plan(world.state)) == "box to (3, 2); box to (3, 4)"


def test_the_oracle_goes_on_where_the_solver_gives_up(monkeypatch):
    world = make("VLM/Sokoban-v0", prompt_format="no_think").unwrapped
    world.reset(seed=0)

    def give_up(state):
        raise SolverLimitError("too hard")

    monkeypatch.setattr(world.dynamics, "plan", give_up)
    *_, info = world.step(OracleAgent().write(world))
    assert info["format_correct"]
    assert len(info["actions"]) == 1


@pytest.mark.parametrize("rate", [-0.1, 1.1])
@pytest.mark.parametrize("name", ["mistake_rate", "suboptimal_rate"])
def test_rates_are_probabilities(name, rate):
    with pytest.raises(ValueError, match=f"{name} must be within 0 and 1; got {rate}"):
        OracleAgent(**{name: rate})


@pytest.mark.parametrize("prompt_format", FORMATS)
@pytest.mark.parametrize("env_id", ENV_IDS)
def test_the_random_agent_keeps_the_format_and_repeats_with_its_seed(env_id, prompt_format):
    first, second, other = (
        play(RandomAgent(seed=seed), range(4), env_id=env_id, prompt_format=prompt_format) for seed in (1, 1, 2)
    )
    texts = [
        [turn.response_text for trajectory in each for turn in trajectory.turns] for each in (first, second, other)
    ]
    assert all(turn.info["format_correct"] for trajectory in first for turn in trajectory.turns)
    assert texts[0] == texts[1] != texts[2]


def test_agents_without_tokens_have_empty_ones():
    response = Response(text="hello")
    assert len(response.prompt_ids) == len(response.response_ids) == len(response.sampler_logprobs) == 0
    assert OracleAgent.policy_version == RandomAgent.policy_version == -1
