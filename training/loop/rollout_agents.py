"""The agents that play in a run with the policy's weights, and their shared sampler."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, cast

import numpy as np
from torch import Tensor

from agents.agent import LearningAgent
from agents.hf.chat import ChatEncoder, SampledResponse
from agents.registry import make_learning_agent
from agents.vllm.vllm_engine import Request, VLLMEngine
from training.config.run_config import RunConfig
from training.engines.engine import Engine
from training.engines.lora import has_adapters, merged_state
from training.errors import PeerError, SamplersLostError
from vlm_envs.errors import VLMEnvsError

if TYPE_CHECKING:
    from agents.vllm.server_engine import ServerEngine


AGENTS = {
    ("transformers", "barrier"): "hf",
    ("transformers", "async"): "agents.hf.continuous_batching:ContinuousHFAgent",
    ("vllm", "barrier"): "vllm",
    ("vllm", "async"): "agents.vllm.vllm_agent:ContinuousVLLMAgent",
}
"""Agents by sampler and kind of rollout."""


class Actors:
    """Creates the agents of a run; vLLM starts with the first agent and is shared by all.

    Args:
        config: The run.
        encoder: The chat format.
        processes: Engine of the run; all processes create their agents together.
    """

    def __init__(self, config: RunConfig, encoder: ChatEncoder, processes: Engine) -> None:
        self._config, self._encoder, self._processes = config, encoder, processes
        self._engine: VLLMEngine | None = None

    def agent(self, model: Any, *, seed: int, evaluates: bool = False) -> LearningAgent:
        """Returns an agent that plays with a model, with a different random stream in each process.

        Args:
            model: The policy or another model.
            seed: Seed, the same in all processes.
            evaluates: Whether to use the sampling settings of evaluations.
        """
        config, rank = self._config, self._processes.rank
        seed = seed if rank == 0 else int(np.random.default_rng([seed, rank]).integers(2**62))
        sampling = config.evaluated_sampling if evaluates else config.sampling
        made = {"model": model, "encoder": self._encoder, "sampling": sampling, "seed": seed}
        if config.sampler == "vllm":
            made |= {"engine": self._shared_engine(model), "weights_of": plain_weights}
        return make_learning_agent(AGENTS[config.sampler, config.rollout], **made)

    def close(self) -> None:
        """Stops the shared sampler."""
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
    """Returns a model's weights under the names used in checkpoints, with its adapters merged."""
    return merged_state(model) if has_adapters(model) else model.state_dict()


class SyncedSampler:
    """A `VLLMEngine` whose weights are updated in all processes together, under one version name.

    If one process fails, all fail in the same place, so that none samples with other weights and the run
    can be saved by all of them together.

    Args:
        make: Creates this process's engine; called once.
        processes: Engine of the run.
        gives: Whether this process sends its server the weights, rather than another process that shares the server.

    Raises:
        VLMEnvsError: The error of `make`; `PeerError` in processes that succeeded, if another failed.
    """

    def __init__(self, make: Callable[[], VLLMEngine], processes: Engine, *, gives: bool) -> None:
        self._processes, self._gives = processes, gives
        made: list[VLLMEngine] = []
        error = self._tried(lambda: made.append(make()))
        if error:
            for engine in made:
                engine.close()
            raise PeerError(error)
        (self._engine,) = made

    @property
    def version(self) -> str:
        """Version of the weights loaded last in all processes."""
        return self._engine.version

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Loads weights under the main process's version name; returns when all processes have them.

        Raises:
            SamplersLostError: In all processes, if the sampler of any cannot be reached.
        """
        (version, *_) = self._processes.gather([version])

        def load() -> None:
            if self._gives:
                self._engine.load(weights, version)

        if error := self._tried(load, raises=False):
            raise SamplersLostError(error)
        if not self._gives:
            cast("ServerEngine", self._engine).adopt(version)

    def add_request(self, name: str, request: Request) -> None:
        """Adds a request to this process's engine."""
        self._engine.add_request(name, request)

    def step(self) -> dict[str, SampledResponse]:
        """Advances this process's requests."""
        return self._engine.step()

    def abort(self, names: Sequence[str]) -> None:
        """Aborts requests."""
        self._engine.abort(names)

    def close(self) -> None:
        """Closes this process's engine."""
        self._engine.close()

    def _tried(self, do: Callable[[], None], *, raises: bool = True) -> str:
        """Runs a function in all processes; returns the first failing process's message, or an empty text."""
        message, failed = "", None
        try:
            do()
        except VLMEnvsError as error:
            message, failed = f"Process {self._processes.rank}: {error}", error
        errors = [reported for reported in self._processes.gather([message]) if reported]
        if failed is not None and raises:
            raise failed
        return next(iter(errors), "")
