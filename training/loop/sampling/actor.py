"""Who acts in a run: agents with the policy's weights, which share what samples for them."""

from __future__ import annotations

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from torch import Tensor

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder
from agents.registry import make_learning_agent
from agents.vllm.vllm_engine import VLLMEngine
from training.config.run import RunConfig
from training.engines.engine import Engine
from training.engines.lora import has_adapters, merged_state
from training.loop.sampling.synced_sampler import SyncedSampler

AGENTS = {
    ("transformers", "barrier"): "hf",
    ("transformers", "async"): "agents.hf.continuous_batching:ContinuousHFAgent",
    ("vllm", "barrier"): "vllm",
    ("vllm", "async"): "agents.vllm.vllm_agent:ContinuousVLLMAgent",
}
"""By what samples and the kind of rollout."""


class Actors:
    """Makes the agents of a run; vLLM is started with the first of them, and shared by all.

    Args:
        config: The run.
        encoder: The chat format.
        processes: Those of the run; all make their agents together.
    """

    def __init__(self, config: RunConfig, encoder: ChatEncoder, processes: Engine) -> None:
        self._config, self._encoder, self._processes = config, encoder, processes
        self._engine: VLLMEngine | None = None

    def agent(self, model: Any, *, seed: int, evaluates: bool = False) -> LearningAgent:
        """Returns an agent that acts with a model, and in no process as in another.

        Args:
            model: The policy, or another one.
            seed: The same in all processes.
            evaluates: Whether it draws as evaluations do.
        """
        config, rank = self._config, self._processes.rank
        seed = seed if rank == 0 else int(np.random.default_rng([seed, rank]).integers(2**62))
        sampling = config.evaluated_sampling if evaluates else config.sampling
        made = {"model": model, "encoder": self._encoder, "sampling": sampling, "seed": seed}
        if config.sampler == "vllm":
            made |= {"engine": self._shared_engine(model), "weights_of": plain_weights}
        return make_learning_agent(AGENTS[config.sampler, config.rollout], **made)

    def close(self) -> None:
        """Ends what samples."""
        if self._engine is not None:
            self._engine.close()
        self._engine = None

    def _shared_engine(self, model: Any) -> VLLMEngine:
        if self._engine is None:
            from agents.vllm.vllm_agent import make_engine

            processes = self._processes
            config = self._config.vllm.for_process(processes.rank)
            make = partial(make_engine, config, model, self._encoder, self._config.sampling)
            gives = config.url is None or processes.rank < len(self._config.vllm.urls)
            self._engine = SyncedSampler(make, processes, gives=gives) if processes.num_processes > 1 else make()
        return self._engine


def plain_weights(model: Any) -> Mapping[str, Tensor]:
    """Returns a model's weights under the names that a checkpoint has for them, with its adapters merged in."""
    return merged_state(model) if has_adapters(model) else model.state_dict()
