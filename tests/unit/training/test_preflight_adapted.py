"""Runs on adapted environments: judges have nothing to read there, so they are left out with one line."""

import pytest

from judges.state_text.exact_judge import RULES, has_rules, rules_of
from tests.unit.training.batches import run_config
from training.config.judge_config import JudgeConfig
from training.config.world_spec import WorldSpec
from training.preflight import how_to_plan
from training.preflight_judges import without_judges
from vlm_envs.vector.vector_world import VectorWorld

LAKE = WorldSpec(env_id="adapt:FrozenLake-v1")


def test_the_exact_judge_is_left_out_with_one_line():
    config, told = without_judges(run_config(worlds=(LAKE,), judge=JudgeConfig()))
    assert (config.judge.grounding_weight, config.judge.worldmodeling_weight) == (0.0, 0.0)
    (line,) = told
    assert "--judge.grounding-weight, --judge.worldmodeling-weight" in line and "adapt:FrozenLake-v1" in line


@pytest.mark.parametrize("method", ["direct", "extraction"])
def test_a_language_model_as_judge_is_left_out_with_one_line(method):
    pytest.importorskip("httpx2")
    from agents.api.endpoint_config import EndpointConfig

    endpoint = EndpointConfig(model="m", base_url="http://127.0.0.1:9/v1")
    judge = JudgeConfig(method=method, endpoint=endpoint, in_evaluations=True)
    config, told = without_judges(run_config(worlds=(LAKE,), judge=judge))
    assert (config.judge.method, config.judge.endpoint, config.judge.grounding_weight) == ("exact", None, 0.0)
    assert len(told) == 1 and f"--judge.method {method}" in told[0]


def test_an_adapted_world_may_have_rules_of_its_own(monkeypatch):
    assert not has_rules(LAKE.env_id) and not has_rules("Adapted/FrozenLake-v1")
    monkeypatch.setitem(RULES, "Adapted/FrozenLake-v1", RULES["Navigation"])
    assert rules_of(LAKE.env_id) is rules_of("Adapted/FrozenLake-v1") is RULES["Navigation"]


def test_a_run_makes_vectors_of_an_adapted_world():
    worlds = LAKE.make_vector(2, split="val")
    assert isinstance(worlds, VectorWorld) and worlds.reset(seed=[1, 2])[0][0]["image"].shape == (256, 256, 3)
    worlds.close()


def test_who_wants_to_imitate_is_shown_how_an_adapted_world_gets_a_planner(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "plain-lake.toml").write_text('env = "FrozenLake-v1"\nname = "plain-lake"\n')
    assert how_to_plan(WorldSpec(env_id="adapt:plain-lake.toml")).endswith('plain-lake.toml, plan = "module:function"')
    (tmp_path / "UPPER.TOML").write_text('env = "FrozenLake-v1"\nname = "upper-lake"\n')
    assert "name it in UPPER.TOML" in how_to_plan(WorldSpec(env_id="adapt:UPPER.TOML"))
    assert "plan=..." in how_to_plan(LAKE) and "Dynamics.plan" in how_to_plan(WorldSpec(env_id="VLM/Sokoban-v0"))
