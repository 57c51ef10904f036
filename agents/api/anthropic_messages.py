"""Anthropic's messages."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import anthropic

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
from agents.api.provider import (
    Connection,
    PictureLimits,
    Provider,
    given,
    package_client,
    refuse_settings,
    sent,
    token_budget,
)
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import StopReason
from vlm_envs.validation import require_choice

LEAST_BUDGET = 1024
"""Smallest thinking budget, in tokens."""

EFFORTS = ("low", "medium", "high", "xhigh", "max")

_STOPS: dict[str, StopReason] = {
    "max_tokens": "length",
    "model_context_window_exceeded": "length",
    "refusal": "content_filter",
}
_EPHEMERAL = {"cache_control": {"type": "ephemeral"}}


class AnthropicMessages(Provider):
    """Anthropic's Messages API; repeated prompts are marked for the cache, whose writes cost. See `Provider`."""

    limits = PictureLimits(
        max_pictures=100,
        max_side_px=8000,
        max_bytes=5 * 2**20,
        max_request_bytes=30 * 2**20,
        many=21,
        max_side_px_of_many=2000,
        scaling="scaled down to a long side of 1,568 px, or more on newer models",
        source="https://platform.claude.com/docs/en/build-with-claude/vision",
    )

    def __init__(self, connection: Connection) -> None:
        self._client = package_client(anthropic.AsyncAnthropic, connection)

    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the call's arguments. See `Provider`."""
        refuse_settings("anthropic", config, "sampling_seed", "detail", "max_completion_tokens")
        system, others = split_system(messages)
        contents = [[_part(part) for part in message.parts] for message in others]
        # The newest, for the next request; and the one before, which this request hits despite any turns in between
        for content in [content for message, content in zip(others, contents, strict=True) if message.comes_again][-2:]:
            content[-1] |= _EPHEMERAL
        # The package's signature lacks these because its newest models reject them; older ones and other servers do not
        extra = given({"temperature": config.temperature, "top_p": config.top_p, "top_k": config.top_k})
        optional = {
            "system": [{"type": "text", "text": system, **_EPHEMERAL}] if system else None,
            **_thinking(config),
            "stop_sequences": list(config.stop),
            "extra_body": {**extra, **config.extra},
        }
        return {
            "model": config.model,
            "messages": [
                {"role": message.role, "content": content} for message, content in zip(others, contents, strict=True)
            ],
            "max_tokens": config.max_tokens,
            **given(optional),
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
        return await sent(self._client.messages.create(**request), anthropic)

    def read(self, body: Mapping[str, Any]) -> Completion:
        """Parses a reply body. See `Provider`."""
        blocks = body["content"]
        text = "".join(text_of(block["text"]) for block in blocks if block["type"] == "text")
        is_call = any(str(block["type"]).endswith("tool_use") for block in blocks)
        return Completion(
            text=text,
            stop_reason=stopped(_STOPS.get(str(body.get("stop_reason")), "stop"), text, is_call=is_call),
            thoughts="\n".join(text_of(block["thinking"]) for block in blocks if block["type"] == "thinking"),
            tokens=self.tokens(body),
            model=text_of(body.get("model")),
        )

    def tokens(self, body: Mapping[str, Any]) -> TokenCounts | None:
        """Returns the counts; `input_tokens` excludes tokens that were read from or written to the cache."""
        usage = body.get("usage")
        uncached, completion = count(usage, "input_tokens"), count(usage, "output_tokens")
        if uncached is None or completion is None:
            return None
        cached = count(usage, "cache_read_input_tokens") or 0
        writes = count(usage, "cache_creation_input_tokens") or 0
        thinking = count(usage, "output_tokens_details", "thinking_tokens") or 0
        completion, reasoning = with_reasoning(uncached, completion, thinking, None) or (completion, thinking)
        return TokenCounts(
            prompt=uncached + cached + writes,
            cached=cached,
            cache_writes=writes,
            completion=completion,
            reasoning=reasoning,
        )


def _thinking(config: EndpointConfig) -> dict[str, Any]:
    """Returns the thinking settings: a budget, or an effort for models that take one."""
    if not config.reasoning:
        return {}
    budget = token_budget(config.reasoning, least=LEAST_BUDGET)
    if budget is None:
        effort = require_choice("reasoning", config.reasoning, EFFORTS)
        return {"thinking": {"type": "adaptive", "display": "summarized"}, "output_config": {"effort": effort}}
    if budget >= config.max_tokens:
        raise ConfigError(f"reasoning={budget} must be below max_tokens={config.max_tokens}, which counts thoughts.")
    return {"thinking": {"type": "enabled", "budget_tokens": budget}}


def _part(part: Part) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": part.base64}}
