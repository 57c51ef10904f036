"""An agent that calls a user's function, which maps the messages of a conversation to the response text."""

from __future__ import annotations

import asyncio
import functools
import inspect
import reprlib
import time
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

from agents.agent import Response
from agents.api.conversation import Message, chat_part, observation_message, reply_message, sendable
from agents.api.failures import one_line
from agents.event_loop import not_canceling
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation
from vlm_envs.vector.vector_world import VectorWorld

ChatMessage = dict[str, Any]
"""A message of OpenAI's chat completions: `role`, and `content`, a list of `text` and `image_url` parts."""

ChatFunction = Callable[[list[ChatMessage]], str | Awaitable[str]]
"""Maps the messages of an episode so far to the response text."""

NUM_PARALLEL = 8
"""Episodes that a function plays in parallel."""


@dataclass
class _Conversation:
    """The messages of an episode so far; `system` comes before all others."""

    system: str = ""
    past: list[Message] = field(default_factory=list)


class CallableAgent:
    """Calls a function for each response, with the episode's conversation: system, user, assistant, user, ….

    An `async` function runs in an event loop in a separate thread; calls of any other function run in threads. An
    exception ends the episode with `stop_reason` "error" and the reason.

    Args:
        function: Called with a list of new messages, which it may change.
        num_parallel: Maximum number of episodes in parallel.

    Raises:
        ConfigError: From `respond`, if the function does not return a text.
    """

    policy_version = -1

    def __init__(self, function: ChatFunction, *, num_parallel: int = NUM_PARALLEL) -> None:
        self.num_parallel = num_parallel
        self._function = function
        self._is_async = any(map(inspect.iscoroutinefunction, (function, getattr(function, "__call__", None))))  # noqa: B004
        self._pool = ThreadPoolExecutor(num_parallel, thread_name_prefix="callable-agent")
        self._conversations: dict[int, _Conversation] = {}

    def start(self, worlds: VectorWorld) -> None:
        """Forgets earlier episodes."""
        self._conversations.clear()

    def begin(self, row: int) -> None:
        """Forgets the earlier episode of a row."""
        self._conversations[row] = _Conversation()

    def close(self) -> None:
        """Stops the threads; a running call finishes, but its result is discarded."""
        self._pool.shutdown(wait=False, cancel_futures=True)

    async def respond(self, row: int, observation: Observation) -> Response:
        """Returns the response to a row's observation; on failure, a response with `stop_reason` "error"."""
        conversation = self._conversations.setdefault(row, _Conversation())
        conversation.system = observation.get("system") or conversation.system
        system = [Message(role="system", parts=(conversation.system,))] if conversation.system else []
        shown = observation_message(observation)
        started = time.perf_counter()
        try:
            messages = [_chat(message) for message in (*system, *conversation.past, shown)]
            said = await not_canceling(self._call(messages), name_of(self._function))
        except (Exception, SystemExit, KeyboardInterrupt, GeneratorExit) as error:  # the last three are no `Exception`
            return Response(text="", stop_reason="error", error=_reason(error))
        if not isinstance(said, str):
            raise ConfigError(f"The agent {name_of(self._function)} must return a text; got {reprlib.repr(said)}.")
        conversation.past += [shown, reply_message(said)]
        return Response(text=said, usage={"seconds": time.perf_counter() - started})

    async def _call(self, messages: list[ChatMessage]) -> Any:
        if self._is_async:
            said: Any = self._function(messages)
        else:
            said = await asyncio.get_running_loop().run_in_executor(self._pool, _called, self._function, messages)
        return await said if inspect.isawaitable(said) else said


def _called(function: ChatFunction, messages: list[ChatMessage]) -> Any:
    try:
        return function(messages)
    except StopIteration as error:  # a future cannot hold it
        raise RuntimeError("it raised StopIteration") from error


def _chat(message: Message) -> ChatMessage:
    return {"role": message.role, "content": [chat_part(part) for part in sendable(message).parts]}


def _reason(error: BaseException) -> str:
    said = one_line(str(error))
    return f"{type(error).__name__}{f': {said}' if said else ''}"


def name_of(function: object) -> str:
    """Returns the name of a function, of the function in a `functools.partial`, or of an object's class."""
    function = function.func if isinstance(function, functools.partial) else function
    return str(getattr(function, "__name__", type(function).__name__)).strip("<>")
