"""A provider-independent conversation: messages of texts and images, and the model's completions."""

from __future__ import annotations

import base64
import functools
import hashlib
import io
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Literal

import numpy as np
import numpy.typing as npt
from PIL import Image

from vlm_envs.responses.formats import encodable
from vlm_envs.trajectory import Observation, StopReason, observation_images, require_image

Role = Literal["system", "user", "assistant"]

_MOST_TOKENS = 10**9

CHARS_PER_TOKEN = 4
PIXELS_PER_TOKEN = 750
"""For estimates: the average for English text, and Anthropic's documented value for images."""


@dataclass(frozen=True, kw_only=True)
class Picture:
    """An image as a PNG file, which is encoded only once however often it is sent.

    Attributes:
        png: The file.
        width: Width in pixels.
        height: Height in pixels.
    """

    png: bytes
    width: int
    height: int

    @classmethod
    def of(cls, pixels: npt.NDArray[np.uint8]) -> Picture:
        """Encodes pixels without changes; the same pixels always give the same file.

        Args:
            pixels: uint8[H, W, 3].

        Raises:
            ConfigError: If the array is not an image.
        """
        file = io.BytesIO()
        Image.fromarray(require_image(pixels)).save(file, format="PNG")
        return cls(png=file.getvalue(), width=pixels.shape[1], height=pixels.shape[0])

    @functools.cached_property
    def base64(self) -> str:
        """The file, base64-encoded."""
        return base64.b64encode(self.png).decode("ascii")

    @property
    def data_uri(self) -> str:
        """The file as `data:image/png;base64,…`."""
        return f"data:image/png;base64,{self.base64}"

    @functools.cached_property
    def sha256(self) -> str:
        """Hash of the file, 64 hexadecimal digits."""
        return hashlib.sha256(self.png).hexdigest()


Part = str | Picture


@dataclass(frozen=True, kw_only=True)
class Message:
    """One message of a conversation.

    Attributes:
        role: The sender. There is at most one system message, which comes first.
        parts: Texts and images in reading order.
        comes_again: Whether the next request starts with exactly the same messages up to this one, so that they should
            be cached by providers that cache prompts on request.
    """

    role: Role
    parts: tuple[Part, ...]
    comes_again: bool = False

    @property
    def text(self) -> str:
        """Its texts, without images."""
        return "\n".join(part for part in self.parts if isinstance(part, str))

    @property
    def pictures(self) -> tuple[Picture, ...]:
        """Its images."""
        return tuple(part for part in self.parts if isinstance(part, Picture))


NO_TEXT = "(no text)"
"""Placeholder for an empty message, which some providers refuse."""


def observation_message(observation: Observation) -> Message:
    """Returns an observation as a message: its images, then its text."""
    images = tuple(Picture.of(image) for image in observation_images(observation))
    text = observation.get("text", "")
    texts = (text,) if text.strip() else () if images else (NO_TEXT,)
    return Message(role="user", parts=(*images, *texts))


def reply_message(text: str) -> Message:
    """Returns a response as a message."""
    return Message(role="assistant", parts=(text if text.strip() else NO_TEXT,))


def chat_part(part: Part, detail: str = "") -> dict[str, Any]:
    """Returns a part of a message in the format of OpenAI's chat completions and most servers."""
    if isinstance(part, str):
        return {"type": "text", "text": part}
    return {"type": "image_url", "image_url": {"url": part.data_uri, **({"detail": detail} if detail else {})}}


def sendable(message: Message) -> Message:
    """Returns a message with lone surrogates, which cannot be encoded in UTF-8, replaced by question marks."""
    return replace(message, parts=tuple(encodable(part) if isinstance(part, str) else part for part in message.parts))


def split_system(messages: tuple[Message, ...]) -> tuple[str, tuple[Message, ...]]:
    """Returns the system prompt, empty if there is none, and the messages after it."""
    if messages and messages[0].role == "system":
        return messages[0].text, messages[1:]
    return "", messages


def with_images(messages: Sequence[Message], images: Sequence[npt.NDArray[np.uint8]]) -> tuple[Message, ...]:
    """Returns messages with images inserted before the parts of the last one.

    Args:
        messages: At least one.
        images: Each uint8[height, width, 3].
    """
    *earlier, last = messages
    return (*earlier, replace(last, parts=(*map(Picture.of, images), *last.parts)))


