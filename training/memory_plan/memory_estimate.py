"""Bytes per GPU in each phase of a run, and of the host's memory.

Source of mixed precision's 16 bytes per weight: Rajbhandari et al., "ZeRO" (2020), section 3.1; here gradients are
accumulated in float32 too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from training.config.processes import engine_name, require_engine
from training.config.run_config import RunConfig
from training.config.world_spec import MAX_PARALLEL
from training.engines.host_memory import HostBytes
from training.memory_plan.model_bytes import FLOAT32, ModelBytes, ModelShape, PassBytes
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import GIB

CACHE_CHUNK = 128
"""Tokens by which caches grow, see `agents.hf.sampler`."""
SAMPLER_COPIES = 6
"""Float32 copies of a step's logits while a token is sampled: raw, suppressed, log-probabilities, exponential noise."""
ADAMW_COPIES = 2
"""Float32 copies of one weight while AdamW steps it without a fused kernel."""

AtHand = Literal["reference", "policy", "critic"]
"""Model whose offloadable part is on the device in a phase."""


@dataclass(frozen=True, kw_only=True)
class Spread:
    """How models are distributed over GPUs.

    Attributes:
        engine: One process alone; DDP, with a whole model on each; or FSDP2, sharded.
        num_processes: GPUs, one process each.
        compute_bytes: Bytes of a weight in passes (`--dtype`).
        is_fused: Whether one kernel takes a whole AdamW step, as on GPUs.
        offloads_reference: Whether the reference waits in host memory.
        offloads_optimizer: Whether masters and AdamW's moments do.
    """

    engine: Literal["local", "ddp", "fsdp2"]
    num_processes: int
    compute_bytes: int
    is_fused: bool = True
    offloads_reference: bool = False
    offloads_optimizer: bool = False

    @property
    def has_buckets(self) -> bool:
        """Whether DDP sums gradients over processes in float32 buckets, which it keeps throughout."""
        return self.engine == "ddp" and self.num_processes > 1

    @property
    def num_shards(self) -> int:
        """GPUs that share one copy of weights, gradients, and optimizer states."""
        return self.num_processes if self.engine == "fsdp2" else 1

    @property
    def weight_bytes(self) -> int:
        """Bytes of a weight as it is stored: several processes store float32, which serves as masters too."""
        return self.compute_bytes if self.engine == "local" else FLOAT32

    @property
    def activation_bytes(self) -> int:
        """Bytes of most activations; autocast leaves norms and residuals in float32, so DDP's are an upper bound."""
        return FLOAT32 if self.engine == "ddp" else self.compute_bytes

    @property
    def has_masters(self) -> bool:
        """Whether weights have float32 copies that the optimizer steps."""
        return self.weight_bytes < FLOAT32

    @property
    def has_acting_copy(self) -> bool:
        """Whether sampling uses a separate full model in `--dtype`."""
        return self.engine == "fsdp2" or self.compute_bytes != self.weight_bytes

    def kept(self, model: ModelShape) -> float:
        """Returns the bytes of a model's weights; a frozen tower is whole in each process."""
        shared = model.num_parameters - model.num_frozen_vision
        return self.weight_bytes * (shared / self.num_shards + model.num_frozen_vision)


def held(
    policy: ModelShape,
    critic: ModelShape | None,
    spread: Spread,
    *,
    has_reference: bool,
    fixed: dict[str, float],
    at_hand: AtHand | None = None,
) -> dict[str, float]:
    """Returns the bytes that are held throughout a phase, by part.

    Args:
        policy: The policy's size.
        critic: The critic's; None without one.
        spread: How models are distributed.
        has_reference: Whether there is a copy of the initial policy; frozen weights are not copied.
        fixed: Bytes of parts that are not models.
        at_hand: Whose offloaded part is on the device.
    """
    has_reference = has_reference and (not spread.offloads_reference or at_hand == "reference")
    steps_policy, steps_critic = (not spread.offloads_optimizer or at_hand == who for who in ("policy", "critic"))
    num_trained = policy.num_trained + (0 if critic is None else critic.num_trained)
    return {
        "weights": spread.kept(policy),
        "sampler": spread.has_acting_copy * policy.num_parameters * spread.compute_bytes,
        **{name: steps_policy * num_bytes for name, num_bytes in optimizer_states(policy, spread).items()},
        "reference": has_reference * policy.num_trained * spread.weight_bytes / spread.num_shards,
        "critic": 0.0 if critic is None else model_and_states(critic, spread, has_states=steps_critic),
        "buckets": float(spread.has_buckets * FLOAT32 * num_trained),
        **fixed,
    }


