"""A plan from a configuration and a checkpoint's config.json, as text and as data."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import torch

from training.config.run_config import RunConfig
from training.memory_plan.model_counts import ModelPasses, ModelShape, model_without_memory
from training.memory_plan.plan_config import GIB, PlanConfig
from training.memory_plan.plan_memory import FLOAT32, PARTS, Work, work_of
from training.memory_plan.plan_rows import RowShape, longest_row
from training.memory_plan.run_plan import (
    MAX_GPUS,
    Plan,
    Remedy,
    episodes_side_by_side,
    plan_of,
    planned_engine,
    remedies,
    spread_of,
)

DECIDED_BY = {
    "weights": "parameters x bytes of --dtype; x 4 with several GPUs, shared by fsdp2",
    "sampler": "a whole copy in --dtype to sample with (fsdp2; ddp in bfloat16); with --staleness 1 what is trained",
    "masters": "4 bytes a trained parameter, for one GPU in bfloat16",
    "Adam": "8 bytes a trained parameter",
    "gradients": "4 bytes a trained parameter, and those of one backward pass",
    "reference": "a copy of the weights (--ppo.kl-coef)",
    "critic": "a copy of the weights, masters and Adam (--algorithm)",
    "activations": "tokens of a micro-batch x layers",
    "logits": "a chunk of tokens x vocabulary; when sampling, episodes",
    "KV cache": "episodes x tokens x layers x heads for keys and values",
    "buckets": "ddp: 4 bytes a trained parameter, of policy and critic",
    "gathered": "fsdp2: layers, and what is in none; ddp: weights in --dtype",
    "vLLM": "--vllm-memory x --gpu-memory",
    "reserved": "--reserved: CUDA's context, kernels, gaps",
}


class Planner:
    """Plans variants of a run, and counts again only what differs between them.

    Args:
        config: The run.
        plan: Its GPUs.
        directory: The checkpoint's, with a config.json.
    """

    def __init__(self, config: RunConfig, plan: PlanConfig, directory: Path) -> None:
        self._directory = directory
        self._passes: dict[Any, ModelPasses] = {}
        spread_of(config, plan)  # what cannot be started is refused before anything is counted
        model = model_without_memory(directory, getattr(torch, config.dtype))
        self.row: RowShape = longest_row(config, plan, model.config, directory)

    def passes(self, config: RunConfig, plan: PlanConfig) -> ModelPasses:
        """Returns the passes of a run's models; of one with other rows they are the same."""
        dtype = torch.float32 if spread_of(config, plan).activation_bytes == FLOAT32 else torch.bfloat16
        key = (
            dtype,
            (config.memory.gradient_checkpointing, config.memory.freeze_vision_tower),
            config.lora,
            config.algorithm.critic_config is not None,
            config.ppo.entropy_coef > 0,
        )
        if key not in self._passes:
            model = model_without_memory(self._directory, dtype)
            self._passes[key] = ModelPasses(model, config, self.row)
        return self._passes[key]

    def __call__(self, config: RunConfig, plan: PlanConfig) -> Plan:
        """Returns a run's plan."""
        return plan_of(config.decided(), plan, self.passes(config.decided(), plan))


def show_plan(config: RunConfig, plan: PlanConfig, directory: Path) -> str | None:
    """Prints a run's plan.

    Returns:
        None where it fits; else why not, and what would make it fit.
    """
    planner = Planner(config, plan, directory)
    found, passes = planner(config, plan), planner.passes(config.decided(), plan)
    work = work_of(config.decided(), plan, planner.row, passes.policy_shape, passes.critic_shape)
    if not plan.json:  # before any remedy is looked for, which takes longer than the plan itself
        lines = text_of(config, plan, found, row=planner.row, policy=passes.policy_shape, work=work)
        print("\n".join([*lines, *([verdict(plan, found)] if found.fits else [])]), flush=True)
    ways: list[Remedy] = [] if found.fits else remedies(config, plan, planner)
    if plan.json:
        data = data_of(config, plan, found, row=planner.row, policy=passes.policy_shape, work=work, ways=ways)
        print(json.dumps(data, indent=2))
    return None if found.fits else "\n".join([verdict(plan, found), *remedy_lines(ways, plan)])


