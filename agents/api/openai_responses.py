"""OpenAI's responses, the newer of its two interfaces: reasoning models show summaries of their thoughts here only."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import AbstractAsyncContextManager
from typing import Any

import openai

from agents.api.conversation import (
    Completion,
    Message,
    Part,
    TokenCounts,
    count,
    split_system,
    stopped,
    text_of,
    with_reasoning,
)
from agents.api.endpoint_config import Sampling
from agents.api.failures import error_in_reply, read_error
from agents.api.openai_chat import LIMITS, require_effort
from agents.api.provider import Connection, conversation_key, refuse_settings, sent, stream_ended_early
from vlm_envs.trajectory import StopReason

_STOPS: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}
_LAST_EVENTS = ("response.completed", "response.incomplete", "response.failed")


class OpenAIResponses:
    """Responses, nothing of them stored by the provider. See `Provider`."""

    limits = LIMITS

    def __init__(self, connection: Connection) -> None:
        self._streams = connection.streams
        self._client = openai.AsyncOpenAI(
            api_key=connection.api_key,
            base_url=connection.base_url or None,
            timeout=connection.timeout_s,
            max_retries=0,
            http_client=connection.http,
        )

    def request(self, model: str, messages: tuple[Message, ...], sampling: Sampling) -> dict[str, Any]:
        """Returns the call's arguments. See `Provider`."""
        require_effort(sampling.reasoning)
        refuse_settings("openai", sampling, "seed", "stop", "top_k", "max_completion_tokens")
        detail = sampling.detail or "auto"
        system, others = split_system(messages)
        optional = {
            "instructions": system,
            "temperature": sampling.temperature,
            "top_p": sampling.top_p,
            "prompt_cache_key": conversation_key(messages),
            "reasoning": {"effort": sampling.reasoning, "summary": "auto"} if sampling.reasoning else None,
        }
        return {
            "model": model,
            "input": [
                {
                    "role": message.role,
                    "content": [_part(part, detail) for part in message.parts] if message.pictures else message.text,
                }
                for message in others
            ],
            "max_output_tokens": sampling.max_tokens,
            "store": False,
            **{name: value for name, value in optional.items() if value not in (None, "")},
            **({"extra_body": dict(sampling.extra)} if sampling.extra else {}),
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
        if self._streams:
            return await sent(_assembled(self._client.responses.stream(**request)), openai)
        return await sent(self._client.responses.create(**request), openai)

    def read(self, body: Mapping[str, Any]) -> Completion:
        """Returns what a body says. See `Provider`."""
        is_cut = body.get("status") == "incomplete"
        if not is_cut and (body.get("status") != "completed" or not body["output"]):
            raise ValueError(f"the response is {body.get('status')}, with nothing said: {body.get('error')}")
        said: list[str] = []
        thoughts: list[str] = []
        refused = False
        for item in body["output"]:
            if item["type"] == "reasoning":
                thoughts += [text_of(part["text"]) for part in item.get("summary") or item.get("content") or ()]
            elif item["type"] == "message":
                said += [text_of(part.get("text") or part.get("refusal")) for part in item["content"]]
                refused = refused or any(part["type"] == "refusal" for part in item["content"])
        is_call = any(str(item["type"]).endswith("_call") for item in body["output"])
        why = str((body.get("incomplete_details") or {}).get("reason"))
        text = "".join(said)
        ended = stopped("stop", text, is_call=is_call)
        return Completion(
            text=text,
            stop_reason="content_filter" if refused else _STOPS.get(why, "length") if is_cut else ended,
            thoughts="\n".join(thoughts),
            tokens=self.tokens(body),
            model=text_of(body.get("model")),
        )

    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns what a body says it took. See `Provider`."""
        return _tokens(body.get("usage"))

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.close()


async def _assembled(stream: AbstractAsyncContextManager[Any]) -> Any:
    """Returns the reply at the end of a stream.

    The package's own final reply is not used because it refuses replies cut off by `max_tokens`.

    Raises:
        TransientError: If the stream ended without a reply.
        EndpointError: If it reported an error.
    """
    async with stream as events:
        reply = None
        async for event in events:
            if event.type == "error":
                raise error_in_reply(read_error(event.to_dict()))
            if event.type in _LAST_EVENTS:
                reply = event.response
    if reply is None:
        raise stream_ended_early()
    return reply


def _part(part: Part, detail: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": part.data_uri, "detail": detail}


def _tokens(usage: Mapping[str, Any] | None) -> TokenCounts | None:
    prompt = count(usage, "input_tokens")
    if prompt is None:
        return None
    reasoning = count(usage, "output_tokens_details", "reasoning_tokens") or 0
    came = with_reasoning(prompt, count(usage, "output_tokens"), reasoning, count(usage, "total_tokens"))
    if came is None:
        return None
    completion, reasoning = came
    return TokenCounts(
        prompt=prompt,
        cached=count(usage, "input_tokens_details", "cached_tokens") or 0,
        cache_writes=count(usage, "input_tokens_details", "cache_write_tokens") or 0,
        completion=completion,
        reasoning=reasoning,
    )
