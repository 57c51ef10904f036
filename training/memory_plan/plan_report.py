"""A memory plan as a table with a verdict, suggestions for a run that does not fit, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from training.config.run_config import RunConfig
from training.memory_plan.memory_estimate import Plan, Planner, episodes_side_by_side, spread_of
from training.memory_plan.model_bytes import FLOAT32, ModelBytes, ModelShape, model_without_memory
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import GIB, RowShape, longest_row
from vlm_envs.errors import VLMEnvsError
from vlm_envs.terminal_tables import table

PARTS = {
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
"""Parts of a phase, and what decides how large they are."""
SUGGESTIONS = (
    "--ppo.micro-batch-size 1",
    "--memory.gradient-checkpointing",
    "--memory.offload-optimizer",
    "--checkpoint-every 1",
    "--ppo.kl-coef 0",
    "--lora.rank 32",
)
"""Options that save memory, those first that cost least; twice the GPUs come to them."""
Changed = Callable[[str], tuple[RunConfig, PlanConfig]]
"""From further options to the run and its GPUs with them; raises VLMEnvsError if they do not go together."""


def show_plan(config: RunConfig, plan: PlanConfig, directory: Path, changed: Changed) -> str | None:
    """Prints a run's plan.

    Returns:
        None if the run fits; else why not, and suggestions.
    """
    spread_of(config, plan)  # refuses a run that cannot be started before anything is counted
    model_config = model_without_memory(directory, getattr(torch, config.dtype)).config
    row = longest_row(config, plan, model_config, directory)

    def planned(config: RunConfig, plan: PlanConfig) -> tuple[Plan, ModelShape]:
        is_float32 = spread_of(config, plan).activation_bytes == FLOAT32
        model = model_without_memory(directory, torch.float32 if is_float32 else torch.bfloat16)
        models = ModelBytes(model, config.decided(), row)
        return Planner(config.decided(), plan, models).planned(), models.policy

    found, shape = planned(config, plan)
    suggested: dict[str, Plan] = {}
    for option in () if found.fits else (*SUGGESTIONS, f"--num-gpus {2 * plan.num_gpus} --engine fsdp2"):
        try:
            other, _ = planned(*changed(option))
        except VLMEnvsError:  # an option that does not go with this run
            continue
        saves_host = found.is_short_of_host_memory and other.host_peak < found.host_peak
        if saves_host or (found.peak > found.capacity and other.peak < found.peak):
            suggested[option] = other
    if plan.json:
        print(json.dumps(data_of(config, plan, found, row, shape, suggested), indent=2))
    else:
        print("\n".join(text_of(config, plan, found, row, shape)), flush=True)
        if found.fits:
            print(verdict(plan, found))
    return None if found.fits else "\n".join([verdict(plan, found), *suggestion_lines(suggested, plan)])


def verdict(plan: PlanConfig, found: Plan) -> str:
    """Returns whether a plan fits, in a sentence."""
    phase = max(found.phases, key=lambda name: sum(found.phases[name].values()))
    needs = f"{_gib(found.peak)} of {plan.gpu_memory:g} GiB a GPU, most of it at once in {phase!r}"
    if found.host_capacity is not None:
        needs += f", and {_gib(found.host_peak)} of {found.host_capacity / GIB:g} GiB of the host's memory"
    return f"Fits: needs {needs}." if found.fits else f"Does not fit: needs {needs}."


def suggestion_lines(suggested: dict[str, Plan], plan: PlanConfig) -> list[str]:
    """Returns options that save memory as a table, each with what the run then needs."""
    if not suggested:
        return ["Use GPUs or a host with more memory, a smaller model or shorter rows (--sampling.max-new-tokens)."]
    has_host = plan.host_memory is not None
    rows = [
        (option, _gib(other.peak), *([_gib(other.host_peak)] * has_host), "yes" if other.fits else "no")
        for option, other in suggested.items()
    ]
    headings = ("with", "GiB per GPU", *(["GiB of the host"] * has_host), "fits")
    return ["Each of these saves memory; they can be combined:", *table(rows, headings=headings)]


def text_of(config: RunConfig, plan: PlanConfig, found: Plan, row: RowShape, shape: ModelShape) -> list[str]:
    """Returns a plan as lines, without the verdict."""
    host, (of_training, of_evaluation) = found.host, episodes_side_by_side(config, plan)
    head = f"head {shape.num_head:,}" if shape.num_head else "head tied to them"
    rows, now = found.largest_micro_batch_rows, f"{found.micro_batch_rows} as configured"
    return [
        f"{config.name} with {config.model} in {config.dtype} on {plan.num_gpus} x {plan.gpu_memory:g} GiB, engine "
        f"{spread_of(config, plan).engine}. Planned, not measured.",
        f"Model: {shape.num_parameters:,} parameters, {shape.num_trained:,} trained; embeddings "
        f"{shape.num_embeddings:,} ({head}), vision {shape.num_vision:,}.",
        f"Rows:  the longest has {row.num_tokens:,} tokens in {row.num_turns} turns, {row.num_image_tokens:,} of them "
        f"of {row.num_images} images ({row.told}).",
        f"       Episodes side by side in a process: {of_training} in training, {of_evaluation} in an evaluation.",
        "",
        *_table(found),
        "",
        f"Host memory: {_gib(host.total)} GiB per process, {_gib(found.host_peak)} on the whole machine: "
        f"{_gib(host.reference)} reference (--memory.offload-reference), {_gib(host.states)} masters and Adam",
        f"  (--memory.offload-optimizer), {_gib(host.copy)} a copy of the state (none with --checkpoint-every 1). "
        "Python, worlds, and images come on top.",
        f"Largest micro-batch: {rows} of the longest rows, {rows * row.num_tokens:,} tokens ({now}): "
        f"--ppo.micro-batch-size {rows}."
        if rows
        else f"Largest micro-batch: not one row fits ({now}).",
    ]


def _table(found: Plan) -> list[str]:
    """Returns bytes by part and phase in GiB, in aligned columns."""
    lines = [["GiB per GPU", *found.phases, "decided by"]]
    for part, reason in PARTS.items():
        cells = (parts.get(part, 0.0) for parts in found.phases.values())
        lines.append([part, *(f"{num / GIB:.2f}" if num else "-" for num in cells), reason])
    lines.append(["all", *(f"{sum(parts.values()) / GIB:.2f}" for parts in found.phases.values()), ""])
    heading, *rows = lines
    return table(rows, headings=heading)


def data_of(
    config: RunConfig, plan: PlanConfig, found: Plan, row: RowShape, shape: ModelShape, suggested: dict[str, Plan]
) -> dict[str, Any]:
    """Returns a plan as plain data; bytes are per GPU, of `host` per process except for the whole machine's."""
    names = ("num_turns", "num_tokens", "num_images", "num_response_tokens")
    return {
        "run": config.name,
        "model": config.model,
        "dtype": config.dtype,
        "engine": spread_of(config, plan).engine,
        "gpus": vars(plan),
        "parameters": vars(shape),
        "row": {**{name: getattr(row, name) for name in names}, "how": row.told},
        "phases": {name: {**parts, "total": sum(parts.values())} for name, parts in found.phases.items()},
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
        "suggestions": {option: {"peak": other.peak, "fits": other.fits} for option, other in suggested.items()},
    }


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f}"
