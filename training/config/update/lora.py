"""LoRA: small trained matrices beside frozen weights."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.validation import require, require_above, require_at_least


@dataclass(frozen=True, kw_only=True)
class LoRAConfig:
    """LoRA adapters (peft) in the language model of policy and critic; all other weights are frozen, and held once.

    The reference is the policy with its adapters off. `latest/model` has them merged into its weights.

    Source: Hu et al., "LoRA: Low-Rank Adaptation of Large Language Models" (2021), section 4.1.

    Attributes:
        rank: Of each weight's change; None trains the weights themselves. A learning rate about ten times as high as
            without is usual.
        alpha: The change is scaled by `alpha / rank`.
        target_modules: Linear layers that get adapters, by the last part of their names (`q_proj v_proj`); empty for
            all of the language model.
    """

    rank: int | None = None
    alpha: float = 32.0
    target_modules: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        require_at_least(self, 1, "rank")
        require_above(self, 0, "alpha")
        given = [f"--lora.alpha {self.alpha:g}"] if self.alpha != LoRAConfig.alpha else []
        given += [f"--lora.target-modules {' '.join(self.target_modules)}"] if self.target_modules else []
        require(
            self.rank is not None or not given,
            f"{' and '.join(given)} would do nothing: without --lora.rank there are no adapters. Give a rank, such as "
            "--lora.rank 32, or leave this out.",
        )
