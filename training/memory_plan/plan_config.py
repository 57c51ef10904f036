"""What a run is planned for: GPUs, and how the work is spread over them."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.arguments.ranges import require_above, require_at_least, require_between

GIB = 2**30


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """Say whether a run fits its GPUs, from a checkpoint's config.json alone.

    Prints the bytes that each part of a run takes per GPU in each of its phases, the largest micro-batch that fits, and
    the tokens a second that are needed. It takes the recipe and its options as a run does; nothing is loaded but the
    configuration, and the tokenizer and the image processor where they are there. How models lie on several GPUs says
    the run's own `--engine`: `ddp`, as `auto` is taken here, has a whole one on each, `fsdp2` spreads it over them.

    Attributes:
        num_gpus: GPUs, one process each.
        gpu_memory: Memory of one GPU, in GiB.
        context_tokens: Tokens of the longest row, for worlds that cannot be played here; None plays them.
        image_tokens: How many of those are of pictures.
        vllm_memory: Share of each GPU that a vLLM server beside the trainer takes for itself; 0 without one.
        reserved: GiB of each GPU that are no tensors: CUDA's context, kernels, and gaps between tensors.
        hours: What the whole run is to take, for the tokens a second needed.
        gpu_tflops: What one GPU can do in the type of the weights, in 10^12 operations a second: 989 is an H100's in
            bfloat16, 312 an A100's.
        utilization: Share of it that training and prefilling are expected to reach.
        host_memory: Memory of the machine that has all of these GPUs, in GiB; None leaves out whether it is enough.
        json: Whether JSON is printed in place of a table.
    """

    num_gpus: int = 1
    gpu_memory: float = 80.0
    context_tokens: int | None = None
    image_tokens: int | None = None
    vllm_memory: float = 0.0
    reserved: float = 2.0
    hours: float = 8.0
    gpu_tflops: float = 989.0
    utilization: float = 0.3
    host_memory: float | None = None
    json: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_gpus", "context_tokens")
        require_at_least(self, 0, "reserved", "image_tokens")
        require_above(self, 0, "gpu_memory", "hours", "gpu_tflops", "host_memory")
        require_between(self, 0, 1, "vllm_memory", includes=(True, False))
        require_between(self, 0, 1, "utilization", includes=(False, True))
