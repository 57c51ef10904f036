"""Generated tokens as one flat list cut into runs, and the one recurrence that advantage estimators share."""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor

from training.algorithms.functional.checks import check_shape


@dataclass(frozen=True, kw_only=True)
class Generated:
    """The generated tokens of a batch, laid end to end in row-major order."""

    grid: torch.Size
    """`(B, T)` of the padded grid."""
    cell_N: Tensor
    """Position of each token in the flattened grid."""
    last_token_M: Tensor
    """Position in the flat list of the last token of each turn."""
    row_M: Tensor
    """Row of each turn."""
    column_M: Tensor
    """Column of each turn in the `(B, K)` tensors."""
    last_turn_R: Tensor
    """Position in the list of turns of the last turn of each row that has one."""

    @classmethod
    def from_turn_index(cls, turn_index_BT: Tensor) -> Generated:
        """Returns the generated tokens and their turns; raises `ValueError` if turns fall along a row."""
        is_generated_BT = turn_index_BT >= 0
        cell_N = is_generated_BT.flatten().nonzero().squeeze(-1)
        turn_N = turn_index_BT.flatten().index_select(0, cell_N).int()
        num_tokens_B = is_generated_BT.count_nonzero(dim=1)
        last_of_row_R = (num_tokens_B.cumsum(0) - 1)[num_tokens_B > 0]

        steps_N = turn_N.diff(append=turn_N[-1:])
        steps_N[last_of_row_R] = 1  # whatever the next row starts with, the turn ends here
        if bool((steps_N < 0).any()):
            raise ValueError(
                "turn_index_BT: expected turn numbers that never fall along a row, got a row where a later "
                "token has an earlier turn. Number the turns in the order of their tokens."
            )
        last_token_M = steps_N.nonzero().squeeze(-1)
        row_M = cell_N[last_token_M] // max(turn_index_BT.shape[1], 1)
        return cls(
            grid=turn_index_BT.shape,
            cell_N=cell_N,
            last_token_M=last_token_M,
            row_M=row_M,
            column_M=turn_N[last_token_M].long(),
            last_turn_R=torch.searchsorted(last_token_M, last_of_row_R),
        )

    def pick_tokens(self, x_BT: Tensor) -> Tensor:
        """Returns the grid's values at generated tokens, float32[N]."""
        return x_BT.flatten().index_select(0, self.cell_N).float()

    def pick_turns(self, x_BK: Tensor) -> Tensor:
        """Returns the values of turns that hold a generated token, float32[M]."""
        return x_BK[self.row_M, self.column_M].float()

    def place_turns(self, x_M: Tensor, num_turns: int) -> Tensor:
        """Returns a `(B, K)` grid with these values at turns that hold a generated token and 0 elsewhere."""
        cell_M = self.row_M * num_turns + self.column_M
        return x_M.new_zeros(self.grid[0] * num_turns).index_copy(0, cell_M, x_M).view(self.grid[0], num_turns)

    def pick_bootstrap_values(self, bootstrap_values_B: Tensor | None) -> Tensor:
        """Returns what follows each row that holds a generated token, float32[R]; 0 when absent."""
        if bootstrap_values_B is None:
            return torch.zeros(len(self.last_turn_R), device=self.cell_N.device)
        check_shape("bootstrap_values_B", bootstrap_values_B, self.grid[:1])
        return bootstrap_values_B[self.row_M[self.last_turn_R]].float()

    def place_tokens(self, x_N: Tensor) -> Tensor:
        """Returns a grid with these values at generated tokens and 0 elsewhere."""
        return x_N.new_zeros(self.grid.numel()).index_copy(0, self.cell_N, x_N).view(self.grid)

    def turn_gae(
        self, rewards_M: Tensor, values_M: Tensor, bootstrap_values_B: Tensor | None, *, gamma: float, gae_lambda: float
    ) -> Tensor:
        """Returns GAE over the turns of each row, float32[M].

        Args:
            rewards_M: Reward of each turn that has a generated token, row by row.
            values_M: V of each such turn, wherever the algorithm reads it.
            bootstrap_values_B: V of what follows each row's last turn; None where nothing does.
            gamma: Discount per turn.
            gae_lambda: Decay of the deltas per turn, beside `gamma`.
        """
        after_R = self.pick_bootstrap_values(bootstrap_values_B)
        return run_gae(rewards_M, values_M, self.last_turn_R, after_R, gamma=gamma, gae_lambda=gae_lambda)


def run_gae(
    rewards_N: Tensor,
    values_N: Tensor,
    last_of_run: Tensor,
    values_after_run: Tensor,
    *,
    gamma: float,
    gae_lambda: float,
) -> Tensor:
    """Returns GAE inside every run of consecutive elements, float32[N].

    Args:
        rewards_N: Reward of each element, the runs one after another.
        values_N: V of each element.
        last_of_run: Index in N of each run's last element, int64, ascending.
        values_after_run: V after each run's last element, in the same order; 0 where nothing follows.
        gamma: Discount per element.
        gae_lambda: Decay of the deltas per element, beside `gamma`.
    """
    next_values_N = values_N.roll(-1)
    next_values_N[last_of_run] = values_after_run
    deltas_N = rewards_N + gamma * next_values_N - values_N
    return _decayed_sums_to_run_end(deltas_N, last_of_run, decay=gamma * gae_lambda)


def _decayed_sums_to_run_end(x_N: Tensor, last_of_run: Tensor, *, decay: float) -> Tensor:
    """Returns the solution of `y_i = x_i + decay * y_{i+1}` inside every run.

    The reach of each partial sum doubles per pass (Hillis and Steele, 1986): log2(longest run) passes of
    vector code instead of one Python step per token, without the divisions by `decay**i` that make
    cumulative-product forms overflow.
    """
    if x_N.numel() == 0:
        return x_N
    lengths = run_lengths(last_of_run)
    position_N = torch.arange(len(x_N), dtype=torch.int32, device=x_N.device)
    num_followers_N = last_of_run.int().repeat_interleave(lengths) - position_N
    longest = int(lengths.max())
    y_N, reach = x_N.clone(), 1
    while reach < longest:
        # `where`, not a product with 0, so that a NaN stays inside its own run.
        followers_N = torch.where(num_followers_N[:-reach] >= reach, y_N[reach:], 0.0)
        y_N[:-reach].add_(followers_N, alpha=decay**reach)
        reach *= 2
    return y_N


def run_lengths(last_of_run: Tensor) -> Tensor:
    """Returns the number of tokens of each run, from the positions of their last tokens."""
    return last_of_run.diff(prepend=last_of_run.new_full((1,), -1))
