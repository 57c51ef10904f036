"""The learner: policy, critic, and reference, and the optimizer steps on an iteration's batch."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from functools import partial
from typing import Any, cast

import torch
from torch import Tensor, nn

from agents.hf.row_passes import share_prefixes
from training.algorithms.algorithm import Credit, ModelOutputs
from training.algorithms.losses import kl_penalty
from training.batch import Batch, turn_returns
from training.config.run_config import RunConfig
from training.engines.engine import Engine, LocalEngine
from training.engines.host_memory import HostMemory, own_weights
from training.engines.lora import adapter_state, adapters_off, add_adapters
from training.engines.optimizer import Optimizer
from training.engines.policy import (
    PolicyModel,
    SeenPictures,
    ValueModel,
    Values,
    copied_but_frozen,
    freeze_vision_tower,
    frozen_tower,
    has_frozen_vision_tower,
    require_same_frozen,
    row_pass_of,
    share_frozen,
)
from training.update.micro_batches import (
    OF_UPDATE,
    OF_UPDATES_AT_ONCE,
    FittedPasses,
    Metrics,
    MicroBatch,
    RowLimits,
    SideBySide,
    accumulate_gradient,
    micro_batches,
    minibatches,
    row_groups,
)
from training.update.update_losses import critic_loss, kl_rewards, masked_mean, policy_loss, update_metrics

_STEP = 1.5
_MAX_FACTOR = 10.0
"""Maximum factor between the policy's rate and its schedule, in either direction."""


