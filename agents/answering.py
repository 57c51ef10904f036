"""How the rollout loop asks an agent: one adapter for each kind of agent."""

from __future__ import annotations

import inspect
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Sequence
from concurrent.futures import Future
from typing import Any, ClassVar

from agents.agent import Agent, AsyncAgent, ContinuousAgent, Response
from agents.event_loop import LoopThread
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import JoinedWorlds, VectorWorld


class Answering:
    """Asks an agent for the responses of a rollout; either `FutureAnswering` or `RequestAnswering`.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    def start(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Prepares for one episode per world."""
        self.agent.start(worlds)

    def restart(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Prepares for episodes of the same rollout that could not be started with the others."""

    def begin(self, row: int) -> None:
        """Prepares for a new episode of a row."""

    def close(self) -> None:
        """Ends what asking has started."""


class FutureAnswering(Answering, ABC):
    """Asks an agent that answers each episode by itself, such as by an API."""

    @abstractmethod
    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Returns the future response to a row's observation."""


class RequestAnswering(Answering, ABC):
    """Asks an agent that generates the responses of several episodes together.

    Class attributes:
        waits_for_all: Whether it answers only when every episode has asked.
    """

    waits_for_all: ClassVar[bool] = False

    @abstractmethod
    def add_request(self, row: int, observation: Observation) -> None:
        """Requests the response to a row's observation."""

    @abstractmethod
    def step(self, *, are_worlds_busy: bool) -> dict[int, Response]:
        """Returns the responses that are ready, by row; at least one after a limited number of calls.

        Args:
            are_worlds_busy: Whether further requests may follow without an answer to any of these.
        """

    @abstractmethod
    def abort(self, row: int) -> None:
        """Drops the request of a row, which does not come back."""


class CoroutineAnswering(FutureAnswering):
    """Asks an agent with `async def respond(row, observation)`; `start(worlds)` and `begin(row)` are optional.

    Its coroutines run in the event loop of a thread that ends with the rollout.
    """

    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        self._thread = LoopThread("agent")

    def start(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Calls the agent's `start`, if it has one."""
        if hasattr(self.agent, "start"):
            self.agent.start(worlds)

    def begin(self, row: int) -> None:
        """Calls the agent's `begin`, if it has one."""
        if hasattr(self.agent, "begin"):
            self.agent.begin(row)

    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Starts the coroutine of a response."""
        return self._thread.submit(self._respond(row, observation))

    async def _respond(self, row: int, observation: Observation) -> Response:
        return _checked(self.agent, await self.agent.respond(row, observation))

    def close(self) -> None:
        """Cancels running coroutines and ends their thread."""
        self._thread.stop(LoopThread.cancel_others())


class ThreadAnswering(FutureAnswering):
    """Asks an `AsyncAgent`, whose responses come from threads of its own."""

    def start(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Does nothing: `begin` prepares for each episode."""

    def begin(self, row: int) -> None:
        """Starts a new conversation of a row."""
        self.agent.begin(row)

    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Returns the agent's future."""
        future: Future[Response] = self.agent.submit(row, observation)
        return future


class SteppedAnswering(RequestAnswering):
    """Asks a `ContinuousAgent`, which generates a token for every request per step."""

    def restart(self, worlds: VectorWorld | JoinedWorlds) -> None:
        """Has the agent repeat its last `start`, so that later rollouts stay what they would have been."""
        self.agent.restart(worlds)

    def add_request(self, row: int, observation: Observation) -> None:
        """Adds a request to the agent's batch."""
        self.agent.add_request(row, observation)

    def step(self, *, are_worlds_busy: bool) -> dict[int, Response]:
        """Returns the responses that one step has finished."""
        responses: dict[int, Response] = self.agent.step()
        return responses

    def abort(self, row: int) -> None:
        """Removes a request from the agent's batch."""
        self.agent.abort(row)


class BatchAnswering(RequestAnswering):
    """Asks an agent that answers all episodes together, once each of them has asked."""

    waits_for_all = True

    def __init__(self, agent: Agent) -> None:
        super().__init__(agent)
        self._observations: dict[int, Observation] = {}

    def add_request(self, row: int, observation: Observation) -> None:
        """Collects a request."""
        self._observations[row] = observation

    def step(self, *, are_worlds_busy: bool) -> dict[int, Response]:
        """Returns the responses to all requests, or nothing while others may follow."""
        if are_worlds_busy or not self._observations:
            return {}
        asked, self._observations = dict(sorted(self._observations.items())), {}
        said: Any = self.agent.respond([*asked], [*asked.values()])
        if not _is_list(said) or len(said) != len(asked):
            raise _mistake(self.agent, len(asked), f"{len(said)} of them" if _is_list(said) else reprlib.repr(said))
        return {row: _checked(self.agent, each, len(asked)) for row, each in zip(asked, said, strict=True)}

    def abort(self, row: int) -> None:
        """Drops a request."""
        self._observations.pop(row, None)


def answering(agent: Any) -> FutureAnswering | RequestAnswering:
    """Returns the adapter for an agent."""
    if isinstance(agent, ContinuousAgent):
        return SteppedAnswering(agent)
    if isinstance(agent, AsyncAgent):
        return ThreadAnswering(agent)
    if inspect.iscoroutinefunction(getattr(agent, "respond", None)):
        return CoroutineAnswering(agent)
    return BatchAnswering(agent)


def respond_to(agent: Any, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
    """Returns one response per row, from an agent of any kind that was started, outside of a rollout."""
    asking = answering(agent)
    if not isinstance(asking, FutureAnswering):
        responses: list[Response] = agent.respond(rows, observations)
        return responses
    try:
        futures = [asking.submit(row, observation) for row, observation in zip(rows, observations, strict=True)]
        return [future.result() for future in futures]
    finally:
        asking.close()


def answers_in_batches(agent: Any) -> bool:
    """Returns whether an agent answers only when every episode has asked."""
    adapter = answering(agent)
    return isinstance(adapter, RequestAnswering) and adapter.waits_for_all


def _is_list(said: Any) -> bool:
    return isinstance(said, list | tuple)


def _checked(agent: Any, said: Any, num_rows: int | None = None) -> Response:
    """Returns a user-defined agent's response; raises `ConfigError` unless it is one, with a text."""
    if isinstance(said, Response) and isinstance(said.text, str):
        return said
    raise _mistake(agent, num_rows, f"the text {said.text!r}" if isinstance(said, Response) else reprlib.repr(said))


def _mistake(agent: Any, num_rows: int | None, found: str) -> ConfigError:
    method, expected = "respond(row, observation)", "an agents.agent.Response with its text"
    if num_rows is not None:
        method = "respond(rows, observations)"
        expected = f"a list of {num_rows} agents.agent.Response, one per row, each with its text"
    return ConfigError(
        f"The agent {type(agent).__module__}:{type(agent).__qualname__}: {method} must return {expected}; got {found}."
    )