def optimizer_states(model: ModelShape, spread: Spread) -> dict[str, float]:
    """Returns the bytes of float32 masters, if weights have fewer bits, and of AdamW's two moments."""
    trained = model.num_trained / spread.num_shards
    return {"masters": spread.has_masters * FLOAT32 * trained, "Adam": 2 * FLOAT32 * trained}


def model_and_states(model: ModelShape, spread: Spread, *, has_states: bool = True) -> float:
    """Returns the bytes of a second model and its optimizer states; it shares frozen weights with the first."""
    weights = model.num_trained * spread.weight_bytes / spread.num_shards
    return weights + has_states * sum(optimizer_states(model, spread).values())


def in_hosts_memory(
    policy: ModelShape,
    critic: ModelShape | None,
    spread: Spread,
    *,
    has_reference: bool,
    has_adapters: bool,
    keeps_copy: bool,
) -> HostBytes:
    """Returns what each process keeps in host memory.

    Args:
        policy: The policy's size.
        critic: The critic's; None without one.
        spread: How models are distributed.
        has_reference: Whether there is a copy of the initial policy.
        has_adapters: Whether adapters alone are trained and part of the run's state.
        keeps_copy: Whether a copy of that state is kept. Tied embeddings and frozen weights of policy and critic
            appear in it twice, under two names.
    """
    models = [policy] if critic is None else [policy, critic]
    states = sum(sum(optimizer_states(model, spread).values()) for model in models)
    weights = sum(spread.weight_bytes * model.num_trained if has_adapters else spread.kept(model) for model in models)
    if not has_adapters and not policy.num_head:
        weights += spread.weight_bytes * policy.num_embeddings / spread.num_shards
    return HostBytes(
        reference=spread.offloads_reference * has_reference * policy.num_trained * spread.weight_bytes,
        states=spread.offloads_optimizer * states,
        copy=keeps_copy * (weights + states),
    )


def gradients_beside(passed: PassBytes, model: ModelShape, spread: Spread, *, num_micro_batches: int) -> float:
    """Returns the bytes that gradients add to the peak of a training pass.

    Gradients appear while activations are freed, but from the second micro-batch of a step on, those of the first are
    there throughout. bfloat16 gradients are accumulated in float32 after each backward pass. DDP keeps a step's last
    gradients in its buckets, into which each gradient is copied when complete.
    """
    is_first = num_micro_batches == 1
    if spread.has_buckets and is_first:
        return float(FLOAT32 * model.largest_weight)
    whole = FLOAT32 * model.num_trained / spread.num_shards
    growing = spread.weight_bytes * model.num_trained / spread.num_shards if is_first or spread.has_masters else 0.0
    return max(0.0, growing - passed.most) + (0.0 if is_first else whole)


def step_extras(model: ModelShape, spread: Spread) -> float:
    """Returns what an AdamW step needs for itself: nothing in a fused kernel, else copies of weights."""
    if spread.is_fused:
        return 0.0
    copies = 0 if spread.has_masters else model.num_trained
    return FLOAT32 * (ADAMW_COPIES * model.largest_weight + copies) / spread.num_shards


def gathered(model: ModelShape, spread: Spread, *, is_trained: bool, recomputes_layers: bool = False) -> float:
    """Returns the bytes that a pass on one of several GPUs gathers.

    FSDP2 gathers everything outside the decoder layers, and the current and the next layer, in the type of passes. In
    training it also holds whole gradients of the former and of one layer, and the larger of the two in float32 while
    it is summed. Under DDP, if passes are in another type than weights, autocast keeps the trained ones in it for the
    whole pass; with adapters, a backward pass also needs frozen ones unless layers are recomputed, but no frozen
    tower.
    """
    if spread.engine == "local" or spread.num_processes == 1:
        return 0.0
    if spread.engine == "ddp":
        keeps_frozen = is_trained and not recomputes_layers
        num_cast = model.num_parameters - model.num_frozen_vision if keeps_frozen else model.num_trained
        return float(spread.has_acting_copy * spread.compute_bytes * num_cast)
    outside, layer = model.num_outside_layers, model.largest_layer
    found = spread.compute_bytes * (outside + 2 * layer)
    if is_trained:
        found += spread.compute_bytes * (outside + layer) + FLOAT32 * max(outside, layer)
    return float(found)


