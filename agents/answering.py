"""How the rollout loop queries an agent: one adapter per kind of agent."""

from __future__ import annotations

import inspect
import reprlib
from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import closing, contextmanager
from typing import Any, ClassVar

from agents.agent import ContinuousAgent, Response, RolloutRows
from agents.event_loop import not_canceling, shared_loop
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld


class Answering:
    """Asks an agent for the responses of a rollout; either `FutureAnswering` or `RequestAnswering`.

    Args:
        agent: The agent.
    """

    def __init__(self, agent: Any) -> None:
        self.agent = agent

    def start(self, worlds: VectorWorld | RolloutRows, rows: RolloutRows) -> None:
        """Prepares for one episode per row.

        Args:
            worlds: The `VectorWorld` to play, or the rows if several vectors are played together.
            rows: Passed to agents whose `start` accepts it.
        """
        takes_rows = "rows" in inspect.signature(self.agent.start).parameters
        self.agent.start(worlds, **({"rows": rows} if takes_rows else {}))

    def restart(self, worlds: VectorWorld | RolloutRows, rows: RolloutRows) -> None:
        """Prepares for the episodes of the same rollout that could not be started with the others."""

    def begin(self, row: int) -> None:
        """Prepares for a new episode of a row."""

    def close(self) -> None:
        """Stops everything that queries have started."""


class FutureAnswering(Answering, ABC):
    """Asks an agent that answers each episode separately, such as through an API."""

    @abstractmethod
    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Returns the future response to a row's observation."""

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Requests all responses at once; cancels them if one fails."""
        futures = [self.submit(*pair) for pair in zip(rows, observations, strict=True)]
        try:
            return [future.result() for future in futures]
        finally:
            for future in futures:
                future.cancel()


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
            are_worlds_busy: Whether more requests may follow before any of these is answered.
        """

    @abstractmethod
    def abort(self, row: int) -> None:
        """Drops the request of a row, which does not return."""

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Requests all responses and steps until they are ready."""
        for row, observation in zip(rows, observations, strict=True):
            self.add_request(row, observation)
        responses: dict[int, Response] = {}
        while not responses.keys() >= {*rows}:
            responses |= self.step(are_worlds_busy=False)
        return [responses[row] for row in rows]


class CoroutineAnswering(FutureAnswering):
    """Asks an agent with `async def respond(row, observation)`; `start(worlds)` and `begin(row)` are optional."""

    def __init__(self, agent: Any) -> None:
        super().__init__(agent)
        self._waiting: set[Future[Response]] = set()

    def start(self, worlds: VectorWorld | RolloutRows, rows: RolloutRows) -> None:
        """Calls the agent's `start`, if it has one."""
        if hasattr(self.agent, "start"):
            super().start(worlds, rows)

    def begin(self, row: int) -> None:
        """Calls the agent's `begin`, if it has one."""
        if hasattr(self.agent, "begin"):
            self.agent.begin(row)

    def submit(self, row: int, observation: Observation) -> Future[Response]:
        """Starts the coroutine of a response."""
        response = shared_loop().submit(self._respond(row, observation))
        self._waiting.add(response)
        response.add_done_callback(self._waiting.discard)
        return response

    async def _respond(self, row: int, observation: Observation) -> Response:
        said = await not_canceling(self.agent.respond(row, observation), f"The agent {_name(self.agent)}")
        return _checked(self.agent, said)

    def close(self) -> None:
        """Cancels running coroutines."""
        for response in list(self._waiting):
            response.cancel()


class SteppedAnswering(RequestAnswering):
    """Asks a `ContinuousAgent`, which generates a token for every request per step."""

    def start(self, worlds: VectorWorld | RolloutRows, rows: RolloutRows) -> None:
        """Starts the agent, after noting its state."""
        self._state_before = self.agent.state_dict() if hasattr(self.agent, "state_dict") else None
        super().start(worlds, rows)

    def restart(self, worlds: VectorWorld | RolloutRows, rows: RolloutRows) -> None:
        """Repeats the last `start` from the same state, so that later rollouts are unaffected."""
        if self._state_before is not None:
            self.agent.load_state_dict(self._state_before)
        self.start(worlds, rows)

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
    """Asks an agent that answers all episodes together, once all of them have requested a response."""

    waits_for_all = True

    def __init__(self, agent: Any) -> None:
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
        return {row: _checked(self.agent, response, len(asked)) for row, response in zip(asked, said, strict=True)}

    def abort(self, row: int) -> None:
        """Drops a request."""
        self._observations.pop(row, None)


@contextmanager
def conversations(
    agent: Any, rows: RolloutRows, worlds: VectorWorld | None = None
) -> Iterator[FutureAnswering | RequestAnswering]:
    """Starts a conversation per row with any kind of agent, outside a rollout."""
    with closing(answering(agent)) as started:
        started.start(worlds or rows, rows)
        for row in range(rows.num_envs):
            started.begin(row)
        yield started


def answering(agent: Any) -> FutureAnswering | RequestAnswering:
    """Returns the adapter for an agent."""
    if isinstance(agent, ContinuousAgent):
        return SteppedAnswering(agent)
    if inspect.iscoroutinefunction(getattr(agent, "respond", None)):
        return CoroutineAnswering(agent)
    return BatchAnswering(agent)


def answers_in_batches(agent: Any) -> bool:
    """Returns whether an agent answers only once every episode has requested a response."""
    adapter = answering(agent)
    return isinstance(adapter, RequestAnswering) and adapter.waits_for_all


def _is_list(said: Any) -> bool:
    return isinstance(said, list | tuple)


def _checked(agent: Any, said: Any, num_rows: int | None = None) -> Response:
    """Returns the response of a user-defined agent; raises `ConfigError` unless it is a `Response` with a text."""
    if isinstance(said, Response) and isinstance(said.text, str):
        return said
    raise _mistake(agent, num_rows, f"the text {said.text!r}" if isinstance(said, Response) else reprlib.repr(said))


def _mistake(agent: Any, num_rows: int | None, found: str) -> ConfigError:
    method, expected = "respond(row, observation)", "an agents.agent.Response with its text"
    if num_rows is not None:
        method = "respond(rows, observations)"
        expected = f"a list of {num_rows} agents.agent.Response, one per row, each with its text"
    return ConfigError(f"The agent {_name(agent)}: {method} must return {expected}; got {found}.")


def _name(agent: Any) -> str:
    return f"{type(agent).__module__}:{type(agent).__qualname__}"
