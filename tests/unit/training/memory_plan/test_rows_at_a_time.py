"""How many rows and episodes a plan counts in each phase: as many as the run itself has there at a time."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")
import torch

from benchmarks.speed.memory import MemoryCase
from tests.unit.training.memory_plan.configs import save_shallow
from training.__main__ import main
from training.config.run_config import EvalSamplingConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import MAX_PARALLEL
from training.memory_plan.memory_estimate import CACHE_CHUNK, Planner, episodes_side_by_side
from training.memory_plan.model_bytes import ModelBytes, model_without_memory
from training.memory_plan.plan_config import PlanConfig

CASE = MemoryCase(width=64, num_layers=2, num_heads=2, vocab_size=4096)


def run(**changes):
    return replace(CASE.run_config(), **{"num_eval_episodes": 0, **changes}).decided()


def case_passes(directory):
    CASE.model_config().save_pretrained(directory)
    return ModelBytes(model_without_memory(directory, torch.float32), CASE.run_config(), CASE.row())


@pytest.mark.parametrize(
    ("changes", "num_gpus", "expected"),
    [
        ({}, 1, (8, 0)),  # 4 groups of 2
        ({}, 3, (4, 0)),  # of whole groups
        ({"num_eval_episodes": 100}, 1, (8, 100)),
        ({"num_eval_episodes": 100}, 3, (4, 34)),
        ({"num_eval_episodes": 10_000}, 1, (8, MAX_PARALLEL)),
        ({"num_eval_episodes": 10_000}, 16, (2, MAX_PARALLEL)),
        ({"num_val_episodes": 100}, 1, (8, 0)),  # which are never played
        ({"num_val_episodes": 100, "eval_every": 10}, 1, (8, 100)),
        ({"num_eval_episodes": 4, "num_iterations": 0}, 1, (0, 4)),
    ],
)
def test_episodes_side_by_side(changes, num_gpus, expected):
    assert episodes_side_by_side(replace(run(), **changes), PlanConfig(num_gpus=num_gpus)) == expected


@pytest.mark.soak
def test_evaluations_take_their_keys_and_values(tmp_path):
    passes = case_passes(tmp_path)
    few, many = (Planner(replace(run(), num_eval_episodes=n), PlanConfig(), passes).planned().phases for n in (0, 80))
    assert many["sample"]["KV cache"] == 10 * few["sample"]["KV cache"]


@pytest.mark.soak
def test_evaluations_with_longer_responses_take_theirs_though_fewer_are_played(tmp_path):
    passes, asked = case_passes(tmp_path), CASE.run_config().sampling.max_new_tokens
    row = passes.row

    def planned(num_eval_episodes, max_new_tokens):
        longer = EvalSamplingConfig(max_new_tokens=max_new_tokens)
        changed = run(num_eval_episodes=num_eval_episodes, eval_sampling=longer)
        return Planner(changed, PlanConfig(), passes).planned().phases["sample"]["KV cache"]

    in_training = planned(4, None)
    assert in_training == planned(4, asked) == planned(4, asked // 2), "eight episodes of training need more"
    longer = 3 * row.num_tokens // row.num_turns
    num_chunks = [-(-num // CACHE_CHUNK) for num in (row.num_tokens, row.num_tokens + row.num_turns * longer)]
    expected = 4 * num_chunks[1] / (8 * num_chunks[0])
    assert planned(4, asked + longer) == pytest.approx(expected * in_training) and expected > 1


@pytest.mark.soak
def test_what_samples_beside_the_update_is_there_all_along(tmp_path):
    """A copy of what is trained, and in each phase of the update what sampling takes besides."""
    passes = case_passes(tmp_path)
    ppo = replace(CASE.run_config().ppo, importance_cap=2.0)
    alone, beside = (Planner(run(staleness=n, ppo=ppo), PlanConfig(), passes).planned().phases for n in (0, 1))
    copy = 4.0 * passes.policy.num_trained
    assert {parts["sampler"] for parts in beside.values()} == {copy}
    assert beside["sample"] == alone["sample"] | {"sampler": copy}
    for name in alone.keys() - {"sample"}:
        taken = {part: alone["sample"][part] for part in ("KV cache", "activations", "logits")}
        grown = {part: beside[name][part] - alone[name].get(part, 0.0) for part in taken}
        assert grown == pytest.approx(taken), name
    by_vllm = Planner(run(staleness=1, ppo=ppo, sampler="vllm"), PlanConfig(), passes).planned().phases
    assert by_vllm == alone


@pytest.mark.soak
def test_passes_before_the_update_are_over_the_whole_batch(tmp_path):
    passes = case_passes(tmp_path)

    def evaluated(num_minibatches, micro_batch_size):
        ppo = PPOConfig(num_minibatches=num_minibatches, micro_batch_size=micro_batch_size, warmup_iterations=0)
        found = Planner(run(ppo=ppo), PlanConfig(), passes).planned().phases
        return found["evaluate"]["activations"], found["policy update"]["activations"]

    before, update = evaluated(8, 8)
    assert before == evaluated(1, 8)[0] == pytest.approx(8 * evaluated(8, 1)[0], rel=0.1)
    assert update == evaluated(8, 1)[1]


@pytest.mark.soak
def test_an_evaluation_that_cannot_run_does_not_fit(tmp_path, capsys):
    options = ("--dtype", "bfloat16", "--algorithm", "grpo", "--num-groups", "2", "--group-size", "2", "--json")
    words = ("--model", str(save_shallow(tmp_path)), "--context-tokens", "1000", "--image-tokens", "100", *options)

    def planned(*more):
        code = main(["plan", "frozenlake_tiny", *words, "--ppo.num-minibatches", "4", *more])
        return code, json.loads(capsys.readouterr().out)

    enough = planned("--num-eval-episodes", "4", "--num-val-episodes", "4")[1]["peak"] / 2**30 + 0.1
    assert planned("--num-eval-episodes", "4", "--num-val-episodes", "4", "--gpu-memory", str(enough))[0] == 0
    code, data = planned("--num-eval-episodes", "2000", "--gpu-memory", str(enough))
    assert code == 2 and not data["fits"]


def test_gradients_of_a_step_are_in_ddps_buckets_and_fsdp2_starts_with_whole_models(tmp_path):
    models = case_passes(tmp_path)
    num_policy, num_critic = models.policy.num_trained, models.critic.num_trained

    def phases(num_gpus, engine):
        return Planner(run(engine=engine), PlanConfig(num_gpus=num_gpus, vllm_memory=0.5), models).planned().phases

    assert phases(2, "ddp")["policy step"]["gradients"] == 0
    assert phases(1, "auto")["policy step"]["gradients"] == 4 * num_policy
    assert phases(2, "fsdp2")["start"] == {
        "weights": 4 * models.policy.num_parameters,
        "sampler": 4 * models.policy.num_parameters,
        "reference": 4 * num_policy,
        "critic": 4 * num_critic,
        "vLLM": 40 * 2**30,
        "reserved": 2 * 2**30,
    }


def test_options_that_save_memory_are_suggested(tmp_path, capsys):
    CASE.model_config().save_pretrained(tmp_path)
    words = ("--model", str(tmp_path), "--context-tokens", "1000", "--image-tokens", "100", "--algorithm", "grpo")
    for short in (("--json", "--gpu-memory", "0.1"), ("--host-memory", "0.0001")):
        assert main(["plan", "frozenlake_tiny", *words, *short]) == 2
        told = capsys.readouterr().err
        assert "--memory.offload-optimizer" in told and "--checkpoint-every 1" in told