def text_of(
    config: RunConfig, plan: PlanConfig, found: Plan, *, row: RowShape, policy: ModelShape, work: Work
) -> list[str]:
    """Returns a plan as lines."""
    return [
        _title(config, plan),
        _model_line(policy),
        *_row_lines(row, work),
        _side_by_side_line(config, plan),
        "",
        *_table(found.phases_by_name),
        "",
        *_host_lines(found),
        _micro_batch_line(found, row),
        *_work_lines(config, plan, work),
    ]


def verdict(plan: PlanConfig, found: Plan) -> str:
    """Returns whether a plan fits, in a sentence."""
    phase = max(found.phases, key=lambda each: each.total)
    needs = f"{_gib(found.peak)} of {plan.gpu_memory:g} GiB a GPU, most of it at once in {phase.name!r}"
    needs += _on_host(found)
    return f"Fits: needs {needs}." if found.fits else f"Does not fit: needs {needs}."


def remedy_lines(ways: Sequence[Remedy], plan: PlanConfig) -> list[str]:
    """Returns what would make a run fit that does not."""
    if not ways:
        return [
            f"No option makes it fit, not all of them together on {MAX_GPUS} GPUs. Use GPUs or a host with more "
            "memory, a smaller model or shorter rows (--sampling.max-new-tokens, fewer turns)."
        ]
    return [
        "It fits with any of these:" if len(ways) > 1 else "It fits with:",
        *(
            f"  {way.options}  ({_gib(way.found.peak)} of {plan.gpu_memory:g} GiB{_on_host(way.found)}; up to "
            f"{way.found.largest_micro_batch_rows} rows a micro-batch)"
            for way in ways
        ),
    ]


def data_of(
    config: RunConfig,
    plan: PlanConfig,
    found: Plan,
    *,
    row: RowShape,
    policy: ModelShape,
    work: Work,
    ways: Sequence[Remedy],
) -> dict[str, Any]:
    """Returns a plan as plain data; bytes are per GPU, of `host` per process but for the whole machine's."""
    return {
        "run": config.name,
        "model": config.model,
        "dtype": config.dtype,
        "engine": planned_engine(config, plan),
        "gpus": vars(plan),
        "parameters": vars(policy),
        "row": {
            "num_turns": row.num_turns,
            "num_tokens": row.num_tokens,
            "num_images": row.num_images,
            "num_response_tokens": row.num_response_tokens,
            "how": row.told,
        },
        "phases": {name: {**parts, "total": sum(parts.values())} for name, parts in found.phases_by_name.items()},
        "peak": found.peak,
        "capacity": found.capacity,
        "fits": found.fits,
        "host": {
            **vars(found.host),
            "process": found.host.total,
            "machine": found.host_peak,
            "capacity": found.host_capacity,
        },
        "micro_batch_rows": found.micro_batch_rows,
        "largest_micro_batch_rows": found.largest_micro_batch_rows,
        "largest_micro_batch_tokens": found.largest_micro_batch_rows * row.num_tokens,
        "work": vars(work),
        "remedies": {way.options: way.found.peak for way in ways},
    }


def _title(config: RunConfig, plan: PlanConfig) -> str:
    gpus = f"{plan.num_gpus} GPU{'s' * (plan.num_gpus > 1)} of {plan.gpu_memory:g} GiB"
    how = {
        "local": "alone",
        "ddp": "a whole model on each (--engine ddp)",
        "fsdp2": "shared by FSDP2 (--engine fsdp2)",
    }[planned_engine(config, plan)]
    return f"{config.name} with {config.model} in {config.dtype} on {gpus}, {how}. Planned, not measured."


def _model_line(shape: ModelShape) -> str:
    head = f"head {_count(shape.num_head)}" if shape.num_head else "head tied to them"
    return (
        f"Model: {_count(shape.num_parameters)} parameters: language {_count(shape.num_language)}, embeddings "
        f"{_count(shape.num_embeddings)} ({head}), vision {_count(shape.num_vision)}; {_count(shape.num_trained)} "
        "trained."
    )


