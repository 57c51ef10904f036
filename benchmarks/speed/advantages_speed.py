"""How long advantage estimation takes, against a time limit and against a loop over token positions.

Run with `python -m benchmarks speed --only gae`. One core, 128 rows of 2,400 tokens in two layouts:
`dialogue` has 4 turns of 200 observed and 400 generated tokens, `dense` is one generated token after the
other in 4 turns, the worst case. The loop is the form common in public trainers, with each of its steps
vectorised over the rows. The two are checked to agree before any clock runs.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, get_args

import torch
from torch import Tensor

from benchmarks.speed.speed_benchmarks import Row, median_times_s
from training.algorithms.bilevel_gae import BilevelVariant, bilevel_gae

LIMIT_MS = 20.0
NUM_ROWS = 128
NUM_TOKENS = 2400
NUM_TURNS = 4


COEFFICIENTS: dict[str, Any] = {"gamma_turn": 0.99, "lambda_turn": 0.95, "gamma_token": 0.999, "lambda_token": 0.95}
"""Discounts and decays; all below 1, so that a term left out would show."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Arguments of `bilevel_gae`."""

    turn_rewards_BK: Tensor
    token_rewards_BT: Tensor
    values_BT: Tensor
    turn_end_values_BK: Tensor
    turn_index_BT: Tensor


def make_inputs(num_observed_per_turn: int) -> Inputs:
    """Returns a batch whose turns each begin with that many observed tokens."""
    generator = torch.Generator().manual_seed(0)
    position_T = torch.arange(NUM_TOKENS)
    turn_length = NUM_TOKENS // NUM_TURNS
    is_observed_T = position_T % turn_length < num_observed_per_turn
    turn_index_T = (position_T // turn_length).masked_fill(is_observed_T, -1)
    return Inputs(
        turn_rewards_BK=torch.randn(NUM_ROWS, NUM_TURNS, generator=generator),
        token_rewards_BT=0.01 * torch.randn(NUM_ROWS, NUM_TOKENS, generator=generator),
        values_BT=torch.randn(NUM_ROWS, NUM_TOKENS, generator=generator),
        turn_end_values_BK=torch.randn(NUM_ROWS, NUM_TURNS, generator=generator),
        turn_index_BT=turn_index_T.expand(NUM_ROWS, NUM_TOKENS).contiguous(),
    )


@torch.no_grad()
def loop_bilevel_gae(
    inputs: Inputs,
    *,
    gamma_turn: float,
    lambda_turn: float,
    gamma_token: float,
    lambda_token: float,
    variant: BilevelVariant,
) -> tuple[Tensor, Tensor]:
    """Does what `bilevel_gae` does for rows with the same layout, in one Python step per position."""
    turn_index_T = inputs.turn_index_BT[0].tolist()
    values_TB, rewards_TB = inputs.values_BT.T.contiguous(), inputs.token_rewards_BT.T.contiguous()
    advantages_TB = torch.zeros_like(values_TB)
    turn_advantage_B = next_turn_value_B = torch.zeros(NUM_ROWS)
    advantage_B = next_value_B = torch.zeros(NUM_ROWS)
    turn = NUM_TURNS
    for t in range(NUM_TOKENS - 1, -1, -1):
        if turn_index_T[t] < 0:
            continue
        if turn_index_T[t] != turn:
            turn = turn_index_T[t]
            is_paper = variant == "paper"
            turn_value_B = inputs.turn_end_values_BK[:, turn] if is_paper else values_TB[t]
            reward_B = inputs.turn_rewards_BK[:, turn] + (0.0 if is_paper else rewards_TB[t])
            turn_delta_B = reward_B + gamma_turn * next_turn_value_B - turn_value_B
            turn_advantage_B = turn_delta_B + gamma_turn * lambda_turn * turn_advantage_B
            next_turn_value_B = turn_value_B
            end_delta_B = rewards_TB[t] + gamma_token * turn_value_B - values_TB[t]
            advantage_B = turn_advantage_B + end_delta_B if is_paper else turn_advantage_B
        else:
            delta_B = rewards_TB[t] + gamma_token * next_value_B - values_TB[t]
            advantage_B = delta_B + gamma_token * lambda_token * advantage_B
        advantages_TB[t] = advantage_B
        next_value_B = values_TB[t]
    advantages_BT = advantages_TB.T.contiguous()
    returns_BT = torch.where(inputs.turn_index_BT >= 0, advantages_BT + inputs.values_BT, 0.0)
    return advantages_BT, returns_BT


@contextmanager
def _one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def gae_ms(*, quick: bool) -> list[Row]:
    """Measures both variants of bi-level GAE in both layouts, against a limit and against the loop.

    Raises:
        AssertionError: If the estimator and the loop disagree.
    """
    with _one_thread():
        return [
            row
            for layout, num_observed in (("dialogue", 200), ("dense", 0))
            for variant in get_args(BilevelVariant)
            for row in _rows(f"{variant}/{layout}", make_inputs(num_observed), variant, 1 if quick else 15)
        ]


def _rows(name: str, inputs: Inputs, variant: BilevelVariant, num_repeats: int) -> list[Row]:
    def fast() -> tuple[Tensor, Tensor]:
        return bilevel_gae(**vars(inputs), **COEFFICIENTS, variant=variant)

    def loop() -> tuple[Tensor, Tensor]:
        return loop_bilevel_gae(inputs, **COEFFICIENTS, variant=variant)

    for ours_BT, theirs_BT in zip(fast(), loop(), strict=True):
        torch.testing.assert_close(ours_BT, theirs_BT, atol=1e-4, rtol=1e-4)
    median_ms, loop_ms = (1000.0 * time_s for time_s in median_times_s([fast, loop], num_repeats))
    return [Row.limited(name, median_ms, "ms", LIMIT_MS), Row(name, median_ms, "ms", "loop over positions", loop_ms)]
