"""Whether what samples can be had, asked before anything costly."""

from __future__ import annotations

from agents.vllm.installed import require_msgpack, require_vllm
from training.config.processes import num_processes
from training.config.run import RunConfig
from vlm_envs.errors import require


def require_sampler(config: RunConfig) -> None:
    """Refuses to sample with vLLM where its packages are missing, or for several processes.

    Raises:
        ConfigError: If several processes train.
        EngineUnavailableError: If a package is not installed.
    """
    if config.sampler != "vllm":
        return
    processes = num_processes()
    require(
        processes == 1,
        f"--sampler vllm samples for one training process, and {processes} were launched. Use --sampler transformers.",
    )
    if config.vllm.url is None:
        require_vllm()
    if config.vllm.url is not None or config.vllm.process == "own":
        require_msgpack()
