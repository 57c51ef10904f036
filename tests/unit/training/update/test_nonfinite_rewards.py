"""An infinite or NaN reward, a world's or a judge's, masks its row and is counted; nothing else changes."""

from __future__ import annotations

import copy
import math
from dataclasses import replace

import numpy as np
import pytest
import torch

from agents.oracle import RandomAgent
from judges.turn_rewards import ScoredTurn
from tests.unit.training.batches import play, played_batch, run_config, text_batch
from training.algorithms.algorithm import ModelOutputs
from training.algorithms.grpo import GRPO
from training.algorithms.shipped import SHIPPED
from training.batch import make_batch
from training.engines.policy import ValueModel
from training.loop.evaluation import EvaluationResult
from training.loop.metrics import mean_metrics, rollout_metrics
from training.rewards.turn_scores import ScoredTrajectory
from training.update.learner import Learner
from vlm_envs.trajectory import PaidTerm

BAD = [float("inf"), -float("inf"), float("nan"), 3e38]
"""The last is finite, but its sum with itself is not."""


def changed(batch, row, value):
    rewards_BK = batch.turn_rewards_BK.clone()
    rewards_BK[row] = value
    return replace(batch, turn_rewards_BK=rewards_BK)


def outputs_of(batch):
    num_rows, num_turns = batch.turn_rewards_BK.shape
    grid_BT = torch.linspace(0, 1, batch.turn_index_BT.numel()).reshape(batch.turn_index_BT.shape)
    return ModelOutputs(
        old_logprobs_BT=grid_BT,
        values_BT=grid_BT,
        turn_end_values_BK=torch.zeros(num_rows, num_turns),
        final_values_B=torch.zeros(num_rows),
        token_rewards_BT=torch.zeros_like(grid_BT),
        ref_kl=None,
    )


def updated(learner, batch, iteration):
    outputs = learner.model_outputs(batch)
    credit = learner.config.algorithm.credit(batch, outputs)
    return learner.update(batch, outputs, credit, iteration=iteration)


def test_one_in_the_first_batch_does_not_spoil_the_critic(tiny):
    batch = played_batch(*tiny, num_rows=4)
    learner = Learner(copy.deepcopy(tiny[0]), tiny[1].suppressed_ids(), run_config(num_groups=2))
    first = updated(learner, changed(batch, 0, float("inf")), 0)
    assert all(np.isfinite(value) for value in first.values()), first
    assert first["skipped_steps"] == 0 and learner.num_updates > 0
    assert learner.critic.is_calibrated and learner.critic.mean.isfinite() and learner.critic.std.isfinite()
    before, head = learner.num_updates, learner.critic.head.weight.clone()
    second = updated(learner, batch, 1)
    assert second["skipped_steps"] == 0 and learner.num_updates > before
    assert not torch.equal(head, learner.critic.head.weight) and learner.critic.head.weight.isfinite().all()


def test_a_batch_of_nothing_else_leaves_everything_as_it_was(tiny):
    batch = played_batch(*tiny, num_rows=4)
    learner = Learner(copy.deepcopy(tiny[0]), tiny[1].suppressed_ids(), run_config(num_groups=2))
    updated(learner, changed(batch, slice(None), float("nan")), 0)
    assert not learner.critic.is_calibrated and learner.num_updates == 0


def test_a_critic_takes_its_scale_from_finite_returns(tiny):
    critic = ValueModel(tiny[0])
    critic.calibrate(torch.tensor([torch.inf, torch.nan, 1.0]))
    critic.calibrate(torch.tensor([3e38, -3e38]))  # their deviation is not finite
    assert not critic.is_calibrated
    critic.calibrate(torch.tensor([torch.inf, 1.0, 3.0]))
    assert (critic.mean, critic.is_calibrated) == (2.0, True)


