"""The variants of each paper's claim differ in what the claim is about, and in nothing else."""

from __future__ import annotations

from dataclasses import fields, replace

import pytest

from benchmarks.experiments.ablations import CLAIMS
from benchmarks.experiments.experiment import START
from benchmarks.experiments.shipped_experiments import EXPERIMENTS, PAPERS, find_experiments
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.turn_gae import TurnGAE
from training.config.run_config import RunConfig
from training.run_options import configured, find_recipe
from training.stages.stages_config import StagesConfig
from training.stages.stages_options import stage_options
from vlm_envs.errors import ConfigError

DIFFERENCES = {
    "vagen": {"algorithm", "judge"},
    "argos": {"judge"},
    "ivgr": {"worlds", "judge"},
    "mags": {"worlds", "judge"},
    "arm_thinker": {"judge"},
}
"""What runs of a claim may differ in; rates, lengths, penalties, and sampling are not among it."""


def staged(experiment, label, seed=2, *more):
    """Returns the stages that a variant's command line describes."""
    recipe, options = find_recipe([*experiment.words(label, seed), *more])
    return stage_options(recipe, recipe.made(), options)[0]


def rl_runs(config):
    return [stage.run for stage in config.stages if isinstance(stage.run, RunConfig)]


@pytest.fixture(scope="module")
def made():
    return {name: make() for name, make in CLAIMS.items()}


@pytest.fixture(scope="module")
def runs(made):
    return {
        name: {label: rl_runs(staged(experiment, label)) for label in experiment.variants}
        for name, experiment in made.items()
    }


def differences(first, second):
    return {each.name for each in fields(first) if getattr(first, each.name) != getattr(second, each.name)}


@pytest.mark.parametrize("name", CLAIMS)
def test_variants_differ_in_what_the_claim_is_about(made, runs, name):
    claim = made[name].claim
    method = runs[name][claim.method]
    found = [
        differences(first, second)
        for label, rival in runs[name].items()
        if label != claim.method
        for first, second in zip(method, rival, strict=True)
    ]
    assert set().union(*found) == DIFFERENCES[name]
    lengths = {
        sum(run.num_iterations * run.num_groups * run.group_size for run in of_variant)
        for of_variant in runs[name].values()
    }
    assert len(lengths) == 1, "all variants train on as many episodes"
    assert made[name].name == name and claim.text.endswith(".") and claim.setting.endswith(".")


def test_vagen_s_rivals_have_neither_judge_nor_both_levels(runs):
    (full,), (grpo,), (turns,) = runs["vagen"].values()
    assert isinstance(full.algorithm, BilevelGAE) and not full.algorithm.sibling_baseline
    assert isinstance(grpo.algorithm, GRPO) and isinstance(turns.algorithm, TurnGAE)
    assert full.algorithm.critic_config == turns.algorithm.critic_config
    assert full.judge.grounding_weight == full.judge.worldmodeling_weight == 0.5
    assert grpo.judge == turns.judge and grpo.judge.grounding_weight == grpo.judge.worldmodeling_weight == 0


def test_argos_trains_where_colors_give_answers_away_and_is_tested_where_they_do_not(made, runs):
    (gated,), (outcome,) = runs["argos"].values()
    assert outcome.judge.reward_settings and not gated.judge.reward_settings
    (world,) = made["argos"].claim.worlds
    assert "planted" in world.kwargs["source"]  # whose held-out levels are not; see test_argos_clips.py


def test_ivgr_s_textual_stream_alone_has_its_partner_s_share(made, runs):
    (dual,), (textual,) = runs["ivgr"].values()
    assert {spec.name: spec.weight for spec in dual.worlds} == {"grounded": 0.45, "textual": 0.45, "general": 0.1}
    assert {spec.name: spec.weight for spec in textual.worlds} == {"textual": 0.9, "general": 0.1}
    assert textual.judge.reward_settings == ("consistency_weight=0",) and dual.judge.reward_settings == ()
    assert [spec.kwargs["prompt_format"] for spec in made["ivgr"].claim.worlds] == ["ivgr_textual"]


def test_mags_variants_end_with_the_prompts_that_they_are_tested_with(made, runs):
    experiment = made["mags"]
    for label, (first, second) in runs["mags"].items():
        tested = experiment.claim.test_worlds(experiment.variants[label].kwargs)
        assert second.worlds == tuple(replace(each, name=None) for each in tested)
        stages = [run.worlds[0].kwargs["mags_stage"] for run in (first, second)]
        assert stages == ([2, 2] if label == "direct" else [1, 2])
        upscalers = {run.worlds[0].kwargs["upscaler"] for run in (first, second)}
        assert upscalers == ({"bicubic"} if label == "resized" else {"agents.perception.super_resolution:smfanet"})
    shown = [spec.kwargs for run in rl_runs(staged(experiment, START, 0)) for spec in run.worlds]
    played = [run.worlds[0].kwargs for of_variant in runs["mags"].values() for run in of_variant]
    assert all(kwargs in shown for kwargs in played), "the start has seen what variants are asked and shown"


def test_arm_thinker_s_rivals_have_one_reward_throughout(made, runs):
    rewards = {label: [run.judge.episode_reward for run in of_it] for label, of_it in runs["arm_thinker"].items()}
    assert rewards == {
        "arm": ["arm_exploration", "arm_accuracy"],
        "accuracy_and_format": ["arm_accuracy_and_format"] * 2,
        "fixed_bonus": ["arm_fixed_tool_bonus"] * 2,
    }
    assert len(made["arm_thinker"].claim.worlds) == 2, "both orders"


@pytest.mark.parametrize("name", CLAIMS)
def test_runs_continue_from_the_start_and_evaluate_nothing(made, name, tmp_path):
    for label in made[name].variants:
        config = staged(made[name], label, 2, "--model", str(tmp_path / "start"), "--name", f"{label}-2")
        runs = config.resolved()
        assert runs[0].model == str(tmp_path / "start") and config.name == f"{label}-2"
        assert [run.seed for run in runs] == [100 * number + 2 for number in range(len(runs))]
        assert all(run.num_eval_episodes == run.eval_every == 0 and run.num_threads == 1 for run in runs)
    if made[name].claim.start_command:
        start = staged(made[name], START, 0)
        assert [stage.run.seed for stage in start.stages] == [*range(len(start.stages))]


def test_experiments_of_recipes_are_runs_of_their_recipes():
    for name in ("results", "curves"):
        (experiment,) = find_experiments(name)
        for label in experiment.variants:
            recipe, options = find_recipe(experiment.words(label, 1))
            made = recipe.made()
            if isinstance(made, StagesConfig):
                seeds = [stage.run.seed for stage in stage_options(recipe, made, options)[0].stages]
                assert seeds == [stage.run.seed + 1 for stage in made.stages]
            elif label != "doorkey":  # whose package may be missing
                assert configured(recipe, options).seed == 1


def test_names_stand_for_one_experiment_or_for_all_papers():
    assert [each.name for each in find_experiments("ablations")] == [*PAPERS] == [*CLAIMS]
    assert all(find_experiments(name) for name in EXPERIMENTS)
    with pytest.raises(ConfigError, match="Did you mean 'vagen'"):
        find_experiments("vagan")
