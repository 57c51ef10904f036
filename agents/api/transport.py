"""One request to an endpoint: a complete reply within the time limit, or an error classified for retries.

vLLM clients share its SSL context.
"""

from __future__ import annotations

import asyncio
import functools
import importlib
import os
import re
import ssl
import time
from collections.abc import AsyncIterator, Collection, Mapping
from dataclasses import replace
from typing import Any
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
"""Larger bodies are not replies of a model."""

_NO_KEY = "no-key"
"""Placeholder for endpoints without keys, because packages require a key."""

_MIN_SECRET_CHARS = 8
"""Shorter texts and pieces are not hidden: a provider's keys start alike, and local servers use keys like "none"."""

_SCHEMES = frozenset({"negotiate", "concealed", "privatetoken", "aws4-hmac-sha256", "scram-sha-1", "scram-sha-256"})
"""Authentication schemes that are long enough to be mistaken for a secret."""

_MASK = r"(?:[*•…]|\.\.)+\.?"
"""Providers' mask for the middle of a key."""

_NAMED_BY = ("SSL_CERT_FILE", "SSL_CERT_DIR")


class Endpoint:
    """Sends single requests through a provider's package, all from the same event loop.

    The time limit applies to the complete reply: a socket timeout restarts with every byte, so a server that sends
    single bytes could hold a request forever.

    Args:
        config: The model and its endpoint.

    Raises:
        ConfigError: If the key is not set.
        EngineUnavailableError: If the provider's package is not installed.
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
            # A redirect to another host would include a key in one of the provider's own headers
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
        """Returns the reply to one request in the format of the provider's `request`.

        Raises:
            TransientError: If a retry may help.
            PermanentError: If it would not.
        """
        try:
            body, seconds = await self._send(request)
            reply = self._read(body)
        except EndpointError as error:
            # Without a cause, which tracebacks would print: it has the endpoint's message, which may contain the key
            raise self._without_key(error) from None
        text, thoughts, model = map(self.hidden, (reply.text, reply.thoughts, reply.model))
        raw = body if isinstance(body, Mapping) else {}
        return replace(reply, text=text, thoughts=thoughts, model=model, seconds=seconds, raw=raw)

    async def close(self) -> None:
        """Closes the connections; nothing can be sent afterwards."""
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
                failure = TransientError(f"not a reply of this interface: {one_line(str(body))}")
            failure.tokens = self.provider.tokens(body) if isinstance(body, Mapping) else None  # billed anyway
            raise failure from error

    def hidden(self, text: str) -> str:
        """Returns a text without the key and other secrets, because replies are recorded."""
        for secret in self._secrets:
            text = text.replace(secret, "…")
        return text

    def _without_key(self, error: EndpointError) -> EndpointError:
        """Returns an error without the key, which some endpoints repeat, because reasons are logged and stored."""
        reason = str(error)
        for secret in self._secrets:
            reason = _without_pieces(reason, secret)
        error.args = (reason,)
        return error


def make_provider(name: str, connection: Connection) -> Provider:
    """Creates a provider's client; does not connect yet.

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
    """Returns a reason without longer pieces of a key, and without its remains around a mask."""
    for length in range(len(secret), _MIN_SECRET_CHARS - 1, -1):
        for start in range(len(secret) - length + 1):
            reason = reason.replace(secret[start : start + length], "…")
    heads = "|".join(re.escape(secret[:length]) for length in range(_MIN_SECRET_CHARS - 1, 0, -1))
    tails = "|".join(re.escape(secret[-length:]) for length in range(_MIN_SECRET_CHARS - 1, 1, -1))
    return re.sub(rf"(?:{heads})?{_MASK}(?:{tails})(?!\w)", "…", reason)


class _Completing:
    """Adds what packages have no argument for to each request: the address's query, and the user's headers.

    Args:
        query: Query such as `api-version=2024-10-21`.
        headers: Headers by name, which override the package's.
        has_key: Whether the package has a real key; without one its key header is removed if others are set.
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
    """Limits the size of a reply."""
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
    """Returns the user's headers; raises `ConfigError` if a variable is not set or its value is no valid header."""
    values = {}
    for name, variable in config.header_variables.items():
        value = os.environ.get(variable, "").strip()
        if not value:
            raise ConfigError(
                f"The value of the header {name} is expected in the environment variable {variable}, which is not set."
            )
        if not (value.isascii() and value.isprintable()):
            raise ConfigError(
                f"The environment variable {variable} has characters that no header may contain, such as a line break."
            )
        values[name] = value
    return values


def _api_key(config: EndpointConfig) -> str:
    """Returns the key, empty if the endpoint needs none; raises `ConfigError` if one is needed and not set."""
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
            f"The key in the environment variable {variable} has characters that no key may contain, such as a line "
            "break or a space. Copy it again."
        )
    return key


def trusted(*, trust_env: bool = True) -> ssl.SSLContext:
    """Returns `httpx2`'s default SSL context, shared by all clients because creating one takes a tenth of a second.

    Args:
        trust_env: Whether environment variables may name other certificate authorities.
    """
    return _trusted(trust_env, *(os.environ.get(name) for name in _NAMED_BY))


@functools.cache
def _trusted(trust_env: bool, *_named: str | None) -> ssl.SSLContext:
    return httpx2.create_ssl_context(trust_env=trust_env)
