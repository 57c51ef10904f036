"""PPO without a loss mask: observations count as generated, against hand-computed numbers."""

from __future__ import annotations

import copy
from dataclasses import fields, replace

import pytest
import torch

from tests.unit.training.batches import NO_JUDGE, WORLD, algorithm, played_batch, run_config, text_batch
from tests.unit.training.test_run import metrics_of
from training.algorithms.algorithm import ModelOutputs
from training.algorithms.token_gae import TokenGAE
from training.batch import with_observations_as_actions
from training.config.update_config import PPOConfig
from training.engines.policy import hidden_states
from training.run import train
from training.update.learner import Learner

SPECIAL = 3
IDS = torch.tensor([[5, 6, 7, SPECIAL, 8, 7, 6, 5]])
TURNS = [
    [-1, -1, 0, -1, -1, 1, -1, -1]
]  # two words of prompt, an answer, two of observation, an answer, two at the end
EVERYTHING = TokenGAE(mask="all")


def row(**changes):
    return text_batch(TURNS, [[1.0, 2.0]], input_ids_BT=IDS, suppressed_ids=(SPECIAL,), **changes)


def said(batch) -> ModelOutputs:
    """Returns V of 0.1 more at each token and a KL penalty of 0.1 at each, observed or not."""
    return ModelOutputs(
        old_logprobs_BT=torch.zeros(1, 8),
        values_BT=torch.arange(8.0)[None] / 10 * (batch.turn_index_BT >= 0),
        turn_end_values_BK=torch.zeros(1, 2),
        final_values_B=torch.zeros(1),
        token_rewards_BT=torch.full((1, 8), -0.1) * (batch.turn_index_BT >= 0),
        ref_kl=None,
    )


def test_what_was_observed_belongs_to_the_turn_it_came_before():
    # Not the first token, which nothing comes before; not the special one; not what follows the last answer
    everything = with_observations_as_actions(row())
    assert everything.turn_index_BT.tolist() == [[-1, 0, 0, -1, 1, 1, -1, -1]]
    assert everything.sampler_logprobs_BT.isnan().tolist() == [[False, True, False, False, True, False, False, False]]


@pytest.mark.parametrize(
    ("mask", "returns"),
    [
        ("generated", {2: 1.85, 5: 1.9}),
        ("all", {1: 0.5625, 2: 1.325, 4: 0.85, 5: 1.9}),
    ],
)
def test_golden(mask, returns):
    # A discount of 1/2 a token, lambda 1: the return is r + G(next) / 2, whatever V is. Rewards less a penalty of 0.1
    # at tokens 1, 2, 4, 5: -0.1, 0.9, -0.1, 1.9. "all": 1.9; -0.1 + 0.95 = 0.85; 0.9 + 0.425 = 1.325;
    # -0.1 + 0.6625 = 0.5625. "generated", of tokens 2 and 5: 1.9; 0.9 + 0.95 = 1.85.
    chosen = algorithm("token_gae", mask=mask, gamma_token=0.5, lambda_token=1.0)
    batch = chosen.keep(row())
    credit = chosen.credit(batch, said(batch))
    advantages_BT, returns_BT = credit.advantages_BT, credit.returns_BT
    expected_T = torch.zeros(8)
    for token, value in returns.items():
        expected_T[token] = value
    assert torch.allclose(returns_BT[0], expected_T)
    assert torch.allclose(advantages_BT[0], (expected_T - torch.arange(8) / 10) * (expected_T != 0))


def test_a_turn_that_is_not_learnt_from_takes_its_observation_with_it():
    batch = with_observations_as_actions(row(trainable_BK=torch.tensor([[True, False]])))
    assert batch.response_mask_BT[0].nonzero()[:, 0].tolist() == [1, 2]


def test_without_observations_everything_is_what_was_generated():
    batch = text_batch([[0, 0, 1, 1, 1], [0, 1, 1, -1, -1]], [[1.0, 2.0], [3.0, 4.0]])
    everything = with_observations_as_actions(batch)
    for field in fields(batch):
        ours, theirs = getattr(everything, field.name), getattr(batch, field.name)
        assert torch.equal(ours, theirs) if isinstance(theirs, torch.Tensor) else ours == theirs, field.name