@dataclass(frozen=True, kw_only=True)
class TokenCounts:
    """Tokens of one or more requests, as counted by the provider.

    Attributes:
        prompt: Tokens sent, including cached ones.
        cached: Of these, read from the provider's cache.
        cache_writes: Of these, written to the provider's cache, if it charges for that.
        completion: Tokens received, including reasoning.
        reasoning: Of these, tokens of thoughts.
        uncounted: Number of replies whose tokens the provider did not count; their counts are estimates.
    """

    prompt: int = 0
    cached: int = 0
    cache_writes: int = 0
    completion: int = 0
    reasoning: int = 0
    uncounted: int = 0

    def __add__(self, other: TokenCounts) -> TokenCounts:
        return TokenCounts(**{part.name: getattr(self, part.name) + getattr(other, part.name) for part in fields(self)})


@dataclass(frozen=True, kw_only=True)
class Completion:
    """One answer of a model.

    Attributes:
        text: The answer; may be empty.
        stop_reason: Why it ended: `"stop"`, `"length"`, `"content_filter"` if the provider or the model refused to
            answer, or `"tool_call"` if the model called a tool, although none is offered, and wrote no text.
        thoughts: Reasoning outside the text, if the provider shows it.
        tokens: Tokens used, including failed attempts; None if the provider did not count them.
        model: The model's exact name as the provider reports it; empty if it does not.
        seconds: From sending the successful attempt to its last byte; excludes queues, rate limits, and retries.
        raw: The reply as received, JSON only; it may repeat the key, which `ModelClient.hidden` removes.
    """

    text: str
    stop_reason: StopReason = "stop"
    thoughts: str = ""
    tokens: TokenCounts | None = None
    model: str = ""
    seconds: float = 0.0
    raw: Mapping[str, Any] = field(default_factory=dict)


def estimated_tokens(messages: Sequence[Message], reply: Completion) -> TokenCounts:
    """Estimates the tokens of a request and its reply from the length of texts and the size of images."""
    images = sum(image.width * image.height for message in messages for image in message.pictures)
    sent = sum(len(message.text) for message in messages)
    thoughts = len(reply.thoughts) // CHARS_PER_TOKEN
    return TokenCounts(
        prompt=sent // CHARS_PER_TOKEN + images // PIXELS_PER_TOKEN + 1,
        completion=len(reply.text) // CHARS_PER_TOKEN + thoughts + 1,
        reasoning=thoughts,
        uncounted=1,
    )


def with_reasoning(prompt: int, completion: int | None, reasoning: int, total: int | None) -> tuple[int, int] | None:
    """Returns the number of tokens received, including reasoning, and of reasoning tokens, for any server's counting.

    Most servers include reasoning in `completion`. Others count it separately, which shows in `total` or in more
    reasoning than completion; some omit one of the two, which then follows from `total`.

    Args:
        prompt: Tokens sent.
        completion: Tokens received; None if not reported.
        reasoning: Tokens of thoughts; 0 if not reported.
        total: All tokens; None if not reported.
    """
    rest = None if total is None else total - prompt
    if completion is None:
        return None if rest is None or rest < 0 else (max(rest, reasoning), reasoning)
    if reasoning > completion or (reasoning and rest == completion + reasoning):
        return completion + reasoning, reasoning
    if not reasoning and rest is not None and rest > completion:
        return rest, rest - completion
    return completion, reasoning


def count(body: Mapping[str, Any] | None, *path: str) -> int | None:
    """Returns a count nested in a reply, or None if there is no valid count; never raises.

    Args:
        body: A reply or a part of one.
        *path: Keys, outermost first.
    """
    value: Any = body
    for key in path:
        value = value.get(key) if isinstance(value, Mapping) else None
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value <= _MOST_TOKENS else None


def stopped(why: StopReason, text: str, *, is_call: bool) -> StopReason:
    """Returns the stop reason, which is `"tool_call"` if the model called a tool and wrote no text."""
    return "tool_call" if why == "stop" and is_call and not text.strip() else why


def text_of(value: Any) -> str:
    """Returns a text from a reply; empty for None.

    Raises:
        TypeError: If it is not a text.
    """
    if value is None or isinstance(value, str):
        return value or ""
    raise TypeError(f"expected text, got {type(value).__name__}")
