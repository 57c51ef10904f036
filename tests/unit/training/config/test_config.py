"""A configuration that cannot work is refused before anything runs."""

from __future__ import annotations

import json
import threading
import time
from dataclasses import replace

import pytest

from tests.unit.training.batches import NO_JUDGE, WORLD, run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError, WorkerError

LAKE = WORLD.env_id
INERT = {"gamma_turn": 1.0, "lambda_turn": 1.0, "gamma_token": 1.0, "lambda_token": 1.0}


def of_format(prompt_format: str) -> tuple[WorldSpec, ...]:
    return (WorldSpec(env_id=LAKE, kwargs={"prompt_format": prompt_format}),)


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda: WorldSpec(env_id=LAKE, weight=0.0), "weight must be above 0; got 0.0"),
        (lambda: WorldSpec(env_id=LAKE, kwargs={"split": "test"}), "the trainer sets it"),
        (lambda: WorldSpec(env_id=LAKE, workers="thread", num_workers=0), "num_workers must be at least 1; got 0"),
        (lambda: ColdStartConfig(num_steps=-1), "num_steps must be at least 0; got -1"),
        (lambda: ColdStartConfig(batch_size=0), "at least 1"),
        (
            lambda: ColdStartConfig(num_steps=5, num_first_turn_steps=6),
            "num_first_turn_steps must be at most num_steps, which is 5; got 6",
        ),
        (
            lambda: ColdStartConfig(num_steps=5, num_copying_steps=3, num_first_turn_steps=3),
            "num_copying_steps and num_first_turn_steps must together be at most num_steps, which is 5; got 3 and 3",
        ),
        (lambda: ColdStartConfig(learning_rate=0.0), "learning_rate must be above 0; got 0.0"),
        (lambda: ColdStartConfig(mistake_rate=1.5), "mistake_rate must be at least 0 and at most 1; got 1.5"),
        (lambda: ColdStartConfig(suboptimal_rate=-0.1), "suboptimal_rate must be at least 0 and at most 1; got -0.1"),
        (lambda: JudgeConfig(grounding_weight=-0.5), "grounding_weight must be at least 0; got -0.5"),
        (lambda: JudgeConfig(repetition_penalty=-0.1), "repetition_penalty must be at least 0; got -0.1"),
        (lambda: BilevelGAE(gamma_turn=1.1), "gamma_turn must be at least 0 and at most 1; got 1.1"),
        (lambda: BilevelGAE(lambda_token=-0.1), "lambda_token must be at least 0 and at most 1; got -0.1"),
        (lambda: BilevelGAE(variant="released", **INERT), "choose --algorithm token_gae"),
        (lambda: PPOConfig(learning_rate=0.0), "learning_rate must be above 0; got 0.0"),
        (lambda: CriticConfig(learning_rate=-1.0), "learning_rate must be above 0; got -1.0"),
        (lambda: PPOConfig(num_epochs=0), "at least 1"),
        (lambda: PPOConfig(num_minibatches=0), "at least 1"),
        (lambda: PPOConfig(micro_batch_size=0), "at least 1"),
        (lambda: PPOConfig(clip_low=1.0), "clip_low must be above 0 and below 1; got 1.0"),
        (lambda: PPOConfig(clip_high=0.0), "clip_high must be above 0; got 0.0"),
        (lambda: PPOConfig(importance_cap=2.0, old_logprobs="sampler"), "Use --ppo.old-logprobs trainer"),
        (lambda: PPOConfig(kl_coef=-0.1), "kl_coef must be at least 0; got -0.1"),
        (lambda: PPOConfig(entropy_coef=-0.1), "entropy_coef must be at least 0; got -0.1"),
        (lambda: PPOConfig(kl_placement="loss", kl_estimator="k1"), "Use --ppo.kl-estimator k3"),
        (lambda: ColdStartConfig(num_demonstrations=0), "num_demonstrations must be at least 1; got 0"),
        (lambda: run_config(worlds=()), "at least one world"),
        (lambda: run_config(num_iterations=-1), "num_iterations must be at least 0; got -1"),
        (lambda: run_config(num_groups=0), "num_groups must be at least 1; got 0"),
        (lambda: run_config(group_size=1, algorithm=GRPO()), "Use --group-size 2 or more"),
        (
            lambda: run_config(ppo=PPOConfig(num_minibatches=3)),
            "do not divide evenly into --ppo.num-minibatches 3.",
        ),
        (
            lambda: run_config(worlds=of_format("worldmodeling"), judge=JudgeConfig(worldmodeling_weight=0.0)),
            "'worldmodeling' of VLM/FrozenLake-v0 has no <observation>",
        ),
        (
            lambda: run_config(worlds=of_format("grounding"), judge=JudgeConfig(grounding_weight=0.0)),
            "has no <prediction>",
        ),
        (
            lambda: run_config(worlds=of_format("free_think"), judge=JudgeConfig()),
            "Use --judge.grounding-weight 0, or --worlds.0.kwargs.prompt-format with grounding in it",
        ),
        (
            lambda: run_config(worlds=of_format("freethink"), judge=replace(NO_JUDGE, episode_reward="mags_stage_1")),
            "Did you mean 'free_think'?",
        ),
    ],
)
def test_refused(make, said):
    with pytest.raises(ConfigError) as caught:
        make()
    assert said in str(caught.value)


