"""Algorithms pass the right rewards, values, and bootstraps to estimators, against hand-computed numbers."""

from __future__ import annotations

import pytest
import torch

from tests.unit.training.batches import algorithm, text_batch
from training.algorithms.algorithm import ModelOutputs
from training.algorithms.bilevel_gae import bilevel_gae
from training.algorithms.grpo import GRPO

TURNS = [[-1, 0, 0, -1, 1], [-1, 0, -1, -1, -1]]
REWARDS = [[1.0, 2.0], [4.0, 0.0]]
VALUES = torch.tensor([[0.0, 0.1, 0.2, 0.0, 0.4], [0.0, 0.5, 0.0, 0.0, 0.0]])
ENDS = torch.tensor([[0.3, 0.6], [0.7, 0.0]])
FINALS = torch.tensor([0.8, 0.9])


def outputs(penalty: float = 0.0, **changes: object) -> ModelOutputs:
    fields = {
        "old_logprobs_BT": torch.zeros(2, 5),
        "values_BT": VALUES,
        "turn_end_values_BK": ENDS,
        "final_values_B": FINALS,
        "token_rewards_BT": torch.full((2, 5), penalty),
        "ref_kl": None,
    }
    return ModelOutputs(**{**fields, **changes})


def batch(terminated: tuple[bool, bool] = (True, True), trainable: tuple[bool, bool] = (True, True)):
    terminated_B = torch.tensor(terminated)
    return text_batch(
        TURNS, REWARDS, terminated_B=terminated_B, has_final_B=~terminated_B, trainable_B=torch.tensor(trainable)
    )


@pytest.mark.parametrize(
    ("terminated", "bootstrap_truncated", "extra"),
    [
        ((True, True), True, (0.0, 0.0)),
        ((False, False), False, (0.0, 0.0)),
        ((False, False), True, (0.8, 0.9)),  # V after each row's final observation
        ((True, False), True, (0.0, 0.9)),
    ],
)
def test_token_gae_without_discounts_is_what_is_still_to_come(terminated, bootstrap_truncated, extra):
    chosen = algorithm("token_gae", gamma_token=1.0, lambda_token=1.0, bootstrap_truncated=bootstrap_truncated)
    credit = chosen.credit(batch(terminated), outputs())
    advantages_BT, returns_BT = credit.advantages_BT, credit.returns_BT
    first, second = extra
    to_come = torch.tensor([[0, 3 + first, 3 + first, 0, 2 + first], [0, 4 + second, 0, 0, 0]])
    assert torch.allclose(returns_BT, to_come)
    assert torch.allclose(advantages_BT, to_come - VALUES * (torch.tensor(TURNS) >= 0))


@pytest.mark.parametrize("bootstrap_truncated", [True, False])
def test_turn_gae_gives_every_token_of_a_turn_the_same(bootstrap_truncated):
    chosen = algorithm("turn_gae", gamma_turn=0.5, lambda_turn=1.0, bootstrap_truncated=bootstrap_truncated)
    advantages_BT = chosen.credit(batch((False, True)), outputs()).advantages_BT
    end = 0.8 if bootstrap_truncated else 0.0
    second = 2 + 0.5 * end - 0.4
    first = 1 + 0.5 * (2 + 0.5 * end) - 0.1
    expected = torch.tensor([[0, first, first, 0, second], [0, 4 - 0.5, 0, 0, 0]])
    assert torch.allclose(advantages_BT, expected, atol=1e-6)


@pytest.mark.parametrize("variant", ["paper", "released"])
@pytest.mark.parametrize("bootstrap_truncated", [True, False])
def test_bilevel_gae_bootstraps_truncated_rows_only(variant, bootstrap_truncated):
    chosen = algorithm(
        variant=variant, gamma_turn=0.9, lambda_turn=0.8, lambda_token=0.7, bootstrap_truncated=bootstrap_truncated
    )
    ours = chosen.credit(batch((False, True)), outputs(-0.01))
    expected = bilevel_gae(
        torch.tensor(REWARDS),
        torch.full((2, 5), -0.01),
        VALUES,
        ENDS,
        torch.tensor(TURNS),
        gamma_turn=0.9,
        lambda_turn=0.8,
        gamma_token=1.0,
        lambda_token=0.7,
        bootstrap_values_B=torch.tensor([0.8, 0.0]) if bootstrap_truncated else torch.zeros(2),
        variant=variant,
    )
    assert torch.allclose(ours.advantages_BT, expected[0])
    assert torch.allclose(ours.returns_BT, expected[1])


def test_grpo_compares_siblings_by_all_they_earned():
    chosen = algorithm("grpo")
    credit = chosen.credit(batch(), outputs(values_BT=None, turn_end_values_BK=None))
    advantages_BT, returns_BT = credit.advantages_BT, credit.returns_BT
    # Totals 3 and 4: mean 3.5, sample deviation sqrt(0.5); so -0.5 / 0.7071 and +0.5 / 0.7071
    score = 0.5**0.5
    assert torch.allclose(advantages_BT, torch.tensor([[0, -score, -score, 0, -score], [0, score, 0, 0, 0]]), atol=1e-4)
    assert returns_BT is None


