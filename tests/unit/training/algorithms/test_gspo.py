"""GSPO against hand-computed numbers, and value and gradient against the paper's formula in float64."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from tests.unit.training.algorithms.siblings import outputs, rows
from tests.unit.training.batches import played_batch, run_config
from training.algorithms.algorithm import Credit
from training.algorithms.grpo import GRPO
from training.algorithms.gspo import GSPO, gspo_loss
from training.algorithms.losses import loss_normalizer
from training.config.update_config import PPOConfig
from training.update.learner import Learner
from vlm_envs.errors import ConfigError

NAN = math.nan
CLIP = {"clip_low": 0.1, "clip_high": 0.2}
# Rows of 2, 4 and 1 generated tokens. Log-ratios 0.1, 0.3 | 0.4, 0, 0, 0 | -0.5: means 0.2, 0.1, -0.5.
LOG_RATIOS = torch.tensor([[NAN, 0.1, 0.3, NAN, NAN], [NAN, 0.4, 0.0, 0.0, 0.0], [NAN, -0.5, NAN, NAN, NAN]])
MASK = torch.tensor([[0, 1, 1, 0, 0], [0, 1, 1, 1, 1], [0, 1, 0, 0, 0]]).bool()
OLD = torch.where(MASK, torch.tensor(-3.0), NAN)
ADVANTAGES = torch.tensor([[2.0], [-1.0], [-1.0]]).expand(3, 5)


def test_golden():
    loss, metrics = gspo_loss(OLD + LOG_RATIOS, OLD, ADVANTAGES, MASK, **CLIP)
    # s = e^0.2 = 1.2214, above 1.2, so 2 * 1.2; e^0.1 = 1.10517, -1 times it; e^-0.5 = 0.6065, below 0.9, so -0.9
    assert loss.item() == pytest.approx(-(2.4 - 1.1051709 - 0.9) / 3)
    assert metrics["clip_fraction"].item() == pytest.approx(3 / 7), "the tokens of rows 0 and 2"
    assert metrics["ratio_mean"].item() == pytest.approx((2 * 1.2214028 + 4 * 1.1051709 + 0.6065307) / 7)
    kl = sum(math.expm1(x) - x for x in (0.1, 0.3, 0.4, -0.5)) / 7
    assert metrics["approx_kl"].item() == pytest.approx(kl, rel=1e-5)


def test_a_clipped_sequence_has_no_gradient_and_the_tokens_of_others_share_theirs():
    logprobs = torch.where(MASK, OLD + LOG_RATIOS, 0.0).requires_grad_()
    gspo_loss(logprobs, OLD, ADVANTAGES, MASK, **CLIP)[0].backward()
    # Only row 1 is within its clip: d(s) / d(logprob) = s / |y|, times 1 of the advantage, over 3 rows
    share = 1.1051709 / 4 / 3
    torch.testing.assert_close(logprobs.grad, MASK * torch.tensor([[0.0], [share], [0.0]]))


def test_value_and_gradient_are_the_papers():
    generator = torch.Generator().manual_seed(5)
    new, old = (torch.randn(6, 8, generator=generator, dtype=torch.float64) * 0.3 for _ in range(2))
    lengths, advantages = torch.tensor([1, 8, 3, 5, 2, 6]), torch.randn(6, generator=generator, dtype=torch.float64)
    mask = torch.arange(8) < lengths[:, None]
    exact = new.clone().requires_grad_()
    objective = torch.zeros((), dtype=torch.float64)
    for row, length in enumerate(lengths.tolist()):
        ratio = (exact[row, :length].sum() - old[row, :length].sum()).div(length).exp()
        objective = objective + torch.minimum(ratio * advantages[row], ratio.clamp(0.9, 1.2) * advantages[row]) / 6
    (-objective).backward()
    ours = new.float().requires_grad_()
    loss, _ = gspo_loss(ours, old.float(), advantages.float()[:, None].expand(6, 8), mask, **CLIP)
    loss.backward()
    assert loss.item() == pytest.approx(-objective.item(), rel=1e-5)
    torch.testing.assert_close(ours.grad.double(), exact.grad, rtol=1e-4, atol=1e-6)


def test_micro_batches_add_up_and_the_order_of_rows_means_nothing():
    normalizer = loss_normalizer(MASK, aggregation="sequence_mean")
    whole = gspo_loss(OLD + LOG_RATIOS, OLD, ADVANTAGES, MASK, **CLIP)[0]
    parts = [
        gspo_loss((OLD + LOG_RATIOS)[row], OLD[row], ADVANTAGES[row], MASK[row], **CLIP, normalizer=normalizer)[0]
        for row in ([2, 0], [1])
    ]
    assert sum(part.item() for part in parts) == pytest.approx(whole.item())


def test_a_small_clip_is_not_lost_in_rounding():
    # Near -20 log-probabilities are 1.9e-6 apart; the mean of two ratios may lie between, and the clip is 3e-4
    step = 2.0**-19
    old = torch.full((1, 2), -20.0)
    new = old + torch.tensor([[152 * step, 153 * step]])
    _, metrics = gspo_loss(new, old, torch.ones(1, 2), torch.ones(1, 2).bool(), clip_low=3e-4, clip_high=4e-4)
    assert metrics["ratio_mean"].item() == pytest.approx(math.exp(152.5 * step), abs=2e-7)


def test_advantages_are_grpos():
    batch = rows([[1.0, 0.0], [2.0, 1.0], [8.0, 0.0], [5.0, 0.0], [3.0, 2.0]], [0, 0, 0, 7, 7])
    ours, grpos = (each.credit(batch, outputs(batch)).advantages_BT for each in (GSPO(), GRPO()))
    assert torch.equal(ours, grpos)
    assert GSPO().keep(batch).trainable_B.tolist() == [True, True, True, False, False]


def test_the_learner_takes_its_clip_and_the_mean_over_sequences(tiny, monkeypatch):
    model, encoder = tiny
    seen = []

    def spied(self, *tensors, **settings):
        seen.append(settings)
        return original(self, *tensors, **settings)

    original = GSPO.policy_loss
    monkeypatch.setattr(GSPO, "policy_loss", spied)
    config = run_config(
        algorithm=GSPO(sequence_clip_high=5e-4),
        ppo=PPOConfig(num_minibatches=2, micro_batch_size=3),
        sampling=SamplingConfig(max_new_tokens=6),
        num_groups=4,
    )
    learner = Learner(model, encoder.suppressed_ids(), config)
    batch = played_batch(model, encoder)
    said = learner.model_outputs(batch)
    learner.update(batch, said, Credit(advantages_BT=batch.response_mask_BT.float()), iteration=0)
    assert {(each["clip_low"], each["clip_high"], each["aggregation"]) for each in seen} == {
        (3e-4, 5e-4, "sequence_mean")
    }
    assert {each["normalizer"] for each in seen} == {4.0}, "rows of an optimiser step"


def test_one_step_per_iteration_is_refused():
    with pytest.raises(ConfigError, match="the ratio of the only step is 1"):
        run_config(algorithm=GSPO(), ppo=PPOConfig(num_minibatches=1))


@pytest.mark.parametrize("settings", [{"sequence_clip_low": 0.0}, {"sequence_clip_high": 0.0}])
def test_clips_have_a_range(settings):
    with pytest.raises(ConfigError, match="sequence_clip"):
        GSPO(**settings)


def test_what_it_decides_may_be_said_again():
    ppo = PPOConfig(aggregation="sequence_mean", num_minibatches=2)
    assert run_config(algorithm=GSPO(), ppo=ppo).decided().ppo.clip_high == 4e-4
    assert run_config(algorithm=GRPO(), ppo=ppo).decided().ppo == ppo


@dataclass(frozen=True, kw_only=True)
class Deciding(GRPO):
    """An algorithm with update settings of its own, as users write them."""

    decides: dict[str, Any]

    @property
    def update_settings(self):
        return self.decides


@pytest.mark.parametrize(
    ("decides", "settings", "said"),
    [
        ({"num_minibatches": 16}, {}, "16"),
        ({"old_logprobs": "sampler"}, {"sampling": SamplingConfig(top_p=0.9, max_new_tokens=6)}, "--sampling.top-p"),
    ],
)
def test_what_an_algorithm_decides_is_checked_like_what_a_user_sets(decides, settings, said):
    run_config(algorithm=Deciding(decides={}), ppo=PPOConfig(), num_groups=4, **settings)
    with pytest.raises(ConfigError, match=said):
        run_config(algorithm=Deciding(decides=decides), ppo=PPOConfig(), num_groups=4, **settings)
