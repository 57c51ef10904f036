"""The provider interface, and code shared by providers' SDKs: error handling and the end of streams."""

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
    """A provider's image limits; exceeding one is an error before anything is sent, never a silent change.

    Attributes:
        max_pictures: Most images per request.
        max_side_px: Longest side of an image.
        max_bytes: Largest image file.
        max_request_bytes: Most bytes of all images in a request, as sent.
        many: Number of images from which `max_side_px_of_many` applies.
        max_side_px_of_many: Longest side of an image among many.
        scaling: How the provider scales images, for the docs.
        source: Source of the limits.
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
        """Returns why the images of a request would be refused, with a suggestion; empty if they would not."""
        images = [image for message in messages for image in message.pictures]
        num_bytes = sum(len(image.base64) for image in images)
        is_many = self.many is not None and len(images) >= self.many
        max_side_px = self.max_side_px_of_many if is_many else self.max_side_px
        fewer = "send fewer with a history policy such as history=last_images:4"
        if self.max_pictures is not None and len(images) > self.max_pictures:
            return f"{len(images)} images in a request; at most {self.max_pictures}: {fewer}"
        if self.max_request_bytes is not None and num_bytes > self.max_request_bytes:
            return f"{num_bytes} bytes of images in a request; at most {self.max_request_bytes}: {fewer}"
        for image in images:
            side_px = max(image.width, image.height)
            if max_side_px is not None and side_px > max_side_px:
                among = f" among {len(images)} images" if is_many else ""
                return f"an image{among} has a side of {side_px} px; at most {max_side_px}: use smaller images"
            if self.max_bytes is not None and len(image.base64) > self.max_bytes:
                return f"an image has {len(image.base64)} bytes; at most {self.max_bytes}: use smaller images"
        return ""


class Provider(ABC):
    """One provider's request format and the client of its package.

    Attributes:
        limits: Image limits.
        can_stream: Whether replies can be streamed.
    """

    limits: PictureLimits
    can_stream = False
    _client: Any

    @abstractmethod
    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the keyword arguments of the package's call, JSON only.

        Raises:
            ConfigError: If the provider does not support a setting.
        """

    @abstractmethod
    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request, once, and returns the reply's body as JSON without checking it.

        Raises:
            EndpointError: If there is no reply.
        """

    @abstractmethod
    def read(self, body: Mapping[str, Any]) -> Completion:
        """Parses a reply body.

        Raises:
            LookupError, TypeError, AttributeError, ValueError: If it is not a reply of this provider.
        """

    @abstractmethod
    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns the token counts of any reply body; None if it has none."""

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()


@dataclass(frozen=True, kw_only=True)
class Connection:
    """Address and client for reaching a provider.

    Attributes:
        api_key: The key; never printed.
        base_url: Address instead of the provider's default; empty for the default.
        timeout_s: Time limit of a request, for the package; the caller enforces it.
        http: The HTTP client of all packages.
        streams: Whether replies are streamed, for servers that require it.
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
    """Raises `ConfigError` if one of the named settings is set, for a provider without them."""
    for name in names:
        if getattr(config, name) not in (None, "", (), False):
            raise ConfigError(f"{provider} has no setting {name.removeprefix('sampling_')!r}. Leave it out.")


def conversation_key(messages: Sequence[Message]) -> str:
    """Returns a short text that is the same for all requests of a growing conversation, for a provider's prompt cache.

    Requests with the same key are routed to the machine that has cached the start of their prompt. It is empty if no
    message will repeat: questions with a common start are then better routed by that start.
    """
    if not any(message.comes_again for message in messages):
        return ""
    digest = hashlib.sha256()
    for message in messages[: 1 + (messages[0].role == "system")]:
        for part in message.parts:
            digest.update(part.encode() if isinstance(part, str) else part.png)
    return digest.hexdigest()[:32]


def token_budget(reasoning: str, *, least: int) -> int | None:
    """Returns a thinking budget in tokens; None if the text names an effort.

    Raises:
        ConfigError: If it is too small.
    """
    if not reasoning.isdecimal():
        return None
    if int(reasoning) < least:
        raise ConfigError(f"reasoning={reasoning}: a thinking budget has at least {least} tokens.")
    return int(reasoning)


async def sent(call: Awaitable[Any], package: ModuleType) -> Any:
    """Returns the reply of a call as JSON.

    Args:
        call: A pending call of the package.
        package: `openai` or `anthropic`.

    Raises:
        TransientError: If a retry may help.
        PermanentError: If it would not.
    """
    try:
        reply = await call
        # A body without a JSON content type is returned as text
        if not hasattr(reply, "to_dict"):
            raise TransientError(f"the body is not JSON: {one_line(str(reply), 80)}")
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
    except package.APIError as error:  # an error in the middle of a stream
        raise error_in_reply(read_error(error.body, error.message)) from error
    except getattr(package, "OpenAIError", getattr(package, "AnthropicError", ())) as error:
        raise PermanentError(f"the request cannot be sent: {one_line(str(error))}") from error
    except Exception as error:
        # Reading a body may raise errors of the HTTP library and of JSON parsing
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