def test_a_world_without_sections_may_stand_in_a_mix_beside_one_that_has_them():
    (lake,) = of_format("grounding_worldmodeling")
    (home,) = of_format("free_think")
    assert run_config(worlds=(lake, home), judge=JudgeConfig()).judge.grounding_weight > 0
    with pytest.raises(ConfigError, match="'free_think' of VLM/FrozenLake-v0 has no <observation>"):
        run_config(worlds=(home, home), judge=JudgeConfig())


def test_a_format_that_is_none_is_told_alone():
    with pytest.raises(ConfigError) as caught:
        run_config(worlds=of_format("freethink"), judge=JudgeConfig())
    (told,) = str(caught.value).splitlines()
    assert told.startswith("--worlds.0.kwargs.prompt-format: prompt_format must be one of 'no_think', 'free_think', ")
    assert told.endswith("; got 'freethink'. Did you mean 'free_think'?")


def test_settings_that_only_look_inert_are_allowed():
    TokenGAE(gamma_token=1.0, lambda_token=1.0)
    BilevelGAE(**(INERT | {"lambda_turn": 0.9}))
    run_config(worlds=of_format("grounding_worldmodeling"), judge=JudgeConfig())
    run_config(worlds=of_format("no_think"), judge=NO_JUDGE)


@pytest.mark.parametrize("name", RECIPES)
def test_recipes_are_named_after_themselves_and_can_be_written_down(name):
    config = RECIPES[name]()
    assert config.name in (name, f"{name}_sokoban")  # presets are named after their world, too
    assert json.loads(json.dumps(config.to_dict()))["ppo"]["num_minibatches"] == config.ppo.num_minibatches
    for spec in config.worlds:
        with spec.make_vector(1, split="val") as worlds:
            assert worlds.get_attr("split") == ("val",)


def test_a_world_may_take_as_long_as_it_is_given():
    spec = WorldSpec(env_id=LAKE, workers="thread", num_workers=1, step_timeout_s=0.2)
    with spec.make_vector(1, split="val") as worlds:
        worlds.reset(seed=0)
        worlds.send({0: "<answer>Up</answer>"})
        assert list(worlds.recv()) == [0]
        with pytest.raises(WorkerError, match=r"gave no answer within 0\.2 s"):
            worlds.apply({0: _sleep})


def _sleep(world):
    time.sleep(2.0)


def test_a_world_has_as_many_workers_as_it_is_given():
    before = threading.active_count()
    with WorldSpec(env_id=LAKE, workers="thread", num_workers=6).make_vector(8, split="train") as worlds:
        worlds.reset(seed=0)
        assert threading.active_count() == before + 6
