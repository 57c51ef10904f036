"""One request to an endpoint: a whole reply within its time, or an error that says whether waiting helps.

vLLM clients share the event-loop thread and the certificate authorities.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import re
import ssl
import threading
import time
from collections.abc import AsyncIterator, Callable, Collection, Coroutine, Mapping
from concurrent.futures import CancelledError, Future
from dataclasses import replace
from typing import Any, TypeVar
from urllib.parse import parse_qsl

import httpx2

from agents.api.conversation import Completion
from agents.api.endpoint_config import PROVIDERS, EndpointConfig
from agents.api.failures import (
    EndpointError,
    SilentError,
    TransientError,
    error_in_reply,
    one_line,
    read_error,
)
from agents.api.provider import Connection, Provider
from vlm_envs.errors import ConfigError, EngineUnavailableError
from vlm_envs.requirements import install_command
from vlm_envs.validation import field_name, require_choice

MAX_BODY_BYTES = 32 * 2**20
"""A longer body is no reply of a model."""

_NO_KEY = "no-key"
"""Packages insist on one where an endpoint needs none."""

_MIN_SECRET_CHARS = 8
"""Shorter texts and pieces are not hidden: all keys of a provider begin alike, and local servers take "none" as one."""

_SCHEMES = frozenset({"negotiate", "concealed", "privatetoken", "aws4-hmac-sha256", "scram-sha-1", "scram-sha-256"})
"""Authentication schemes that are long enough to be taken for a secret."""

_MASK = r"(?:[*•…]|\.\.)+\.?"
"""What providers write in place of a key's middle."""

_Result = TypeVar("_Result")

_NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class Endpoint:
    """Sends single requests through a provider's package, all from the same event loop.

    The deadline holds for a whole reply: a socket's timeout restarts with every byte, so that a server that sends
    single bytes could hold it forever.

    Args:
        config: Which model, where.

    Raises:
        ConfigError: The environment has no key.
        EngineUnavailableError: The provider's package is not installed.
    """

    def __init__(self, config: EndpointConfig) -> None:
        key, headers = _api_key(config), _header_values(config)
        self._secrets = _secrets(key, headers.values())
        self._timeout_s = config.timeout_s
        address, _, query = config.address.partition("?")
        hooks: dict[str, list[Any]] = {
            "request": [_Completing(query, headers, has_key=bool(key))],
            "response": [_bound],
        }
        http = httpx2.AsyncClient(
            timeout=config.timeout_s,
            # A redirect to another host would take along a key that stands in a header of the provider's own
            follow_redirects=False,
            event_hooks=hooks,
            verify=trusted(),
            # The client's slots are the limit; a limited pool would add a second, hidden queue
            limits=httpx2.Limits(max_connections=None, max_keepalive_connections=config.max_parallel),
        )
        connection = Connection(
            api_key=key or _NO_KEY, base_url=address, timeout_s=config.timeout_s, http=http, streams=config.stream
        )
        self.provider = make_provider(config.provider, connection)

    async def send(self, request: Mapping[str, Any]) -> Completion:
        """Returns the reply to one request, as the provider's `request` writes it.

        Raises:
            TransientError: It may go well another time.
            PermanentError: It will not.
        """
        try:
            body, seconds = await self._send(request)
            reply = self._read(body)
        except EndpointError as error:
            # Nor does a traceback tell what it came from: packages' errors hold what endpoints said
            raise self._without_key(error) from None
        text, thoughts, model = map(self.hidden, (reply.text, reply.thoughts, reply.model))
        raw = body if isinstance(body, Mapping) else {}
        return replace(reply, text=text, thoughts=thoughts, model=model, seconds=seconds, raw=raw)

    async def close(self) -> None:
        """Closes the connections. Nothing may be sent any more."""
        await self.provider.close()

    async def _send(self, request: Mapping[str, Any]) -> tuple[Any, float]:
        began = time.monotonic()
        try:
            async with asyncio.timeout(self._timeout_s):
                body = await self.provider.send(request)
                return body, time.monotonic() - began
        except TimeoutError as error:
            raise SilentError(f"no whole reply within {self._timeout_s:g} s") from error

    def _read(self, body: Any) -> Completion:
        try:
            return self.provider.read(body)
        except (LookupError, TypeError, AttributeError, ValueError) as error:
            failure: EndpointError
            if isinstance(body, Mapping) and body.get("error"):
                failure = error_in_reply(read_error(body))
            else:
                failure = TransientError(f"no reply of this interface: {one_line(str(body))}")
            failure.tokens = self.provider.tokens(body) if isinstance(body, Mapping) else None  # Billed all the same
            raise failure from error

    def hidden(self, text: str) -> str:
        """Returns a text without the key and other secrets: replies are written down, too."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    def _without_key(self, error: EndpointError) -> EndpointError:
        """Returns an error that does not tell the key, which some endpoints repeat: reasons are logged and stored."""
        reason = str(error)
        for secret in self._secrets:
            reason = _without_pieces(reason, secret)
        error.args = (reason,)
        return error


def make_provider(name: str, connection: Connection) -> Provider:
    """Makes a provider's client; nothing is connected yet.

    Raises:
        ConfigError: If there is no such provider.
        EngineUnavailableError: If its package is not installed.
    """
    entry = PROVIDERS[require_choice("provider", name, PROVIDERS)]
    module, _, attribute = entry.factory.partition(":")
    try:
        factory = getattr(importlib.import_module(f"agents.api.{module}"), attribute)
    except ModuleNotFoundError as error:
        raise EngineUnavailableError(
            f"{name} needs the package {error.name}, which is not installed. Run: {install_command('api')}"
        ) from error
    made: Provider = factory(connection)
    if connection.streams and not made.can_stream:
        raise ConfigError(f"{name} has no setting 'stream': its servers also answer without streams. Leave it out.")
    return made


def _secrets(key: str, header_values: Collection[str]) -> list[str]:
    """Returns the texts to hide, longest first: the key, the values of headers, and the words in these values."""
    words = {word for value in header_values for word in re.split(r"[\s,;]+", value) if word.lower() not in _SCHEMES}
    texts = {key, *header_values, *words}
    return sorted((text for text in texts if len(text) >= _MIN_SECRET_CHARS), key=lambda text: (-len(text), text))


def _without_pieces(reason: str, secret: str) -> str:
    """Returns a reason without any telling piece of a key, and without what is left of it around a mask."""
    for length in range(len(secret), _MIN_SECRET_CHARS - 1, -1):
        for start in range(len(secret) - length + 1):
            reason = reason.replace(secret[start : start + length], "…")
    heads = "|".join(re.escape(secret[:length]) for length in range(_MIN_SECRET_CHARS - 1, 0, -1))
    tails = "|".join(re.escape(secret[-length:]) for length in range(_MIN_SECRET_CHARS - 1, 1, -1))
    return re.sub(rf"(?:{heads})?{_MASK}(?:{tails})(?!\w)", "…", reason)


class _Completing:
    """Adds to each request what packages have no argument for: the address's query, and headers of the user's.

    Args:
        query: Such as `api-version=2024-10-21`.
        headers: By name; they win over the package's.
        has_key: Whether the package was given a real key; without one its header is left out where others are set.
    """

    def __init__(self, query: str, headers: Mapping[str, str], *, has_key: bool) -> None:
        self._query, self._headers = dict(parse_qsl(query)), headers
        self._removes_key = bool(headers) and not has_key

    async def __call__(self, request: httpx2.Request) -> None:
        if self._query:
            request.url = request.url.copy_merge_params(self._query)
        if self._removes_key:
            request.headers.pop("authorization", None)
        request.headers.update(self._headers)


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


def _header_values(config: EndpointConfig) -> dict[str, str]:
    """Returns the headers of the user's; raises `ConfigError` where a variable is not set or holds no header."""
    values = {}
    for name, variable in config.header_variables.items():
        value = os.environ.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"The header {name} is expected in the environment variable {variable}, which is not set. Set it."
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"The environment variable {variable} holds characters that no header has, such as a line break."
            )
        values[name] = value
    return values


