"""A memory plan as a table with a verdict, suggestions for a run that does not fit, and the same as JSON."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from training.config.run_config import RunConfig
from training.memory_plan.memory_estimate import Plan, episodes_side_by_side, plan_of, spread_of
from training.memory_plan.model_bytes import FLOAT32, ModelBytes, model_without_memory
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
FORWARD, BACKWARD = 2, 4
"""Operations per weight and token, multiplications and additions (Kaplan et al. 2020, table 1)."""

Changed = Callable[[str], tuple[RunConfig, PlanConfig]]
"""From further options to the run and its GPUs with them; raises VLMEnvsError if they do not go together."""


@dataclass(frozen=True, kw_only=True)
class Work:
    """The work of an iteration at most, on all GPUs together.

    Attributes:
        num_episodes: Episodes trained on.
        sampled_tokens: Tokens drawn, if every response is as long as it may be.
        trained_tokens: Tokens of rows in backward passes, prompts included.
        num_images: Images shown.
        training_flops: Operations of the update and of the passes before it.
        training_s: Seconds they take at the expected utilization.
        iteration_s: Seconds an iteration may take.
        needed_tokens_per_s: Sampled tokens per second needed then; None if the update alone takes longer.
    """

    num_episodes: int
    sampled_tokens: int
    trained_tokens: int
    num_images: int
    training_flops: float
    training_s: float
    iteration_s: float
    needed_tokens_per_s: float | None


def work_of(config: RunConfig, plan: PlanConfig, models: ModelBytes) -> Work:
    """Returns the work of a run's iteration; attention between tokens is left out, as is usual for short rows."""
    row, policy, ppo, critic = models.row, models.policy, config.ppo, config.algorithm.critic_config
    num_episodes = config.num_groups * config.group_size
    num_played = num_episodes * config.algorithm.max_sampling_rounds
    num_scored = row.num_turns * row.num_response_tokens
    language = row.num_tokens * policy.num_language + num_scored * (policy.num_head or policy.num_embeddings)
    num_before = (ppo.old_logprobs == "trainer") + config.has_reference + (critic is not None)
    num_trained = ppo.num_epochs + (critic.num_epochs if critic is not None else 0)
    per_epoch = FORWARD + BACKWARD + FORWARD * config.memory.gradient_checkpointing
    passes = FORWARD * num_before + per_epoch * num_trained
    flops = float(num_episodes * passes * (language + row.num_patches * policy.num_vision))
    training_s = flops / (plan.num_gpus * plan.gpu_tflops * 1e12 * plan.utilization)
    iteration_s = plan.hours * 3600 / max(1, config.num_iterations)
    sampled, left_s = num_played * num_scored, iteration_s - training_s
    return Work(
        num_episodes=num_episodes,
        sampled_tokens=sampled,
        trained_tokens=num_episodes * row.num_tokens * ppo.num_epochs,
        num_images=num_played * row.num_images,
        training_flops=flops,
        training_s=training_s,
        iteration_s=iteration_s,
        needed_tokens_per_s=sampled / left_s if left_s > 0 else None,
    )


def show_plan(config: RunConfig, plan: PlanConfig, directory: Path, changed: Changed) -> str | None:
    """Prints a run's plan.

    Returns:
        None if the run fits; else why not, and suggestions.
    """
    spread_of(config, plan)  # refuses a run that cannot be started before anything is counted
    model_config = model_without_memory(directory, getattr(torch, config.dtype)).config
    row = longest_row(config, plan, model_config, directory)

    def counted(config: RunConfig, plan: PlanConfig) -> ModelBytes:
        is_float32 = spread_of(config, plan).activation_bytes == FLOAT32
        model = model_without_memory(directory, torch.float32 if is_float32 else torch.bfloat16)
        return ModelBytes(model, config.decided(), row)

    models = counted(config, plan)
    found, work = plan_of(config.decided(), plan, models), work_of(config.decided(), plan, models)
    suggested: dict[str, Plan] = {}
    if not found.fits:
        for option in (*SUGGESTIONS, f"--num-gpus {2 * plan.num_gpus} --engine fsdp2"):
            try:
                other_config, other_plan = changed(option)
                other = plan_of(other_config.decided(), other_plan, counted(other_config, other_plan))
            except VLMEnvsError:  # an option that does not go with this run
                continue
            saves_host = found.is_short_of_host_memory and other.host_peak < found.host_peak
            if saves_host or (found.peak > found.capacity and other.peak < found.peak):
                suggested[option] = other
    if plan.json:
        print(json.dumps(data_of(config, plan, found, models=models, work=work, suggested=suggested), indent=2))
    else:
        print("\n".join(text_of(config, plan, found, models=models, work=work)), flush=True)
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


