"""Which token is taken of those that could be: one source of randomness for a batch, or one for each episode."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Protocol

import numpy as np
import torch
from torch import Tensor


class Draws(Protocol):
    """Draws one token for each row of a batch."""

    def begin(self, rows: Sequence[int]) -> None:
        """Begins a response of each of these rows."""

    def __call__(self, logprobs_NV: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns a token for each row, int64[N].

        Args:
            logprobs_NV: float, log-probabilities.
            rows: N numbers of the episodes.
        """


class BatchDraws:
    """Draws for all rows from one generator: what an episode is given depends on which others go on with it.

    Args:
        generator: On the model's device.
    """

    def __init__(self, generator: torch.Generator) -> None:
        self.generator = generator

    def begin(self, rows: Sequence[int]) -> None:
        """Changes nothing: there is one generator for all."""

    def __call__(self, logprobs_NV: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns a token for each row."""
        drawn_N = torch.rand(len(logprobs_NV), generator=self.generator, device=logprobs_NV.device, dtype=torch.float64)
        return _tokens_at(drawn_N, logprobs_NV)


class EpisodeDraws:
    """Draws each response from a generator of its own, so that no row's depends on who else is asked, or when.

    Numbers are drawn on the CPU.

    Args:
        seed: The same seed, rollout, row and turn draw the same numbers, on any device.
        rollout: Number of the rollout.
    """

    def __init__(self, seed: int, rollout: int = 0) -> None:
        self._key = (seed, rollout)
        self._num_begun: Counter[int] = Counter()
        self._generators: dict[int, np.random.Generator] = {}

    def begin(self, rows: Sequence[int]) -> None:
        """Begins a response of each of these rows."""
        for row in rows:
            self._generators[row] = np.random.default_rng([*self._key, row, self._num_begun[row]])
            self._num_begun[row] += 1

    def __call__(self, logprobs_NV: Tensor, rows: Sequence[int]) -> Tensor:
        """Returns a token for each row."""
        drawn_N = torch.tensor([self._generators[row].random() for row in rows], dtype=torch.float64)
        return _tokens_at(drawn_N.to(logprobs_NV.device), logprobs_NV)


def _tokens_at(drawn_N: Tensor, logprobs_NV: Tensor) -> Tensor:
    """Returns where the distribution functions pass numbers in [0, 1): a token for each row, int64[N].

    One number a row costs a tenth of the noise for each token that `torch.multinomial` makes.
    """
    cumulated_NV = logprobs_NV.double().exp().cumsum(-1)
    return torch.searchsorted(cumulated_NV, drawn_N[:, None] * cumulated_NV[:, -1:], right=True)[:, 0].clamp(
        max=logprobs_NV.shape[-1] - 1
    )
