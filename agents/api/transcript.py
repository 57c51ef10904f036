"""What is recorded of a request and a reply: JSON without images and without secrets, and never too long."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from agents.api.conversation import Message

MAX_STRING_CHARS = 2_000
"""Longer strings of a reply are cut; longer texts of a request are kept, as they are what the model saw."""

MAX_RECORD_CHARS = 32_000
"""Longest record of a reply, as JSON."""

_SHORTEST_REPEATED_CHARS = 80
"""A shorter string is not worth replacing where the turn has it, too."""


def recorded_request(
    request: Mapping[str, Any], messages: Sequence[Message], hidden: Callable[[str], str]
) -> Mapping[str, Any]:
    """Returns a request with each image as `image SHA256`, the name of its PNG file on a board.

    Args:
        request: As the provider's package takes it.
        messages: What it was made of.
        hidden: Takes secrets out of a text.
    """
    names = {}
    for image in (image for message in messages for image in message.pictures):
        names[image.base64] = names[image.data_uri] = f"image {image.sha256}"
    recorded: Mapping[str, Any] = _walked(request, lambda text: names.get(text) or hidden(text), hidden)
    return recorded


def recorded_reply(
    body: Mapping[str, Any], text: str, thoughts: str, hidden: Callable[[str], str]
) -> Mapping[str, Any]:
    """Returns a reply, with `[response]` and `[thoughts]` where it repeats what the turn records anyway.

    Args:
        body: As the provider sent it.
        text: The response.
        thoughts: Its thoughts.
        hidden: Takes secrets out of a text.
    """

    def shortened(value: str) -> str:
        value = hidden(value)
        if len(value) >= _SHORTEST_REPEATED_CHARS and value in (text, thoughts):
            return "[response]" if value == text else "[thoughts]"
        if len(value) > MAX_STRING_CHARS:
            return f"{value[:MAX_STRING_CHARS]}… ({len(value)} characters)"
        return value

    recorded: Mapping[str, Any] = _walked(body, shortened, hidden)
    written = json.dumps(recorded, ensure_ascii=False, default=str)
    if len(written) > MAX_RECORD_CHARS:
        return {"shortened": written[:MAX_RECORD_CHARS]}
    return recorded


def _walked(value: Any, change: Callable[[str], str], change_name: Callable[[str], str]) -> Any:
    if isinstance(value, str):
        return change(value)
    if isinstance(value, Mapping):
        parts = {name: part for name, part in value.items() if part is not None}
        return {change_name(str(name)): _walked(part, change, change_name) for name, part in parts.items()}
    if isinstance(value, list | tuple):
        return [_walked(part, change, change_name) for part in value]
    return value
