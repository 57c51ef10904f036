"""The arms of each paper's claim differ in what the claim is about, and in nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from benchmarks.ablations.papers import ABLATIONS
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.turn_gae import TurnGAE
from vlm_envs.errors import ConfigError

DIFFERENCES = {
    "vagen": {"algorithm", "judge"},
    "argos": {"judge"},
    "ivgr": {"worlds", "judge"},
    "mags": {"worlds", "judge"},
    "arm_thinker": {"judge"},
}
"""What runs of a claim may differ in; rates, lengths, penalties and sampling are not among it."""


@pytest.fixture(scope="module")
def made():
    return {name: ablation() for name, ablation in ABLATIONS.items()}


def differences(first, second):
    return {each.name for each in fields(first) if getattr(first, each.name) != getattr(second, each.name)}


@pytest.mark.parametrize("name", ABLATIONS)
def test_arms_differ_in_what_the_claim_is_about(made, name):
    ablation = made[name]
    runs = [*ablation.arm(ablation.method).runs]
    found = [
        differences(first, second) for rival in ablation.rivals for first, second in zip(runs, rival.runs, strict=True)
    ]
    assert set().union(*found) == DIFFERENCES[name]
    assert ablation.name == name and ablation.claim.endswith(".") and ablation.setting.endswith(".")


def test_vagen_s_rivals_know_neither_judge_nor_both_levels(made):
    full, grpo, turns = (next(arm.runs) for arm in made["vagen"].arms)
    assert isinstance(full.algorithm, BilevelGAE) and not full.algorithm.sibling_baseline
    assert isinstance(grpo.algorithm, GRPO) and isinstance(turns.algorithm, TurnGAE)
    assert full.algorithm.critic_config == turns.algorithm.critic_config
    assert full.judge.grounding_weight == full.judge.worldmodeling_weight == 0.5
    assert grpo.judge == turns.judge and grpo.judge.grounding_weight == grpo.judge.worldmodeling_weight == 0


def test_argos_arms_train_where_colours_give_answers_away_and_are_tested_where_they_do_not(made):
    gated, outcome = (next(arm.runs) for arm in made["argos"].arms)
    assert outcome.judge.reward_settings and not gated.judge.reward_settings
    (world,) = made["argos"].worlds
    assert "planted" in world.kwargs["source"]  # whose held-out levels are not; see test_argos_clips.py


def test_ivgr_s_textual_stream_alone_has_its_partner_s_share(made):
    dual, textual = (next(arm.runs) for arm in made["ivgr"].arms)
    assert {spec.name: spec.weight for spec in dual.worlds} == {"grounded": 0.45, "textual": 0.45, "general": 0.1}
    assert {spec.name: spec.weight for spec in textual.worlds} == {"textual": 0.9, "general": 0.1}
    assert textual.judge.reward_settings == ("consistency_weight=0",) and dual.judge.reward_settings == ()
    assert [spec.kwargs["prompt_format"] for spec in made["ivgr"].worlds] == ["ivgr_textual"]


def test_mags_arms_end_with_the_prompts_that_they_are_tested_with(made):
    for arm in made["mags"].arms:
        first, second = arm.runs
        assert second.worlds == tuple(replace(each, name=None) for each in made["mags"].test_worlds(arm))
        stages = [run.worlds[0].kwargs["mags_stage"] for run in (first, second)]
        assert stages == ([2, 2] if arm.name == "direct" else [1, 2])
        upscalers = {run.worlds[0].kwargs["upscaler"] for run in (first, second)}
        assert upscalers == ({"bicubic"} if arm.name == "resized" else {"agents.perception.super_resolution:smfanet"})
    shown = [spec.kwargs for stage in made["mags"].start.stages for spec in stage.run.worlds]
    played = [run.worlds[0].kwargs for arm in made["mags"].arms for run in arm.runs]
    assert all(kwargs in shown for kwargs in played), "the start has seen what arms are asked and shown"


def test_arm_thinker_s_rivals_have_one_reward_throughout(made):
    rewards = {arm.name: [run.judge.episode_reward for run in arm.runs] for arm in made["arm_thinker"].arms}
    assert rewards == {
        "arm": ["arm_exploration", "arm_accuracy"],
        "accuracy_and_format": ["arm_accuracy_and_format"] * 2,
        "fixed_bonus": ["arm_fixed_tool_bonus"] * 2,
    }
    assert len(made["arm_thinker"].worlds) == 2, "both orders"


@pytest.mark.parametrize("name", ABLATIONS)
def test_runs_go_on_from_the_start_and_evaluate_nothing(made, name, tmp_path):
    for arm in made[name].arms:
        placed = arm.placed(tmp_path / "start", tmp_path, seed=2)
        runs = placed.resolved()
        assert runs[0].model == str(tmp_path / "start") and placed.name == f"{arm.name}-2"
        assert len({run.seed for run in runs}) == len(runs)
        assert all(run.num_eval_episodes == run.eval_every == 0 and run.num_threads == 1 for run in runs)


def test_unequal_or_missing_arms_are_refused(made):
    ablation = made["argos"]
    gated, outcome = ablation.arms
    (stage,) = outcome.stages
    longer = replace(outcome, stages=(replace(stage, run=replace(stage.run, num_iterations=17)),))
    with pytest.raises(ConfigError, match="as many episodes"):
        replace(ablation, arms=(gated, longer))
    with pytest.raises(ConfigError, match="none of its arms"):
        replace(ablation, method="missing")
    with pytest.raises(ConfigError, match="distinct"):
        replace(ablation, arms=(gated, gated))
    with pytest.raises(ConfigError, match="nothing that"):
        replace(ablation, arms=(gated,))
