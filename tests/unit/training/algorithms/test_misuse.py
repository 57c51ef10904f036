"""Misuse of the advantage functions is explained."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from tests.unit.training.algorithms.two_turns import (
    COEFFICIENTS,
    NAN,
    TOKEN_REWARDS,
    TURN_END_VALUES,
    TURN_INDEX,
    TURN_REWARDS,
    VALUES,
)
from training.algorithms.bilevel_gae import bilevel_gae
from training.algorithms.estimators import masked_whiten, place_trajectory_reward
from training.algorithms.token_gae import token_gae


def call_bilevel(**changes: Any) -> object:
    arguments: dict[str, Any] = {
        "turn_rewards_BK": TURN_REWARDS,
        "token_rewards_BT": TOKEN_REWARDS,
        "values_BT": VALUES,
        "turn_end_values_BK": TURN_END_VALUES,
        "turn_index_BT": TURN_INDEX,
    }
    return bilevel_gae(**{**arguments, **COEFFICIENTS, **changes})


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"values_BT": VALUES[:, 1:]}, r"values_BT: expected shape \(1, 7\), got \(1, 6\)"),
        ({"values_BT": VALUES.T}, r"values_BT: expected shape \(1, 7\), got \(7, 1\)"),
        ({"token_rewards_BT": VALUES[0]}, r"token_rewards_BT: expected shape \(1, 7\), got \(7,\)"),
        ({"turn_end_values_BK": TURN_END_VALUES[:, :2]}, r"turn_end_values_BK: expected shape \(1, 3\)"),
        ({"turn_rewards_BK": TURN_REWARDS.expand(2, 3)}, r"turn_rewards_BK: expected shape \(1, 3\)"),
        ({"turn_index_BT": TURN_INDEX[0]}, "turn_index_BT: expected 2 dimensions"),
        ({"turn_index_BT": TURN_INDEX.float()}, "turn_index_BT: expected an integer dtype"),
        ({"turn_index_BT": TURN_INDEX + 2}, "turn_index_BT: expected numbers from -1 .* to 2 .* got 1 to 3"),
        ({"turn_index_BT": TURN_INDEX - 1}, "turn_index_BT: expected numbers from -1 .* got -2 to 0"),
        ({"turn_index_BT": TURN_INDEX.flip(1)}, "turn_index_BT: expected turn numbers that never fall"),
        ({"bootstrap_values_B": torch.zeros(1, 1)}, r"bootstrap_values_B: expected shape \(1,\)"),
        ({"gamma_turn": NAN}, "gamma_turn: expected a number"),
        ({"lambda_turn": -0.1}, "lambda_turn: expected a number"),
        ({"gamma_token": 2.0}, "gamma_token: expected a number"),
        ({"lambda_token": 1.01}, r"lambda_token: expected a number in \[0, 1\], got 1.01"),
        ({"variant": "whitened"}, "variant: expected 'paper' or 'released', got 'whitened'"),
    ],
)
def test_misuse_is_explained(changes: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        call_bilevel(**changes)


@pytest.mark.parametrize(
    "call",
    [
        lambda: token_gae(VALUES, VALUES, TURN_INDEX, gamma=1.0, gae_lambda=1.0),
        lambda: masked_whiten(VALUES, TURN_INDEX),
        lambda: place_trajectory_reward(torch.zeros(1), TURN_INDEX),
    ],
)
def test_masks_are_bool(call: Callable[[], object]) -> None:
    with pytest.raises(ValueError, match=r"mask_BT: expected dtype bool, got torch\.int64"):
        call()
