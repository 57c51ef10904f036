"""What a run needs is tried before it leaves anything behind, and what its worlds cannot give is left out and told."""

from __future__ import annotations

import importlib.util
import os
import re
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import pytest

from agents.hf.checkpoint import require_device
from agents.oracle import OracleAgent
from agents.rollout import rollout
from judges.state_text.exact_judge import RULES
from judges.turn_rewards import exact_judge
from tests.unit.slow import quick
from tests.unit.training.batches import NO_JUDGE, run_config
from training.__main__ import main
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.preflight import facts_of, ready
from training.recipes.shipped import RECIPES
from training.rewards.turn_scores import TurnScorer
from training.run_options import configured, find_recipe
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[3]
BULBS = "own_world:Own/Bulbs-v0"

UNPLANNED = """
import gymnasium as gym
from own_world import CELL_PX, NUM_BULBS, BulbDynamics, BulbTask, BulbView
from vlm_envs.parts import Dynamics
from vlm_envs.world import World


class UnplannedDynamics(BulbDynamics):
    plan = Dynamics.plan


class UnplannedWorld(World):
    def __init__(self, **kwargs):
        super().__init__(UnplannedDynamics(), BulbView(), BulbTask(), **kwargs)
        self.set_picture_shape((CELL_PX, NUM_BULBS * CELL_PX, 3))


gym.register("Own/Unplanned-v0", entry_point=f"{__name__}:UnplannedWorld")
"""
FEW = ["--num-iterations", "1", "--num-groups", "2", "--group-size", "2", "--ppo.num-minibatches", "1"]
FEW += ["--algorithm.critic.num-minibatches", "1", "--algorithm.critic.warmup-iterations", "0"]
FEW += ["--num-eval-episodes", "2"]
FEW += ["--num-val-episodes", "2", "--sampling.max-new-tokens", "4", "--num-threads", "1"]


@pytest.fixture(autouse=True)
def own_worlds(tmp_path, monkeypatch):
    """The example's folder, and one with a world that nobody wrote a planner for, are on the path."""
    folder = tmp_path / "their_worlds"
    folder.mkdir()
    (folder / "unplanned.py").write_text(UNPLANNED)
    monkeypatch.syspath_prepend(str(CHECKOUT / "examples"))
    monkeypatch.syspath_prepend(str(folder))


def small(**changes: object) -> RunConfig:
    fields = {"worlds": (WorldSpec(env_id=BULBS),), "judge": JudgeConfig(), **changes}
    return run_config(**fields)


def test_judges_are_left_out_where_there_are_no_rules_and_that_is_told():
    config, told = ready(small(), imitates=False)
    assert (config.judge.grounding_weight, config.judge.worldmodeling_weight) == (0.0, 0.0)
    (line,) = told
    assert line.startswith(
        "Left out: --judge.grounding-weight, --judge.worldmodeling-weight, because there are no rules"
    )
    assert BULBS in line
    assert ready(small(judge=NO_JUDGE), imitates=False)[1] == []
    assert ready(RECIPES["frozenlake_tiny"](), imitates=False) == (RECIPES["frozenlake_tiny"](), [])


def test_the_rules_of_the_page_judge_its_world(tmp_path, monkeypatch):
    page = (CHECKOUT / "docs" / "own-world.md").read_text(encoding="utf-8").partition("\n## Judge it\n")[2]
    page = page.partition("\n## ")[0]
    (code,) = re.findall(r"```python\n(.*?)```", page, re.S)
    (command,) = re.findall(r"```bash\npython -m training (.*?)\n```", page, re.S)
    (tmp_path / "bulb_rules.py").write_text(code)
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setitem(RULES, "Own/Bulbs-v0", None)  # so that there are none again afterwards
    recipe, words = find_recipe(command.split())
    assert recipe is not None
    config, told = ready(configured(recipe, words), imitates=True)
    assert (told, config.judge) == ([], JudgeConfig())
    judge = exact_judge("bulb_rules:Own/Bulbs-v0", "natural_language")
    assert judge.score("Lit bulbs: [0, 2].", {"lit_bulbs": [0, 2]}).value == 1.0
    assert judge.score("Bulbs 0 and 3 are lit.", {"lit_bulbs": [0, 2]}).value == 0.5
    (spec,) = config.worlds
    with spec.make_vector(1, split="train") as worlds:
        played = rollout(OracleAgent(), worlds, [0], env_ids=[spec.env_id])
    (scored,) = TurnScorer(config.judge).score(played)
    paid = JudgeConfig().grounding_weight + JudgeConfig().worldmodeling_weight
    earned = [sum(term.value for term in turn.judge_terms) for turn in scored.turns]
    assert earned == pytest.approx([paid] * len(scored.turns))