def test_grpo_does_not_measure_siblings_against_a_row_that_failed():
    rows = text_batch([[-1, 0]] * 3, [[1.0], [3.0], [-99.0]], trainable_B=torch.tensor([True, True, False]))
    nothing = outputs(values_BT=None, turn_end_values_BK=None, token_rewards_BT=torch.zeros(3, 2))
    advantages_BT = algorithm("grpo").credit(rows, nothing).advantages_BT
    assert torch.allclose(advantages_BT[:, 1], torch.tensor([-(0.5**0.5), 0.5**0.5, 0.0]), atol=1e-4)


def test_grpo_counts_the_kl_penalty():
    penalties = torch.tensor(
        [[9.0, -0.5, -0.5, 9.0, -1.0], [9.0, -1.0, 0.0, 0.0, 0.0]]
    )  # 9 stands where it must not count
    nothing = outputs(values_BT=None, turn_end_values_BK=None, token_rewards_BT=penalties)
    rows = text_batch(TURNS, [[2.0, 2.0], [3.0, 0.0]])
    advantages_BT = algorithm("grpo").credit(rows, nothing).advantages_BT
    assert not advantages_BT.any(), "4 - 2 and 3 - 1 are equal"


@pytest.mark.parametrize("name", ["bilevel_gae", "token_gae", "turn_gae", "grpo"])
def test_rows_that_are_masked_get_and_give_nothing(name):
    chosen = algorithm(name)
    advantages_BT = chosen.credit(batch(trainable=(True, False)), outputs()).advantages_BT
    assert not advantages_BT[1].any()
    if name != "grpo":
        assert advantages_BT[0].any()


@pytest.mark.parametrize("name", ["bilevel_gae", "token_gae", "turn_gae"])
def test_whitening_runs_over_generated_tokens_only(name):
    advantages_BT = algorithm(name, whiten=True).credit(batch(), outputs()).advantages_BT
    generated = advantages_BT[torch.tensor(TURNS) >= 0]
    assert float(generated.mean()) == pytest.approx(0.0, abs=1e-6)
    assert float(generated.std(unbiased=False)) == pytest.approx(1.0, abs=0.2)
    assert not advantages_BT[torch.tensor(TURNS) < 0].any()


@pytest.mark.parametrize(
    ("bootstrap_truncated", "expected"),
    # Row 0: 2 + 0.5 * after, then 1 + 0.5 * (0.2 * that + 0.8 * 0.6); row 1: 4. lambda 0.2 takes 0.8 of V at turn ends.
    [(True, [[1.48, 2.4], [4.0, 0.0]]), (False, [[1.44, 2.0], [4.0, 0.0]])],
)
def test_the_ends_of_turns_learn_the_returns_of_the_turn_level(bootstrap_truncated, expected):
    chosen = algorithm(variant="paper", gamma_turn=0.5, lambda_turn=0.2, bootstrap_truncated=bootstrap_truncated)
    targets_BK = chosen.credit(batch((False, True)), outputs(-0.01)).turn_end_returns_BK
    assert torch.allclose(targets_BK, torch.tensor(expected))
    masked_BK = chosen.credit(batch((True, True), trainable=(False, True)), outputs()).turn_end_returns_BK
    assert masked_BK.tolist() == [[0.0, 0.0], [4.0, 0.0]]


@pytest.mark.parametrize("changes", [{"variant": "released"}, {"name": "token_gae"}, {"name": "turn_gae"}])
def test_algorithms_that_do_not_read_the_ends_of_turns_learn_nothing_there(changes):
    assert algorithm(**changes).credit(batch(), outputs()).turn_end_returns_BK is None


def test_groups_without_variance_are_left_out_of_losses():
    rewards = [[1.0], [1.0], [3.0], [1.0], [5.0]]
    rows = text_batch(
        [[-1, 0]] * 5,
        rewards,
        group_index_B=torch.tensor([0, 0, 1, 1, 1]),
        trainable_B=torch.tensor([True, True, True, True, False]),
    )
    assert GRPO().keep(rows).trainable_B.tolist() == [False, False, True, True, False]


@pytest.mark.parametrize(
    ("placement", "expected"),
    [
        ("turn", [0.0, 0.5 * 2.0, 1.0 + 0.5 * 2.0, 0.0, 2.0]),
        ("trajectory", [0.0, 0.25 * 3.0, 0.5 * 3.0, 0.0, 3.0]),
    ],
)
def test_rewards_are_paid_by_turns_or_on_the_last_token_of_the_row(placement, expected):
    # A discount of 1/2 a token and V = 0. Source of "trajectory": VAGEN, Algorithm 1, line 16
    silent = outputs(
        old_logprobs_BT=torch.zeros(1, 5),
        values_BT=torch.zeros(1, 5),
        turn_end_values_BK=torch.zeros(1, 2),
        final_values_B=torch.zeros(1),
        token_rewards_BT=torch.zeros(1, 5),
    )
    chosen = algorithm("token_gae", reward_placement=placement, gamma_token=0.5)
    advantages_BT = chosen.credit(text_batch(TURNS[:1], REWARDS[:1]), silent).advantages_BT
    assert advantages_BT[0].tolist() == expected
