"""A linear probe: ridge regression from features to facts, its penalty chosen on levels of its own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import torch
from torch import Tensor

from benchmarks.probe.facts import Fact, is_number

PENALTIES = tuple(10.0**power for power in range(-4, 5))
"""Of weights, in units of the mean square of a level's features."""


@dataclass(frozen=True, kw_only=True)
class Levels:
    """Where levels are: the first learn, the next choose the penalty, the last are measured.

    Attributes:
        num_learnt: Levels that the weights are fitted to.
        num_chosen: Levels that the penalty is chosen on.
    """

    num_learnt: int
    num_chosen: int

    @property
    def learnt(self) -> slice:
        """Those the weights are fitted to."""
        return slice(self.num_learnt)

    @property
    def chosen(self) -> slice:
        """Those the penalty is chosen on."""
        return slice(self.num_learnt, self.num_learnt + self.num_chosen)

    @property
    def measured(self) -> slice:
        """Those that are measured."""
        return slice(self.num_learnt + self.num_chosen, None)


class LinearProbe:
    """Reads facts off features, each by weights of its own; nothing is drawn, so it always finds the same.

    Args:
        features_ND: Of all levels, in the order of `levels`.
        levels: Which of them are what for.
    """

    def __init__(self, features_ND: Tensor, levels: Levels) -> None:
        features_ND = features_ND.double()
        learnt = features_ND[levels.learnt]
        scale = learnt.std(0).clamp(min=1e-6)
        shown_ND = (features_ND - learnt.mean(0)) / scale
        kernel_NL = shown_ND @ shown_ND[levels.learnt].T
        self._values_L, self._vectors_LL = torch.linalg.eigh(kernel_NL[levels.learnt])
        self._seen_NL = kernel_NL @ self._vectors_LL
        self._unit = float(kernel_NL[levels.learnt].diagonal().mean())
        self._levels = levels

    def skill(self, values: Sequence[Fact]) -> float:
        """Returns how much of a fact is read off the features of the measured levels, beyond what one knows unseen.

        Args:
            values: Of all levels.

        Returns:
            1 if it is always read right and 0 if no better than unseen, or below. Of numbers that is the share of the
            variance that is explained, of classes the share that is read right of those that the most frequent class
            of the learnt levels misses.
        """
        targets_NC = _targets(values)
        mean_C = targets_NC[self._levels.learnt].mean(0)
        projected_LC = self._vectors_LL.T @ (targets_NC[self._levels.learnt] - mean_C)
        read = [
            mean_C + self._seen_NL @ (projected_LC / (self._values_L.clamp(min=0) + penalty * self._unit)[:, None])
            for penalty in PENALTIES
        ]
        best = max(read, key=lambda read_NC: _skill(read_NC, targets_NC, mean_C, self._levels.chosen))
        return _skill(best, targets_NC, mean_C, self._levels.measured)


def _targets(values: Sequence[Fact]) -> Tensor:
    if is_number(values):
        return torch.tensor([[float(value or 0)] for value in values], dtype=torch.double)
    classes = {value: index for index, value in enumerate(sorted(set(values), key=repr))}
    indices = torch.tensor([classes[value] for value in values])
    return torch.nn.functional.one_hot(indices, len(classes)).double()


def _skill(read_NC: Tensor, targets_NC: Tensor, mean_C: Tensor, of: slice) -> float:
    read_NC, targets_NC = read_NC[of], targets_NC[of]
    if targets_NC.shape[1] == 1:
        missed, unseen = ((targets_NC - each).square().sum() for each in (read_NC, mean_C))
    else:
        right = targets_NC.argmax(1)
        missed, unseen = ((each != right).sum() for each in (read_NC.argmax(1), mean_C.argmax()))
    return 1.0 - float(missed / unseen) if unseen else float(not missed)
