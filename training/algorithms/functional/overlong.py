"""DAPO's soft punishment of responses that come near their limit."""

from __future__ import annotations

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_turn_index


@torch.no_grad()
def overlong_penalties(
    turn_index_BT: Tensor, *, num_turns: int, max_tokens: int, cache_tokens: float, penalty: float = 1.0
) -> Tensor:
    """Returns what each turn loses by the length of its response.

        0                                             where |y| <= L_max - L_cache
        penalty * ((L_max - L_cache) - |y|) / L_cache    up to L_max
        -penalty                                      beyond

    Args:
        turn_index_BT: integer `(B, T)`, turn of each generated token and -1 elsewhere.
        num_turns: K, columns of what is returned.
        max_tokens: L_max, in tokens: the length at which the whole penalty is due; at least 1.
        cache_tokens: L_cache, in tokens: how long before that it begins; above 0 and at most `max_tokens`.
        penalty: The whole penalty, at least 0.

    Returns:
        float32 `(B, K)`, from `-penalty` to 0; 0 for turns that a row does not have.

    Raises:
        ValueError: On a wrong shape or dtype, or lengths out of range.

    Source: DAPO (arXiv 2503.14476), section 3.4, equation 13, whose penalty is 1; a factor on it is verl's. There an
    episode is one response; here each turn's is measured by itself.
    """
    check_turn_index(turn_index_BT)
    if not 0.0 < cache_tokens <= max_tokens:
        raise ValueError(f"cache_tokens: expected a number above 0 and at most {max_tokens}, got {cache_tokens}.")
    if penalty < 0.0:
        raise ValueError(f"penalty: expected a number of at least 0, got {penalty}.")
    num_tokens_BK = turn_index_BT.new_zeros(len(turn_index_BT), num_turns + 1, dtype=torch.float32)
    num_tokens_BK.scatter_add_(1, turn_index_BT.long() + 1, torch.ones(turn_index_BT.shape))
    excess_BK = num_tokens_BK[:, 1:] - (max_tokens - cache_tokens)
    return -penalty * (excess_BK / cache_tokens).clamp(0.0, 1.0)