def kv_cache(policy: ModelShape, spread: Spread, *, num_rows: int, num_tokens: int, num_layers: int) -> float:
    """Returns the bytes of keys and values of concurrent episodes; one layer exists twice while it grows."""
    room = -(-num_tokens // CACHE_CHUNK) * CACHE_CHUNK
    return num_rows * room * policy.cached_per_token * spread.compute_bytes * (1 + 1 / num_layers)


Phases = dict[str, dict[str, float]]
"""Bytes per GPU by phase of an iteration and by part, at the peak of each phase."""


@dataclass(frozen=True, kw_only=True)
class Plan:
    """The memory that a run needs.

    Attributes:
        phases: Bytes by phase, in order.
        capacity: Bytes of a GPU.
        micro_batch_rows: Rows of a micro-batch as the run is configured.
        largest_micro_batch_rows: The most that fit; 0 if not even one does.
        host: Host memory of each process.
        num_processes: Processes on one machine.
        host_capacity: Bytes of its memory; None if unknown (assumed sufficient).
    """

    phases: Phases
    capacity: float
    micro_batch_rows: int
    largest_micro_batch_rows: int
    host: HostBytes
    num_processes: int
    host_capacity: float | None

    @property
    def peak(self) -> float:
        """Peak bytes per GPU."""
        return most_of(self.phases)

    @property
    def host_peak(self) -> float:
        """Peak bytes of host memory, over all processes on the machine."""
        return self.num_processes * self.host.total

    @property
    def fits(self) -> bool:
        """Whether GPU and host memory suffice."""
        return self.peak <= self.capacity and not self.is_short_of_host_memory

    @property
    def is_short_of_host_memory(self) -> bool:
        """Whether host memory does not suffice."""
        return self.host_capacity is not None and self.host_peak > self.host_capacity


def most_of(phases: Phases) -> float:
    """Returns the bytes of the largest phase."""
    return max(sum(parts.values()) for parts in phases.values())


def episodes_side_by_side(config: RunConfig, plan: PlanConfig) -> tuple[int, int]:
    """Returns the numbers of concurrent episodes per process, in training and in an evaluation.

    Worlds are evaluated one after another, on levels that processes share; groups are never split.
    """
    evaluated = max(config.num_eval_episodes, config.num_val_episodes if config.eval_every > 0 else 0)
    of_training = -(-config.num_groups // plan.num_gpus) * config.group_size if config.num_iterations else 0
    return of_training, min(MAX_PARALLEL, -(-evaluated // plan.num_gpus))


def spread_of(config: RunConfig, plan: PlanConfig, *, is_fused: bool = True) -> Spread:
    """Returns how a run's models are distributed over its GPUs.

    Raises:
        ConfigError: If the run's engine does not support the number of GPUs or the trained models.
    """
    environment = {"WORLD_SIZE": str(plan.num_gpus)}  # as accelerate would start it, whatever started this process
    require_engine(
        config.engine,
        num_groups=config.num_groups,
        has_adapters=config.lora.rank is not None,
        critic_trunk=config.algorithm.critic_trunk,
        environment=environment,
    )
    engine = engine_name(config.engine, environment)
    return Spread(
        engine=engine,
        num_processes=plan.num_gpus,
        compute_bytes=FLOAT32 if config.dtype == "float32" else 2,
        is_fused=is_fused,
        offloads_reference=config.memory.offload_reference and engine != "fsdp2",
        offloads_optimizer=config.memory.offload_optimizer and engine != "fsdp2",
    )


class Planner:
    """Plans the memory of a run.

    Args:
        config: The run, with update settings resolved by its algorithm.
        plan: The GPUs.
        models: The models.
        is_fused: Whether one kernel takes a whole AdamW step, as on GPUs.
    """

    def __init__(self, config: RunConfig, plan: PlanConfig, models: ModelBytes, *, is_fused: bool = True) -> None:
        self.config, self.plan, self.models = config, plan, models
        self._spread = spread_of(config, plan, is_fused=is_fused)
        self._has_reference = (
            config.has_reference and config.lora.rank is None
        )  # the reference is the model with adapters disabled
        self._fixed = {"vLLM": plan.vllm_memory * plan.gpu_memory * GIB, "reserved": plan.reserved * GIB}

    def planned(self) -> Plan:
        """Returns the memory that the run needs on its GPUs."""
        config, capacity = self.config, self.plan.gpu_memory * GIB
        per_step, budget = self._rows_per_step(config.ppo.num_minibatches), config.ppo.micro_batch_tokens
        configured = config.ppo.micro_batch_size if budget is None else max(1, budget // self.models.row.num_tokens)
        fitting = (rows for rows in range(per_step, 0, -1) if most_of(self.update_phases(rows)) <= capacity)
        host_memory = self.plan.host_memory
        return Plan(
            phases={**self._first_phases(), **self.update_phases(configured)},
            capacity=capacity,
            micro_batch_rows=min(configured, per_step),
            largest_micro_batch_rows=next(fitting, 0),
            host=in_hosts_memory(
                self.models.policy,
                self.models.critic,
                self._spread,
                has_reference=self._has_reference,
                has_adapters=config.lora.rank is not None,
                keeps_copy=config.keeps_copy,
            ),
            num_processes=self.plan.num_gpus,
            host_capacity=None if host_memory is None else host_memory * GIB,
        )

    def _rows_per_step(self, num_minibatches: int) -> int:
        """Returns the rows of an optimizer step in one process."""
        return -(-self.config.num_groups * self.config.group_size // (num_minibatches * self.plan.num_gpus))

    def update_phases(self, num_rows: int) -> Phases:
        """Returns the phases of an update with at most `num_rows` of the longest rows per micro-batch."""
        config, models, spread, num_turns = self.config, self.models, self._spread, self.models.row.num_turns
        # The passes before an update are over the whole batch, not over an optimizer step's rows
        evaluated = models.policy_evaluation(min(num_rows, self._rows_per_step(1)) * num_turns)
        together = {"gathered": gathered(models.policy, spread, is_trained=False)}
        phases = {"evaluate": self._held("reference") | evaluated.parts | together}
        self._add_update(phases, "policy", models.policy, config.ppo.num_minibatches, models.policy_training, num_rows)
        critic = config.algorithm.critic_config
        if models.critic is not None and critic is not None:
            self._add_update(phases, "critic", models.critic, critic.num_minibatches, models.critic_training, num_rows)
        if config.acts_on_copy:  # which samples while the update runs
            sampled = self._first_phases()["sample"]
            for parts in phases.values():
                parts |= {name: parts.get(name, 0.0) + sampled[name] for name in ("KV cache", "activations", "logits")}
        return phases

    def _add_update(
        self,
        phases: Phases,
        who: Literal["policy", "critic"],
        model: ModelShape,
        num_minibatches: int,
        passed: Callable[[float], PassBytes],
        num_rows: int,
    ) -> None:
        spread, held_here = self._spread, self._held(who)
        per_step = self._rows_per_step(num_minibatches)
        rows = min(num_rows, per_step)
        found, recomputes = passed(rows * self.models.row.num_turns), self.config.memory.gradient_checkpointing
        phases[f"{who} update"] = {
            **held_here,
            "gradients": gradients_beside(found, model, spread, num_micro_batches=-(-per_step // rows)),
            **found.parts,
            "gathered": gathered(model, spread, is_trained=True, recomputes_layers=recomputes),
        }
        step_gradients = 0.0 if spread.has_buckets else FLOAT32 * model.num_trained / spread.num_shards
        phases[f"{who} step"] = {**held_here, "gradients": step_gradients + step_extras(model, spread)}

    def _first_phases(self) -> Phases:
        """Returns the start of a run, where FSDP2 has whole models before it shards them, and the sampling."""
        config, models, spread, row, policy = (
            self.config,
            self.models,
            self._spread,
            self.models.row,
            self.models.policy,
        )
        of_training, of_evaluation = episodes_side_by_side(config, self.plan)
        longer = max(0, config.evaluated_sampling.max_new_tokens - config.sampling.max_new_tokens)
        lengths = [(max(1, of_training), row.num_tokens), (of_evaluation, row.num_tokens + row.num_turns * longer)]
        num_rows = max(1, of_training, of_evaluation)
        shown = max(row.first.num_tokens, row.later.num_tokens) / row.tokens_per_turn
        sample = self._held() | {
            "KV cache": max(
                kv_cache(policy, spread, num_rows=number, num_tokens=length, num_layers=models.num_layers)
                for number, length in lengths
            ),
            "activations": models.prefill(num_rows * shown).most,
            "logits": float(num_rows * policy.vocab_size * (spread.compute_bytes + SAMPLER_COPIES * FLOAT32)),
            "gathered": float(spread.num_shards > 1) * FLOAT32 * policy.largest_weight,  # for the copy that samples
        }
        if spread.engine != "fsdp2":
            return {"sample": sample}
        start = {
            "weights": float(FLOAT32 * policy.num_parameters),
            "sampler": float(policy.num_parameters * spread.compute_bytes),
            "reference": float(self._has_reference * FLOAT32 * policy.num_trained),
            "critic": 0.0 if models.critic is None else float(FLOAT32 * models.critic.num_trained),
        }
        return {"start": start | self._fixed, "sample": sample}

    def _held(self, at_hand: AtHand | None = None) -> dict[str, float]:
        policy, spread, fixed = self.models.policy, self._spread, self._fixed
        if self.config.acts_on_copy:  # a copy of the policy samples while it is trained; frozen weights are shared
            fixed = fixed | {"sampler": float(policy.num_trained * spread.weight_bytes)}
        return held(policy, self.models.critic, spread, has_reference=self._has_reference, fixed=fixed, at_hand=at_hand)