@pytest.mark.parametrize("value", BAD)
@pytest.mark.parametrize("name", SHIPPED)
def test_the_other_rows_get_what_they_get_without_it(name, value):
    """Three siblings, one of them bad: as if it had been masked by hand."""
    batch = text_batch([[0, 0, -1, 1]] * 3, [[1.0, 2.0], [0.0, 0.5], [0.0, 0.0]])
    chosen = SHIPPED[name]()
    by_hand = replace(batch, trainable_B=torch.tensor([True, True, False]))
    bad = changed(batch, 2, value)
    credit, expected = (chosen.credit(each, outputs_of(bad)) for each in (bad, by_hand))
    advantages_BT, targets_BK = credit.advantages_BT, credit.turn_end_returns_BK
    torch.testing.assert_close(advantages_BT, expected.advantages_BT)
    assert advantages_BT.isfinite().all() and (advantages_BT[2] == 0).all() and (advantages_BT[:2] != 0).any()
    if credit.returns_BT is not None:
        torch.testing.assert_close(credit.returns_BT, expected.returns_BT)
        assert targets_BK is None or (targets_BK.isfinite().all() and (targets_BK[2] == 0).all())
    assert GRPO().keep(bad).response_mask_BT.any(-1).tolist() == [True, True, False]


def test_it_is_counted_and_is_in_no_mean_of_rewards(tiny):
    from agents.hf.hf_agent import HFAgent

    trajectories = play(HFAgent(model=tiny[0], encoder=tiny[1], seed=1), range(3), max_turns=(1,))
    turns = [
        ScoredTurn(
            turn=each.turns[0],
            env_id=each.env_id,
            judge_terms=(PaidTerm(name="judge", value=value, source="judge:exact"),),
        )
        for each, value in zip(trajectories, (1.0, 1.0, float("nan")), strict=True)
    ]
    scored = [ScoredTrajectory(trajectory=each, turns=(turn,)) for each, turn in zip(trajectories, turns, strict=True)]
    batch = make_batch(trajectories, [each.turn_rewards for each in scored], tiny[1])
    metrics = rollout_metrics(scored, batch, rollout_s=1.0)
    assert metrics["nonfinite_rewards"] == 1.0 and metrics["untrainable_rows"] == pytest.approx(1 / 3)
    assert metrics["unavailable_episodes"] == 0.0 and metrics["judge/judge"] == 1.0
    assert np.isfinite(metrics["reward"]) and np.isfinite(metrics["return"])


def evaluation_of(rewards, measures):
    """Returns an evaluation of episodes of one turn with these rewards and a measure of their final states."""
    played = play(RandomAgent(), range(len(rewards)), max_turns=(1,))
    episodes = []
    for each, reward, measure in zip(played, rewards, measures, strict=True):
        turn = replace(each.turns[-1], reward=reward, info={**each.turns[-1].info, "metrics": {"light": measure}})
        episodes.append(replace(each, turns=(turn,)))
    return EvaluationResult(env_id="Mine/World-v0", world="mine", split="test", trajectories=tuple(episodes))


@pytest.mark.parametrize("value", [float("inf"), -float("inf"), float("nan"), 1e39])
def test_an_evaluation_leaves_it_out_of_its_mean_and_counts_it(value):
    record = evaluation_of([1.0, value, 2.0], [0.5, 1.0, 0.0]).record()
    assert (record["reward"], record["nonfinite_rewards"], record["num_episodes"]) == (1.5, 1, 3)
    assert record["metric/light"] == 0.5 and "nonfinite_metrics" not in record


def test_an_evaluation_of_nothing_else_has_no_mean():
    record = evaluation_of([float("inf")] * 2, [0.0, 0.0]).record()
    assert math.isnan(record["reward"]) and record["nonfinite_rewards"] == 2, "NaN is written as null"


def test_measures_of_final_states_that_are_not_finite_are_left_out_and_counted():
    evaluation = evaluation_of([1.0, 1.0, 1.0], [0.5, float("inf"), float("nan")])
    expected = {"metric/light": 0.5, "nonfinite_metrics": 2.0}
    assert mean_metrics(evaluation.trajectories) == expected
    assert evaluation.record().items() >= expected.items()
    (left,) = mean_metrics(evaluation.trajectories[1:2]).items() - {("nonfinite_metrics", 1.0)}
    assert left[0] == "metric/light" and math.isnan(left[1])
