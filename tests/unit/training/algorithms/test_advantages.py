"""Golden numbers, identities and slow references for the advantage estimators."""

import itertools
import random
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from torch import Tensor

from tests.unit.training.algorithms.two_turns import (
    COEFFICIENTS,
    NAN,
    TOKEN_REWARDS,
    TURN_END_VALUES,
    TURN_INDEX,
    TURN_REWARDS,
    VALUES,
)
from training.algorithms.bilevel_gae import BilevelVariant, bilevel_gae
from training.algorithms.estimators import place_trajectory_reward, place_turn_rewards
from training.algorithms.token_gae import token_gae
from training.algorithms.turn_gae import turn_gae

VARIANTS: tuple[BilevelVariant, ...] = ("paper", "released")

ONES: dict[str, Any] = {"gamma_turn": 1.0, "lambda_turn": 1.0, "gamma_token": 1.0, "lambda_token": 1.0}


def two_turns(variant: BilevelVariant, bootstrap: float | None = None) -> tuple[Tensor, Tensor]:
    return bilevel_gae(
        TURN_REWARDS,
        TOKEN_REWARDS,
        VALUES,
        TURN_END_VALUES,
        TURN_INDEX,
        **COEFFICIENTS,
        bootstrap_values_B=None if bootstrap is None else torch.tensor([bootstrap]),
        variant=variant,
    )


def assert_row(actual_BT: Tensor, expected: list[float]) -> None:
    torch.testing.assert_close(actual_BT, torch.tensor([expected]), atol=1e-6, rtol=1e-5)


class TestBilevelGolden:
    def test_paper(self) -> None:
        # Turns:  delta_1 = 2 + 0.5 * 0 - 5 = -3        A_1 = -3
        #         delta_0 = 1 + 0.5 * 5 - 2.5 = 1       A_0 = 1 + 0.5 * 0.4 * -3 = 0.4
        # Turn 1: last  -0.4 + 0.8 * 5 - 4 = -0.4       A = -0.4 - 3 = -3.4
        #         first -0.3 + 0.8 * 4 - 3 = -0.1       A = -0.1 + 0.8 * 0.25 * -3.4 = -0.78
        # Turn 0: last  -0.2 + 0.8 * 2.5 - 2 = -0.2     A = -0.2 + 0.4 = 0.2
        #         first -0.1 + 0.8 * 2 - 1 = 0.5        A = 0.5 + 0.2 * 0.2 = 0.54
        advantages, returns = two_turns("paper")
        assert_row(advantages, [0.0, 0.54, 0.2, 0.0, -0.78, -3.4, 0.0])
        assert_row(returns, [0.0, 1.54, 2.2, 0.0, 2.22, 0.6, 0.0])

    def test_paper_truncated(self) -> None:
        # The value after the last turn is 10:
        # delta_1 = 2 + 0.5 * 10 - 5 = 2, A_1 = 2, A_0 = 1 + 0.2 * 2 = 1.4.
        # Turn 1: last -0.4 + 2 = 1.6, first -0.1 + 0.2 * 1.6 = 0.22.
        # Turn 0: last -0.2 + 1.4 = 1.2, first 0.5 + 0.2 * 1.2 = 0.74.
        advantages, _ = two_turns("paper", bootstrap=10.0)
        assert_row(advantages, [0.0, 0.74, 1.2, 0.0, 0.22, 1.6, 0.0])

    def test_released(self) -> None:
        # Turns:  delta_1 = (2 - 0.4) + 0.5 * 0 - 4 = -2.4    A_1 = -2.4
        #         delta_0 = (1 - 0.2) + 0.5 * 4 - 2 = 0.8     A_0 = 0.8 + 0.5 * 0.4 * -2.4 = 0.32
        # Turn 1: last  (A_1 + 4) + 0 - 4 = -2.4
        #         first -0.3 + 0.8 * 4 - 3 = -0.1             A = -0.1 + 0.2 * -2.4 = -0.58
        # Turn 0: last  (A_0 + 2) + 0 - 2 = 0.32
        #         first -0.1 + 0.8 * 2 - 1 = 0.5              A = 0.5 + 0.2 * 0.32 = 0.564
        advantages, returns = two_turns("released")
        assert_row(advantages, [0.0, 0.564, 0.32, 0.0, -0.58, -2.4, 0.0])
        assert_row(returns, [0.0, 1.564, 2.32, 0.0, 2.42, 1.6, 0.0])

    def test_released_truncated(self) -> None:
        # delta_1 = 1.6 + 0.5 * 10 - 4 = 2.6, A_1 = 2.6, A_0 = 0.8 + 0.2 * 2.6 = 1.32.
        # Turn 1: first -0.1 + 0.2 * 2.6 = 0.42. Turn 0: first 0.5 + 0.2 * 1.32 = 0.764.
        advantages, _ = two_turns("released", bootstrap=10.0)
        assert_row(advantages, [0.0, 0.764, 1.32, 0.0, 0.42, 2.6, 0.0])

    def test_released_does_not_read_turn_end_values(self) -> None:
        arguments = (TURN_REWARDS, TOKEN_REWARDS, VALUES, torch.full((1, 3), NAN), TURN_INDEX)
        advantages, _ = bilevel_gae(*arguments, **COEFFICIENTS, variant="released")
        torch.testing.assert_close(advantages, two_turns("released")[0])

    def test_paper_reads_turn_end_values(self) -> None:
        arguments = (TURN_REWARDS, TOKEN_REWARDS, VALUES, TURN_END_VALUES + 1.0, TURN_INDEX)
        advantages, _ = bilevel_gae(*arguments, **COEFFICIENTS, variant="paper")
        # A_1 falls by 1, A_0 by 1 - 0.5 + 0.2 * 1 = 0.7; the last tokens' next values give back 0.8 each.
        assert advantages[0, 5].item() == pytest.approx(-3.4 - 1.0 + 0.8)
        assert advantages[0, 2].item() == pytest.approx(0.2 - 0.7 + 0.8)