def test_beside_a_judged_world_one_without_rules_is_paid_by_its_own_reward():
    specs = (WorldSpec(env_id=BULBS), WorldSpec(env_id="VLM/FrozenLake-v0"))
    config, told = ready(small(worlds=specs, num_groups=2), imitates=False)
    assert (config.judge, told) == (JudgeConfig(), []), "nobody chose the weights"
    chosen = JudgeConfig(grounding_weight=0.25)
    config, told = ready(small(worlds=specs, num_groups=2, judge=chosen), imitates=False)
    assert config.judge == chosen
    assert told[0].startswith(f"Left out: --judge.grounding-weight, because there are no rules to judge {BULBS} by")
    for spec, paid in zip(specs, (0.0, 1.0), strict=True):
        with spec.make_vector(2, split="train") as worlds:
            played = rollout(OracleAgent(), worlds, [0, 1], env_ids=[spec.env_id] * 2)
        for scored in TurnScorer(JudgeConfig()).score(played):
            assert all(scored.trainable_turns)
            earned = [sum(term.value for term in turn.judge_terms) for turn in scored.turns]
            assert earned == pytest.approx([paid] * len(scored.turns))


def test_suboptimal_demonstrations_are_left_out_where_no_world_has_a_plan_for_them():
    suboptimal = ColdStartConfig(num_steps=4, num_first_turn_steps=0, suboptimal_rate=0.5)
    config, told = ready(small(cold_start=suboptimal, judge=NO_JUDGE), imitates=True)
    assert config.cold_start.suboptimal_rate == 0.0
    assert told == ["Left out: --cold-start.suboptimal-rate, because no world here has a suboptimal_plan."]
    (svg,) = small().worlds
    hasty = replace(svg, cold_start_suboptimal_rate=0.5)
    config, told = ready(small(worlds=(hasty,), judge=NO_JUDGE), imitates=True)
    assert config.worlds == (replace(svg, cold_start_suboptimal_rate=0.0),)
    assert told == [f"Left out: --worlds.0.cold-start-suboptimal-rate, because {svg.env_id} has no suboptimal_plan."]
    lake = small(cold_start=suboptimal, worlds=(WorldSpec(env_id="VLM/FrozenLake-v0"),))
    assert ready(lake, imitates=True)[0].cold_start == suboptimal


def test_a_plan_is_not_told_where_no_world_has_words_for_it():
    telling = ColdStartConfig(num_steps=4, num_first_turn_steps=0, tells_plan=True)
    config, told = ready(small(cold_start=telling, judge=NO_JUDGE), imitates=True)
    assert not config.cold_start.tells_plan
    assert told == ["Left out: --cold-start.tells-plan, because no world here has an intention to tell."]
    boxes = small(cold_start=telling, worlds=(WorldSpec(env_id="VLM/Sokoban-v0"),))
    assert ready(boxes, imitates=True)[0].cold_start == telling


def test_a_world_without_a_planner_is_not_imitated(tmp_path, capsys):
    facts = facts_of(WorldSpec(env_id="unplanned:Own/Unplanned-v0"))
    assert (facts.has_planner, facts.has_suboptimal_planner) == (False, False)
    start = ["unplanned:Own/Unplanned-v0", "--output", str(tmp_path / "runs"), *FEW]
    for words in (start, ["cold_start", *start]):
        assert main(words) == 2
        said = capsys.readouterr().err
        assert "Own/Unplanned-v0 has no planner" in said
        assert "--cold-start.num-steps 0" in said
    assert not (tmp_path / "runs").exists()


