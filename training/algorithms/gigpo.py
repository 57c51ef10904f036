"""GiGPO: GRPO plus a turn advantage relative to turns that began in the same state (Feng et al. 2025)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from training.algorithms.algorithm import Credit, ModelOutputs, without_gradient
from training.algorithms.grpo import GRPO
from vlm_envs.validation import require_above, require_between

if TYPE_CHECKING:
    from torch import Tensor

    from training.algorithms.estimators import GroupScale
    from training.batch import Batch


@dataclass(frozen=True, kw_only=True)
class GiGPO(GRPO):
    """GiGPO: GRPO plus a turn advantage relative to turns that began in the same state (Feng et al. 2025).

    Turns within a group are compared if their worlds were in equal states according to the world's own state hash,
    regardless of the previous responses and the number of turns left.

    Attributes:
        gamma: Discount between turns in a turn's return.
        omega: Weight of the turn advantage, added to the episode advantage.
    """

    title: ClassVar[str] = "GiGPO"

    gamma: float = 0.95
    omega: float = 1.0

    def __post_init__(self) -> None:
        super().__post_init__()
        require_between(self, 0, 1, "gamma")
        require_above(self, 0, "omega")

    def useful_rows(self, batch: Batch) -> Tensor:
        """Returns the rows of groups in which episode returns or turn returns differ."""
        import torch

        nothing_BT = torch.zeros(batch.turn_index_BT.shape)
        of_episodes_BT, of_both_BT = (self._advantages(batch, nothing_BT, omega) for omega in (0.0, self.omega))
        differs_B = (of_episodes_BT != 0).any(-1) | (of_both_BT != 0).any(-1)
        group_B = torch.unique(batch.comparable_group_index_B, return_inverse=True)[1]
        return torch.isin(group_B, group_B[differs_B])

    def credit(self, batch: Batch, outputs: ModelOutputs) -> Credit:
        """Returns advantages, the same for all tokens of a turn."""
        return Credit(advantages_BT=self._advantages(batch, outputs.token_rewards_BT, self.omega))

    def _advantages(self, batch: Batch, token_rewards_BT: Tensor, omega: float) -> Tensor:

        advantages_BT = gigpo(
            batch.turn_rewards_BK,
            token_rewards_BT,
            batch.state_index_BK,
            batch.comparable_group_index_B,
            batch.usable_turn_index_BT,
            gamma=self.gamma,
            omega=omega,
            scale=self.scale,
        )
        # A row that is not fully judged is its own group, but may visit one state twice
        return advantages_BT * (batch.response_mask_BT & batch.comparable_B[:, None])


@without_gradient
def gigpo(
    turn_rewards_BK: Tensor,
    token_rewards_BT: Tensor,
    state_index_BK: Tensor,
    group_index_B: Tensor,
    turn_index_BT: Tensor,
    *,
    gamma: float,
    omega: float,
    scale: GroupScale = "std",
    eps: float = 1e-6,
) -> Tensor:
    """Returns the episode advantage plus `omega` times the turn advantage, at every generated token of the turn.

        A = (R - mean) / norm over the siblings  +  omega * (R_t - mean) / norm over the turns that began alike
        R_t = sum over k >= t of gamma^(k - t) * r_k

    Args:
        turn_rewards_BK: float `(B, K)`, reward of each turn without the token rewards.
        token_rewards_BT: float `(B, T)`, reward of each generated token (a KL penalty), added to its turn's reward.
        state_index_BK: integer `(B, K)`, state in which each turn began; -1 if unknown or if there is no turn.
        group_index_B: integer `(B,)`, group of each row; rows of a group share their start state.
        turn_index_BT: integer `(B, T)`, as in `bilevel_gae`. A turn without a token is skipped with its reward.
        gamma: Discount between turns, in `[0, 1]`.
        omega: Weight of the turn advantages.
        scale: The norm at both levels: the sample standard deviation (n - 1) plus `eps`, or 1 (`none`).
        eps: Added to standard deviations, positive.

    Returns:
        Advantages, float32 `(B, T)`. Each part is exactly 0 where all compared returns are equal; so the second part
        is 0 for a turn that is alone in its state. If no state occurs twice, this is GRPO.

    Raises:
        ValueError: On a wrong shape or dtype, `gamma` outside `[0, 1]`, an unknown scale, or a turn index out of range
            or out of order.

    Source: Feng et al. 2025, "Group-in-Group Policy Optimization for LLM Agent Training" (arXiv 2505.10978v3),
    equations 3 (episodes), 5 and 7 (turns of an anchor state) and 8 (their sum). A state counts as the same at any
    turn, also twice within an episode. The paper puts the KL into the loss, so that rewards come from the world only.
    By default verl-agent averages episode returns over turns, so that long episodes weigh more, and it can group
    similar states. Here, as in the paper, each episode counts once, and grouped states are equal.
    """
    import torch

    from training.algorithms.estimators import (
        Generated,
        check_integer,
        check_shape,
        check_turn_index,
        check_turns,
        check_unit_interval,
        relative_to_group,
        run_lengths,
    )

    check_unit_interval(gamma=gamma)
    check_turn_index(turn_index_BT, token_rewards_BT=token_rewards_BT)
    check_turns(turn_index_BT, turn_rewards_BK=turn_rewards_BK, state_index_BK=state_index_BK)
    check_integer("state_index_BK", state_index_BK)
    check_shape("group_index_B", group_index_B, (len(turn_index_BT),))
    generated = Generated.from_turn_index(turn_index_BT)
    turn_of_token_N = torch.repeat_interleave(run_lengths(generated.last_token_M))
    rewards_M = generated.pick_turns(turn_rewards_BK).index_add(
        0, turn_of_token_N, generated.pick_tokens(token_rewards_BT)
    )
    nothing_B, rewards_M2 = rewards_M.new_zeros(len(group_index_B), 2), torch.stack([rewards_M, rewards_M.abs()], -1)
    returns_B, magnitudes_B = nothing_B.double().index_add(0, generated.row_M, rewards_M2.double()).float().unbind(-1)
    episodes_B = relative_to_group(returns_B, group_index_B, scale=scale, eps=eps, magnitudes_N=magnitudes_B)

    to_go_M, to_go_magnitudes_M = (
        generated.turn_gae(earned_M, torch.zeros_like(earned_M), None, gamma=gamma, gae_lambda=1.0)
        for earned_M in rewards_M2.unbind(-1)
    )
    state_M = state_index_BK[generated.row_M, generated.column_M].long()
    unknown_M = -1 - torch.arange(len(state_M), device=state_M.device)  # each a state of its own
    anchor_M2 = torch.stack([group_index_B[generated.row_M], torch.where(state_M < 0, unknown_M, state_M)], dim=-1)
    anchor_M = torch.unique(anchor_M2, dim=0, return_inverse=True)[1]
    turns_M = relative_to_group(to_go_M, anchor_M, scale=scale, eps=eps, magnitudes_N=to_go_magnitudes_M)
    return generated.place_tokens((episodes_B[generated.row_M] + omega * turns_M)[turn_of_token_N])
