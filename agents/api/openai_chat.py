"""OpenAI's chat completions, which most servers of open models also support."""

from __future__ import annotations

from collections.abc import Awaitable, Mapping
from typing import Any

import openai
from openai.lib.streaming.chat import ChatCompletionStreamState

from agents.api.conversation import (
    Completion,
    Message,
    TokenCounts,
    chat_part,
    count,
    stopped,
    text_of,
    with_reasoning,
)
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import TransientError
from agents.api.provider import (
    UNCOMPRESSED,
    Connection,
    EndOfStream,
    PictureLimits,
    Provider,
    conversation_key,
    given,
    package_client,
    refuse_settings,
    sent,
)
from vlm_envs.trajectory import StopReason
from vlm_envs.validation import require_choice

LIMITS = PictureLimits(
    max_pictures=500,
    max_request_bytes=50 * 10**6,
    scaling="scaled down into 2,048 x 2,048 px and to a short side of 768 px, or to a number of patches, by the model",
    source="https://platform.openai.com/docs/guides/images-vision",
)
EFFORTS = ("none", "minimal", "low", "medium", "high", "xhigh", "max")

_STOPS: dict[str, StopReason] = {
    **dict.fromkeys(("stop", "tool_calls", "function_call", "eos_token", "stop_sequence"), "stop"),
    **dict.fromkeys(("length", "max_tokens", "model_length"), "length"),
    "content_filter": "content_filter",
}
"""Reasons for which an answer may be empty; another reason counts as "stop" if the answer is not empty."""

_FAULTS = ("error", "abort", "cancelled", "insufficient_system_resource")
"""Finish reasons of a server that failed or gave up midway, whatever text it had sent."""


class OpenAIProvider(Provider):
    """Base class of OpenAI's two interfaces.

    Attributes:
        usage_names: The interface's names of sent and received tokens.
    """

    limits = LIMITS
    usage_names: tuple[str, str]

    def __init__(self, connection: Connection) -> None:
        self._client = package_client(openai.AsyncOpenAI, connection)

    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns the token counts of a reply body. See `Provider`."""
        usage, (sent_name, came_name) = body.get("usage"), self.usage_names
        prompt = count(usage, f"{sent_name}_tokens")
        if prompt is None:
            return None
        reasoning = count(usage, f"{came_name}_tokens_details", "reasoning_tokens") or 0
        came = with_reasoning(prompt, count(usage, f"{came_name}_tokens"), reasoning, count(usage, "total_tokens"))
        if came is None:
            return None
        details = f"{sent_name}_tokens_details"
        return TokenCounts(
            prompt=prompt,
            cached=count(usage, details, "cached_tokens") or 0,
            cache_writes=count(usage, details, "cache_write_tokens") or 0,
            completion=came[0],
            reasoning=came[1],
        )


class OpenAIChat(OpenAIProvider):
    """Chat completions. See `Provider`.

    Attributes:
        is_openai: False for another server: no limits or efforts of OpenAI's, and the older name of the token limit
            unless configured.
    """

    can_stream = True
    is_openai = True
    usage_names = ("prompt", "completion")

    def __init__(self, connection: Connection) -> None:
        super().__init__(connection)
        self._streams = connection.streams

    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the call's arguments. See `Provider`."""
        drawn: dict[str, Any] = {
            "temperature": config.temperature,
            "top_p": config.top_p,
            "reasoning_effort": config.reasoning,
            "seed": config.sampling_seed,
            "stop": list(config.stop),
        }
        extra = dict(config.extra)
        if self.is_openai:
            require_effort(config.reasoning)
            refuse_settings("openai-chat", config, "top_k", "max_completion_tokens")
            drawn["prompt_cache_key"] = conversation_key(messages)
        elif config.top_k is not None:
            extra = {"top_k": config.top_k, **extra}  # not in the package's signature, but most servers accept it
        is_new_name = self.is_openai or config.max_completion_tokens
        return {
            "model": config.model,
            "messages": [{"role": message.role, "content": _content(message, config.detail)} for message in messages],
            "max_completion_tokens" if is_new_name else "max_tokens": config.max_tokens,
            **given({**drawn, "extra_body": extra}),
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
        if self._streams:
            stream = self._client.chat.completions.create(
                **request, stream=True, stream_options={"include_usage": True}, extra_headers=UNCOMPRESSED
            )
            return await sent(_assembled(stream), openai)
        return await sent(self._client.chat.completions.create(**request), openai)

    def read(self, body: Mapping[str, Any]) -> Completion:
        """Parses a reply body. See `Provider`."""
        choice = body["choices"][0]
        why = str(choice.get("finish_reason"))
        message = choice.get("message")
        if message is None and _STOPS.get(why, "stop") != "stop":
            message = {}  # cut off, or filtered, before the first word
        text, thoughts = _said(message.get("content"))
        thoughts = text_of(message.get("reasoning_content") or message.get("reasoning")) or thoughts
        refusal = text_of(message.get("refusal"))
        if why in _FAULTS or (why not in _STOPS and not (text or thoughts or refusal)):
            raise ValueError(f"a choice without an answer: {why}")
        is_call = bool(message.get("tool_calls") or message.get("function_call"))
        return Completion(
            text=text or refusal,
            stop_reason="content_filter" if refusal else stopped(_STOPS.get(why, "stop"), text, is_call=is_call),
            thoughts=thoughts,
            tokens=self.tokens(body),
            model=text_of(body.get("model")),
        )


class CompatibleChat(OpenAIChat):
    """Chat completions of a server that is not OpenAI's."""

    is_openai = False
    limits = PictureLimits()


async def _assembled(call: Awaitable[Any]) -> Any:
    """Returns the reply assembled from a stream.

    The package's own final reply is not used because it refuses replies cut off by `max_tokens`.

    Raises:
        TransientError: If the stream ended early: without a finish reason and without `[DONE]`.
    """
    stream = await call
    end = stream.response.stream = EndOfStream(stream.response.stream)
    state, has_chunks = ChatCompletionStreamState(), False
    async with stream:
        async for chunk in stream:
            if chunk.object == "chat.completion.chunk":
                state.handle_chunk(chunk)
                has_chunks = True
    reply = state.current_completion_snapshot if has_chunks else None
    if reply is None or (not end.was_sent and any(choice.finish_reason is None for choice in reply.choices)):
        raise TransientError("the stream ended before the reply was complete")
    return reply


def require_effort(reasoning: str) -> None:
    """Raises `ConfigError` for an effort that OpenAI's models do not have."""
    if reasoning:
        require_choice("reasoning", reasoning, EFFORTS)


def _content(message: Message, detail: str) -> str | list[dict[str, Any]]:
    """Returns the content of a message; a single text as a string, as some servers require for system messages."""
    if not message.pictures:
        return message.text
    return [chat_part(part, detail) for part in message.parts]


def _said(content: Any) -> tuple[str, str]:
    """Returns the text and the thoughts in a content, which some servers send as a list of parts."""
    if not isinstance(content, list):
        return text_of(content), ""
    text = "".join(text_of(part["text"]) for part in content if part["type"] == "text")
    return text, "\n".join(_said(part["thinking"])[0] for part in content if part["type"] == "thinking")