class TestTokenGae:
    def test_golden(self) -> None:
        # gamma 0.8, lambda 0.25; rewards 1 and 2 on the turns' last tokens, -0.1 ... -0.4 on all.
        # i=5: (2 - 0.4) + 0 - 4 = -2.4
        # i=4: -0.3 + 0.8 * 4 - 3 = -0.1              A = -0.1 + 0.2 * -2.4 = -0.58
        # i=2: (1 - 0.2) + 0.8 * 3 - 2 = 1.2          A = 1.2 + 0.2 * -0.58 = 1.084   (next token is i=4)
        # i=1: -0.1 + 0.8 * 2 - 1 = 0.5               A = 0.5 + 0.2 * 1.084 = 0.7168
        rewards = place_turn_rewards(TURN_REWARDS, TURN_INDEX) + TOKEN_REWARDS
        advantages, returns = token_gae(rewards, VALUES, TURN_INDEX >= 0, gamma=0.8, gae_lambda=0.25)
        assert_row(advantages, [0.0, 0.7168, 1.084, 0.0, -0.58, -2.4, 0.0])
        assert_row(returns, [0.0, 1.7168, 3.084, 0.0, 2.42, 1.6, 0.0])

    def test_truncated_bootstraps_and_terminated_does_not(self) -> None:
        # Two equal rows of one token: reward 1, value 2.
        # Truncated: 1 + 0.5 * 6 - 2 = 2. Terminated: 1 - 2 = -1.
        one_BT = torch.ones(2, 1)
        advantages, _ = token_gae(
            one_BT,
            2.0 * one_BT,
            one_BT.bool(),
            gamma=0.5,
            gae_lambda=1.0,
            bootstrap_values_B=torch.tensor([6.0, 0.0]),
        )
        torch.testing.assert_close(advantages, torch.tensor([[2.0], [-1.0]]))

    def test_lambda_zero_is_the_td_error(self) -> None:
        rewards, values, mask = (
            torch.tensor([[1.0, 1.0]]),
            torch.tensor([[3.0, 5.0]]),
            torch.ones(1, 2).bool(),
        )
        advantages, _ = token_gae(rewards, values, mask, gamma=0.5, gae_lambda=0.0)
        assert_row(advantages, [1.0 + 2.5 - 3.0, 1.0 - 5.0])

    def test_long_rows_neither_underflow_nor_lose_precision(self) -> None:
        # Rewards 1, values 0: A_i = sum of 0.9^k = 10 * (1 - 0.9^(T - i)); 0.9^5000 underflows float32.
        num_tokens = 5000
        rewards = torch.ones(1, num_tokens)
        advantages, _ = token_gae(rewards, torch.zeros_like(rewards), rewards.bool(), gamma=1.0, gae_lambda=0.9)
        followers = torch.arange(num_tokens, 0, -1, dtype=torch.float64)
        expected = (10.0 * (1.0 - 0.9**followers)).float()[None]
        torch.testing.assert_close(advantages, expected, atol=1e-5, rtol=1e-5)


