"""The policy's rate goes by its schedule, and by how far iterations have moved it where that is asked for."""

from __future__ import annotations

import copy

import pytest

from tests.unit.training.batches import run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.config.update_config import PPOConfig
from training.update.learner import Learner, LearningRates
from vlm_envs.errors import ConfigError


@pytest.fixture
def played(played_by_tiny):
    return played_by_tiny()


def learner_of(model, encoder, target_kl):
    ppo = PPOConfig(learning_rate=1e-3, warmup_iterations=0, num_minibatches=2, target_kl=target_kl)
    config = run_config(algorithm=GRPO(), ppo=ppo, num_groups=4)
    return Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)


def updated(learner, batch):
    outputs = learner.model_outputs(batch)
    return learner.update(batch, outputs, learner.config.algorithm.credit(batch, outputs), iteration=0)


def test_warming_up_begins_when_the_critic_has():
    ppo = PPOConfig(learning_rate=1e-3, warmup_iterations=4, final_learning_rate_ratio=1.0)
    algorithm = BilevelGAE(critic=CriticConfig(warmup_iterations=2))
    rates = LearningRates(run_config(num_iterations=10, ppo=ppo, algorithm=algorithm))
    warmed = [rates.policy(iteration) / 1e-3 for iteration in range(8)]
    assert warmed == pytest.approx([0, 0, 0.25, 0.5, 0.75, 1, 1, 1])


class TestTargetKl:
    """With `--ppo.target-kl`."""

    @pytest.fixture
    def rates(self) -> LearningRates:
        ppo = PPOConfig(learning_rate=1e-3, warmup_iterations=0, target_kl=1e-3)
        return LearningRates(run_config(num_iterations=10, ppo=ppo))

    def test_it_rises_where_the_policy_hardly_moves_and_falls_where_it_leaps(self, rates):
        for moved, expected in ((4e-4, 1.5), (6e-4, 1.5), (1.9e-3, 1.5), (2.1e-3, 1.0), (1.0, 1 / 1.5)):
            rates.moved(moved, iteration=3)
            assert rates.policy(5) / 1e-3 == pytest.approx(expected)

    def test_it_stays_within_ten_times_of_its_schedule(self, rates):
        for moved, bound in ((1e-9, 10.0), (1.0, 0.1)):
            for _ in range(20):
                rates.moved(moved, iteration=3)
            assert rates.policy(5) / 1e-3 == pytest.approx(bound)

    def test_what_did_not_move_it_tells_nothing(self, rates):
        rates.moved(None, iteration=3)
        rates.moved(0.0, iteration=3)
        rates.moved(float("nan"), iteration=3)
        assert rates.policy(5) / 1e-3 == pytest.approx(1.0)

    def test_the_critics_rate_is_its_schedules(self, rates):
        rates.moved(1e-9, iteration=3)
        assert rates.critic(5, 1e-2) == pytest.approx(1e-2)

    def test_a_resumed_learner_goes_on_with_it(self, played):
        model, encoder, batch = played
        first, resumed, plain = (learner_of(model, encoder, target_kl) for target_kl in (1.0, 1.0, None))
        told = [updated(learner, batch)["learning_rate"] for learner in (first, plain)]
        assert told == [1e-3, 1e-3], "nothing is known before the first iteration"
        resumed.load_state_dict(copy.deepcopy(first.state_dict()))
        for learner, expected in ((first, 1.5e-3), (resumed, 1.5e-3), (plain, 1e-3)):
            assert updated(learner, batch)["learning_rate"] == pytest.approx(expected)

    def test_a_run_that_goes_on_without_it_has_its_schedule_again(self, rates):
        rates.moved(1e-9, iteration=3)
        without = LearningRates(run_config(num_iterations=10, ppo=PPOConfig(learning_rate=1e-3, warmup_iterations=0)))
        without.load_state_dict(rates.state_dict())
        assert without.policy(5) == pytest.approx(1e-3)

    def test_it_needs_a_ratio(self):
        with pytest.raises(ConfigError, match="has nothing to measure"):
            PPOConfig(num_minibatches=1, target_kl=1e-3)
        with pytest.raises(ConfigError, match="has nothing to measure"):
            PPOConfig(num_minibatches=1, target_kl=1e-3, old_logprobs="sampler")

    def test_warming_up_is_not_moving_too_little(self):
        ppo = PPOConfig(learning_rate=1e-3, warmup_iterations=4, target_kl=1e-3)
        rates = LearningRates(run_config(num_iterations=10, ppo=ppo))
        for iteration in range(5):
            before = rates.policy(iteration)
            rates.moved(1e-9, iteration=iteration)
            assert (rates.policy(iteration) == before) == (iteration < 3)
