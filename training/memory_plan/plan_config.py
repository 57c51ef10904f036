"""Settings of `python -m training plan`."""

from __future__ import annotations

from dataclasses import dataclass

from vlm_envs.validation import require_above, require_at_least, require_between


@dataclass(frozen=True, kw_only=True)
class PlanConfig:
    """Plan the memory of a run on its GPUs from a checkpoint's configuration and tokenizer, without its weights.

    Prints the bytes per GPU of each part of a run in each of its phases, and the largest micro-batch that fits. It
    takes a recipe and its options. The run's `--engine` determines how models are distributed over several GPUs:
    `ddp`, the meaning of `auto` here, keeps a full model on each; `fsdp2` shards it.

    Attributes:
        num_gpus: Number of GPUs, one process each.
        gpu_memory: Memory of one GPU, in GiB.
        context_tokens: Tokens of the longest row, for worlds that cannot be played here; None to measure by playing.
        image_tokens: Image tokens among `context_tokens`.
        vllm_memory: Fraction of each GPU used by a vLLM server on the same GPUs; 0 without one.
        reserved: GiB per GPU not used for tensors: CUDA's context, kernels, and gaps between tensors.
        host_memory: Memory of the machine with all of these GPUs, in GiB; None for no check.
        json: Whether to print JSON instead of a table.
    """

    num_gpus: int = 1
    gpu_memory: float = 80.0
    context_tokens: int | None = None
    image_tokens: int | None = None
    vllm_memory: float = 0.0
    reserved: float = 2.0
    host_memory: float | None = None
    json: bool = False

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_gpus", "context_tokens")
        require_at_least(self, 0, "reserved", "image_tokens")
        require_above(self, 0, "gpu_memory", "host_memory")
        require_between(self, 0, 1, "vllm_memory", includes=(True, False))
