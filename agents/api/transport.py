"""One request to an endpoint: a whole reply within its time, or an error that says whether waiting helps."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import dataclass
from typing import Any, TypeVar

import openai

from agents.api.config import EndpointConfig
from agents.api.failures import EndpointError, PermanentError, TransientError, error_of_status, one_line
from vlm_envs.arguments.ranges import field_name
from vlm_envs.errors import ConfigError

MAX_BODY_BYTES = 4 * 2**20
"""A longer body is no reply of a judge."""

_Result = TypeVar("_Result")


@dataclass(frozen=True, kw_only=True, slots=True)
class Completion:
    """What came back.

    Attributes:
        text: The assistant's words; empty where it said nothing.
        prompt_tokens: As the endpoint counted; None where it did not.
        completion_tokens: As the endpoint counted; None where it did not.
    """

    text: str
    prompt_tokens: int | None
    completion_tokens: int | None


class Endpoint:
    """Sends single requests through the `openai` package, from any thread.

    Requests run on an event loop in a thread of their own, because only there can a deadline hold for a whole reply:
    a socket's timeout starts again with every byte, so that a server which drips could keep a request for ever.

    Raises:
        ConfigError: The environment has no key.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self._api_key = _api_key(config)
        self._timeout_s = config.timeout_s
        self._loop = _LoopThread()
        self._client = openai.AsyncOpenAI(
            base_url=config.base_url, api_key=self._api_key, timeout=config.timeout_s, max_retries=0
        )

    def send(self, request: Mapping[str, Any]) -> Completion:
        """Returns the reply to one request, given as arguments of chat completions: model, messages, sampling.

        Raises:
            TransientError: It may go well another time.
            PermanentError: It will not.
        """
        try:
            body = self._loop.run(self._send(request))
        except CancelledError as error:
            raise PermanentError("the client was closed") from error
        return _completion_of(body)

    def close(self) -> None:
        """Gives up what is under way and closes the connections. Nothing may be sent any more."""
        if not self._loop.is_foreign:
            self._loop.run(self._close())
            self._loop.stop()

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self._client.close()

    async def _send(self, request: Mapping[str, Any]) -> bytes:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self._body(request)
        except (TimeoutError, openai.APITimeoutError) as error:
            raise TransientError(f"no whole reply within {self._timeout_s:g} s") from error

    async def _body(self, request: Mapping[str, Any]) -> bytes:
        completions = self._client.chat.completions.with_streaming_response
        try:
            async with completions.create(**request) as response:
                body = bytearray()
                async for chunk in response.iter_bytes():
                    body += chunk
                    if len(body) > MAX_BODY_BYTES:
                        raise TransientError(f"the body has more than {MAX_BODY_BYTES} bytes")
                return bytes(body)
        except openai.APIStatusError as error:
            raise self._error_of(error) from error
        except openai.APITimeoutError:
            raise
        except openai.APIConnectionError as error:
            raise TransientError(f"no connection: {one_line(str(error.__cause__ or error))}") from error
        except openai.OpenAIError as error:
            raise PermanentError(f"cannot be asked: {one_line(str(error))}") from error
        except EndpointError:
            raise
        except Exception as error:
            # While a body is read, errors come from whichever HTTP library `openai` uses.
            raise TransientError(f"the connection broke: {type(error).__name__} {one_line(str(error))}") from error

    def _error_of(self, error: openai.APIStatusError) -> EndpointError:
        # Some endpoints repeat the key in their refusal, and reasons are logged.
        message = error.message.replace(self._api_key, "…")
        return error_of_status(error.status_code, error.code, message, error.response.headers)


class _LoopThread:
    """An event loop in a daemon thread, started when it is first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        with self._lock:
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="judge-endpoint", daemon=True).start()
            loop = self._loop
        if self.is_foreign:
            coroutine.close()
            raise ConfigError("This judge was used before the process was forked. Make a new one in each process.")
        return asyncio.run_coroutine_threadsafe(coroutine, loop).result()

    @property
    def is_foreign(self) -> bool:
        """Whether the thread belongs to the process that this one was forked from."""
        return self._loop is not None and self._pid != os.getpid()

    def stop(self) -> None:
        with self._lock:
            loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(loop.stop)


def _api_key(config: EndpointConfig) -> str:
    variable = config.api_key_variable
    if not variable:
        return "none"
    key = os.environ.get(variable, "").strip()
    if not key:
        raise ConfigError(
            f"The judge's key is expected in the environment variable {variable}, which is not set. Set it, or use "
            f"{field_name(config, 'api_key_variable')} '' for an endpoint without keys."
        )
    return key


def _completion_of(body: bytes) -> Completion:
    try:
        content = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise TransientError(f"the body is no JSON: {one_line(body[:80].decode('utf-8', 'replace'))}") from error
    try:
        text = content["choices"][0]["message"].get("content")
        usage = content.get("usage")
    except (LookupError, TypeError, AttributeError) as error:
        raise TransientError(f"the body is no chat completion: {one_line(str(content)[:400])}") from error
    if not isinstance(text, str | None):
        raise TransientError(f"the reply's content is a {type(text).__name__}, expected text")
    counts = usage if isinstance(usage, dict) else {}
    return Completion(
        text=text or "",
        prompt_tokens=_count(counts.get("prompt_tokens")),
        completion_tokens=_count(counts.get("completion_tokens")),
    )


def _count(value: object) -> int | None:
    is_count = isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= 10**9
    return int(value) if is_count else None  # type: ignore[call-overload]