def _api_key(config: EndpointConfig) -> str:
    """Returns the key, empty for an endpoint that needs none; raises `ConfigError` where one is needed and not set."""
    variable = config.key_variable
    key = os.environ.get(variable, "").strip()
    if not key and config.needs_key:
        name = field_name(config, "api_key_variable")
        empty = f"{name} ''" if name.startswith("--") else f"{name}="
        instead = f", or use {empty} for an endpoint without keys"
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


class LoopThread:
    """An event loop in a daemon thread, started when it is first used.

    The process ends without waiting for what is running, as it would for a pool of threads.

    Args:
        name: The thread's name.

    Attributes:
        is_stopped: Whether nothing may be submitted any more.
    """

    def __init__(self, name: str) -> None:
        self._name = name
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._thread: threading.Thread | None = None
        self._pid = 0
        self.is_stopped = False

    @property
    def is_current(self) -> bool:
        """Whether the caller runs on this loop."""
        return self._thread is threading.current_thread()

    def submit(self, coroutine: Coroutine[Any, Any, _Result]) -> Future[_Result]:
        """Starts a coroutine; canceling the future cancels it.

        Raises:
            CancelledError: If the thread was stopped.
            ConfigError: If it belongs to the process that this one was forked from.
        """
        with self._lock:
            if self.is_stopped:
                coroutine.close()
                raise CancelledError
            if self._loop is None:
                self._loop, self._pid = asyncio.new_event_loop(), os.getpid()
                self._thread = threading.Thread(target=_run, args=(self._loop,), name=self._name, daemon=True)
                self._thread.start()
            if self._is_foreign:
                coroutine.close()
                raise ConfigError("This client was used before the process was forked. Make a new one in each process.")
            return asyncio.run_coroutine_threadsafe(coroutine, self._loop)

    def run(self, coroutine: Coroutine[Any, Any, _Result]) -> _Result:
        """Returns a coroutine's result; an interruption of the calling thread cancels it and does not wait for it.

        Raises:
            CancelledError: If the thread was stopped.
            ConfigError: If it belongs to the process that this one was forked from.
            RuntimeError: If called on this loop, which would wait for itself.
        """
        if self.is_current:
            coroutine.close()
            raise RuntimeError("run() would block the event loop that it is called on. Await the coroutine instead.")
        future = self.submit(coroutine)
        try:
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def call(self, function: Callable[[], None]) -> None:
        """Calls a function on the loop soon, if the loop runs."""
        with self._lock:
            if self._loop is not None and not self._is_foreign:
                self._loop.call_soon_threadsafe(function)

    def stop(self, last: Coroutine[Any, Any, None]) -> None:
        """Runs a last coroutine and ends the thread; does nothing if it has ended."""
        with self._lock:  # Before the last one starts: what came between it and the end would never be answered
            loop, is_foreign = self._loop, self._is_foreign
            self._loop, self.is_stopped = None, True
        if loop is None or is_foreign:
            last.close()
            return
        asyncio.run_coroutine_threadsafe(last, loop).result()
        loop.call_soon_threadsafe(loop.stop)

    @staticmethod
    async def cancel_others(*, grace_s: float = 0.0) -> None:
        """Cancels all other tasks of the running loop, and waits until they have ended.

        Args:
            grace_s: They may go on as long as one ends by itself within this time.
        """
        others = asyncio.all_tasks() - {asyncio.current_task()}
        ended = others if grace_s else set()
        while others and ended:
            ended, others = await asyncio.wait(others, timeout=grace_s)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    @property
    def _is_foreign(self) -> bool:
        return self._loop is not None and self._pid != os.getpid()


def _run(loop: asyncio.AbstractEventLoop) -> None:
    """Runs a loop until it is stopped: an interruption raised by a task goes to its awaiter and must not end others."""
    is_interrupted = True
    while is_interrupted:
        try:
            loop.run_forever()
            is_interrupted = False
        except (KeyboardInterrupt, SystemExit):
            pass
    loop.close()


def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """Returns the context that `httpx2` would make, the same one for all clients: making one takes a tenth of a second.

    Args:
        trust_env: Whether the environment may name other authorities.
    """
    return _trusted(trust_env, *(os.environ.get(name) for name in _NAMED_BY))


@functools.cache
def _trusted(trust_env: bool, *_named: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=trust_env)
