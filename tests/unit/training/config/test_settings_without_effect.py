"""Settings that do nothing in a run are listed in one warning, and do not stop the run."""

from __future__ import annotations

from dataclasses import replace

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.vllm.vllm_config import VLLMConfig
from tests.unit.training.batches import NO_JUDGE, WORLD, run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.dapo import DAPO
from training.algorithms.gspo import GSPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig, VerifierConfig
from training.config.settings_without_effect import settings_without_effect, warning_of
from training.config.update_config import LoRAConfig, MemoryConfig, PPOConfig
from training.curation.curation_config import CurateConfig, PointingConfig
from training.mixture.mixture_config import MixConfig
from training.pools.pool_config import PoolConfig
from training.preflight import ready
from training.recipes.shipped import RECIPES, STAGED_RECIPES
from training.sft.sft_config import SFTConfig

ENDPOINT = EndpointConfig(base_url="http://localhost:1/v1", model="judge")
TWO = (WORLD, replace(WORLD, name="other"))
STEPS = PPOConfig(num_minibatches=2)


def judged(**changes):
    return run_config(judge=replace(NO_JUDGE, **changes))


@pytest.mark.parametrize(
    ("config", "options"),
    [
        (lambda: run_config(ppo=PPOConfig(num_minibatches=1, clip_high=0.28)), "--ppo.clip-high 0.28"),
        (
            lambda: run_config(ppo=PPOConfig(num_minibatches=1, kl_coef=0.0, kl_placement="loss")),
            "--ppo.kl-placement loss",
        ),
        (lambda: run_config(ppo=replace(STEPS, decay_exempt=("norms", "biases"))), "--ppo.decay-exempt norms biases"),
        (
            lambda: run_config(ppo=STEPS, algorithm=DAPO(overlong_share=0, overlong_penalty=2)),
            "--algorithm.overlong-penalty 2",
        ),
        (lambda: run_config(ppo=replace(STEPS, kl_coef=0.01), algorithm=DAPO()), "--ppo.kl-coef 0.01"),
        (lambda: run_config(ppo=replace(STEPS, clip_low=0.3), algorithm=GSPO()), "--ppo.clip-low 0.3"),
        (lambda: run_config(ppo=replace(STEPS, aggregation="sequence_mean"), algorithm=GSPO()), ""),
        (lambda: run_config(algorithm=DAPO(clip_high=0.4)), "--algorithm.clip-high 0.4"),
        (
            lambda: run_config(algorithm=BilevelGAE(critic=CriticConfig(num_minibatches=1, value_clip=0.2))),
            "--algorithm.critic.value-clip 0.2",
        ),
        (lambda: run_config(reference="there", ppo=replace(STEPS, kl_coef=0.0)), "--reference there"),
        (lambda: run_config(reference="there", ppo=STEPS, algorithm=DAPO()), "--reference there"),
        (lambda: run_config(vllm=VLLMConfig(url="http://a")), "--vllm.url http://a"),
        (
            lambda: run_config(lora=LoRAConfig(alpha=8.0, target_modules=("q",))),
            "--lora.alpha 8.0; --lora.target-modules q",
        ),
        (
            lambda: run_config(
                lora=LoRAConfig(rank=4),
                memory=MemoryConfig(offload_reference=True, freeze_vision_tower=True),
                ppo=replace(STEPS, num_micro_batches_at_once=2),
            ),
            "--ppo.num-micro-batches-at-once 2; --memory.offload-reference; --memory.freeze-vision-tower",
        ),
        (
            lambda: run_config(ppo=replace(STEPS, kl_coef=0.0), memory=MemoryConfig(offload_reference=True)),
            "--memory.offload-reference",
        ),
        (
            lambda: run_config(algorithm=DAPO(), memory=MemoryConfig(offload_reference=True)),
            "--memory.offload-reference",
        ),
        (lambda: run_config(memory=MemoryConfig(packing="on", prefix_sharing="on")), "--memory.packing on"),
        (lambda: run_config(mix=MixConfig(schedule="success")), "--mix.schedule success"),
        (lambda: run_config(worlds=TWO, mix=MixConfig(memory=0.5)), "--mix.memory 0.5"),
        (
            lambda: run_config(worlds=TWO, mix=MixConfig(schedule="stepwise", target_success=0.7)),
            "--mix.target-success 0.7",
        ),
        (
            lambda: run_config(worlds=TWO, mix=MixConfig(schedule="success", unlock_success=0.7)),
            "--mix.unlock-success 0.7",
        ),
        (lambda: run_config(worlds=(replace(WORLD, num_workers=4),)), "--worlds.0.num-workers 4"),
        (
            lambda: run_config(worlds=(replace(WORLD, pool=PoolConfig(file="a.jsonl", attempts=2)),)),
            "--worlds.0.pool.attempts 2",
        ),
        (
            lambda: run_config(cold_start=ColdStartConfig(data="set", tells_plan=True, num_demonstrations=5)),
            "--cold-start.tells-plan; --cold-start.num-demonstrations 5",
        ),
        (lambda: judged(endpoint=ENDPOINT), "--judge.endpoint.*"),
        (lambda: judged(endpoint=ENDPOINT, method="direct"), "--judge.method direct"),
        (lambda: judged(in_evaluations=True), "--judge.in-evaluations"),
        (lambda: judged(reward_settings=("threshold=1",)), "--judge.reward-set threshold=1"),
        (lambda: judged(verifier=VerifierConfig(likelihood="a")), "--judge.verifier.likelihood a"),
        (lambda: judged(verifier=VerifierConfig(workers="ray")), "--judge.verifier.workers ray"),
        (lambda: judged(verifier=VerifierConfig(num_gpus=1.0)), "--judge.verifier.num-gpus 1.0"),
        (lambda: judged(verifier=VerifierConfig(pointer="hf:a")), "--judge.verifier.pointer hf:a"),
        (lambda: CurateConfig(pointing=PointingConfig(pointer="hf:a")), "--pointing.pointer hf:a"),
        (
            lambda: CurateConfig(reward_settings=("reasoning_weight=0",), verifier=VerifierConfig(likelihood="a")),
            "--verifier.likelihood a",
        ),
        (
            lambda: SFTConfig(
                model="m", data=("a",), num_steps=3, num_epochs=2.0, memory=MemoryConfig(offload_optimizer=True)
            ),
            "--num-epochs 2.0; --memory.offload-optimizer",
        ),
    ],
)
def test_what_does_nothing_is_named_as_it_was_given(config, options):
    found = settings_without_effect(config())
    assert sorted(each.partition(" (")[0] for each in found) == sorted(filter(None, options.split("; ")))
    assert all(each.endswith(")") for each in found), "with a reason"


