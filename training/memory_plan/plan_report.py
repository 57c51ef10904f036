"""A memory plan as a table with a verdict, suggestions for a run that does not fit, and the same as JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import torch

from training.config.run_config import RunConfig
from training.memory_plan.memory_estimate import Plan, Planner, episodes_side_by_side, spread_of
from training.memory_plan.model_bytes import FLOAT32, ModelBytes, ModelShape, model_without_memory
from training.memory_plan.plan_config import PlanConfig
from training.memory_plan.plan_rows import GIB, RowShape, longest_row
from vlm_envs.terminal_tables import table

PARTS = {
    "weights": "parameters x bytes of --dtype; x 4 with several GPUs, shared by fsdp2",
    "sampler": "a full copy in --dtype to sample with (fsdp2; ddp in bfloat16); with --staleness 1 the trained weights",
    "masters": "4 bytes per trained parameter, for one GPU in bfloat16",
    "Adam": "8 bytes per trained parameter",
    "gradients": "4 bytes per trained parameter, and those of one backward pass",
    "reference": "a copy of the weights (--ppo.kl-coef)",
    "critic": "a copy of the weights, masters and Adam (--algorithm)",
    "activations": "tokens of a micro-batch x layers",
    "logits": "a chunk of tokens x vocabulary; when sampling, episodes",
    "KV cache": "episodes x tokens x layers x heads for keys and values",
    "buckets": "ddp: 4 bytes per trained parameter of policy and critic",
    "gathered": "fsdp2: layers and weights outside of them; ddp: weights in --dtype",
    "vLLM": "--vllm-memory x --gpu-memory",
    "reserved": "--reserved: CUDA's context, kernels, gaps",
}
"""Parts of a phase, and the factors that determine their size."""
SAVING = (
    "--ppo.micro-batch-size 1, --memory.gradient-checkpointing, --memory.offload-optimizer, --checkpoint-every 1 "
    "(of the host), --ppo.kl-coef 0, --lora.rank 32, more GPUs with --engine fsdp2, "
    "shorter rows (--sampling.max-new-tokens)"
)
"""Options that save memory, the cheapest first."""


def show_plan(config: RunConfig, plan: PlanConfig, directory: Path) -> str | None:
    """Prints a run's plan.

    Returns:
        None if the run fits; otherwise the reason, and options that save memory.
    """
    spread = spread_of(config, plan)  # raises for a run that cannot start, before anything is counted
    dtype = torch.float32 if spread.activation_bytes == FLOAT32 else torch.bfloat16
    model = model_without_memory(directory, dtype)
    row = longest_row(config, plan, model.config, directory)
    config = config.decided()
    models = ModelBytes(model, config, row)
    found, shape = Planner(config, plan, models).planned(), models.policy
    if plan.json:
        print(json.dumps(data_of(config, plan, found, row, shape), indent=2))
    else:
        print("\n".join(text_of(config, plan, found, row, shape)), flush=True)
    if not found.fits:
        return f"{verdict(plan, found)} Try options that save memory: {SAVING}."
    if not plan.json:
        print(verdict(plan, found))
    return None


def verdict(plan: PlanConfig, found: Plan) -> str:
    """Returns a sentence that states whether a plan fits."""
    phase = max(found.phases, key=lambda name: sum(found.phases[name].values()))
    needs = f"{_gib(found.peak)} of {plan.gpu_memory:g} GiB per GPU, with the peak in {phase!r}"
    if found.host_capacity is not None:
        needs += f", and {_gib(found.host_peak)} of {found.host_capacity / GIB:g} GiB of the host's memory"
    return f"Fits: needs {needs}." if found.fits else f"Does not fit: needs {needs}."


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


def data_of(config: RunConfig, plan: PlanConfig, found: Plan, row: RowShape, shape: ModelShape) -> dict[str, Any]:
    """Returns a plan as plain data; bytes are per GPU, and in `host` per process, except those of the machine."""
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
    }


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f}"