class Learner:
    """Owns all trained models and their optimizers.

    Args:
        policy: A checkpoint's model with its head.
        suppressed_ids: Tokens that are never sampled.
        config: The run.
        engine: Engine of the training processes; a single process by default.
        reference: Reference model of the KL penalty; a copy of the policy by default.
    """

    def __init__(
        self,
        policy: Any,
        suppressed_ids: list[int],
        config: RunConfig,
        engine: Engine | None = None,
        *,
        reference: Any = None,
    ) -> None:
        config = config.decided()
        ppo = config.ppo
        self.config, self.suppressed_ids = config, suppressed_ids
        self.engine: Engine = engine or LocalEngine()
        self.policy = policy
        self._row_pass = row_pass_of(policy, config.memory)
        limits = RowLimits(
            max_rows=ppo.micro_batch_size,
            max_tokens=ppo.micro_batch_tokens,
            has_padding=not self._row_pass.packs_rows,
            keeps_siblings=self._row_pass.shares_prefixes,
        )
        if self._row_pass.shares_prefixes:
            share_prefixes(policy)
        self._side_by_side = self._passes_side_by_side()
        remedy = OF_UPDATE if self._side_by_side.num_at_once == 1 else OF_UPDATES_AT_ONCE
        self._fitted = FittedPasses(limits, self.engine, remedy=remedy)
        if config.lora.rank is not None:
            add_adapters(policy, config.lora)
        if config.memory.freeze_vision_tower:
            freeze_vision_tower(policy)
        self.has_adapters = config.lora.rank is not None
        self.has_reference = config.has_reference
        needs_copy = self.has_reference and not self.has_adapters  # with adapters it is the policy without them
        self.reference = None
        if needs_copy:
            if config.reference is not None:
                require_same_frozen(reference, policy)
            self.reference = copied_but_frozen(policy) if reference is None else share_frozen(reference, policy)
            self.reference.requires_grad_(False)
            if self._row_pass.shares_prefixes:
                share_prefixes(self.reference)
        self.critic_config = config.algorithm.critic_config
        self.critic = None
        if self.critic_config is not None:
            self.critic = ValueModel(policy, self._row_pass, trunk=self.critic_config.trunk)
        self._acting = self.engine.acting(policy)
        # The whole model's tower, as some processes may have no images to encode
        self._pictures = SeenPictures(self._acting) if has_frozen_vision_tower(policy) else None
        prepare = partial(self.engine.prepare, whole=frozen_tower(policy))
        self._policy = prepare(self._policy_model(self.policy))
        self._reference = prepare(self._policy_model(self.reference)) if self.reference is not None else None
        self._critic = prepare(self.critic) if self.critic is not None else None
        self.policy_optimizer = self._optimizer(policy, "policy", ppo.learning_rate)
        self.critic_optimizer = (
            self._optimizer(self.critic, "critic", self.critic_config.learning_rate)
            if self.critic_config is not None
            else None
        )
        self.rates = LearningRates(config)
        self.num_updates = 0
        self._host = HostMemory()
        self._put_away()

    def _at_hand(self, optimizer: Optimizer | None) -> AbstractContextManager[None]:
        """Keeps an optimizer's state on the device within the block if it is otherwise offloaded."""
        if optimizer is None or not self.config.memory.offload_optimizer:
            return nullcontext()
        return self._host.at_hand(optimizer.idle_tensors, self.policy.device)

    def _reference_at_hand(self) -> AbstractContextManager[None]:
        """Keeps the reference on the device within the block if it is otherwise offloaded."""
        if not self.config.memory.offload_reference:
            return nullcontext()
        return self._host.at_hand(self.idle_reference, self.policy.device)

    def idle_reference(self) -> list[Tensor]:
        """Returns the reference's own weights if they are offloaded."""
        if self.reference is None or not self.config.memory.offload_reference:
            return []
        return own_weights(self.reference, [self.policy])

    def _put_away(self) -> None:
        """Moves offloaded state to the host's memory."""
        self._host.put_away(self.idle_reference())
        if self.config.memory.offload_optimizer:
            for optimizer in (self.policy_optimizer, self.critic_optimizer):
                self._host.put_away(optimizer.idle_tensors() if optimizer is not None else [])

    def _passes_side_by_side(self) -> SideBySide:
        """Returns the number of concurrent passes: 1 if a pass changes a module that others use."""
        changes = self._row_pass.recomputes_layers or self.config.lora.rank is not None
        may_be = self.engine.takes_passes_side_by_side and self.policy.device.type == "cpu" and not changes
        return SideBySide(self.config.ppo.num_micro_batches_at_once if may_be else 1)

    def _policy_model(self, model: Any) -> PolicyModel:
        return PolicyModel(
            model,
            temperature=self.config.sampling.temperature,
            suppressed_ids=self.suppressed_ids,
            row_pass=self._row_pass,
        )

    def _optimizer(self, model: Any, what: str, learning_rate: float) -> Optimizer:
        ppo = self.config.ppo
        return Optimizer(
            model,
            learning_rate=learning_rate,
            adamw=ppo.adamw,
            max_grad_norm=ppo.max_grad_norm,
            max_nonfinite_steps=ppo.max_nonfinite_steps,
            max_exploding_steps=ppo.max_exploding_steps,
            what=what,
        )

    def acting_policy(self) -> Any:
        """Returns a whole model with the policy's current weights; all processes must call this together."""
        self.engine.refresh(self._acting, self.policy)
        return self._acting

    @torch.no_grad()
    def model_outputs(self, batch: Batch) -> ModelOutputs:
        """Evaluates the models on a batch before the update.

        Raises:
            MemoryExhaustedError: If memory runs out, even with smaller micro-batches.
        """
        if self.critic is not None:
            self.critic.calibrate(turn_returns(batch))
        with self._reference_at_hand():
            old_BT, ref_BT, values_BT, ends_BK, final_B = self._fitted(
                lambda: self._passed(batch), batch, range(batch.num_rows)
            )
        ref_kl = None
        if self.has_reference:
            ref_kl = masked_mean(kl_penalty(old_BT, ref_BT, kl_estimator="k1"), batch.response_mask_BT)
        has_critic = self.critic is not None
        return ModelOutputs(
            old_logprobs_BT=old_BT,
            values_BT=values_BT if has_critic else None,
            turn_end_values_BK=ends_BK if has_critic else None,
            final_values_B=final_B if has_critic else None,
            token_rewards_BT=kl_rewards(self.config.ppo, batch, old_BT, ref_BT if self.has_reference else None),
            ref_kl=ref_kl,
            ref_logprobs_BT=ref_BT if self.has_reference else None,
        )

    def _passed(self, batch: Batch) -> tuple[Tensor, Tensor, Tensor, Tensor, Tensor]:
        """Returns log-probabilities of policy and reference, and the critic's values; 0 for missing models."""
        recompute = self.config.ppo.old_logprobs == "trainer"
        sampler_BT = batch.sampler_logprobs_BT
        old_BT, ref_BT = torch.zeros_like(sampler_BT) if recompute else sampler_BT.clone(), torch.zeros_like(sampler_BT)
        values_BT, ends_BK = torch.zeros_like(old_BT), torch.zeros_like(batch.turn_rewards_BK)
        final_B = torch.zeros(batch.num_rows)

        @torch.no_grad()
        def fill_in(rows: list[int], part: Batch, is_filler: bool) -> None:
            old = self._policy(part, "none")[0] if recompute else None
            ref = self._reference_logprobs(part) if self.has_reference else None
            values: Values | None = self._critic(part) if self._critic is not None else None
            if is_filler:
                return
            width = part.input_ids_BT.shape[1]
            if old is not None:
                old_BT[rows, :width] = old.cpu()
            if ref is not None:
                ref_BT[rows, :width] = ref.cpu()
            if values is not None:
                values_BT[rows, :width] = values.before_BT.cpu()
                ends_BK[rows], final_B[rows] = values.turn_ends_BK.cpu(), values.final_B.cpu()

        groups = row_groups(batch, range(batch.num_rows), self._fitted.limits, self.engine)
        parts = ((rows, self._shown(batch.select(rows)), is_filler) for rows, is_filler in groups)
        for _ in self._side_by_side.map(lambda part: fill_in(*part), parts):
            pass
        # Each process has filled in its own rows; elsewhere its tensors are 0
        old_BT = self.engine.sum(old_BT) if recompute else old_BT
        ref_BT, values_BT, ends_BK, final_B = map(self.engine.sum, (ref_BT, values_BT, ends_BK, final_B))
        return old_BT, ref_BT, values_BT, ends_BK, final_B

    def _reference_logprobs(self, part: Batch) -> Tensor:
        """Returns the reference's log-probabilities, from a frozen copy or from the policy without its adapters."""
        if self._reference is not None:
            logprobs_BT: Tensor = self._reference(part, "none")[0]
            return logprobs_BT
        with adapters_off(self.policy):
            logprobs_BT = self._policy(part, "none")[0]
        return logprobs_BT

    def update(self, batch: Batch, outputs: ModelOutputs, credit: Credit, *, iteration: int) -> dict[str, float]:
        """Takes the iteration's optimizer steps. `iteration` determines the warm-up and the order of rows.

        Returns:
            Means of the update's metrics; `skipped_steps` is a count.

        Raises:
            NonFiniteGradientError: If gradients of the policy or the critic were not finite too many times in a row.
            ExplodingGradientError: If they were far larger than before too many times in a row.
            MemoryExhaustedError: If memory runs out, even with smaller micro-batches.
        """
        ppo = self.config.ppo
        self._set_learning_rates(iteration)
        key = [self.config.seed, iteration]
        steps: list[dict[str, float]] = []
        if iteration >= self.config.algorithm.critic_warmup_iterations:
            with self._at_hand(self.policy_optimizer):
                for rows in minibatches(batch, ppo.num_epochs, ppo.num_minibatches, key):
                    steps.append(self._policy_step(batch, outputs, credit.advantages_BT, rows))
            self.policy_optimizer.zero_grad()  # free gradients, which are not needed until the next step
        if credit.returns_BT is not None and self.critic_config is not None:
            assert self.critic_optimizer is not None
            critic = self.critic_config
            with self._at_hand(self.critic_optimizer):
                for rows in minibatches(batch, critic.num_epochs, critic.num_minibatches, key):
                    steps.append(self._critic_step(batch, outputs, credit, rows))
            self.critic_optimizer.zero_grad()
        if self._pictures is not None:
            self._pictures.forget()
        metrics = update_metrics(steps, batch, outputs, credit)
        self.rates.moved(metrics.get("approx_kl"), iteration=iteration)
        return metrics | {"learning_rate": self.policy_optimizer.learning_rate}

    def _policy_step(
        self, batch: Batch, outputs: ModelOutputs, advantages_BT: Tensor, rows: list[int]
    ) -> dict[str, float]:
        """Takes one optimizer step of the policy on some rows."""

        def loss(micro: MicroBatch, metrics: Metrics) -> Tensor:
            entropy_mode = "graph" if self.config.ppo.entropy_coef > 0 else "value"
            logprobs_BT, entropy_BT = self._policy(micro.part, entropy_mode)
            return policy_loss(self.config, micro, outputs, advantages_BT, logprobs_BT, entropy_BT, metrics)

        metrics = self._gradient(loss, batch, rows, self._policy, self.policy_optimizer)
        if metrics:
            metrics["grad_norm"], is_taken = self.policy_optimizer.step()
            metrics["skipped_steps"] = float(not is_taken)
            self.num_updates += is_taken
        return dict(metrics)

    def _critic_step(self, batch: Batch, outputs: ModelOutputs, credit: Credit, rows: list[int]) -> dict[str, float]:
        """Takes one optimizer step of the critic on some rows.

        If V is also trained at turn ends, each turn end has the weight of one token.
        """
        critic, optimizer, std = self._critic, self.critic_optimizer, self.critic.std if self.critic else None
        assert critic is not None and optimizer is not None and std is not None

        def loss(micro: MicroBatch, metrics: Metrics) -> Tensor:
            return critic_loss(self.config, micro, outputs, credit, critic(micro.part), std, metrics)

        with_turn_ends = credit.turn_end_returns_BK is not None
        metrics = self._gradient(loss, batch, rows, critic, optimizer, with_turn_ends=with_turn_ends)
        if metrics:
            metrics["critic_grad_norm"], is_taken = optimizer.step()
            metrics["skipped_steps"] = float(not is_taken)
        return dict(metrics)

    def _gradient(
        self,
        loss_of: Callable[[MicroBatch, Metrics], Tensor],
        batch: Batch,
        rows: list[int],
        module: nn.Module,
        optimizer: Optimizer,
        *,
        with_turn_ends: bool = False,
    ) -> Metrics:
        """Computes the gradient of an optimizer step; returns its metrics, which are empty if nothing is trained."""

        def accumulated() -> Metrics:
            micros = self._micro_batches(batch, rows, with_turn_ends=with_turn_ends)
            return accumulate_gradient(
                loss_of,
                micros,
                module=module,
                optimizer=optimizer,
                engine=self.engine,
                side_by_side=self._side_by_side,
            )

        metrics = self._fitted(accumulated, batch, rows)
        return self._summed(metrics) if metrics else metrics

    def _micro_batches(self, batch: Batch, rows: list[int], *, with_turn_ends: bool = False) -> Iterator[MicroBatch]:
        """Yields this process's micro-batches of an optimizer step."""
        ppo = self.config.ppo
        constant = float(len(rows) * self.config.sampling.max_new_tokens) if ppo.aggregation == "constant" else None
        for micro in micro_batches(
            batch,
            rows,
            self._fitted.limits,
            self.engine,
            aggregation=ppo.aggregation,
            with_turn_ends=with_turn_ends,
            normalizer=constant,
        ):
            yield replace(micro, part=self._shown(micro.part))

    def _shown(self, part: Batch) -> Batch:
        """Returns rows with the frozen vision tower's image features, which are computed once per batch."""
        return part if self._pictures is None else replace(part, features=self._pictures.features(part.images))

    def _summed(self, metrics: Metrics) -> Metrics:
        """Returns the metrics of an optimizer step summed over processes."""
        total = self.engine.sum(torch.tensor(list(metrics.values()), dtype=torch.float64))
        return defaultdict(float, zip(metrics, total.tolist(), strict=True))

    def _set_learning_rates(self, iteration: int) -> None:
        self.policy_optimizer.set_learning_rate(self.rates.policy(iteration))
        if self.critic_optimizer is not None and self.critic_config is not None:
            self.critic_optimizer.set_learning_rate(self.rates.critic(iteration, self.critic_config.learning_rate))

    def state_dict(self) -> dict[str, Any]:
        """Returns all trained state, but not the reference or the base of adapters."""
        return {
            "policy": self._state_of(self.policy),
            "policy_optimizer": self.policy_optimizer.state_dict(),
            "critic": self._state_of(self.critic) if self.critic is not None else None,
            "critic_optimizer": self.critic_optimizer.state_dict() if self.critic_optimizer is not None else None,
            "rates": self.rates.state_dict(),
            "num_updates": self.num_updates,
        }

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state returned by `state_dict`, sharded over processes as in `weights_like`."""
        self._put_away()  # a failed update may have left state on the device
        self._load(self.policy, state, "policy")
        self.policy_optimizer.load_state_dict(state["policy_optimizer"], state["policy"])
        if self.critic is not None and self.critic_optimizer is not None:
            self._load(self.critic, state, "critic")
            self.critic_optimizer.load_state_dict(state["critic_optimizer"], state["critic"])
        self.rates.load_state_dict(state["rates"])
        self.num_updates = state["num_updates"]
        self._put_away()

    def _state_of(self, module: nn.Module) -> dict[str, Tensor]:
        return adapter_state(module) if self.has_adapters else module.state_dict()

    def _load(self, module: nn.Module, state: dict[str, Any], name: str) -> None:
        """Loads a module's state; with adapters, the frozen weights are those of the start."""
        module.load_state_dict({**module.state_dict(), **state[name]} if self.has_adapters else state[name])