class TestTurnGae:
    def test_golden(self) -> None:
        # V at first tokens: 1 and 3. Rewards: 1 - 0.1 - 0.2 = 0.7 and 2 - 0.3 - 0.4 = 1.3.
        # A_1 = 1.3 - 3 = -1.7.  A_0 = (0.7 + 0.5 * 3 - 1) + 0.5 * 0.4 * -1.7 = 1.2 - 0.34 = 0.86.
        arguments = (TURN_REWARDS, TOKEN_REWARDS, VALUES, TURN_INDEX)
        advantages, returns = turn_gae(*arguments, gamma=0.5, gae_lambda=0.4)
        assert_row(advantages, [0.0, 0.86, 0.86, 0.0, -1.7, -1.7, 0.0])
        assert_row(returns, [0.0, 1.86, 1.86, 0.0, 1.3, 1.3, 0.0])

    def test_truncated(self) -> None:
        # A_1 = 1.3 + 0.5 * 10 - 3 = 3.3, A_0 = 1.2 + 0.2 * 3.3 = 1.86.
        advantages, _ = turn_gae(
            TURN_REWARDS,
            TOKEN_REWARDS,
            VALUES,
            TURN_INDEX,
            gamma=0.5,
            gae_lambda=0.4,
            bootstrap_values_B=torch.tensor([10.0]),
        )
        assert_row(advantages, [0.0, 1.86, 1.86, 0.0, 3.3, 3.3, 0.0])

    def test_turns_of_one_token_are_token_gae(self) -> None:
        turn_index = torch.tensor([[0, -1, 1, 2], [-1, 0, -1, 1]])
        generator = torch.Generator().manual_seed(0)
        rewards, values = (torch.randn(2, n, generator=generator) for n in (3, 4))
        by_turn = turn_gae(rewards, torch.zeros_like(values), values, turn_index, gamma=0.9, gae_lambda=0.7)
        placed = place_turn_rewards(rewards, turn_index)
        by_token = token_gae(placed, values, turn_index >= 0, gamma=0.9, gae_lambda=0.7)
        torch.testing.assert_close(by_turn, by_token)


# --- random batches: rows with different turns, gaps between and inside turns, empty rows ---------------


def random_turn_index(rng: random.Random, num_rows: int, num_turns: int, num_tokens: int) -> Tensor:
    rows = []
    for _ in range(num_rows):
        turns_in_row = rng.randint(0, num_turns)
        row, turn = [-1] * num_tokens, 0
        for t in range(num_tokens):
            if turn < turns_in_row and rng.random() < 0.6:
                row[t] = turn
                turn += rng.random() < 0.4
        rows.append(row)
    return torch.tensor(rows)


