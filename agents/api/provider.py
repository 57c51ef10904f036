"""The provider interface, and what the providers' SDKs share: their errors and the end of their streams."""

from __future__ import annotations

import hashlib
import re
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Awaitable, Mapping, Sequence
from dataclasses import dataclass
from types import ModuleType
from typing import Any

import httpx2

from agents.api.conversation import Completion, Message, TokenCounts
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import (
    EndpointError,
    PermanentError,
    SilentError,
    TransientError,
    error_in_reply,
    error_of_status,
    no_connection,
    one_line,
    read_error,
)
from vlm_envs.errors import ConfigError


@dataclass(frozen=True, kw_only=True)
class PictureLimits:
    """What a provider takes; more is an error before anything is sent, never a silent change.

    Attributes:
        max_pictures: Of one request.
        max_side_px: Of a picture.
        max_bytes: Of a picture's file.
        max_request_bytes: Of all pictures of a request, as they are sent.
        many: From this number of pictures on `max_side_px_of_many` holds.
        max_side_px_of_many: Of a picture among many.
        scaling: What the provider does with pictures it takes, for the docs.
        source: Where this stands.
    """

    max_pictures: int | None = None
    max_side_px: int | None = None
    max_bytes: int | None = None
    max_request_bytes: int | None = None
    many: int | None = None
    max_side_px_of_many: int | None = None
    scaling: str = ""
    source: str = ""

    def fault(self, messages: Sequence[Message]) -> str:
        """Returns why the pictures of a request would be refused and what to do; empty if they would not."""
        pictures = [picture for message in messages for picture in message.pictures]
        num_bytes = sum(len(picture.base64) for picture in pictures)
        is_many = self.many is not None and len(pictures) >= self.many
        max_side_px = self.max_side_px_of_many if is_many else self.max_side_px
        fewer = "send fewer with a history policy such as history=last_images:4"
        if self.max_pictures is not None and len(pictures) > self.max_pictures:
            return f"{len(pictures)} pictures in a request; at most {self.max_pictures}: {fewer}"
        if self.max_request_bytes is not None and num_bytes > self.max_request_bytes:
            return f"{num_bytes} bytes of pictures in a request; at most {self.max_request_bytes}: {fewer}"
        for picture in pictures:
            side_px = max(picture.width, picture.height)
            if max_side_px is not None and side_px > max_side_px:
                among = f" among {len(pictures)} pictures" if is_many else ""
                return f"a picture{among} has a side of {side_px} px; at most {max_side_px}: ask for smaller pictures"
            if self.max_bytes is not None and len(picture.base64) > self.max_bytes:
                return f"a picture has {len(picture.base64)} bytes; at most {self.max_bytes}: ask for smaller pictures"
        return ""


class Provider(ABC):
    """One provider's format, and its package's client.

    Attributes:
        limits: Of images.
        can_stream: Whether replies can be asked for as streams.
    """

    limits: PictureLimits
    can_stream = False
    _client: Any

    @abstractmethod
    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the keyword arguments of the package's call, JSON throughout.

        Raises:
            ConfigError: If the provider has no such way to draw answers.
        """

    @abstractmethod
    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request, once, and returns the reply's body as JSON, whatever it may be.

        Raises:
            EndpointError: If there is none.
        """

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> Completion:
        """Returns what a body says.

        Raises:
            LookupError, TypeError, AttributeError, ValueError: If it is no reply of this provider.
        """

    @abstractmethod
    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns what a body says it took, whatever else it says; None where it was not counted."""

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Where and how a provider is reached.

    Attributes:
        api_key: The key; never printed.
        base_url: Address in place of the provider's own; empty for that.
        timeout_s: Of a whole request; the caller holds it, this is for the package.
        http: The client that all packages send through.
        streams: Whether replies are asked for as streams, for servers that send nothing else.
    """

    api_key: str
    base_url: str
    timeout_s: float
    http: httpx2.AsyncClient
    streams: bool = False

    def __repr__(self) -> str:
        return f"Connection(base_url={self.base_url!r})"


