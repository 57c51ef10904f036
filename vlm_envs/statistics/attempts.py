"""Whether one of several attempts succeeds, or all of them."""

from __future__ import annotations

import math


def pass_at_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns the probability that at least one of k trials of a level succeeds, estimated without bias.

    Args:
        num_trials: Trials that were made of the level, at least k.
        num_successes: Of these, how many succeeded.
        k: Trials that are drawn of them without replacement.

    Raises:
        ValueError: If a number is out of range.

    Source: Chen et al., Evaluating Large Language Models Trained on Code (2021), equation 1.
    """
    _require_trials(num_trials, num_successes, k)
    return 1.0 - math.comb(num_trials - num_successes, k) / math.comb(num_trials, k)


def pass_hat_k(num_trials: int, num_successes: int, k: int) -> float:
    """Returns the probability that all of k trials of a level succeed (pass^k), estimated without bias.

    Args:
        num_trials: Trials that were made of the level, at least k.
        num_successes: Of these, how many succeeded.
        k: Trials that are drawn of them without replacement.

    Raises:
        ValueError: If a number is out of range.

    Source: Yao et al., tau-bench (2024), section 3.
    """
    _require_trials(num_trials, num_successes, k)
    return math.comb(num_successes, k) / math.comb(num_trials, k)


def _require_trials(num_trials: int, num_successes: int, k: int) -> None:
    if not (1 <= k <= num_trials and 0 <= num_successes <= num_trials):
        raise ValueError(
            f"Expected 1 <= k <= trials and 0 <= successes <= trials; got k={k}, {num_trials} trials and "
            f"{num_successes} successes."
        )
