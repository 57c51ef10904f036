"""Agents (oracle, random, transformers, vLLM, APIs) and the rollout loop that training and evaluation share."""

import vlm_envs  # noqa: F401  # first, because it reports missing packages in one line
from vlm_envs.moved import alias_modules

alias_modules(
    {
        "agents.api.agent": "agents.api.api_agent",
        "agents.api.config": "agents.api.endpoint_config",
        "agents.continuous_rollout": "agents.rollout",
        "agents.episodes": "agents.rollout",
        "agents.hf.agent": "agents.hf.hf_agent",
        "agents.hf.sampling": "agents.hf.sampling_config",
        "agents.lazy": "agents.blind_script",
        "agents.sb3": "agents.sb3_agent",
        "agents.sb3.network": "agents.sb3_agent",
        "agents.vllm.agent": "agents.vllm.vllm_agent",
        "agents.vllm.config": "agents.vllm.vllm_config",
    }
)  # until 0.2.0
