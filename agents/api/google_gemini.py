"""Google's Gemini."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import httpx2
from google import genai
from google.genai import errors, types

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
from agents.api.endpoint_config import EndpointConfig
from agents.api.failures import EndpointError, TransientError, error_of_status, no_connection, one_line, read_error
from agents.api.provider import Connection, PictureLimits, Provider, given, refuse_settings, token_budget
from agents.api.transport import trusted
from vlm_envs.trajectory import StopReason
from vlm_envs.validation import require_choice

_FILTERS = ("SAFETY", "RECITATION", "LANGUAGE", "BLOCKLIST", "PROHIBITED_CONTENT", "SPII", "MODEL_ARMOR")
_STOPS: dict[str, StopReason] = {"MAX_TOKENS": "length", **dict.fromkeys(_FILTERS, "content_filter")}
_CALLS = ("UNEXPECTED_TOOL_CALL", "MALFORMED_FUNCTION_CALL")
_SAID = ("STOP", *_STOPS, *_CALLS)
"""Reasons for which an answer may be empty; every other reason is a fault."""

_ROLES = {"user": "user", "assistant": "model"}
EFFORTS = ("minimal", "low", "medium", "high")


class GoogleGemini(Provider):
    """Gemini's `generateContent`, including thoughts. See `Provider`."""

    limits = PictureLimits(
        max_pictures=900,
        max_bytes=7 * 10**6,
        max_request_bytes=19 * 10**6,
        scaling="scaled to a number of tokens, or cut into tiles of 768 x 768 px, by the model",
        source="https://ai.google.dev/gemini-api/docs/image-understanding",
    )

    def __init__(self, connection: Connection) -> None:
        self._client = genai.Client(
            api_key=connection.api_key,
            vertexai=False,
            http_options=types.HttpOptions(
                base_url=connection.base_url or None,
                api_version="v1beta",  # v1 has no thoughts
                timeout=round(connection.timeout_s * 1000),
                httpx_async_client=connection.http,
                client_args={"verify": trusted()},  # otherwise the package creates two unused SSL contexts
                async_client_args={"ssl": trusted()},
            ),
        )

    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the call's arguments. See `Provider`."""
        refuse_settings("google", config, "detail", "max_completion_tokens")
        system, others = split_system(messages)
        optional = {
            "system_instruction": system,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "thinking_config": _thinking(config.reasoning) if config.reasoning else None,
            "seed": config.sampling_seed,
            "stop_sequences": list(config.stop),
            "top_k": config.top_k,
            "http_options": {"extra_body": dict(config.extra)} if config.extra else None,
        }
        return {
            "model": config.model,
            "contents": [
                {"role": _ROLES[message.role], "parts": [_part(part) for part in message.parts]} for message in others
            ],
            "config": {
                "max_output_tokens": config.max_tokens,
                **given(optional),
            },
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
        try:
            reply = await self._client.aio.models.generate_content(**request)
            return reply.model_dump(mode="json", exclude_none=True, exclude={"sdk_http_response"})
        except EndpointError:
            raise
        except errors.APIError as error:
            headers = dict(getattr(error.response, "headers", None) or {})
            if wait_s := _retry_delay_s(error.details):
                headers.setdefault("retry-after", wait_s)
            text = getattr(error.response, "text", "")
            content = read_error(error.details, text if isinstance(text, str) else "")
            raise error_of_status(error.code or 500, content, headers) from error
        except httpx2.TransportError as error:  # the package does not wrap errors of the HTTP library
            raise no_connection(error) from error
        except Exception as error:
            # nor those of JSON parsing
            raise TransientError(f"no readable reply: {type(error).__name__} {one_line(str(error))}") from error

    def read(self, body: Mapping[str, Any]) -> Completion:
        """Parses a reply body. See `Provider`."""
        if body.get("prompt_feedback", {}).get("block_reason"):
            return Completion(text="", stop_reason="content_filter", tokens=self.tokens(body))
        candidate = body["candidates"][0]
        parts = candidate.get("content", {}).get("parts", ())
        why = str(candidate.get("finish_reason"))
        if not parts and why not in _SAID:
            raise ValueError(f"an empty candidate: {why}")
        text = "".join(text_of(part.get("text")) for part in parts if not part.get("thought"))
        is_call = why in _CALLS or any(part.get("function_call") for part in parts)
        return Completion(
            text=text,
            stop_reason=stopped(_STOPS.get(why, "stop"), text, is_call=is_call),
            thoughts="\n".join(text_of(part.get("text")) for part in parts if part.get("thought")),
            tokens=self.tokens(body),
            model=text_of(body.get("model_version")),
        )

    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns the counts; Gemini counts thoughts separately from the candidate's tokens."""
        usage = body.get("usage_metadata")
        prompt = count(usage, "prompt_token_count")
        if prompt is None:
            return None
        reasoning = count(usage, "thoughts_token_count") or 0
        candidates, total = count(usage, "candidates_token_count"), count(usage, "total_token_count")
        completion = None if candidates is None else candidates + reasoning
        if total is not None:
            total -= count(usage, "tool_use_prompt_token_count") or 0
        completion, reasoning = with_reasoning(prompt, completion, reasoning, total) or (reasoning, reasoning)
        cached = count(usage, "cached_content_token_count") or 0
        return TokenCounts(prompt=prompt, cached=cached, completion=completion, reasoning=reasoning)

    async def close(self) -> None:
        """Closes the connections."""
        await self._client.aio.aclose()


def _retry_delay_s(body: Any) -> str:
    """Returns the wait that an error's body requests, in seconds, as a header value; empty if it does not."""
    error = body.get("error") if isinstance(body, Mapping) else None
    details = error.get("details") if isinstance(error, Mapping) else None
    parts = details if isinstance(details, list) else []
    delays = [part.get("retryDelay") for part in parts if isinstance(part, Mapping)]
    return next((delay.removesuffix("s") for delay in delays if isinstance(delay, str)), "")


def _thinking(reasoning: str) -> dict[str, Any]:
    """Returns the thinking settings: a budget, or a level for models that take one."""
    budget = token_budget(reasoning, least=0)
    if budget is None:
        return {"include_thoughts": True, "thinking_level": require_choice("reasoning", reasoning, EFFORTS)}
    return {"include_thoughts": True, "thinking_budget": budget}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"text": part}
    return {"inline_data": {"mime_type": "image/png", "data": part.base64}}