def text_of(config: RunConfig, plan: PlanConfig, found: Plan, *, models: ModelBytes, work: Work) -> list[str]:
    """Returns a plan as lines, without the verdict."""
    row, shape, host = models.row, models.policy, found.host
    gpus = f"{plan.num_gpus} GPU{'s' * (plan.num_gpus > 1)} of {plan.gpu_memory:g} GiB"
    engines = {"local": "alone", "ddp": "a whole model on each (--engine ddp)"}
    how = engines.get(spread_of(config, plan).engine, "shared by FSDP2 (--engine fsdp2)")
    head = f"head {_count(shape.num_head)}" if shape.num_head else "head tied to them"
    image_tokens = row.first.num_image_tokens + (row.num_turns - 1) * row.later.num_image_tokens
    of_training, of_evaluation = episodes_side_by_side(config, plan)
    of_all = f", {_gib(found.host_peak)} in {found.num_processes} processes of one machine"
    return [
        f"{config.name} with {config.model} in {config.dtype} on {gpus}, {how}. Planned, not measured.",
        f"Model: {_count(shape.num_parameters)} parameters: language {_count(shape.num_language)}, embeddings "
        f"{_count(shape.num_embeddings)} ({head}), vision {_count(shape.num_vision)}; {_count(shape.num_trained)} "
        "trained.",
        f"Rows:  {work.num_episodes} an iteration, the longest with {row.num_tokens:,} tokens in {row.num_turns} "
        f"turn{'s' * (row.num_turns > 1)}, {image_tokens:,} of them of {row.num_images} "
        f"picture{'s' * (row.num_images != 1)}",
        f"       ({row.told}).",
        f"       Up to {max(1, of_training, of_evaluation)} episodes side by side in a process, in "
        f"{'an evaluation' if of_evaluation > of_training else 'training'}.",
        "",
        *_table(found),
        "",
        f"Host memory: {_gib(host.total)} GiB a process{of_all * (found.num_processes > 1)}, all of it at once while "
        f"sampling: {_gib(host.reference)} reference (--memory.offload-reference),",
        f"  {_gib(host.states)} masters and Adam (--memory.offload-optimizer), {_gib(host.copy)} a copy of the state, "
        "to save a run that fails (none with --checkpoint-every 1).",
        "  Python, worlds and pictures come to it, and the model once more while it is saved.",
        _micro_batch_line(found, row),
        *_work_lines(config, plan, work),
    ]


def _table(found: Plan) -> list[str]:
    """Returns bytes by part and phase in GiB, in aligned columns."""
    phases = found.phases.values()
    lines = [["GiB per GPU", *found.phases, "decided by"]]
    lines += [[part, *(_cell(parts.get(part, 0.0)) for parts in phases), reason] for part, reason in PARTS.items()]
    lines.append(["all", *(_cell(sum(parts.values())) for parts in phases), ""])
    widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
    return [
        "  ".join(
            [first.ljust(widths[0]), *(cell.rjust(width) for cell, width in zip(cells, widths[1:], strict=False)), last]
        ).rstrip()
        for first, *cells, last in lines
    ]


def _micro_batch_line(found: Plan, row: RowShape) -> str:
    rows, now = found.largest_micro_batch_rows, f"{found.micro_batch_rows} as configured"
    if not rows:
        return f"Largest micro-batch: not one row fits ({now})."
    whole = ", all that a GPU has of an optimiser step" if rows == found.rows_per_step else ""
    return (
        f"Largest micro-batch: {rows} of the longest rows, {rows * row.num_tokens:,} tokens{whole} ({now}): "
        f"--ppo.micro-batch-size {rows}, or --ppo.micro-batch-tokens {rows * row.num_tokens}."
    )


def _work_lines(config: RunConfig, plan: PlanConfig, work: Work) -> list[str]:
    hours = f"{config.num_iterations} iterations in {plan.hours:g} h leave {work.iteration_s:,.0f} s each"
    needed = f"{hours}, which the update alone exceeds: more GPUs, fewer iterations or smaller groups."
    if work.needed_tokens_per_s is not None:
        needed = f"{hours}: {work.needed_tokens_per_s:,.0f} tokens a second have to be sampled, on all GPUs."
    return [
        f"Each iteration, at most: {work.sampled_tokens:,} tokens sampled, {work.trained_tokens:,} trained on, "
        f"{work.num_images:,} pictures; {work.training_flops:.2g} operations in the update,",
        f"  {work.training_s:,.0f} s at {plan.utilization:.0%} of {plan.gpu_tflops:g} TFLOPS (an estimate).",
        needed,
    ]


def data_of(
    config: RunConfig, plan: PlanConfig, found: Plan, *, models: ModelBytes, work: Work, suggested: dict[str, Plan]
) -> dict[str, Any]:
    """Returns a plan as plain data; bytes are per GPU, of `host` per process except for the whole machine's."""
    row, host = models.row, found.host
    names = ("num_turns", "num_tokens", "num_images", "num_response_tokens")
    return {
        "run": config.name,
        "model": config.model,
        "dtype": config.dtype,
        "engine": spread_of(config, plan).engine,
        "gpus": vars(plan),
        "parameters": vars(models.policy),
        "row": {**{name: getattr(row, name) for name in names}, "how": row.told},
        "phases": {name: {**parts, "total": sum(parts.values())} for name, parts in found.phases.items()},
        "peak": found.peak,
        "capacity": found.capacity,
        "fits": found.fits,
        "host": {
            **vars(host),
            "process": host.total,
            "machine": found.host_peak,
            "capacity": found.host_capacity,
        },
        "micro_batch_rows": found.micro_batch_rows,
        "largest_micro_batch_rows": found.largest_micro_batch_rows,
        "largest_micro_batch_tokens": found.largest_micro_batch_rows * row.num_tokens,
        "work": vars(work),
        "suggestions": {option: {"peak": other.peak, "fits": other.fits} for option, other in suggested.items()},
    }


def _count(number: int) -> str:
    for size, text in ((10**9, f"{number / 10**9:.2f} B"), (10**6, f"{number / 10**6:.3g} M")):
        if number >= size:
            return text
    return f"{number / 1000:.3g} k" if number >= 1000 else str(number)


def _gib(num_bytes: float) -> str:
    return f"{num_bytes / GIB:.1f}"


def _cell(num_bytes: float) -> str:
    return "-" if num_bytes == 0 else f"{num_bytes / GIB:.2f}"