def test_nor_is_the_oracle_its_expert_in_a_curation(tmp_path, capsys, monkeypatch):
    unplanned = facts_of(WorldSpec(env_id="unplanned:Own/Unplanned-v0"))
    monkeypatch.setattr("training.curation.curation_command.facts_of", lambda spec: unplanned)
    assert main(["curate", "--output", str(tmp_path / "runs")]) == 2
    assert "has no planner" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


BESIDE = ["--worlds.1.env-id", "VLM/FrozenLake-v0"]


@pytest.mark.parametrize(
    ("beside", "num_told"),
    quick([([], 1), (BESIDE, 0), ([*BESIDE, "--judge.worldmodeling-weight", "0.25"], 1)], (BESIDE, 0)),
)
@pytest.mark.soak
def test_a_world_without_planner_and_rules_trains_alone_and_beside_one_that_has_them(
    beside, num_told, tmp_path, capsys
):
    words = ["unplanned:Own/Unplanned-v0", *beside, "--output", str(tmp_path), "--cold-start.num-steps", "0", *FEW]
    assert main(words) == 0
    said = capsys.readouterr().out
    assert "Model: " in said
    assert len(re.findall("^Left out: .* no rules to judge unplanned:Own/Unplanned-v0 by", said, re.M)) == num_told
    assert (tmp_path / "unplanned_tiny" / "latest" / "model" / "config.json").is_file()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--device", "cuda"], "sees no CUDA GPU here. Use --device cpu"),
        (["--device", "gpu"], "--device gpu cannot be used"),
        (["--model", "no/such/model"], "No checkpoint at no/such/model"),
        (["--worlds.0.kwargs.max-turn", "5"], "Did you mean 'max_turns'?"),
        (["--worlds.0.kwargs.representation", "symbolic"], "representation must be one of 'natural_language'"),
        (["--worlds.0.env-id", "no_such_module:My/World-v0"], "cannot import 'no_such_module'"),
    ],
)
def test_a_refused_start_leaves_nothing_behind(words, said, tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("torch.cuda.is_available", lambda: False)
    assert main([BULBS, "--output", str(tmp_path / "runs"), *FEW, *words]) == 2
    assert said in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_judges_that_are_not_there_are_found_out_before_a_cold_start(monkeypatch):
    verifier = VerifierConfig(likelihood="no/such/checkpoint")
    points = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"prompt_format": "points", "answer_reward": 0.0})
    judge = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="argos", verifier=verifier)
    with pytest.raises(ConfigError, match=r"--judge.verifier.likelihood no/such/checkpoint: no such directory"):
        ready(small(worlds=(points,), judge=judge), imitates=True)


@pytest.mark.parametrize(
    ("lacking", "told"),
    [(["likelihood"], "--judge.verifier.likelihood far/away: no such directory here or on 10.0.0.7"), ([], None)],
)
def test_models_of_actors_may_be_where_these_are(monkeypatch, lacking, told):
    asked = []

    def look(directories, *, num_gpus):
        asked.append((directories, num_gpus))
        return "10.0.0.7", lacking

    monkeypatch.setattr("training.preflight_judges.lacking_where_ray_places", look)
    verifier = VerifierConfig(likelihood="far/away", workers="ray", num_gpus=0.5)
    points = WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"prompt_format": "points", "answer_reward": 0.0})
    judge = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward="argos", verifier=verifier)
    with nullcontext() if told is None else pytest.raises(ConfigError, match=re.escape(told)):
        ready(small(worlds=(points,), judge=judge), imitates=True)
    assert asked == [({"likelihood": os.path.abspath("far/away")}, 0.5)]


def test_a_model_is_no_judge_of_states_that_none_reads_and_that_is_told_first(tmp_path, capsys):
    judge = [
        "--judge.method",
        "direct",
        "--judge.endpoint.model",
        "m",
        "--judge.endpoint.base-url",
        "http://[::1]:9/v1",
    ]
    weights = [
        "--judge.grounding-weight",
        "0",
        "--judge.worldmodeling-weight",
        "0",
        "--judge.repetition-penalty",
        "0.1",
    ]
    for words in ([], weights):  # what repeats itself is asked about, too
        assert main(["frozenlake_tiny", "--output", str(tmp_path / "runs"), *judge, *words]) == 2
        told = capsys.readouterr().err
        assert "--judge.method direct: A language model judges FrozenLake in natural_language, not in 'struct" in told
        assert "--worlds.0.kwargs.representation natural_language" in told
    assert not (tmp_path / "runs").exists()


