"""The agents that play in a run, with the policy's weights, and the sampler that they share."""

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


class SyncedSampler:
    """A `VLLMEngine` that takes weights when those of all processes do, under one name; processes call `load` together.

    Whoever fails, all know, and end in the same place; so none samples with weights that others do not have, and a run
    can be saved by all together.

    Args:
        make: Makes this process's own; called once.
        processes: Those of the run.
        gives: Whether this process gives its server the weights, rather than another that shares it.

    Raises:
        VLMEnvsError: What `make` raises; in a process whose own could be made `PeerError`, if another's could not.
    """

    def __init__(self, make: Callable[[], VLLMEngine], processes: Engine, *, gives: bool) -> None:
        self._processes, self._gives = processes, gives
        made: list[VLLMEngine] = []
        error = self._tried(lambda: made.append(make()))
        if error:
            for each in made:
                each.close()
            raise PeerError(error)
        (self._engine,) = made

    @property
    def version(self) -> str:
        """What the weights are called that were loaded last, in all processes."""
        return self._engine.version

    def load(self, weights: Mapping[str, Tensor], version: str) -> None:
        """Takes weights, called as the main process does; returns when all processes' samplers have them.

        Raises:
            SamplersLostError: If that of any process cannot be reached; in all of them.
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
        """Asks this process's own for a response."""
        self._engine.add_request(name, request)

    def step(self) -> dict[str, SampledResponse]:
        """Goes on with what this process asked for."""
        return self._engine.step()

    def abort(self, names: Sequence[str]) -> None:
        """Gives up requests."""
        self._engine.abort(names)

    def close(self) -> None:
        """Lets go of this process's own."""
        self._engine.close()

    def _tried(self, do: Callable[[], None], *, raises: bool = True) -> str:
        """Does something in all processes; returns what the first said in which it failed, or nothing."""
        told, failed = "", None
        try:
            do()
        except VLMEnvsError as error:
            told, failed = f"Process {self._processes.rank}: {error}", error
        errors = [each for each in self._processes.gather([told]) if each]
        if failed is not None and raises:
            raise failed
        return next(iter(errors), "")
