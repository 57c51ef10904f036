"""How the tensors of a learner's state are shared out over processes."""

from __future__ import annotations

from collections.abc import Callable
from typing import cast

from torch import Tensor

from training.loop.update.learner import Learner


def weights_like(learner: Learner) -> Callable[[str], Tensor | None]:
    """Returns what gives, for a tensor of a learner's `state_dict` by its place there, a weight that is shared alike.

    The weight has the tensor's shape: `policy_optimizer/adamw/state/3/exp_avg` is shared as the fourth weight that is
    trained. None for a tensor that every process has whole.
    """
    models = {"policy": learner.policy, "critic": learner.critic, "reference": learner.reference}
    states = {name: model.state_dict() for name, model in models.items() if model is not None}
    optimizers = {"policy_optimizer": learner.policy_optimizer, "critic_optimizer": learner.critic_optimizer}

    def like(name: str) -> Tensor | None:
        part, _, rest = name.partition("/")
        if part in states:
            return cast("Tensor | None", states[part].get(rest))
        optimizer = optimizers.get(part)
        return optimizer.like(rest) if optimizer is not None else None

    return like
