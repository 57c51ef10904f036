"""OpenAI's Responses API, the newer of its two interfaces and the only one that shows summaries of thoughts."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai

from agents.api.conversation import Completion, Message, Part, split_system, stopped, text_of
from agents.api.endpoint_config import EndpointConfig
from agents.api.openai_chat import OpenAIProvider, require_effort
from agents.api.provider import conversation_key, given, refuse_settings, sent
from vlm_envs.trajectory import StopReason

_STOPS: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class OpenAIResponses(OpenAIProvider):
    """OpenAI's Responses API, without storage at the provider. See `Provider`."""

    usage_names = ("input", "output")

    def request(self, messages: tuple[Message, ...], config: EndpointConfig) -> dict[str, Any]:
        """Returns the call's arguments. See `Provider`."""
        require_effort(config.reasoning)
        refuse_settings("openai", config, "sampling_seed", "stop", "top_k", "max_completion_tokens")
        detail = config.detail or "auto"
        system, others = split_system(messages)
        optional = {
            "instructions": system,
            "temperature": config.temperature,
            "top_p": config.top_p,
            "prompt_cache_key": conversation_key(messages),
            "reasoning": {"effort": config.reasoning, "summary": "auto"} if config.reasoning else None,
            "extra_body": dict(config.extra),
        }
        return {
            "model": config.model,
            "input": [
                {
                    "role": message.role,
                    "content": [_part(part, detail) for part in message.parts] if message.pictures else message.text,
                }
                for message in others
            ],
            "max_output_tokens": config.max_tokens,
            "store": False,
            **given(optional),
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
        return await sent(self._client.responses.create(**request), openai)

    def read(self, body: Mapping[str, Any]) -> Completion:
        """Parses a reply body. See `Provider`."""
        is_cut = body.get("status") == "incomplete"
        if not is_cut and (body.get("status") != "completed" or not body["output"]):
            raise ValueError(f"the response is {body.get('status')} and empty: {body.get('error')}")
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


def _part(part: Part, detail: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": part.data_uri, "detail": detail}
