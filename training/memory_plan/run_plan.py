"""A run's plan: its phases on a GPU, the largest micro-batch that fits, and changes that would make it fit."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import partial
from typing import Any, Literal

from training.config.processes import EngineName, engine_name, require_engine
from training.config.run_config import RunConfig
from training.config.world_spec import MAX_PARALLEL
from training.engines.host_memory import HostBytes
from training.memory_plan.model_counts import ModelPasses
from training.memory_plan.plan_config import GIB, PlanConfig
from training.memory_plan.plan_memory import (
    AtHand,
    Passes,
    Phase,
    Spread,
    evaluating,
    held,
    in_hosts_memory,
    kv_cache,
    sampling,
    starting,
    stepping,
    updating,
)
from training.run_options import switched
from vlm_envs.errors import VLMEnvsError

WEIGHT_BYTES = {"float32": 4, "bfloat16": 2}
MAX_GPUS = 64
LORA_RANK = 32


@dataclass(frozen=True, kw_only=True)
class Plan:
    """What a run takes.

    Attributes:
        phases: In the order in which they come.
        capacity: Bytes of a GPU.
        micro_batch_rows: Rows of a micro-batch as the run is configured.
        rows_per_step: Rows of an optimiser step in each process.
        largest_micro_batch_rows: The most that fit; 0 where not even one does.
        host: What each process keeps in the host's memory.
        num_processes: Those on one machine.
        host_capacity: Bytes of its memory; None where that is not known, and enough.
    """

    phases: tuple[Phase, ...]
    capacity: float
    micro_batch_rows: int
    rows_per_step: int
    largest_micro_batch_rows: int
    host: HostBytes
    num_processes: int
    host_capacity: float | None

    @property
    def phases_by_name(self) -> dict[str, dict[str, float]]:
        """The phases' parts."""
        return {phase.name: phase.parts for phase in self.phases}

    @property
    def peak(self) -> float:
        """Most bytes of a GPU at a time."""
        return max(phase.total for phase in self.phases)

    @property
    def host_peak(self) -> float:
        """Most bytes of the host's memory at a time, of all processes on it."""
        return self.num_processes * self.host.total

    @property
    def fits(self) -> bool:
        """Whether that is no more than a GPU and its host have."""
        return self.peak <= self.capacity and (self.host_capacity is None or self.host_peak <= self.host_capacity)


def plan_of(config: RunConfig, plan: PlanConfig, passes: ModelPasses) -> Plan:
    """Returns what a run takes on its GPUs."""
    per_step = rows_per_step(config, plan)
    capacity = plan.gpu_memory * GIB

    def fits(num_rows: int) -> bool:
        return all(phase.total <= capacity for phase in update_phases(config, plan, passes, num_rows))

    most = micro_batch_limit(config, passes.row.num_tokens)

    return Plan(
        phases=(
            *_starting(config, plan, passes),
            _sampling(config, plan, passes),
            *update_phases(config, plan, passes, most),
        ),
        capacity=capacity,
        micro_batch_rows=min(most, per_step),
        rows_per_step=per_step,
        largest_micro_batch_rows=max((number for number in range(1, per_step + 1) if fits(number)), default=0),
        host=in_hosts_memory(
            passes.policy_shape,
            passes.critic_shape,
            spread_of(config, plan),
            has_reference=_has_reference(config),
            has_adapters=config.lora.rank is not None,
            keeps_copy=config.keeps_copy,
        ),
        num_processes=plan.num_gpus,
        host_capacity=None if plan.host_memory is None else plan.host_memory * GIB,
    )


