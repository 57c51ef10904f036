"""Limits of a model: a full context, a content filter, too many images, or images that are too large.

A request that exceeds one gets an HTTP error, but repeating it would not help: the agent's episode ends, and its
provider has not failed. Everything that is not in the tables stays an error, and so does a server that reads no images.
docs/benchmark.md shows the tables.
"""

from __future__ import annotations

import re
from collections.abc import Collection
from typing import Literal

Limit = Literal["context", "content_filter"]
"""The stop reason of a response that a limit ended; images that are too many or too large count as context."""

STATUSES = frozenset({400, 413, 422})
"""HTTP statuses by which providers refuse such requests."""

CODES: dict[Limit, tuple[str, ...]] = {
    "context": (
        "context_length_exceeded",  # OpenAI, Azure, and most compatible gateways
        "string_above_max_length",  # OpenAI
        "exceed_context_size_error",  # llama.cpp
        "input_too_large",
        "request_too_large",  # Anthropic
        "image_too_large",  # OpenAI
        "image_file_too_large",  # OpenAI
    ),
    "content_filter": (
        "content_filter",  # Azure, Moonshot
        "content_policy_violation",  # OpenAI
        "image_content_policy_violation",  # OpenAI
        "data_inspection_failed",  # DashScope
        "DataInspectionFailed",  # DashScope
    ),
}
"""Values of `code` or `type` in an error's body, in any case."""

_OTHER_CODES = re.compile(
    r"rate.?limit|quota|billing|auth|permission|api_key|organization_|not_found|unsupported|max_tokens|^tokens$",
    re.IGNORECASE,
)
"""Codes of other errors, whose messages may contain the phrases of a limit: `invalid_max_tokens`, for example."""

PHRASES: dict[Limit, tuple[str, ...]] = {
    "context": (
        r"context_length_exceeded",  # gateways that drop the code
        r"maximum context length",  # OpenAI, vLLM, DeepSeek, Mistral
        r"maximum prompt length",  # xAI
        r"maximum model length",  # vLLM
        r"exceeds? (?:the|this|model's|the model's) (?:maximum )?context (?:window|length|size)",  # OpenAI
        r"exceed(?:s|ed)? (?:the )?(?:model'?s? )?(?:available )?context (?:limit|size|length|window)",  # Anthropic
        r"longer than the model'?s context length",  # SGLang
        r"too long to fit into the model",  # vLLM
        r"loaded with context length of only",  # LM Studio
        r"greater than the context length",  # LM Studio
        r"prompt is too long",  # Anthropic
        r"input is too long",  # Bedrock
        r"input token count .*exceeds the maximum",  # Gemini
        r"range of input length should be",  # DashScope
        r"`?inputs`? tokens \+ `?max_new_tokens`? must be",  # Text Generation Inference
        r"`?inputs`? must have less than \d+ tokens",  # Text Generation Inference
        r"request payload size exceeds",  # Gemini
        r"request (?:entity|exceeds the maximum size|too large)|payload too large",  # Anthropic, nginx
        r"too many images",  # OpenAI, Anthropic, Groq
        r"at most [1-9]\d* (?:image|multimodal)",  # vLLM
        r"image exceeds .* maximum",  # Anthropic
        r"image dimensions exceed",  # Anthropic
        r"exceeded limit on max bytes per data-uri",  # DashScope
        r"multimodal file size is too large",  # DashScope
    ),
    "content_filter": (
        r"content management policy",  # Azure
        r"content filtering policy",  # Anthropic
        r"rejected as a result of our safety system",  # OpenAI
        r"(?:prompt|input|request|content|message|image|output)s? (?:was|were|has been|have been) flagged as "
        r"potentially violating",  # OpenAI
        r"data may contain inappropriate content",  # DashScope
        r"content exists risk",  # DeepSeek
        r"considered high risk",  # Moonshot
    ),
}
"""Patterns in an error's message, in any case. `content_filter` is looked for first."""

_WITHOUT_VISION = re.compile(
    r"(?:does not|doesn't|do not|cannot) (?:support|accept|process) (?:image|vision|multimodal)|not a multimodal model"
    r"|image input is not supported|at most 0 image|unsupported content type",
    re.IGNORECASE,
)
_OTHER_ERROR = re.compile(
    # A rate limit, or a value of `max_tokens` that no prompt could have
    r"tokens per min|\bTPM\b|rate.?limit"
    r"|(?:^|[.:;] )[`'\"]?max_(?:\w+_)?tokens[`'\"]?,? (?:must|should|cannot|has to)\b",
    re.IGNORECASE,
)
_KINDS: tuple[Limit, ...] = ("content_filter", "context")
_PATTERNS = {kind: re.compile("|".join(f"(?:{phrase})" for phrase in PHRASES[kind]), re.IGNORECASE) for kind in _KINDS}
_LENGTH = re.compile(r"(?:> |<= |length (?:is|of)(?: only)? )(\d+)")


def limit_of(status: int | None, codes: Collection[str], message: str) -> Limit | None:
    """Returns the limit of a model that a refusal reports; None if it is another error.

    A code decides before any phrase in the message does, and a message may consist of a code.

    Args:
        status: HTTP status; None for an error inside a successful reply.
        codes: Values of `code` and `type` in the body.
        message: Message in the body.
    """
    if (status is not None and status not in STATUSES) or _WITHOUT_VISION.search(message):
        return None
    first_word = message.strip().partition(":")[0]
    lower_codes = {code.lower() for code in (*codes, first_word)}
    for kind in _KINDS:
        if not lower_codes.isdisjoint(code.lower() for code in CODES[kind]):
            return kind
    if any(_OTHER_CODES.search(code) for code in codes) or _OTHER_ERROR.search(message):
        return None
    return next((kind for kind in _KINDS if _PATTERNS[kind].search(message)), None)


def fits_without_response(message: str, max_tokens: int) -> bool:
    """Returns whether a refused prompt would have fit with a lower `max_tokens`.

    Servers that reserve `max_tokens` for the response name it in the message, along with the lengths of the prompt and
    the context. If that happens in the first turn, the setting cannot work: it is not a limit of the model.
    """
    numbers = {int(number) for number in re.findall(r"\d+", message)}
    length = _LENGTH.search(message)
    if max_tokens not in numbers or length is None:
        return False
    prompts = numbers - {max_tokens, int(length[1])}
    return any(prompt < int(length[1]) for prompt in prompts)