def package_client(client_class: Any, connection: Connection) -> Any:
    """Returns the client of `openai` or `anthropic`, which sends each request once."""
    return client_class(
        api_key=connection.api_key,
        base_url=connection.base_url or None,
        timeout=connection.timeout_s,
        max_retries=0,
        http_client=connection.http,
    )


def given(settings: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the settings that are set."""
    return {name: value for name, value in settings.items() if value not in (None, "", [], {})}


def refuse_settings(provider: str, config: EndpointConfig, *names: str) -> None:
    """Raises `ConfigError` if one of the named settings is set, for a provider that has no such setting."""
    for name in names:
        if getattr(config, name) not in (None, "", (), False):
            raise ConfigError(f"{provider} has no setting {name.removeprefix('sampling_')!r}. Leave it out.")


def conversation_key(messages: Sequence[Message]) -> str:
    """Returns the same short text for all requests of a conversation that grows, for a provider's prompt cache.

    Requests with one key go to the machine that has the beginning of their prompt. Where nothing comes again it is
    empty: questions that share their beginning with others are better brought together by that.
    """
    if not any(message.comes_again for message in messages):
        return ""
    digest = hashlib.sha256()
    for message in messages[: 1 + (messages[0].role == "system")]:
        for part in message.parts:
            digest.update(part.encode() if isinstance(part, str) else part.png)
    return digest.hexdigest()[:32]


def token_budget(reasoning: str, *, least: int) -> int | None:
    """Returns a budget of tokens for thoughts, None where an effort is named.

    Raises:
        ConfigError: If it is too small.
    """
    if not reasoning.isdecimal():
        return None
    if int(reasoning) < least:
        raise ConfigError(f"reasoning={reasoning}: a budget of thoughts has at least {least} tokens.")
    return int(reasoning)


async def sent(call: Awaitable[Any], package: ModuleType) -> Any:
    """Returns the reply of a call as JSON.

    Args:
        call: A call of the package that has begun.
        package: `openai` or `anthropic`.

    Raises:
        TransientError: If it may go well another time.
        PermanentError: If it will not.
    """
    try:
        reply = await call
        # What is no JSON by its header comes as text
        if not hasattr(reply, "to_dict"):
            raise TransientError(f"the body is no JSON: {one_line(str(reply), 80)}")
        return reply.to_dict(mode="json", warnings=False)
    except EndpointError:
        raise
    except package.APIStatusError as error:
        content = read_error(error.body, error.response.text)
        raise error_of_status(error.status_code, content, error.response.headers) from error
    except package.APITimeoutError as error:
        raise SilentError("no whole reply in time") from error
    except package.APIConnectionError as error:
        raise no_connection(error.__cause__ or error) from error
    except package.APIError as error:  # An error in the middle of a stream
        raise error_in_reply(read_error(error.body, error.message)) from error
    except getattr(package, "OpenAIError", getattr(package, "AnthropicError", ())) as error:
        raise PermanentError(f"cannot be asked: {one_line(str(error))}") from error
    except Exception as error:
        # While a body is read, errors come from the HTTP library and from whatever reads JSON
        raise TransientError(f"no readable reply: {type(error).__name__} {one_line(str(error))}") from error


UNCOMPRESSED = {"Accept-Encoding": "identity"}
"""Request header that keeps the end of a stream readable for `EndOfStream`."""

_DONE = re.compile(rb"(?:^|[\r\n])data: ?\[DONE\]")
_MAX_DONE_BYTES = 16


class EndOfStream(httpx2.AsyncByteStream):
    """Passes on the bytes of a stream and notes whether `data: [DONE]` was among them.

    Args:
        inner: The stream of an HTTP response that has not been read yet.
    """

    def __init__(self, inner: Any) -> None:
        self._inner = inner
        self.was_sent = False

    async def __aiter__(self) -> AsyncIterator[bytes]:
        tail = b""
        async for chunk in self._inner:
            tail += chunk
            self.was_sent = self.was_sent or bool(_DONE.search(tail))
            tail = tail[-_MAX_DONE_BYTES:]
            yield chunk

    async def aclose(self) -> None:
        """Closes the stream."""
        await self._inner.aclose()
