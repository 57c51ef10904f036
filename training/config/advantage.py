"""How credit is assigned."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, fields
from typing import Literal

from vlm_envs.arguments.ranges import require_between
from vlm_envs.errors import require

Estimator = Literal["bilevel_gae", "token_gae", "turn_gae", "grpo"]
_WITH_CRITIC = ("bilevel_gae", "token_gae", "turn_gae")
_READ_BY: dict[str, tuple[str, ...]] = {
    "grpo_scale": ("grpo",),
    "variant": ("bilevel_gae",),
    "gamma_turn": ("bilevel_gae", "turn_gae"),
    "lambda_turn": ("bilevel_gae", "turn_gae"),
    "gamma_token": ("bilevel_gae", "token_gae"),
    "lambda_token": ("bilevel_gae", "token_gae"),
    "sibling_baseline": _WITH_CRITIC,
    "reward_placement": ("token_gae",),
    "mask": ("token_gae",),
}
"""Which estimators read a setting of `AdvantageConfig`; those that are not here are read by all."""


@dataclass(frozen=True, kw_only=True)
class AdvantageConfig:
    """How credit is assigned.

    Attributes:
        estimator: `"bilevel_gae"` (VAGEN Algorithm 2), `"token_gae"` (Algorithm 1), `"turn_gae"` or `"grpo"`.
        grpo_scale: Whether GRPO divides by the group's standard deviation (`"std"`) or not (`"none"`, Dr.GRPO).
        variant: `"paper"` (Algorithm 2) or `"released"` (the public code), of bi-level GAE.
        gamma_turn: Discount between turns.
        lambda_turn: GAE decay between turns.
        gamma_token: Discount between tokens.
        lambda_token: GAE decay between tokens.
        bootstrap_truncated: Whether truncated episodes are worth V of their last state, read behind their final
            observation. Right when the budget is an accident of sampling; wrong when it is part of the task and the
            agent is told how much is left (Pardo et al. 2018), as in worlds whose prompt counts the turns.
        sibling_baseline: Whether the mean advantage of a row's siblings is subtracted from its own, which takes out
            what a young critic has not learnt about the start state. GRPO compares siblings by itself.
        reward_placement: Where token GAE puts rewards: each turn's on its own last token (`"turn"`), or all of them on
            the last token of the row (`"trajectory"`: VAGEN-Base, Algorithm 1, line 16).
        mask: What token GAE learns from: the tokens that were `"generated"`, or `"all"`, observations included, as if
            the policy had said them ("vanilla PPO" of VAGEN, section 3, which the paper finds to fail). See
            `training.batch.with_observations_as_actions`.
        whiten: Whether advantages are whitened over the batch's generated tokens. None, the default, does so for the
            estimators with a critic; GRPO scales within groups and cannot.

    Raises:
        ConfigError: If the setting would make the chosen estimator inert.
    """

    estimator: Estimator = "bilevel_gae"
    grpo_scale: Literal["std", "none"] = "std"
    variant: Literal["paper", "released"] = "paper"
    gamma_turn: float = 0.95
    lambda_turn: float = 0.95
    gamma_token: float = 1.0
    lambda_token: float = 1.0
    bootstrap_truncated: bool = True
    sibling_baseline: bool = False
    reward_placement: Literal["turn", "trajectory"] = "turn"
    mask: Literal["generated", "all"] = "generated"
    whiten: bool | None = None

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "gamma_turn", "lambda_turn", "gamma_token", "lambda_token")
        coefficients = (self.gamma_turn, self.lambda_turn, self.gamma_token, self.lambda_token)
        inert = self.estimator == "bilevel_gae" and self.variant == "released" and set(coefficients) == {1.0}
        require(
            not inert,
            "With every gamma and lambda 1 bi-level GAE is token GAE. Lower --advantage.gamma-turn or "
            "--advantage.lambda-turn, or choose --advantage.estimator token_gae.",
        )

    @property
    def bootstraps(self) -> bool:
        """Whether V is read after the final observation of truncated episodes."""
        return self.bootstrap_truncated and self.estimator != "grpo"

    @property
    def reads_turn_ends(self) -> bool:
        """Whether V is read, and so has to be learnt, at the ends of turns."""
        return self.estimator == "bilevel_gae" and self.variant == "paper"

    @property
    def whitens(self) -> bool:
        """Whether advantages are whitened, with the default resolved."""
        return self.estimator != "grpo" if self.whiten is None else self.whiten


def unread_settings(config: AdvantageConfig) -> Iterator[str]:
    """Yields settings that were changed and that the estimator does not read."""
    for field in fields(config):
        readers, value = _READ_BY.get(field.name), getattr(config, field.name)
        if readers is not None and config.estimator not in readers and value != field.default:
            flag = field.name.replace("_", "-")
            remedy = f"--advantage.no-{flag}" if field.default is False else f"--advantage.{flag} {field.default}"
            yield (
                f"--advantage.estimator {config.estimator} does not read --advantage.{flag}, which is {value}; "
                f"{' and '.join(readers)} do. Leave it at its default ({remedy}) or choose another estimator."
            )
    if config.estimator == "grpo" and config.whiten is True:
        yield (
            "--advantage.estimator grpo scales advantages within each group and whitens nothing over the batch. Leave "
            "out --advantage.whiten True (None, the default, whitens for the estimators with a critic)."
        )