class LearningRates:
    """The learning rates of policy and critic by iteration.

    With `ppo.target_kl`, the policy's rate is multiplied by 1.5 after an iteration that moved the policy by less than
    half of it, and divided by 1.5 after one that moved it by more than twice of it, within a factor of ten of its
    schedule. Warm-up is unaffected; the target overrides a decaying rate within these bounds. The movement is
    measured by `approx_kl`, the mean over the iteration's optimizer steps of the divergence at the start of each: the
    first includes the gap between sampler and trainer, and the effect of the last is missing.

    Source: Schulman et al. 2017, "Proximal Policy Optimization Algorithms", section 4, adapts a penalty in this way,
    with other constants; rsl_rl adapts the step size, with `schedule="adaptive"`.

    Args:
        config: The run.
    """

    def __init__(self, config: RunConfig) -> None:
        self._config = config
        self._factor = 1.0

    def policy(self, iteration: int) -> float:
        """Returns the policy's rate in an iteration, from 0."""
        ppo = self._config.ppo
        return ppo.learning_rate * self._warmup(iteration) * self._decay(iteration) * self._factor

    def critic(self, iteration: int, peak: float) -> float:
        """Returns a critic's rate in an iteration, from 0."""
        return peak * self._decay(iteration)

    def moved(self, approx_kl: float | None, *, iteration: int) -> None:
        """Adapts the rate to how far an iteration moved the policy; None, 0, and NaN are ignored."""
        target = self._config.ppo.target_kl
        if target is None or self._warmup(iteration) < 1 or not approx_kl or not approx_kl > 0:
            return
        if approx_kl < target / 2:
            self._factor = min(self._factor * _STEP, _MAX_FACTOR)
        elif approx_kl > target * 2:
            self._factor = max(self._factor / _STEP, 1 / _MAX_FACTOR)

    def state_dict(self) -> dict[str, Any]:
        """Returns the state to resume from; the schedule depends only on the iteration."""
        return {"factor": self._factor}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the state returned by `state_dict`."""
        self._factor = state["factor"] if self._config.ppo.target_kl is not None else 1.0

    def _warmup(self, iteration: int) -> float:
        ppo = self._config.ppo
        since = iteration - self._config.algorithm.critic_warmup_iterations
        return min(1.0, max(0, since + 1) / ppo.warmup_iterations) if ppo.warmup_iterations else 1.0

    def _decay(self, iteration: int) -> float:
        low = self._config.ppo.final_learning_rate_ratio
        left = 1.0 - iteration / max(1, self._config.num_iterations)
        return max(0.0, left) * (1.0 - low) + low


def weights_like(learner: Learner) -> Callable[[str], Tensor | None]:
    """Returns a function from the path of a tensor in a learner's `state_dict` to a weight with the same sharding.

    The weight has the tensor's shape: `policy_optimizer/adamw/state/3/exp_avg` is sharded like the fourth trained
    weight. It returns None for a tensor that is whole in every process.
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
