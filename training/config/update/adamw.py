"""AdamW's settings, which every optimizer here takes: of policy and critic, cold starts, fine-tuning, and upscalers."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Literal, get_args

from vlm_envs.validation import field_name, require, require_above, require_at_least, require_choice

ExemptWeights = Literal["norms", "biases", "embeddings"]

PAPER_BETAS = (0.9, 0.999)
"""Betas of the presets with a paper's constants: the default of verl, Easy-R1, TRL, and transformers' `Trainer`."""


@dataclass(frozen=True, kw_only=True)
class AdamWConfig:
    """AdamW; a configuration of training inherits these fields.

    Source: Loshchilov and Hutter, "Decoupled Weight Decay Regularization" (2019), algorithm 2.

    Attributes:
        betas: Decay rates per step of AdamW's means of gradients and of their squares. The second averages over about
            `1 / (1 - beta)` steps: 20 by default, 1,000 at 0.999, the default of torch, verl, and TRL.
        eps: Added to the root of the mean square, which steps are divided by.
        weight_decay: AdamW's weight decay: a step shrinks weights by this times the learning rate.
        decay_exempt: Weights that do not decay: `norms` (layers whose class name contains "norm"), `biases`,
            `embeddings` (also of the output layer, where the two are tied). None by default, as in verl.
    """

    betas: tuple[float, float] = (0.9, 0.95)
    eps: float = 1e-8
    weight_decay: float = 0.0
    decay_exempt: tuple[ExemptWeights, ...] = ()

    def __post_init__(self) -> None:
        are_two = isinstance(self.betas, tuple) and len(self.betas) == 2
        require(
            are_two and all(0 <= beta < 1 for beta in self.betas),
            f"{field_name(self, 'betas')} must be two numbers from 0 to below 1, such as (0.9, 0.95); got "
            f"{self.betas}.",
        )
        require_above(self, 0, "eps")
        require_at_least(self, 0, "weight_decay")
        exempt = field_name(self, "decay_exempt")
        for kind in self.decay_exempt:
            require_choice(exempt, kind, get_args(ExemptWeights))
            require(self.decay_exempt.count(kind) == 1, f"{exempt} names {kind!r} twice. Name it once.")
        require(
            self.weight_decay > 0 or not self.decay_exempt,
            f"{exempt} {' '.join(self.decay_exempt)} would do nothing: {field_name(self, 'weight_decay')} is 0. Raise "
            "it, such as to 0.01, or leave this out.",
        )

    @property
    def adamw(self) -> AdamWConfig:
        """These fields alone."""
        return AdamWConfig(**{field.name: getattr(self, field.name) for field in fields(AdamWConfig)})
