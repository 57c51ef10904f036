"""OpenAI's responses, the newer of its two interfaces: reasoning models show summaries of their thoughts here only."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import openai

from agents.api.conversation import Completion, Message, Part, split_system, stopped, text_of
from agents.api.endpoint_config import Sampling
from agents.api.openai_chat import OpenAIProvider, require_effort
from agents.api.provider import conversation_key, given, refuse_settings, sent
from vlm_envs.trajectory import StopReason

_STOPS: dict[str, StopReason] = {"max_output_tokens": "length", "content_filter": "content_filter"}


class OpenAIResponses(OpenAIProvider):
    """Responses, nothing of them stored by the provider. See `Provider`."""

    usage_names = ("input", "output")

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
            "extra_body": dict(sampling.extra),
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
            **given(optional),
        }

    async def send(self, request: Mapping[str, Any]) -> Any:
        """Sends one request. See `Provider`."""
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


def _part(part: Part, detail: str) -> dict[str, Any]:
    if isinstance(part, str):
        return {"type": "input_text", "text": part}
    return {"type": "input_image", "image_url": part.data_uri, "detail": detail}