def _row_lines(row: RowShape, work: Work) -> list[str]:
    pictures = row.first.num_image_tokens + (row.num_turns - 1) * row.later.num_image_tokens
    turns = f"{row.num_turns} turn{'s' * (row.num_turns > 1)}"
    return [
        f"Rows:  {work.num_episodes} an iteration, the longest with {row.num_tokens:,} tokens in {turns}, {pictures:,} "
        f"of them of {row.num_images} picture{'s' * (row.num_images != 1)}",
        f"       ({row.told}).",
    ]


def _side_by_side_line(config: RunConfig, plan: PlanConfig) -> str:
    number, what = episodes_side_by_side(config, plan)
    return f"       Up to {number} episodes side by side in a process, in {what}."


def _table(phases: Mapping[str, Mapping[str, float]]) -> list[str]:
    """Returns bytes by part and phase in GiB, in aligned columns."""
    lines = [["GiB per GPU", *phases, "decided by"]]
    for part in PARTS:
        values = [parts.get(part, 0.0) for parts in phases.values()]
        lines.append([part, *map(_cell, values), DECIDED_BY[part]])
    lines.append(["all", *(_cell(sum(parts.values())) for parts in phases.values()), ""])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    last = len(widths) - 1
    return [
        "  ".join(
            cell.ljust(width) if index in (0, last) else cell.rjust(width)
            for index, (cell, width) in enumerate(zip(line, widths, strict=True))
        ).rstrip()
        for line in lines
    ]


def _host_lines(found: Plan) -> list[str]:
    """Returns what the run keeps in the host's memory."""
    host, number = found.host, found.num_processes
    of_all = f", {_gib(found.host_peak)} in {number} processes of one machine" if number > 1 else ""
    return [
        f"Host memory: {_gib(host.total)} GiB a process{of_all}, all of it at once while sampling: "
        f"{_gib(host.reference)} reference (--memory.offload-reference),",
        f"  {_gib(host.states)} masters and Adam (--memory.offload-optimizer), {_gib(host.copy)} a copy of the state, "
        "to save a run that fails (none with --checkpoint-every 1).",
        "  Python, worlds and pictures come to it, and the model once more while it is saved.",
    ]


def _on_host(found: Plan) -> str:
    """Returns what is needed of the host's memory, behind what is needed of a GPU; nothing if that is not compared."""
    if found.host_capacity is None:
        return ""
    return f", and {_gib(found.host_peak)} of {found.host_capacity / GIB:g} GiB of the host's memory"


def _micro_batch_line(found: Plan, row: RowShape) -> str:
    rows, per_step = found.largest_micro_batch_rows, found.rows_per_step
    now = f"{found.micro_batch_rows} as configured"
    if not rows:
        return f"Largest micro-batch: not one row fits ({now})."
    whole = ", all that a GPU has of an optimiser step" if rows == per_step else ""
    return (
        f"Largest micro-batch: {rows} of the longest rows, {rows * row.num_tokens:,} tokens{whole} ({now}): "
        f"--ppo.micro-batch-size {rows}, or --ppo.micro-batch-tokens {rows * row.num_tokens}."
    )


def _work_lines(config: RunConfig, plan: PlanConfig, work: Work) -> list[str]:
    lines = [
        f"Each iteration, at most: {work.sampled_tokens:,} tokens sampled, {work.trained_tokens:,} trained on, "
        f"{work.num_images:,} pictures; {work.training_flops:.2g} operations in the update,",
        f"  {work.training_s:,.0f} s at {plan.utilization:.0%} of {plan.gpu_tflops:g} TFLOPS (an estimate).",
    ]
    hours = f"{config.num_iterations} iterations in {plan.hours:g} h leave {work.iteration_s:,.0f} s each"
    if work.needed_tokens_per_s is None:
        return [*lines, f"{hours}, which the update alone exceeds: more GPUs, fewer iterations or smaller groups."]
    return [*lines, f"{hours}: {work.needed_tokens_per_s:,.0f} tokens a second have to be sampled, on all GPUs."]


def _count(number: int) -> str:
    for size, unit in ((10**9, "B"), (10**6, "M"), (10**3, "k")):
        if number >= size:
            return f"{number / size:.3g} {unit}" if unit != "B" else f"{number / size:.2f} {unit}"
    return str(number)


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f}"


def _cell(num_bytes: float) -> str:
    return "-" if num_bytes == 0 else f"{num_bytes / GIB:.2f}"
