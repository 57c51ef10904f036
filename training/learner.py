"""Update: the policy, its critic and its reference, and one PPO step over an iteration's batch."""

from __future__ import annotations

import copy
from collections import defaultdict
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
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


@dataclass(frozen=True, kw_only=True)
class _MicroBatch:
    """Rows that go through a model together.

    Attributes:
        rows: Their places in the whole batch.
        part: The rows.
        share: Their share of the optimiser step's generated tokens.
        normalizer: What the step's losses are divided by.
    """

    rows: list[int]
    part: Batch
    share: float
    normalizer: float

    def of(self, grid_BT: Tensor) -> Tensor:
        """Returns these rows of a grid of the whole batch, as wide as they are."""
        return grid_BT[self.rows][:, : self.part.input_ids_BT.shape[1]]


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
        for rows in self._by_length(batch, range(batch.num_rows)):
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
        totals: defaultdict[str, list[float]] = defaultdict(list)
        if iteration >= ppo.critic_warmup_iterations:
            for rows in self._minibatches(batch, ppo.num_epochs, ppo.num_minibatches, iteration):
                _append(totals, self._policy_step(batch, evaluations, advantages_BT, rows))
        if returns_BT is not None and evaluations.values_BT is not None:
            for rows in self._minibatches(batch, ppo.critic_num_epochs, ppo.critic_num_minibatches, iteration):
                _append(totals, self._critic_step(batch, evaluations.values_BT, returns_BT, rows))
        metrics = {name: float(np.mean(values)) for name, values in totals.items()}
        if returns_BT is not None and evaluations.values_BT is not None:
            metrics["explained_variance"] = float(
                explained_variance(evaluations.values_BT, returns_BT, batch.response_mask_BT)
            )
        if "sampler_gap" in totals:
            metrics["sampler_gap"] = totals["sampler_gap"][0]  # before the first step: later ones are policy change
        return metrics

    def _policy_step(
        self, batch: Batch, evaluations: Evaluations, advantages_BT: Tensor, rows: list[int]
    ) -> dict[str, float]:
        """Takes one optimiser step of the policy over some rows."""
        sums: defaultdict[str, float] = defaultdict(float)
        self.policy_optimizer.zero_grad(set_to_none=True)
        for micro in self._micro_batches(batch, rows):
            self._policy_backward(micro, evaluations, advantages_BT, sums)
        if sums:
            sums["grad_norm"] = self._clip_and_step(self.policy, self.policy_optimizer)
            self.num_updates += 1
        return dict(sums)

    def _critic_step(
        self, batch: Batch, old_values_BT: Tensor, returns_BT: Tensor, rows: list[int]
    ) -> dict[str, float]:
        """Takes one optimiser step of the critic over some rows, in standard deviations of the first returns."""
        assert self.critic is not None and self.critic_optimizer is not None
        sums: defaultdict[str, float] = defaultdict(float)
        std = self.critic.std
        self.critic_optimizer.zero_grad(set_to_none=True)
        for micro in self._micro_batches(batch, rows):
            values_BT, _ = token_values(self.critic, micro.part)
            loss, metrics = value_loss(
                values_BT / std,
                micro.of(old_values_BT).to(std.device) / std,
                micro.of(returns_BT).to(std.device) / std,
                micro.part.response_mask_BT.to(std.device),
                clip_range=self.config.ppo.value_clip,
                aggregation=self.config.ppo.aggregation,
                normalizer=micro.normalizer,
            )
            loss.backward()
            sums["value_loss"] += float(loss.detach())
            sums["value_clip_fraction"] += micro.share * float(metrics["value_clip_fraction"])
        if sums:
            sums["critic_grad_norm"] = self._clip_and_step(self.critic, self.critic_optimizer)
        return dict(sums)

    def _policy_backward(
        self, micro: _MicroBatch, evaluations: Evaluations, advantages_BT: Tensor, sums: defaultdict[str, float]
    ) -> None:
        """Adds one micro-batch's policy gradient and metrics."""
        ppo = self.config.ppo
        part, normalizer, share = micro.part, micro.normalizer, micro.share

        def of(grid_BT: Tensor) -> Tensor:
            return micro.of(grid_BT).to(self.policy.device)

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
        gap_BT = (logprobs_BT.detach() - part.sampler_logprobs_BT.to(logprobs_BT.device)).abs()
        sums["sampler_gap"] += share * _masked_mean(gap_BT, mask_BT)
        sums["entropy"] += share * _masked_mean(entropy_BT.detach(), mask_BT)
        for name, value in metrics.items():
            sums[name] += share * float(value)

    def _logprobs(self, model: Any, part: Batch) -> tuple[Tensor, Tensor]:
        return token_logprobs(
            model, part, temperature=self.config.sampling.temperature, suppressed_ids=self.suppressed_ids
        )

    def _minibatches(self, batch: Batch, num_epochs: int, num_minibatches: int, iteration: int) -> Iterator[list[int]]:
        """Yields the rows of each optimiser step, in an order that depends on seed, iteration and epoch only."""
        for epoch in range(num_epochs):
            order = np.random.default_rng([self.config.seed, iteration, epoch]).permutation(batch.num_rows)
            for rows in np.array_split(order, num_minibatches):
                yield rows.tolist()

    def _micro_batches(self, batch: Batch, rows: Sequence[int]) -> Iterator[_MicroBatch]:
        """Yields rows of similar length, so that little is padding; their gradients add up to that of all rows."""
        mask_BT = batch.response_mask_BT[list(rows)]
        if not mask_BT.any():
            return
        aggregation = self.config.ppo.aggregation
        normalizer = (
            float(len(rows) * self.config.sampling.max_new_tokens)
            if aggregation == "constant"
            else loss_normalizer(mask_BT, aggregation=aggregation)
        )
        for chosen in self._by_length(batch, rows):
            part = batch.select(chosen)
            share = float(part.response_mask_BT.sum() / mask_BT.sum())
            yield _MicroBatch(rows=chosen, part=part, share=share, normalizer=normalizer)

    def _by_length(self, batch: Batch, rows: Sequence[int]) -> Iterator[list[int]]:
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
        """Sets both rates from the iteration alone, so that a resumed run sees the same ones."""
        ppo = self.config.ppo
        left = 1.0 - iteration / max(1, self.config.num_iterations)
        decay = max(0.0, left) * (1.0 - ppo.final_learning_rate) + ppo.final_learning_rate
        since = iteration - ppo.critic_warmup_iterations
        warmup = min(1.0, max(0, since + 1) / ppo.warmup_iterations) if ppo.warmup_iterations else 1.0
        rates = [(self.policy_optimizer, ppo.learning_rate * warmup), (self.critic_optimizer, ppo.critic_learning_rate)]
        for optimizer, peak in rates:
            for group in optimizer.param_groups if optimizer is not None else ():
                group["lr"] = peak * decay

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


def _append(totals: defaultdict[str, list[float]], step: dict[str, float]) -> None:
    for name, value in step.items():
        totals[name].append(value)


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
