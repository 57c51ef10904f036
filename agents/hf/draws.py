"""Which token is taken of those that could be."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor


def places_of(sizes: Sequence[int]) -> list[tuple[int, int]]:
    """Returns, of rows numbered through parts of these sizes, each one's part and its own number there."""
    return [(part, place) for part, size in enumerate(sizes) for place in range(size)]


class EpisodeDraws:
    """Draws each response from a generator of its own, so that no row's depends on who else is asked, or when.

    One number is drawn for each token, on the CPU, and turned into a token by the inverse of the distribution function:
    a tenth of the cost of `torch.multinomial`, which makes noise for every token that could be.

    Args:
        seed: The same seed, rollout, row and turn draw the same numbers, on any device.
        rollout: Number of the rollout.
        sizes: Rows of each of several rollouts that are played together, from that number on; None for a single one.
    """

    def __init__(self, seed: int, rollout: int = 0, sizes: Sequence[int] | None = None) -> None:
        self._seed, self._rollout = seed, rollout
        self._places = None if sizes is None else places_of(sizes)
        self._num_begun: Counter[int] = Counter()
        self._generators: dict[int, np.random.Generator] = {}

    def begin(self, rows: Sequence[int]) -> None:
        """Begins a response of each of these rows."""
        for row in rows:
            part, place = (0, row) if self._places is None else self._places[row]
            self._generators[row] = np.random.default_rng(
                [self._seed, self._rollout + part, place, self._num_begun[row]]
            )
            self._num_begun[row] += 1

    def __call__(self, logprobs_NV: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns a token for each row, int64[N].

        Args:
            logprobs_NV: float, log-probabilities.
            rows: N numbers of the episodes.
        """
        drawn = torch.tensor([self._generators[row].random() for row in rows], dtype=torch.float64)
        cumulated_NV = logprobs_NV.double().exp().cumsum(-1)
        drawn_N1 = drawn.to(logprobs_NV.device)[:, None] * cumulated_NV[:, -1:]
        return torch.searchsorted(cumulated_NV, drawn_N1, right=True)[:, 0].clamp(max=logprobs_NV.shape[-1] - 1)
