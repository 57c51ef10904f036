"""One request to an endpoint: a whole reply within its time, or an error that says whether waiting helps."""

from __future__ import annotations

import asyncio
import os
import re
import threading
from collections.abc import AsyncIterator, Coroutine, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any, TypeVar

import httpx2

from agents.api.completion import Completion
from agents.api.config import EndpointConfig
from agents.api.failures import EndpointError, PermanentError, SilentError, TransientError, one_line
from agents.api.providers.provider import Connection
from agents.api.providers.registry import make_provider
from vlm_envs.arguments.ranges import field_name
from vlm_envs.errors import ConfigError

MAX_BODY_BYTES = 32 * 2**20
"""A longer body is no reply of a model."""

_NO_KEY = "no-key"
"""Packages insist on one where an endpoint needs none."""

_LEAST_TOLD = 8
"""A shorter piece of a key, such as its beginning, tells nothing that others' keys do not; and no secret is as short as
that: local servers take "none" or "EMPTY" for a key, which are words of other things."""

_MASK = r"(?:[*•…]|\.\.)+\.?"
"""What providers write in place of a key's middle."""

_Result = TypeVar("_Result")


class Endpoint:
    """Sends single requests through a provider's package, from any thread.

    Requests run on an event loop in a thread of their own, because only there can a deadline hold for a whole reply:
    a socket's timeout starts again with every byte, so that a server which drips could keep a request for ever.

    Args:
        config: Which model, where.

    Raises:
        ConfigError: The environment has no key.
        EngineUnavailableError: The provider's package is not installed.
    """

    def __init__(self, config: EndpointConfig) -> None:
        self._secret = _api_key(config)
        self._timeout_s = config.timeout_s
        self._loop = _LoopThread()
        # A redirect to another host would take along a key that stands in a header of the provider's own
        http = httpx2.AsyncClient(timeout=config.timeout_s, follow_redirects=False, event_hooks={"response": [_bound]})
        connection = Connection(
            api_key=self._secret or _NO_KEY, base_url=config.address, timeout_s=config.timeout_s, http=http
        )
        self.provider = make_provider(config.provider, connection)

    def send(self, request: Mapping[str, Any]) -> Completion:
        """Returns the reply to one request, as the provider's `request` writes it.

        Raises:
            TransientError: It may go well another time.
            PermanentError: It will not.
        """
        try:
            reply = self._read(self._loop.run(self._send(request)))
        except CancelledError:
            raise PermanentError("the client was closed") from None
        except EndpointError as error:
            # Nor does a traceback tell what it came from: packages' errors hold what endpoints said
            raise self._without_key(error) from None
        text, thoughts, model = map(self._hidden, (reply.text, reply.thoughts, reply.model))
        return replace(reply, text=text, thoughts=thoughts, model=model)

    def close(self) -> None:
        """Gives up what is under way and closes the connections. Nothing may be sent any more."""
        if not self._loop.is_foreign and not self._loop.is_stopped:
            self._loop.stop(self._close())

    async def _close(self) -> None:
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)
        await self.provider.close()

    async def _send(self, request: Mapping[str, Any]) -> Any:
        try:
            async with asyncio.timeout(self._timeout_s):
                return await self.provider.send(request)
        except TimeoutError as error:
            raise SilentError(f"no whole reply within {self._timeout_s:g} s") from error

    def _read(self, body: Any) -> Completion:
        try:
            return self.provider.read(body)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            failure = TransientError(f"no reply of this interface: {one_line(str(body))}")
            failure.tokens = self.provider.tokens(body) if isinstance(body, Mapping) else None  # Billed all the same
            raise failure from error

    def _hidden(self, text: str) -> str:
        """Returns what an endpoint said without the key: replies are written down, too."""
        return text.replace(self._secret, "…") if len(self._secret) >= _LEAST_TOLD else text

    def _without_key(self, error: EndpointError) -> EndpointError:
        """Returns an error that does not tell the key, which some endpoints repeat: reasons are logged and stored."""
        error.args = (_without_pieces(str(error), self._secret),)
        return error


def _without_pieces(reason: str, secret: str) -> str:
    """Returns a reason without any telling piece of a key, and without what is left of it around a mask."""
    if len(secret) < _LEAST_TOLD:
        return reason
    for length in range(len(secret), _LEAST_TOLD - 1, -1):
        for start in range(len(secret) - length + 1):
            reason = reason.replace(secret[start : start + length], "…")
    heads = "|".join(re.escape(secret[:length]) for length in range(_LEAST_TOLD - 1, 0, -1))
    tails = "|".join(re.escape(secret[-length:]) for length in range(_LEAST_TOLD - 1, 1, -1))
    return re.sub(rf"(?:{heads})?{_MASK}(?:{tails})(?!\w)", "…", reason)


async def _bound(response: httpx2.Response) -> None:
    """Has a reply that is longer than any model's broken off."""
    response.stream = _BoundedStream(response.stream)


class _BoundedStream(httpx2.AsyncByteStream):
    def __init__(self, inner: Any) -> None:
        self._inner = inner

    async def __aiter__(self) -> AsyncIterator[bytes]:
        num_bytes = 0
        async for chunk in self._inner:
            num_bytes += len(chunk)
            if num_bytes > MAX_BODY_BYTES:
                raise TransientError(f"the body has more than {MAX_BODY_BYTES} bytes")
            yield chunk

    async def aclose(self) -> None:
        await self._inner.aclose()


class _LoopThread:
    """An event loop in a daemon thread, started when it is first used."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._pid = 0
        self.is_stopped = False

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        with self._lock:
            if self.is_stopped:
                coroutine.close()
                raise CancelledError
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                threading.Thread(target=self._loop.run_forever, name="model-endpoint", daemon=True).start()
            if self.is_foreign:
                coroutine.close()
                raise ConfigError("This client was used before the process was forked. Make a new one in each process.")
            future = asyncio.run_coroutine_threadsafe(coroutine, self._loop)
        return future.result()

    @property
    def is_foreign(self) -> bool:
        """Whether the thread belongs to the process that this one was forked from."""
        return self._loop is not None and self._pid != os.getpid()

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Lets nothing begin any more, carries out what is left to do, and ends the thread."""
        with self._lock:  # Before the last one begins: what came between it and the end would never be answered
            loop, self._loop, self.is_stopped = self._loop, None, True
        if loop is None:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(last, loop).result()
        loop.call_soon_threadsafe(loop.stop)


def _api_key(config: EndpointConfig) -> str:
    """Returns the key, empty for an endpoint that needs none; raises `ConfigError` where one is needed and not set."""
    variable = config.key_variable
    key = os.environ.get(variable, "").strip()
    if not key and config.needs_key:
        instead = f", or use {field_name(config, 'api_key_variable')} '' for an endpoint without keys"
        raise ConfigError(
            f"The key of {config.model} is expected in the environment variable {variable}, which is not set. Set it"
            f"{instead if config.address else ''}."
        )
    if not (key.isascii() and key.isprintable()) or " " in key:
        raise ConfigError(
            f"The key in the environment variable {variable} has characters that no key has, such as a line break or a "
            "space within it. Copy it anew."
        )
    return key
