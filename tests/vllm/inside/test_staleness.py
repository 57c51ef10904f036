"""`--staleness 1` with `--sampler vllm`: vLLM plays the next batch beside the update, by the weights from before it.

Run in .venv-vllm, by `make test-vllm`.
"""

import json
import threading
from collections import Counter, defaultdict
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agents.vllm.vllm_agent import VLLMSampler
from agents.vllm.vllm_config import VLLMConfig
from training.config.update_config import PPOConfig
from training.engines.policy import copied_but_frozen, token_logprobs
from training.loop.prefetch import Sampling
from training.recipes.tiny import frozenlake_tiny
from training.run import train
from training.update import update_losses
from training.update.learner import Learner
from training.update.micro_batches import drawn_mask
from vlm_envs.errors import ConfigError

NUM_ITERATIONS = 3
"""The third batch is of weights that are neither the first nor the last."""
NUM_EPISODES = 8
NEAR, FAR = 1e-3, 1e-2
"""Log-probabilities of a token by the same weights, and of the token that they differ most in by others."""
PATIENCE_S = 60.0


def stale(tmp_path, **changes):
    config = frozenlake_tiny()
    critic = replace(config.algorithm.critic, warmup_iterations=0, num_minibatches=1)
    settings = {
        "name": "stale",
        "output": str(tmp_path),
        "sampler": "vllm",
        "staleness": 1,
        "num_iterations": NUM_ITERATIONS,
        "num_groups": NUM_EPISODES // 2,
        "group_size": 2,
        "worlds": tuple(replace(world, workers="serial") for world in config.worlds),
        "sampling": replace(config.sampling, max_context_tokens=2048),
        "algorithm": replace(config.algorithm, critic=critic),
        "ppo": PPOConfig(num_minibatches=1, warmup_iterations=0, learning_rate=1e-3, importance_cap=2.0),
        # Evaluations have the same vLLM take weights, too
        "num_eval_episodes": 0,
        "num_val_episodes": 2,
        "eval_every": 1,
        "record_every": 0,
        "num_threads": 1,
    }
    return replace(config, **{**settings, **changes})


def gap(policy, batch, config):
    """Returns the largest difference between what vLLM says of a token that it drew and what a policy does."""
    with torch.no_grad():
        logprobs_BT, _ = token_logprobs(
            policy, batch, temperature=config.sampling.temperature, suppressed_ids=[*batch.suppressed_ids]
        )
    return float((logprobs_BT - batch.sampler_logprobs_BT)[drawn_mask(batch)].abs().max())


@pytest.fixture
def learnt(monkeypatch):
    """What updates learn from; the first is made among the responses of the batch beside it, the next before any.

    `gaps` are those of a batch to each policy so far; `waits`, whether those who wait for each other came;
    `num_behind`, how many responses came behind the update beside them; `corrections`, the largest difference from 1
    of each update's importance weights.
    """
    seen = SimpleNamespace(gaps=[], waits=[], corrections=[], num_behind=Counter())
    begun, updated, policies = defaultdict(threading.Event), defaultdict(threading.Event), []
    sample, step, update = Sampling.__call__, VLLMSampler.step, Learner.update
    corrected = update_losses.truncated_importance_weights

    def let_update(iteration):
        begun[iteration].set()
        seen.waits.append(updated[iteration - 1].wait(PATIENCE_S))

    def sample_behind_the_second(self, agent, iteration, *args):
        if iteration == 2:
            let_update(iteration)
        return sample(self, agent, iteration, *args)

    def step_around_the_update(self):
        samples, name = step(self), threading.current_thread().name
        if samples and name.startswith("batch "):
            iteration = int(name.removeprefix("batch "))
            if updated[iteration - 1].is_set():
                seen.num_behind[iteration] += len(samples)
            let_update(iteration)
        return samples

    def update_beside(self, batch, *args, iteration):
        policies.append(copied_but_frozen(self.policy))
        seen.gaps.append([gap(policy, batch, self.config) for policy in policies])
        if iteration + 1 < NUM_ITERATIONS:
            seen.waits.append(begun[iteration + 1].wait(PATIENCE_S))
        metrics = update(self, batch, *args, iteration=iteration)
        updated[iteration].set()
        return metrics

    def noted(*args, cap):
        weights_BT = corrected(*args, cap=cap)
        seen.corrections.append(float((weights_BT - 1).abs().nan_to_num().max()))
        return weights_BT

    monkeypatch.setattr(VLLMSampler, "step", step_around_the_update)
    monkeypatch.setattr(Sampling, "__call__", sample_behind_the_second)
    monkeypatch.setattr(Learner, "update", update_beside)
    monkeypatch.setattr(update_losses, "truncated_importance_weights", noted)
    monkeypatch.setattr("training.run.build_report", lambda directory: directory / "report.html")
    return seen


@pytest.mark.timeout(600)
@pytest.mark.parametrize("rollout", ["barrier", "async"])
def test_a_batch_is_wholly_of_the_weights_from_before_the_update_beside_it(rollout, tmp_path, learnt):
    """Though most of its responses, or all, come when the policy is a new one already."""
    vllm = VLLMConfig(memory_fraction=0.1)
    directory = train(stale(tmp_path, vllm=vllm, rollout=rollout))
    print("gaps", learnt.gaps, "corrections", learnt.corrections, "behind", learnt.num_behind)
    assert all(learnt.waits) and min(learnt.num_behind[iteration] for iteration in (1, 2)) > NUM_EPISODES // 2
    ((first,), second, third) = learnt.gaps
    assert first < NEAR, "by the policy itself"
    assert second[0] < NEAR and second[1] > FAR
    assert third[1] < NEAR and min(third[0], third[2]) > FAR
    assert len(learnt.corrections) == NUM_ITERATIONS
    assert learnt.corrections[0] < NEAR < FAR < min(learnt.corrections[1:])
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    lines = [line for line in lines if line["phase"] == "rl"]
    assert [line["staleness"] for line in lines] == [0.0, 1.0, 1.0]
    assert [line["lost_episodes"] for line in lines] == [0] * NUM_ITERATIONS


def test_it_is_refused_where_nothing_corrects_for_it(tmp_path):
    with pytest.raises(ConfigError, match="without a correction"):
        stale(tmp_path, ppo=PPOConfig(num_minibatches=1))
