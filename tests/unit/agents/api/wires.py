"""What the servers of every provider say on the wire, so that tests can have each say the same thing."""

from dataclasses import dataclass, field
from typing import Any


@dataclass(frozen=True, kw_only=True)
class Said:
    """A reply in no provider's format."""

    text: str = "<answer>Up</answer>"
    stop: str = "stop"
    thoughts: str = ""
    prompt: int = 100
    cached: int = 40
    completion: int = 30
    reasoning: int = 20


def chat(said: Said) -> dict[str, Any]:
    """A body of chat completions."""
    finish = {"stop": "stop", "length": "length", "content_filter": "content_filter"}[said.stop]
    message = {"role": "assistant", "content": said.text, "reasoning_content": said.thoughts or None}
    return {
        "id": "1",
        "object": "chat.completion",
        "model": "exact-name",
        "choices": [{"index": 0, "finish_reason": finish, "message": message}],
        "usage": {
            "prompt_tokens": said.prompt,
            "prompt_tokens_details": {"cached_tokens": said.cached},
            "completion_tokens": said.completion,
            "completion_tokens_details": {"reasoning_tokens": said.reasoning},
        },
    }


def responses(said: Said) -> dict[str, Any]:
    """A body of responses."""
    why = {"stop": None, "length": "max_output_tokens", "content_filter": "content_filter"}[said.stop]
    thoughts = [{"type": "reasoning", "id": "r", "summary": [{"type": "summary_text", "text": said.thoughts}]}]
    text = [{"type": "output_text", "text": said.text, "annotations": []}]
    message = {"type": "message", "id": "m", "role": "assistant", "status": "completed", "content": text}
    return {
        "id": "1",
        "object": "response",
        "model": "exact-name",
        "status": "incomplete" if why else "completed",
        "incomplete_details": {"reason": why} if why else None,
        "output": [*(thoughts if said.thoughts else []), message],
        "usage": {
            "input_tokens": said.prompt,
            "input_tokens_details": {"cached_tokens": said.cached},
            "output_tokens": said.completion,
            "output_tokens_details": {"reasoning_tokens": said.reasoning},
            "total_tokens": said.prompt + said.completion,
        },
    }


def messages(said: Said) -> dict[str, Any]:
    """A body of Anthropic's messages."""
    thoughts = [{"type": "thinking", "thinking": said.thoughts, "signature": "s"}] if said.thoughts else []
    return {
        "id": "1",
        "type": "message",
        "role": "assistant",
        "model": "exact-name",
        "content": [*thoughts, {"type": "text", "text": said.text}],
        "stop_reason": {"stop": "end_turn", "length": "max_tokens", "content_filter": "refusal"}[said.stop],
        "stop_sequence": None,
        "usage": {
            "input_tokens": said.prompt - said.cached,
            "cache_read_input_tokens": said.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": said.completion,
            "output_tokens_details": {"thinking_tokens": said.reasoning},
        },
    }


def gemini(said: Said) -> dict[str, Any]:
    """A body of Gemini's generateContent."""
    thoughts = [{"text": said.thoughts, "thought": True}] if said.thoughts else []
    finish = {"stop": "STOP", "length": "MAX_TOKENS", "content_filter": "SAFETY"}[said.stop]
    return {
        "candidates": [
            {
                "content": {"role": "model", "parts": [*thoughts, {"text": said.text}]},
                "finishReason": finish,
                "index": 0,
            }
        ],
        "modelVersion": "exact-name",
        "usageMetadata": {
            "promptTokenCount": said.prompt,
            "cachedContentTokenCount": said.cached,
            "candidatesTokenCount": said.completion - said.reasoning,
            "thoughtsTokenCount": said.reasoning,
            "totalTokenCount": said.prompt + said.completion,
        },
    }


@dataclass(frozen=True, kw_only=True)
class Wire:
    """A provider's interface."""

    provider: str
    body: Any
    path: str
    version: str = "/v1"
    nothing: tuple[dict[str, Any], ...] = field(default_factory=tuple)


WIRES = {
    wire.provider: wire
    for wire in (
        Wire(
            provider="compatible", body=chat, path="/v1/chat/completions", nothing=({"choices": []}, {"choices": None})
        ),
        Wire(provider="openai-chat", body=chat, path="/v1/chat/completions", nothing=({"choices": [{}]},)),
        Wire(provider="openai", body=responses, path="/v1/responses", nothing=({"output": None}, {"output": [{}]})),
        Wire(provider="anthropic", body=messages, path="/v1/messages", version="", nothing=({"content": None},)),
        Wire(
            provider="google",
            body=gemini,
            path="/v1beta/models/judge:generateContent",
            version="",
            nothing=({"candidates": []}, {"candidates": [7]}),
        ),
    )
}