@pytest.mark.parametrize(
    "config",
    [
        lambda: run_config(),
        lambda: JudgeConfig(
            episode_reward="argos", verifier=VerifierConfig(likelihood="a", workers="ray", num_workers=3)
        ),
        lambda: PPOConfig(decay_exempt=("norms",), weight_decay=0.1),
        lambda: MixConfig(schedule="success", target_success=0.7, memory=0.5, min_factor=0.2),
        lambda: MixConfig(schedule="stepwise", unlock_success=0.7, memory=0.5),
    ],
)
def test_what_does_something_is_not_named(config):
    assert settings_without_effect(config()) == []


def test_recipes_have_no_such_settings():
    runs = [make() for make in RECIPES.values()]
    runs += [stage.run for make in STAGED_RECIPES.values() for stage in make().stages]
    assert [found for run in runs for found in settings_without_effect(run)] == []


def test_a_run_starts_with_one_line_of_warning(tiny_directory):
    config = run_config(model=str(tiny_directory), worlds=(replace(WORLD, num_workers=4),), lora=LoRAConfig(alpha=8.0))
    same, told = ready(config, imitates=False)
    assert same == config
    assert told == warning_of(settings_without_effect(config))
    (line,) = told
    assert line.startswith("Settings without effect: ") and "num-workers" in line and "alpha" in line
