"""What samples for several processes: each has an engine or a server, or some share one, all with the same weights."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, cast

from torch import Tensor

from agents.hf.conversations import SampledResponse
from agents.vllm.vllm_engine import Request, VLLMEngine
from training.engines.engine import Engine
from training.errors import PeerError, SamplersLostError
from vlm_envs.errors import VLMEnvsError

if TYPE_CHECKING:
    from agents.vllm.server_engine import ServerEngine


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
