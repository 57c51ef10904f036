"""Whether what samples can be had, asked before anything costly."""

from __future__ import annotations

from agents.vllm.installed import require_msgpack, require_vllm
from training.config.processes import num_processes
from training.config.run import RunConfig
from vlm_envs.validation import require


def require_sampler(config: RunConfig) -> None:
    """Refuses to sample with vLLM where its packages are missing, or with more servers than processes that ask them.

    Raises:
        ConfigError: If a server would have nobody to ask it.
        EngineUnavailableError: If a package is not installed.
    """
    if config.sampler != "vllm":
        return
    servers, processes = len(config.vllm.urls), num_processes()
    require(
        servers <= processes,
        f"--vllm.url names {servers} servers for {processes} training process{'es' if processes > 1 else ''}, each of "
        "which asks one. Name fewer; one server takes several GPUs itself, by vLLM's --data-parallel-size.",
    )
    if config.vllm.url is None:
        require_vllm()
    if config.vllm.url is not None or config.vllm.process == "own":
        require_msgpack()
