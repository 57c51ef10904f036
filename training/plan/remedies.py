"""What would make a run fit that does not: options that there are, tried one by one and then together."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from training.cli.command_line import switched
from training.config.processes import EngineName
from training.config.run import RunConfig
from training.plan.config import PlanConfig
from training.plan.plan import Plan, planned_engine
from vlm_envs.errors import VLMEnvsError

MAX_GPUS = 64
LORA_RANK = 32

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