def test_devices_that_are_there_are_taken():
    require_device("auto")
    require_device("cpu")


def test_the_strategy_of_a_world_is_its_own_unless_it_is_told_another():
    assert WorldSpec(env_id="VLM/ZoomQA-v0").prompt_format == "arm"
    assert WorldSpec(env_id=BULBS, kwargs={"prompt_format": "no_think"}).prompt_format == "no_think"
    assert WorldSpec(env_id=BULBS).prompt_format == "grounding_worldmodeling"


@pytest.mark.parametrize("episodes", [None, ""], ids=["no folder", "no episodes"])
def test_a_cold_start_from_data_that_is_not_there_is_refused_first(tmp_path, capsys, episodes):
    data = tmp_path / "data"
    if episodes is not None:
        (data / "trajectories").mkdir(parents=True)
        (data / "config.json").write_text("{}")
        (data / "trajectories" / "curated.jsonl").write_text(episodes)
    command = [BULBS, "--output", str(tmp_path / "runs"), "--cold-start.data", str(data), *FEW]
    assert main(command) == 2
    assert "--cold-start.data" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("package", "words", "remedy"),
    [
        ("peft", ["--lora.rank", "8"], "pip install -e '.[scale]'"),
        ("flash_attn", ["--memory.attention", "flash_attention_2"], "pip install flash-attn"),
    ],
)
def test_what_a_missing_package_makes_is_refused_in_one_line(tmp_path, monkeypatch, capsys, package, words, remedy):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *args: None if name == package else find(name, *args))
    assert main(["frozenlake_tiny", "--output", str(tmp_path / "runs"), *words]) == 2
    shown = capsys.readouterr().err
    assert remedy in shown and "Traceback" not in shown
    assert not (tmp_path / "runs").exists()


def test_a_checkpoint_without_weights_is_refused_before_anything_is_tried(
    tiny_directory, tmp_path, capsys, monkeypatch
):
    monkeypatch.setattr("training.preflight.ready", lambda *args, **kwargs: pytest.fail("it was tried"))
    (tmp_path / "bare").mkdir()
    (tmp_path / "bare" / "config.json").write_bytes((Path(tiny_directory) / "config.json").read_bytes())
    assert main(["frozenlake_tiny", "--model", str(tmp_path / "bare"), "--output", str(tmp_path / "runs"), *FEW]) == 2
    (line,) = capsys.readouterr().err.strip().splitlines()
    assert f"No weights at {tmp_path / 'bare'}" in line


def test_a_start_that_another_recipe_makes_names_that_one(tmp_path, capsys, monkeypatch):
    pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")
    monkeypatch.chdir(tmp_path)
    assert main(["argos_hack_tiny"]) == 2
    told = capsys.readouterr().err
    assert "No checkpoint at runs/argos_tiny/3-sft/latest/model" in told
    assert "Run `python -m training argos_tiny` first, which creates it, or name yours with --model DIR." in told
    assert not (tmp_path / "runs").exists()
    for model in ("runs/no_such_recipe/latest/model", "elsewhere/argos_tiny/latest/model"):
        assert main(["frozenlake_tiny", "--model", model]) == 2
        told = capsys.readouterr().err
        assert "Name yours with --model DIR; --model None starts from the tiny VLM" in told and "Run `" not in told


def test_a_context_that_is_too_small_is_told_of_by_its_options(tiny_directory, tmp_path, capsys):
    few = [*FEW, "--output", str(tmp_path / "runs"), "--sampling.max-context-tokens", "30"]
    assert main(["frozenlake_tiny", "--model", str(tiny_directory), *few]) == 2
    told = capsys.readouterr().err
    assert "raise --sampling.max-context-tokens" in told
    assert "lower --sampling.max-new-tokens" in told