def random_batch(seed: int) -> dict[str, Any]:
    """Arguments of `bilevel_gae` with NaN wherever nothing may be read."""
    rng, generator = random.Random(seed), torch.Generator().manual_seed(seed)
    num_rows, num_turns, num_tokens = rng.randint(1, 4), rng.randint(1, 4), rng.randint(1, 18)
    turn_index_BT = random_turn_index(rng, num_rows, num_turns, num_tokens)
    has_turn_BK = (turn_index_BT[:, :, None] == torch.arange(num_turns)).any(dim=1)
    has_tokens_B = has_turn_BK.any(dim=1)

    def draw(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    return {
        "turn_rewards_BK": draw(num_rows, num_turns).where(has_turn_BK, NAN),
        "token_rewards_BT": draw(num_rows, num_tokens).where(turn_index_BT >= 0, NAN),
        "values_BT": draw(num_rows, num_tokens).where(turn_index_BT >= 0, NAN),
        "turn_end_values_BK": draw(num_rows, num_turns).where(has_turn_BK, NAN),
        "turn_index_BT": turn_index_BT,
        "bootstrap_values_B": draw(num_rows).where(has_tokens_B, NAN),
    }


def reference_bilevel_row(
    batch: dict[str, Tensor], row: int, variant: BilevelVariant, c: dict[str, float]
) -> list[float]:
    """The definition, token by token, in Python floats."""
    turn_index = batch["turn_index_BT"][row].tolist()
    values, token_rewards = batch["values_BT"][row].tolist(), batch["token_rewards_BT"][row].tolist()
    turn_rewards, end_values = (batch[key][row].tolist() for key in ("turn_rewards_BK", "turn_end_values_BK"))
    tokens_of = {k: [t for t, turn in enumerate(turn_index) if turn == k] for k in sorted(set(turn_index) - {-1})}

    turn_advantages: dict[int, float] = {}
    next_value, next_advantage = batch["bootstrap_values_B"][row].item(), 0.0
    for k in reversed(tokens_of):
        last = tokens_of[k][-1]
        value = end_values[k] if variant == "paper" else values[last]
        reward = turn_rewards[k] + (0.0 if variant == "paper" else token_rewards[last])
        delta = reward + c["gamma_turn"] * next_value - value
        next_advantage = delta + c["gamma_turn"] * c["lambda_turn"] * next_advantage
        turn_advantages[k], next_value = next_advantage, value

    advantages = [0.0] * len(turn_index)
    for k, tokens in tokens_of.items():
        last = tokens[-1]
        advantages[last] = turn_advantages[k]
        if variant == "paper":
            advantages[last] += token_rewards[last] + c["gamma_token"] * end_values[k] - values[last]
        for i, j in reversed(list(itertools.pairwise(tokens))):
            delta = token_rewards[i] + c["gamma_token"] * values[j] - values[i]
            advantages[i] = delta + c["gamma_token"] * c["lambda_token"] * advantages[j]
    return advantages


@pytest.mark.parametrize("variant", VARIANTS)
@given(seed=st.integers(0, 2**31 - 1), coefficients=st.lists(st.floats(0.0, 1.0), min_size=4, max_size=4))
def test_bilevel_equals_the_slow_reference(variant: BilevelVariant, seed: int, coefficients: list[float]) -> None:
    batch: dict[str, Any] = random_batch(seed)
    c: dict[str, Any] = dict(zip(COEFFICIENTS, coefficients, strict=True))
    advantages, returns = bilevel_gae(**batch, **c, variant=variant)
    num_rows = len(batch["turn_index_BT"])
    expected = torch.tensor([reference_bilevel_row(batch, row, variant, c) for row in range(num_rows)])
    torch.testing.assert_close(advantages, expected, atol=1e-4, rtol=1e-4)
    is_generated_BT = batch["turn_index_BT"] >= 0
    expected_returns = torch.where(is_generated_BT, expected + batch["values_BT"], 0.0)
    torch.testing.assert_close(returns, expected_returns, atol=1e-4, rtol=1e-4)


@given(seed=st.integers(0, 2**31 - 1))
def test_released_with_all_ones_is_token_gae(seed: int) -> None:
    batch = random_batch(seed)
    batch["token_rewards_BT"] = torch.zeros_like(batch["token_rewards_BT"])
    bilevel = bilevel_gae(**batch, **ONES, variant="released")
    turn_index = batch["turn_index_BT"]
    by_token = token_gae(
        place_turn_rewards(batch["turn_rewards_BK"], turn_index),
        batch["values_BT"],
        turn_index >= 0,
        gamma=1.0,
        gae_lambda=1.0,
        bootstrap_values_B=batch["bootstrap_values_B"],
    )
    torch.testing.assert_close(bilevel, by_token, atol=1e-4, rtol=1e-4)


def test_the_identity_breaks_when_a_coefficient_differs() -> None:
    arguments = (TURN_REWARDS, torch.zeros_like(VALUES), VALUES, TURN_END_VALUES, TURN_INDEX)
    placed = place_turn_rewards(TURN_REWARDS, TURN_INDEX)
    by_token, _ = token_gae(placed, VALUES, TURN_INDEX >= 0, gamma=1.0, gae_lambda=1.0)
    for name in COEFFICIENTS:
        advantages, _ = bilevel_gae(*arguments, **{**ONES, name: 0.9}, variant="released")
        assert not torch.allclose(advantages, by_token), name


@pytest.mark.parametrize("variant", VARIANTS)
def test_rows_do_not_depend_on_their_neighbours(variant: BilevelVariant) -> None:
    for seed in range(20):
        batch = random_batch(seed)
        together, _ = bilevel_gae(**batch, **COEFFICIENTS, variant=variant)
        for row in range(len(together)):
            alone = {name: x[row : row + 1] for name, x in batch.items()}
            torch.testing.assert_close(
                together[row : row + 1], bilevel_gae(**alone, **COEFFICIENTS, variant=variant)[0]
            )


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize("column", [1, 2, 4, 5])
def test_a_nan_that_is_read_stays_in_its_row(variant: BilevelVariant, column: int) -> None:
    values = torch.cat([VALUES, VALUES, VALUES])
    values[1, column] = NAN
    arguments = [x.expand(3, -1) for x in (TURN_REWARDS, TOKEN_REWARDS, TURN_END_VALUES, TURN_INDEX)]
    turn_rewards, token_rewards, end_values, turn_index = arguments
    advantages, _ = bilevel_gae(
        turn_rewards, token_rewards, values, end_values, turn_index, **COEFFICIENTS, variant=variant
    )
    assert advantages[1].isnan().any()
    torch.testing.assert_close(advantages[[0, 2]], two_turns(variant)[0].expand(2, -1))


def test_a_masked_out_turn_is_stepped_over() -> None:
    # Turn 1 has no token (say, its judge failed): turn 2 follows turn 0 directly, undiscounted.
    # A_2 = 4 - 30 = -26. A_0 = (1 + 30 - 10) - 26 = -5.
    advantages, _ = bilevel_gae(
        torch.tensor([[1.0, NAN, 4.0]]),
        torch.zeros(1, 3),
        torch.tensor([[10.0, NAN, 30.0]]),
        torch.zeros(1, 3),
        torch.tensor([[0, -1, 2]]),
        **ONES,
        variant="released",
    )
    assert_row(advantages, [-5.0, 0.0, -26.0])


@pytest.mark.parametrize("shape", [(0, 5), (3, 0), (3, 5)])
def test_batches_without_generated_tokens(shape: tuple[int, int]) -> None:
    turn_index, junk, per_turn = torch.full(shape, -1), torch.full(shape, NAN), torch.full((shape[0], 2), NAN)
    zeros = torch.zeros(shape)
    for variant in VARIANTS:
        result = bilevel_gae(per_turn, junk, junk, per_turn, turn_index, **COEFFICIENTS, variant=variant)
        torch.testing.assert_close(result, (zeros, zeros))
    torch.testing.assert_close(token_gae(junk, junk, turn_index >= 0, gamma=1.0, gae_lambda=1.0), (zeros, zeros))
    torch.testing.assert_close(turn_gae(per_turn, junk, junk, turn_index, gamma=1.0, gae_lambda=1.0), (zeros, zeros))
    torch.testing.assert_close(place_turn_rewards(per_turn, turn_index), zeros)


def test_results_are_float32_without_gradient() -> None:
    values = VALUES.to(torch.bfloat16).requires_grad_()
    advantages, returns = bilevel_gae(
        TURN_REWARDS, TOKEN_REWARDS, values, TURN_END_VALUES, TURN_INDEX.int(), **COEFFICIENTS
    )
    for result in (advantages, returns):
        assert result.dtype == torch.float32
        assert not result.requires_grad


def test_inputs_are_left_as_they_were() -> None:
    before = TOKEN_REWARDS.clone()
    two_turns("paper")
    two_turns("released")
    torch.testing.assert_close(TOKEN_REWARDS, before, equal_nan=True)


# --- placing rewards, groups, whitening ------------------------------------------------------------------


def test_turn_rewards_land_on_the_last_token_of_the_turn() -> None:
    turn_index = torch.tensor([[0, 0, -1, 0, 1, -1], [-1, 0, -1, -1, -1, -1], [-1] * 6])
    rewards = torch.tensor([[1.0, 2.0], [3.0, NAN], [NAN, NAN]])
    expected = torch.tensor([[0.0, 0, 0, 1, 2, 0], [0, 3, 0, 0, 0, 0], [0] * 6])
    torch.testing.assert_close(place_turn_rewards(rewards, turn_index), expected)


def test_trajectory_reward_lands_on_the_last_token_of_the_row() -> None:
    mask = torch.tensor([[True, False, True, False], [False] * 4])
    placed = place_trajectory_reward(torch.tensor([5.0, 7.0]), mask)
    torch.testing.assert_close(placed, torch.tensor([[0.0, 0, 5, 0], [0, 0, 0, 0]]))


# --- misuse ------------------------------------------------------------------------------------------------