def test_observations_have_log_probabilities_values_and_kl_and_pictures_have_none(tiny):
    model, encoder = tiny
    played = played_batch(model, encoder)
    config = run_config(num_groups=4, algorithm=EVERYTHING, ppo=PPOConfig(num_minibatches=1, kl_coef=0.1))
    learner = Learner(copy.deepcopy(model), encoder.suppressed_ids(), config)
    with torch.no_grad():
        for parameter in learner.policy.model.language_model.parameters():
            parameter.mul_(1.02)  # away from the reference
    batch = EVERYTHING.keep(played)
    assert (played.input_ids_BT == played.image_token_id).any()
    learnt_BT = batch.response_mask_BT
    assert not torch.isin(batch.input_ids_BT[learnt_BT], torch.tensor(encoder.suppressed_ids())).any()
    assert learnt_BT.sum() > 2 * played.response_mask_BT.sum()
    outputs = learner.model_outputs(batch)
    is_observed_BT = learnt_BT & ~played.response_mask_BT
    with torch.no_grad():
        logits_BTV = learner.policy.lm_head(hidden_states(learner.policy, played)).float()
    logits_BTV[..., encoder.suppressed_ids()] = -torch.inf
    shifted_BT = logits_BTV.log_softmax(-1)[:, :-1].gather(2, played.input_ids_BT[:, 1:, None])[..., 0]
    assert torch.allclose(outputs.old_logprobs_BT[:, 1:][is_observed_BT[:, 1:]], shifted_BT[is_observed_BT[:, 1:]])
    assert outputs.token_rewards_BT[is_observed_BT].ne(0).all()
    credit = EVERYTHING.credit(batch, outputs)
    assert credit.advantages_BT[is_observed_BT].ne(0).all()
    metrics = learner.update(batch, outputs, credit, iteration=0)
    assert all(torch.isfinite(torch.tensor(value)) for value in metrics.values()), metrics
    assert metrics["skipped_steps"] == 0


@pytest.mark.parametrize("micro_batch_size", [1, 3, 8])
@pytest.mark.sample(1)
def test_the_samplers_gap_is_the_mean_over_drawn_tokens_however_rows_are_divided(tiny, micro_batch_size):
    model, encoder = tiny
    played = played_batch(model, encoder)
    # Row 0 is off by 1 at each token it drew, the others by nothing: the mean is row 0's part of what was drawn
    sampler_BT = played.sampler_logprobs_BT.clone()
    sampler_BT[0, played.response_mask_BT[0]] += 1.0
    num_drawn_B = played.response_mask_BT.sum(-1)
    ppo = PPOConfig(num_minibatches=1, warmup_iterations=0, micro_batch_size=micro_batch_size)
    learner = Learner(
        copy.deepcopy(model), encoder.suppressed_ids(), run_config(num_groups=4, ppo=ppo, algorithm=EVERYTHING)
    )
    batch = EVERYTHING.keep(replace(played, sampler_logprobs_BT=sampler_BT))
    outputs = learner.model_outputs(batch)
    metrics = learner.update(batch, outputs, EVERYTHING.credit(batch, outputs), iteration=0)
    assert metrics["sampler_gap"] == pytest.approx(float(num_drawn_B[0] / num_drawn_B.sum()), rel=1e-4)


@pytest.mark.soak
def test_a_run_without_a_mask_trains(tiny_directory, tmp_path):
    config = run_config(
        worlds=(WORLD,),
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=2,
        num_eval_episodes=0,
        judge=NO_JUDGE,
        algorithm=EVERYTHING,
        num_threads=1,
    )
    lines = metrics_of(train(config))
    assert [line["iteration"] for line in lines] == [0, 1]
    for line in lines:
        assert line["grad_norm"] > 0 and line["skipped_steps"] == 0
        assert line["sampler_gap"] < 1e-3, "over what was drawn: observations are drawn by nobody"
