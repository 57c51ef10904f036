"""DAPO: the penalty of long responses, useful groups, and what it decides of the update."""

from __future__ import annotations

from dataclasses import replace

import pytest
import torch

from tests.unit.training.algorithms.siblings import outputs, rows
from tests.unit.training.batches import run_config, text_batch
from training.algorithms.dapo import DAPO, overlong_penalties
from training.algorithms.gigpo import GiGPO
from training.algorithms.grpo import GRPO
from training.algorithms.gspo import GSPO
from training.config.update_config import PPOConfig
from training.update.learner import Learner
from vlm_envs.errors import ConfigError


def test_the_penalty_of_a_response_is_the_papers():
    # DAPO, equation 13, with L_max 10 and L_cache 4: (6 - |y|) / 4 from 6 to 10 tokens
    lengths = [1, 6, 7, 9, 10, 12]
    turns_BT = torch.full((6, 14), -1)
    for row, length in enumerate(lengths):
        turns_BT[row, 1 : 1 + length] = 0
    penalties_BK = overlong_penalties(turns_BT, num_turns=1, max_tokens=10, cache_tokens=4)
    assert penalties_BK[:, 0].tolist() == [0.0, 0.0, -0.25, -0.75, -1.0, -1.0]
    halved = overlong_penalties(turns_BT, num_turns=1, max_tokens=10, cache_tokens=4, penalty=0.5)
    torch.testing.assert_close(halved, penalties_BK / 2)


def test_every_response_of_a_row_is_measured_by_itself():
    turns_BT = torch.tensor([[-1, 0, 0, 0, -1, 1, 1, -1], [-1, 0, -1, 1, 1, 1, 1, -1]])
    penalties_BK = overlong_penalties(turns_BT, num_turns=3, max_tokens=4, cache_tokens=2)
    assert penalties_BK.tolist() == [[-0.5, 0.0, 0.0], [0.0, -1.0, 0.0]]


def test_golden():
    # Responses of 2 and 1 tokens | 1 and 2 | 1; the last 2 of 3 tokens are penalised: 2 cost half of 0.6, 1 nothing
    batch = replace(rows([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 0]), max_response_tokens=3)
    algorithm = DAPO(overlong_share=2 / 3, overlong_penalty=0.6, scale="none")
    kept = algorithm.keep(batch)
    torch.testing.assert_close(kept.turn_rewards_BK, torch.tensor([[0.7, 2.0], [0.0, 0.7], [4.0, 0.0]]))
    advantages_BT = algorithm.credit(kept, outputs(kept)).advantages_BT
    mean = (2.7 + 0.7 + 4.0) / 3
    assert advantages_BT[:, 1].tolist() == pytest.approx([2.7 - mean, 0.7 - mean, 4.0 - mean])
    assert torch.equal(batch.turn_rewards_BK, torch.tensor([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0]])), "what was played"


def test_without_a_share_it_is_grpo():
    batch = rows([[1.0, 2.0], [0.0, 1.0], [4.0, 0.0]], [0, 0, 0])
    ours, grpos = DAPO(overlong_share=0.0).keep(batch), GRPO().keep(batch)
    assert torch.equal(ours.turn_rewards_BK, grpos.turn_rewards_BK)


def test_a_group_is_useful_by_what_it_earned_and_not_by_its_length():
    long, short = [0, 0, 0, 0], [0, -1, -1, -1]
    batch = replace(
        text_batch([long, short, short, short], [[1.0], [1.0], [0.0], [1.0]], group_index_B=torch.tensor([0, 0, 1, 1])),
        max_response_tokens=4,
    )
    assert DAPO().useful_rows(batch).tolist() == [False, False, True, True]
    assert DAPO().keep(batch).trainable_B.tolist() == [False, False, True, True]


@pytest.mark.parametrize("value", [float("nan"), float("inf")])
@pytest.mark.parametrize("algorithm", [GRPO(), DAPO(), GSPO(), GiGPO()])
def test_a_row_without_a_finite_reward_does_not_make_a_flat_group_useful(algorithm, value):
    batch = rows([[1.0, 0.0], [1.0, 0.0], [value, 0.0], [1.0, 0.0], [0.0, 0.0]], [0, 0, 0, 1, 1])
    assert algorithm.useful_rows(batch).tolist() == [False, False, False, True, True]


def test_the_learner_has_no_reference_and_its_clip(tiny):
    model, encoder = tiny
    learner = Learner(model, encoder.suppressed_ids(), run_config(algorithm=DAPO(), ppo=PPOConfig(num_minibatches=2)))
    ppo = learner.config.ppo
    assert (ppo.clip_low, ppo.clip_high, ppo.aggregation, ppo.kl_coef) == (0.2, 0.28, "token_mean", 0.0)
    assert learner.reference is None


@pytest.mark.parametrize(
    "settings",
    [{"overlong_share": 1.5}, {"overlong_penalty": 0.0}, {"clip_high": 0.0}, {"max_sampling_rounds": 0}],
)
def test_settings_have_a_range(settings):
    with pytest.raises(ConfigError, match=next(iter(settings))):
        DAPO(**settings)


@pytest.mark.parametrize(("cache", "said"), [(0, "cache_tokens: expected a number above 0"), (5, "at most 4, got 5")])
def test_lengths_are_checked(cache, said):
    with pytest.raises(ValueError, match=said):
        overlong_penalties(torch.zeros(1, 2, dtype=torch.long), num_turns=1, max_tokens=4, cache_tokens=cache)