def rows_per_step(config: RunConfig, plan: PlanConfig) -> int:
    """Returns the rows of the policy's optimiser step that one process has."""
    of_all = config.num_groups * config.group_size // config.ppo.num_minibatches
    return -(-of_all // plan.num_gpus)


def micro_batch_limit(config: RunConfig, num_tokens: int) -> int:
    """Returns how many of the longest rows go through a model together where there are as many."""
    budget = config.ppo.micro_batch_tokens
    return config.ppo.micro_batch_size if budget is None else max(1, budget // num_tokens)


def episodes_side_by_side(config: RunConfig, plan: PlanConfig) -> tuple[int, str]:
    """Returns the most episodes that one process plays at a time, and what for: training or an evaluation.

    Worlds are evaluated one after another, on levels that processes share out; groups are never torn apart.
    """
    of_training, of_evaluation = _side_by_side(config, plan)
    if of_evaluation > of_training:
        return of_evaluation, "an evaluation"
    return max(1, of_training), "training"


def _side_by_side(config: RunConfig, plan: PlanConfig) -> tuple[int, int]:
    """Returns how many episodes one process plays at a time in training, and in an evaluation."""
    validates = config.eval_every > 0
    evaluated = max(config.num_eval_episodes, config.num_val_episodes if validates else 0)
    of_training = -(-config.num_groups // plan.num_gpus) * config.group_size if config.num_iterations else 0
    return of_training, min(MAX_PARALLEL, -(-evaluated // plan.num_gpus))


def spread_of(config: RunConfig, plan: PlanConfig, *, is_fused: bool = True) -> Spread:
    """Returns how a run's models lie on its GPUs."""
    engine = planned_engine(config, plan)
    return Spread(
        engine=engine,
        num_processes=plan.num_gpus,
        compute_bytes=WEIGHT_BYTES[config.dtype],
        is_fused=is_fused,
        offloads_reference=config.memory.offload_reference and engine != "fsdp2",
        offloads_optimizer=config.memory.offload_optimizer and engine != "fsdp2",
    )


def planned_engine(config: RunConfig, plan: PlanConfig) -> Literal["local", "ddp", "fsdp2"]:
    """Returns the engine of a run on so many GPUs.

    Raises:
        ConfigError: If the run's own does not go with them, or with what it trains.
    """
    # As accelerate would start it, whatever this process was started by
    environment = {"WORLD_SIZE": str(plan.num_gpus)}
    has_adapters = config.lora.rank is not None
    require_engine(
        config.engine,
        num_groups=config.num_groups,
        has_adapters=has_adapters,
        critic_trunk=config.algorithm.critic_trunk,
        environment=environment,
    )
    return engine_name(config.engine, environment)


def update_phases(
    config: RunConfig, plan: PlanConfig, passes: ModelPasses, num_rows: int, *, is_fused: bool = True
) -> list[Phase]:
    """Returns the phases of an update with micro-batches of so many of the longest rows, or of all that there are."""
    spread = spread_of(config, plan, is_fused=is_fused)
    always = partial(_held, config, plan, passes, spread)
    per_step, row = rows_per_step(config, plan), passes.row
    # The passes before an update are over the whole batch, not over an optimiser step's rows
    num_before = min(num_rows, -(-config.num_groups * config.group_size // plan.num_gpus)) * row.num_turns
    of_policy = min(num_rows, per_step)
    policy = Passes(
        training=passes.policy_training(of_policy * row.num_turns),
        evaluation=passes.policy_evaluation(num_before),
        layers=passes.prefill(num_before),
        num_micro_batches=-(-per_step // of_policy),
        recomputes_layers=config.memory.gradient_checkpointing,
    )
    phases = [
        evaluating(always(at_hand="reference"), passes.policy_shape, spread, policy),
        updating(always(at_hand="policy"), passes.policy_shape, spread, policy, what="policy"),
        stepping(always(at_hand="policy"), passes.policy_shape, spread, what="policy"),
    ]
    critic = config.algorithm.critic_config
    if passes.critic_shape is not None and critic is not None:
        per_step = -(-config.num_groups * config.group_size // (critic.num_minibatches * plan.num_gpus))
        num_rows = min(num_rows, per_step)
        trained = passes.critic_training(num_rows * row.num_turns)
        of_critic = replace(policy, training=trained, num_micro_batches=-(-per_step // num_rows))
        phases += [
            updating(always(at_hand="critic"), passes.critic_shape, spread, of_critic, what="critic"),
            stepping(always(at_hand="critic"), passes.critic_shape, spread, what="critic"),
        ]
    return [_with(phase, _sampled_beside(config, plan, passes)) for phase in phases]


def _sampled_beside(config: RunConfig, plan: PlanConfig, passes: ModelPasses) -> dict[str, float]:
    """Returns what sampling takes on this device while the update goes on."""
    if not config.acts_on_copy:
        return {}
    parts = _sampling(config, plan, passes).parts
    return {name: parts[name] for name in ("KV cache", "activations", "logits")}


def _with(phase: Phase, beside: dict[str, float]) -> Phase:
    return replace(phase, parts=phase.parts | {name: phase.parts.get(name, 0.0) + beside[name] for name in beside})


def _sampling(config: RunConfig, plan: PlanConfig, passes: ModelPasses) -> Phase:
    spread, row = spread_of(config, plan), passes.row
    num_rows, _ = episodes_side_by_side(config, plan)
    of_training, of_evaluation = _side_by_side(config, plan)
    longer = max(0, config.evaluated_sampling.max_new_tokens - config.sampling.max_new_tokens)
    caches = [
        kv_cache(
            passes.policy_shape,
            spread,
            num_rows=number,
            num_tokens=num_tokens,
            num_layers=passes.model.config.get_text_config().num_hidden_layers,
        )
        for number, num_tokens in (
            (max(1, of_training), row.num_tokens),
            (of_evaluation, row.num_tokens + row.num_turns * longer),
        )
    ]
    shown = max(row.first.num_tokens, row.later.num_tokens) / row.tokens_per_turn
    return sampling(
        _held(config, plan, passes, spread),
        passes.policy_shape,
        spread,
        num_rows=num_rows,
        cache=max(caches),
        prefill=passes.prefill(num_rows * shown),
    )


def _starting(config: RunConfig, plan: PlanConfig, passes: ModelPasses) -> list[Phase]:
    spread, policy, critic = spread_of(config, plan), passes.policy_shape, passes.critic_shape
    if spread.engine != "fsdp2":
        return []
    return [starting(policy, critic, spread, has_reference=_has_reference(config), fixed=_fixed(plan))]


def _fixed(plan: PlanConfig) -> dict[str, float]:
    return {"vLLM": plan.vllm_memory * plan.gpu_memory * GIB, "reserved": plan.reserved * GIB}


def _copy(config: RunConfig, passes: ModelPasses, spread: Spread) -> dict[str, float]:
    """Returns the copy of the policy that samples while it is trained; what is frozen it shares."""
    return {"sampler": float(passes.policy_shape.num_trained * spread.weight_bytes)} if config.acts_on_copy else {}


def _held(
    config: RunConfig, plan: PlanConfig, passes: ModelPasses, spread: Spread, at_hand: AtHand | None = None
) -> dict[str, float]:
    return held(
        passes.policy_shape,
        passes.critic_shape,
        spread,
        has_reference=_has_reference(config),
        fixed=_fixed(plan) | _copy(config, passes, spread),
        at_hand=at_hand,
    )


def _has_reference(config: RunConfig) -> bool:
    return config.has_reference and config.lora.rank is None  # with adapters it is the policy without


Planner = Callable[[RunConfig, PlanConfig], Plan]
"""From a run and its GPUs to its plan."""


@dataclass(frozen=True, kw_only=True)
class Change:
    """Options, and the run and its GPUs with them."""

    options: str
    config: RunConfig
    plan: PlanConfig


@dataclass(frozen=True, kw_only=True)
class Remedy:
    """Options with which a run fits, and its plan then."""

    options: str
    found: Plan


def remedies(config: RunConfig, plan: PlanConfig, planned: Planner) -> list[Remedy]:
    """Returns what makes a run fit: every change that does alone; if none does, the first of them that do together.

    Returns:
        Nothing where all of them together are not enough.
    """
    alone = [change for make in (*CHANGES, *OF_HOST) if (change := make(config, plan)) is not None]
    tried = [Remedy(options=each.options, found=planned(each.config, each.plan)) for each in alone]
    if any(each.found.fits for each in tried):
        return [each for each in tried if each.found.fits]
    options: list[str] = []
    for make in (*CHANGES, *[_with_more_gpus] * MAX_GPUS.bit_length()):
        change = make(config, plan)
        if change is None:
            continue
        options, config, plan = [*_kept(options, change), change.options], change.config, change.plan
        found = planned(config, plan)
        if found.fits:
            return [Remedy(options=" ".join(options), found=found)]
    return []


def _kept(options: list[str], change: Change) -> list[str]:
    """Returns the options that a change does not give another value, or switch off."""
    given = {word.replace(".no-", ".") for word in change.options.split() if word.startswith("--")}
    return [each for each in options if not given & {*each.split()}]


def _with_one_row(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.ppo.micro_batch_size == 1 and config.ppo.micro_batch_tokens is None:
        return None
    ppo = replace(config.ppo, micro_batch_size=1, micro_batch_tokens=None)
    return Change(options="--ppo.micro-batch-size 1", config=replace(config, ppo=ppo), plan=plan)


def _with_fewer_evaluated(config: RunConfig, plan: PlanConfig) -> Change | None:
    """As many levels as there are rows of training, which are played side by side in any case."""
    num_rows = config.num_groups * config.group_size
    evaluated = {"num_eval_episodes": config.num_eval_episodes}
    if config.eval_every > 0:
        evaluated["num_val_episodes"] = config.num_val_episodes
    fewer: dict[str, Any] = {name: num_rows for name, number in evaluated.items() if number > num_rows}
    if not fewer:
        return None
    options = " ".join(f"--{name.replace('_', '-')} {number}" for name, number in fewer.items())
    return Change(options=options, config=replace(config, **fewer), plan=plan)


def _with_idle_states(config: RunConfig, plan: PlanConfig) -> Change | None:
    has_critic = config.algorithm.critic_config is not None  # without one, AdamW's only states are needed at the most
    if not has_critic or config.memory.offload_optimizer or planned_engine(config, plan) == "fsdp2":
        return None
    memory = replace(config.memory, offload_optimizer=True)
    return Change(options="--memory.offload-optimizer", config=replace(config, memory=memory), plan=plan)


def _with_idle_reference(config: RunConfig, plan: PlanConfig) -> Change | None:
    has_copy = config.has_reference and config.lora.rank is None
    if not has_copy or config.memory.offload_reference or planned_engine(config, plan) == "fsdp2":
        return None
    memory = replace(config.memory, offload_reference=True)
    return Change(options="--memory.offload-reference", config=replace(config, memory=memory), plan=plan)


def _with_all_saved(config: RunConfig, plan: PlanConfig) -> Change | None:
    """A checkpoint behind every iteration, beside which the host keeps no copy of the state."""
    if plan.host_memory is None or not config.keeps_copy:
        return None
    return Change(options="--checkpoint-every 1", config=replace(config, checkpoint_every=1), plan=plan)


def _with_nothing_waiting(config: RunConfig, plan: PlanConfig) -> Change | None:
    options = _switched_off(config, "offload_optimizer", "offload_reference")
    if plan.host_memory is None or not options:
        return None
    memory = replace(config.memory, offload_optimizer=False, offload_reference=False)
    return Change(options=" ".join(options), config=replace(config, memory=memory), plan=plan)


def _with_nothing_on_the_host(config: RunConfig, plan: PlanConfig) -> Change | None:
    saved, waiting = _with_all_saved(config, plan), _with_nothing_waiting(config, plan)
    if saved is None or waiting is None:
        return None
    both = replace(waiting.config, checkpoint_every=1)
    return Change(options=f"{saved.options} {waiting.options}", config=both, plan=plan)


def _with_half_the_bits(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.dtype == "bfloat16":
        return None
    return Change(options="--dtype bfloat16", config=replace(config, dtype="bfloat16"), plan=plan)


def _with_checkpoints(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.memory.gradient_checkpointing:
        return None
    memory = replace(config.memory, gradient_checkpointing=True)
    return Change(options="--memory.gradient-checkpointing", config=replace(config, memory=memory), plan=plan)


def _with_frozen_tower(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.memory.freeze_vision_tower or config.lora.rank is not None:
        return None
    memory = replace(config.memory, freeze_vision_tower=True)
    return Change(options="--memory.freeze-vision-tower", config=replace(config, memory=memory), plan=plan)


def _with_adapters(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.lora.rank is not None or config.engine == "fsdp2":
        return None
    memory = replace(config.memory, offload_reference=False, freeze_vision_tower=False)  # which adapters make idle
    try:
        adapted = replace(config, lora=replace(config.lora, rank=LORA_RANK), memory=memory)
    except VLMEnvsError:  # some algorithms or places do not go with adapters
        return None
    switches = _switched_off(config, "offload_reference", "freeze_vision_tower")
    return Change(options=" ".join([f"--lora.rank {LORA_RANK}", *switches]), config=adapted, plan=plan)


def _with_shards(config: RunConfig, plan: PlanConfig) -> Change | None:
    if plan.num_gpus == 1 or config.engine == "fsdp2" or config.lora.rank is not None:
        return None
    return Change(options="--engine fsdp2", config=replace(config, engine="fsdp2"), plan=plan)


def _without_reference(config: RunConfig, plan: PlanConfig) -> Change | None:
    if not config.has_reference:
        return None
    ppo = replace(config.ppo, kl_coef=0.0, kl_placement="reward", kl_estimator=None)
    memory = replace(config.memory, offload_reference=False)
    options = " ".join(["--ppo.kl-coef 0", *_switched_off(config, "offload_reference")])
    return Change(options=options, config=replace(config, ppo=ppo, memory=memory), plan=plan)


def _switched_off(config: RunConfig, *names: str) -> list[str]:
    """Returns the options that switch off what is on of a run's settings of memory."""
    return [f"--memory.no-{name.replace('_', '-')}" for name in names if getattr(config.memory, name)]


def _without_critic(config: RunConfig, plan: PlanConfig) -> Change | None:
    if config.algorithm.critic_config is None:
        return None
    try:
        without = replace(config, algorithm=switched(config.algorithm, "grpo"))
    except VLMEnvsError:  # siblings are lacking, for instance
        return None
    return Change(options="--algorithm grpo", config=without, plan=plan)


def _with_more_gpus(config: RunConfig, plan: PlanConfig) -> Change | None:
    """Twice as many, of which FSDP2 makes the most, but that it takes no adapters; each has a group to play."""
    num_gpus = 2 * plan.num_gpus
    if num_gpus > min(MAX_GPUS, config.num_groups):
        return None
    engine: EngineName = "fsdp2" if config.lora.rank is None else "ddp"
    changed = replace(config, engine=engine)
    options = f"--num-gpus {num_gpus} --engine {engine}"
    return Change(options=options, config=changed, plan=replace(plan, num_gpus=num_gpus))


CHANGES = (
    _with_one_row,
    _with_fewer_evaluated,
    _with_checkpoints,
    _with_idle_reference,
    _with_idle_states,
    _with_all_saved,
    _with_half_the_bits,
    _with_shards,
    _without_reference,
    _without_critic,
    _with_adapters,
    _with_frozen_tower,
    _with_more_gpus,
)
"""What can be changed, that first which costs least."""

OF_HOST = (_with_nothing_waiting, _with_nothing_on_the_host)
"""What can be changed besides if the host's memory is too small, by itself: it takes more of a GPU's."""
