"""One request to an endpoint: a whole reply within its time, or an error that says whether waiting helps."""

from __future__ import annotations

import asyncio
import os
import re
from collections.abc import AsyncIterator, Callable, Mapping
from concurrent.futures import CancelledError
from dataclasses import replace
from typing import Any

import httpx2

from agents.api.completion import Completion
from agents.api.config import EndpointConfig
from agents.api.failures import EndpointError, PermanentError, SilentError, TransientError, one_line
from agents.api.providers.provider import Connection
from agents.api.providers.registry import make_provider
from agents.loop_thread import LoopThread
from agents.trust import trusted
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
        self._loop = LoopThread("model-endpoint")
        # A redirect to another host would take along a key that stands in a header of the provider's own
        hooks: dict[str, list[Any]] = {"response": [_bound]}
        http = httpx2.AsyncClient(timeout=config.timeout_s, follow_redirects=False, event_hooks=hooks, verify=trusted())
        connection = Connection(
            api_key=self._secret or _NO_KEY, base_url=config.address, timeout_s=config.timeout_s, http=http
        )
        self.provider = make_provider(config.provider, connection)

    def send(self, request: Mapping[str, Any], *, is_given_up: Callable[[], bool] = lambda: False) -> Completion:
        """Returns the reply to one request, as the provider's `request` writes it.

        Args:
            request: It.
            is_given_up: Whether it is not to be sent any more, which may have come to be while it waited for its turn.

        Raises:
            TransientError: It may go well another time.
            PermanentError: It will not.
        """
        try:
            if is_given_up():
                raise PermanentError("it was given up")
            asked = self._loop.submit(self._send(request))
            if is_given_up():  # In between: whoever gives up what is under way may not have seen it
                asked.cancel()
            reply = self._read(asked.result())
        except CancelledError:
            raise PermanentError("the client was closed" if self._loop.is_stopped else "it was given up") from None
        except EndpointError as error:
            # Nor does a traceback tell what it came from: packages' errors hold what endpoints said
            raise self._without_key(error) from None
        text, thoughts, model = map(self._hidden, (reply.text, reply.thoughts, reply.model))
        return replace(reply, text=text, thoughts=thoughts, model=model)

    def give_up(self) -> None:
        """Gives up what is under way: `send` raises `PermanentError`."""
        self._loop.give_up()

    def close(self) -> None:
        """Gives up what is under way and closes the connections. Nothing may be sent any more."""
        self._loop.stop(self.provider.close())

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
