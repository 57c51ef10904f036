"""Update: the policy, its critic and its reference, and one PPO step over an iteration's batch."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import torch
from torch import Tensor

from training.batch import Batch
from training.config import RunConfig
from training.estimate import Evaluations
from training.losses import (
    aggregate,
    explained_variance,
    kl_penalty,
    loss_normalizer,
    policy_loss,
    truncated_importance_weights,
    value_loss,
)
from training.policy import ValueModel, token_logprobs, token_values


class Learner:
    """Owns everything that learns.

    Args:
        policy: The model to train, in place.
        suppressed_ids: Tokens that are never sampled.
        config: The run.
    """

    def __init__(self, policy: Any, suppressed_ids: list[int], config: RunConfig) -> None:
        ppo = config.ppo
        self.config, self.suppressed_ids = config, suppressed_ids
        self.policy = policy
        self.reference = copy.deepcopy(policy).requires_grad_(False) if ppo.kl_coef > 0 else None
        self.critic = ValueModel(policy) if config.advantage.estimator != "grpo" else None
        self.policy_optimizer = _adamw(policy, ppo.learning_rate, ppo.weight_decay)
        self.critic_optimizer = _adamw(self.critic, ppo.critic_learning_rate, ppo.weight_decay) if self.critic else None
        self.num_updates = 0

    @torch.no_grad()
    def evaluate(self, batch: Batch) -> Evaluations:
        """Returns what the models say of a batch as it was collected.

        Args:
            batch: Rows of this iteration.
        """
        old_BT, ref_BT = batch.sampler_logprobs_BT.clone(), torch.zeros_like(batch.sampler_logprobs_BT)
        values_BT, ends_BK = torch.zeros_like(old_BT), torch.zeros_like(batch.turn_rewards_BK)
        recompute = self.config.ppo.old_logprobs == "trainer"
        if self.critic is not None:
            self.critic.calibrate(turn_returns(batch))
        for rows in self._micro_batches(batch, range(batch.num_rows)):
            part = batch.select(rows)
            width = part.input_ids_BT.shape[1]
            if recompute:
                old_BT[rows, :width] = self._logprobs(self.policy, part)[0].cpu()
            if self.reference is not None:
                ref_BT[rows, :width] = self._logprobs(self.reference, part)[0].cpu()
            if self.critic is not None:
                part_values_BT, part_ends_BK = token_values(self.critic, part)
                values_BT[rows, :width], ends_BK[rows] = part_values_BT.cpu(), part_ends_BK.cpu()
        mask_BT = batch.response_mask_BT
        penalty_BT = torch.zeros_like(old_BT)
        if self.reference is not None:
            penalty_BT = kl_penalty(old_BT, ref_BT, estimator="k1") * mask_BT
        return Evaluations(
            old_logprobs_BT=old_BT,
            values_BT=values_BT if self.critic is not None else None,
            turn_end_values_BK=ends_BK if self.critic is not None else None,
            token_rewards_BT=-self.config.ppo.kl_coef * penalty_BT,
            ref_kl=_masked_mean(penalty_BT, mask_BT) if self.reference is not None else None,
            sampler_gap=_masked_mean((old_BT - batch.sampler_logprobs_BT).abs(), mask_BT) if recompute else None,
        )

    def update(
        self,
        batch: Batch,
        evaluations: Evaluations,
        advantages_BT: Tensor,
        returns_BT: Tensor | None,
        *,
        iteration: int,
    ) -> dict[str, float]:
        """Takes the iteration's optimiser steps.

        Args:
            batch: The rows.
            evaluations: What the models said of them before.
            advantages_BT: Credit per generated token.
            returns_BT: Critic targets, or None without a critic.
            iteration: Number of the iteration; sets warm-up and the order of rows.

        Returns:
            Means of the update's metrics.
        """
        ppo = self.config.ppo
        self._set_learning_rates(iteration)
        trains_policy = iteration >= ppo.critic_warmup_iterations
        totals: defaultdict[str, list[float]] = defaultdict(list)
        for epoch in range(ppo.num_epochs):
            order = np.random.default_rng([self.config.seed, iteration, epoch]).permutation(batch.num_rows)
            for rows in np.array_split(order, ppo.num_minibatches):
                step = self._step(batch, evaluations, advantages_BT, returns_BT, rows.tolist(), trains_policy)
                for name, value in step.items():
                    totals[name].append(value)
        metrics = {name: float(np.mean(values)) for name, values in totals.items()}
        if returns_BT is not None and evaluations.values_BT is not None:
            metrics["explained_variance"] = float(
                explained_variance(evaluations.values_BT, returns_BT, batch.response_mask_BT)
            )
        self.num_updates += 1
        return metrics

    def _step(
        self,
        batch: Batch,
        evaluations: Evaluations,
        advantages_BT: Tensor,
        returns_BT: Tensor | None,
        rows: list[int],
        trains_policy: bool,
    ) -> dict[str, float]:
        """Takes one optimiser step over some rows, in micro-batches whose gradients add up to the whole."""
        ppo = self.config.ppo
        row_mask_BT = batch.response_mask_BT[rows]
        if not row_mask_BT.any():
            return {}
        normalizer = loss_normalizer(row_mask_BT, aggregation=ppo.aggregation)
        self.policy_optimizer.zero_grad(set_to_none=True)
        if self.critic_optimizer is not None:
            self.critic_optimizer.zero_grad(set_to_none=True)
        sums: defaultdict[str, float] = defaultdict(float)
        for micro in self._micro_batches(batch, rows):
            part = batch.select(micro)
            width = part.input_ids_BT.shape[1]
            share = float(part.response_mask_BT.sum() / row_mask_BT.sum())

            def of(grid_BT: Tensor, micro: Sequence[int] = micro, width: int = width) -> Tensor:
                return grid_BT[list(micro)][:, :width].to(self.policy.device)

            if trains_policy:
                self._policy_backward(part, evaluations, of, advantages_BT, normalizer, share, sums)
            if self.critic is not None and returns_BT is not None and evaluations.values_BT is not None:
                values_BT, _ = token_values(self.critic, part)
                std = self.critic.std
                loss, value_metrics = value_loss(
                    values_BT / std,
                    of(evaluations.values_BT) / std,
                    of(returns_BT) / std,
                    part.response_mask_BT.to(values_BT.device),
                    clip_range=ppo.value_clip,
                    aggregation=ppo.aggregation,
                    normalizer=normalizer,
                )
                loss.backward()
                sums["value_loss"] += float(loss.detach())
                sums["value_clip_fraction"] += share * float(value_metrics["value_clip_fraction"])
        if trains_policy:
            sums["grad_norm"] = self._clip_and_step(self.policy, self.policy_optimizer)
        if self.critic_optimizer is not None:
            sums["critic_grad_norm"] = self._clip_and_step(self.critic, self.critic_optimizer)
        return dict(sums)

    def _policy_backward(
        self,
        part: Batch,
        evaluations: Evaluations,
        of: Any,
        advantages_BT: Tensor,
        normalizer: float,
        share: float,
        sums: defaultdict[str, float],
    ) -> None:
        """Adds one micro-batch's policy gradient and metrics."""
        ppo = self.config.ppo
        logprobs_BT, entropy_BT = self._logprobs(self.policy, part)
        mask_BT = part.response_mask_BT.to(logprobs_BT.device)
        old_BT = of(evaluations.old_logprobs_BT)
        weights_BT = None
        if ppo.importance_cap is not None:
            weights_BT = truncated_importance_weights(
                old_BT, part.sampler_logprobs_BT.to(old_BT.device), cap=ppo.importance_cap
            )
        loss, metrics = policy_loss(
            logprobs_BT,
            old_BT,
            of(advantages_BT),
            mask_BT,
            clip_low=ppo.clip_low,
            clip_high=ppo.clip_high,
            aggregation=ppo.aggregation,
            normalizer=normalizer,
            importance_weights_BT=weights_BT,
        )
        if ppo.entropy_coef > 0:
            loss = loss - ppo.entropy_coef * aggregate(
                entropy_BT, mask_BT, aggregation=ppo.aggregation, normalizer=normalizer
            )
        loss.backward()
        sums["policy_loss"] += float(loss.detach())
        sums["entropy"] += share * _masked_mean(entropy_BT.detach(), mask_BT)
        for name, value in metrics.items():
            sums[name] += share * float(value)

    def _logprobs(self, model: Any, part: Batch) -> tuple[Tensor, Tensor]:
        return token_logprobs(
            model, part, temperature=self.config.sampling.temperature, suppressed_ids=self.suppressed_ids
        )

    def _micro_batches(self, batch: Batch, rows: Sequence[int]) -> Iterator[list[int]]:
        """Yields rows of similar length, so that little is padding."""
        lengths = batch.attention_mask_BT.sum(-1).tolist()
        ordered = sorted(rows, key=lambda row: (lengths[row], row))
        size = self.config.ppo.micro_batch_size
        for start in range(0, len(ordered), size):
            yield ordered[start : start + size]

    def _clip_and_step(self, model: Any, optimizer: torch.optim.Optimizer) -> float:
        """Clips the gradient, steps, and returns the norm before clipping."""
        norm = float(torch.nn.utils.clip_grad_norm_(model.parameters(), self.config.ppo.max_grad_norm))
        if np.isfinite(norm):  # a non-finite gradient would destroy the weights; the norm in the log tells of it
            optimizer.step()
        return norm

    def _set_learning_rates(self, iteration: int) -> None:
        ppo = self.config.ppo
        since = iteration - ppo.critic_warmup_iterations
        factor = min(1.0, (since + 1) / ppo.warmup_iterations) if ppo.warmup_iterations else 1.0
        for group in self.policy_optimizer.param_groups:
            group["lr"] = ppo.learning_rate * max(factor, 0.0)

    def state_dict(self) -> dict[str, Any]:
        """Returns everything that training changed."""
        return {
            "policy": self.policy.state_dict(),
            "policy_optimizer": self.policy_optimizer.state_dict(),
            "reference": self.reference.state_dict() if self.reference is not None else None,
            "critic": self.critic.state_dict() if self.critic is not None else None,
            "critic_optimizer": self.critic_optimizer.state_dict() if self.critic_optimizer is not None else None,
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues from what `state_dict` returned."""
        self.policy.load_state_dict(state["policy"])
        self.policy_optimizer.load_state_dict(state["policy_optimizer"])
        if self.reference is not None:
            self.reference.load_state_dict(state["reference"])
        if self.critic is not None and self.critic_optimizer is not None:
            self.critic.load_state_dict(state["critic"])
            self.critic_optimizer.load_state_dict(state["critic_optimizer"])
        self.num_updates = state["num_updates"]


def turn_returns(batch: Batch) -> Tensor:
    """Returns the undiscounted return from each turn of each trainable row on, float32[turns]."""
    to_go_BK = batch.turn_rewards_BK.flip(-1).cumsum(-1).flip(-1)
    num_turns_B = batch.turn_index_BT.amax(-1) + 1
    has_turn_BK = torch.arange(to_go_BK.shape[1])[None] < num_turns_B[:, None]
    return to_go_BK[has_turn_BK & batch.trainable_B[:, None]]


def _adamw(model: Any, learning_rate: float, weight_decay: float) -> torch.optim.AdamW:
    return torch.optim.AdamW(model.parameters(), lr=learning_rate, betas=(0.9, 0.95), weight_decay=weight_decay)


def _masked_mean(x_BT: Tensor, mask_BT: Tensor) -> float:
    """Returns the mean over a mask; 0 for an empty one."""
    return float((x_BT * mask_BT).sum() / mask_BT.sum().clamp(min=1))
