"""Duration of advantage estimation, against a time limit.

Run with `python -m benchmarks speed --only gae`. Uses one core and 128 rows of 2,400 tokens in two layouts: `dialogue`
has 4 turns of 200 observed and 400 generated tokens, and `dense`, the worst case, consists of generated tokens in
4 turns.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
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
"""Discounts and decays; all below 1, so that an omitted term would be noticed."""


@dataclass(frozen=True, kw_only=True)
class Inputs:
    """Arguments of `bilevel_gae`."""

    turn_rewards_BK: Tensor
    token_rewards_BT: Tensor
    values_BT: Tensor
    turn_end_values_BK: Tensor
    turn_index_BT: Tensor


def make_inputs(num_observed_per_turn: int) -> Inputs:
    """Returns a batch whose turns each begin with `num_observed_per_turn` observed tokens."""
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


@contextmanager
def _one_thread() -> Iterator[None]:
    num_threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(num_threads)


def gae_ms(*, quick: bool) -> list[Row]:
    """Measures both variants of bi-level GAE in both layouts, against a limit."""
    rows = []
    with _one_thread():
        for layout, num_observed in (("dialogue", 200), ("dense", 0)):
            inputs = vars(make_inputs(num_observed))
            for variant in get_args(BilevelVariant):
                call = partial(bilevel_gae, **inputs, **COEFFICIENTS, variant=variant)
                (time_s,) = median_times_s([call], 1 if quick else 15)
                rows.append(Row.limited(f"{variant}/{layout}", 1000.0 * time_s, "ms", LIMIT_MS))
    return rows
