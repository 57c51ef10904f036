"""Rows of two groups, and model outputs for them, for group-relative algorithms."""

from __future__ import annotations

import torch

from tests.unit.training.batches import text_batch
from training.algorithms.algorithm import ModelOutputs
from training.batch import Batch

TURNS = [[-1, 0, 0, -1, 1], [-1, 0, -1, 1, 1], [-1, 0, -1, -1, -1], [-1, 0, 0, 0, -1], [-1, 0, -1, 1, -1]]
"""Five rows of one or two turns."""
GENERATED = torch.tensor(TURNS) >= 0


def rows(turn_rewards: list[list[float]], groups: list[int], **changes: torch.Tensor) -> Batch:
    """Returns the rows, with what each turn earned and the group of each row."""
    return text_batch(TURNS[: len(groups)], turn_rewards, group_index_B=torch.tensor(groups), **changes)


def outputs(batch: Batch, penalties_BT: torch.Tensor | None = None) -> ModelOutputs:
    """Returns what is said of a batch without a critic; no KL penalty by default."""
    nothing_BT = torch.zeros(batch.turn_index_BT.shape)
    return ModelOutputs(
        old_logprobs_BT=nothing_BT,
        values_BT=None,
        turn_end_values_BK=None,
        final_values_B=None,
        token_rewards_BT=nothing_BT if penalties_BT is None else penalties_BT,
        ref_kl=None,
    )
