"""What an algorithm assigns, checked before anything reads it: a user's own may return what does not fit."""

from __future__ import annotations

from torch import Tensor

from training.algorithms.algorithm import Algorithm, Credit, ModelOutputs
from training.algorithms.functional.checks import check_shape
from training.algorithms.shipped import name_of
from training.batch import Batch
from vlm_envs.errors import ConfigError


def assigned_credit(algorithm: Algorithm, batch: Batch, outputs: ModelOutputs) -> Credit:
    """Returns the credit of a batch.

    Raises:
        ConfigError: If it is no `Credit`, its tensors do not have the batch's shapes, or a critic's targets are given
            without a critic or lack with one.
    """
    credit, name = algorithm.credit(batch, outputs), f"--algorithm {name_of(algorithm)}: credit"
    if not isinstance(credit, Credit):
        raise ConfigError(f"{name} must return a Credit; got {type(credit).__name__}. Use Credit(advantages_BT=...).")
    if (credit.returns_BT is None) != (algorithm.critic_config is None):
        has, given = ("no", "some") if algorithm.critic_config is None else ("a", "None")
        raise ConfigError(
            f"{name} must return returns_BT where there is a critic, and None where there is none; the algorithm has "
            f"{has} critic, and returns_BT is {given}. A critic is its field `critic: CriticConfig`."
        )
    per_token, per_turn = batch.response_mask_BT.shape, batch.turn_rewards_BK.shape
    for what, tensor, shape in (
        ("advantages_BT", credit.advantages_BT, per_token),
        ("returns_BT", credit.returns_BT, per_token),
        ("turn_end_returns_BK", credit.turn_end_returns_BK, per_turn),
    ):
        if tensor is None and what != "advantages_BT":
            continue
        if not isinstance(tensor, Tensor):
            raise ConfigError(f"{name}: {what} must be a tensor of shape {tuple(shape)}; got {type(tensor).__name__}.")
        try:
            check_shape(what, tensor, shape)
        except ValueError as error:
            raise ConfigError(f"{name}: {error}") from error
    return credit
