"""What a checkpoint's chat template makes of a conversation, and why one cannot be spoken.

A conversation grows token by token here and is never rendered anew, so a template has to keep everything that was said
as it was said. Some do not: Qwen3-VL-Thinking drops the thoughts of earlier answers and opens new ones with `<think>`.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from jinja2 import TemplateError
from transformers import PreTrainedTokenizerBase

from agents.hf.tokenizer import IM_END, IM_START, IMAGE_PAD

OPENING = f"{IM_START}assistant\n"
"""How a template has to open an answer."""

_REMEDY = (
    "Answers stay in the conversation as they were sampled, token by token, so that what is trained on is what was "
    "read. Use an Instruct checkpoint, or put the template of one into a copy of this one as chat_template.jinja: the "
    "model then learns to keep its thoughts."
)

_NO_SYSTEM = (
    "The checkpoint's chat template takes no system message as ChatML has it. Leave out the world's "
    "system_prompt=True, so that the instructions stand in the first turn."
)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One turn of the conversation that templates are tried with.

    Attributes:
        num_images: Pictures before the text.
        text: What the world says.
        answer: What the model says, or None at the end.
    """

    num_images: int
    text: str
    answer: str | None


PROBE = (
    Exchange(num_images=2, text="one\n", answer="<think>a first thought</think><answer>Up</answer>"),
    Exchange(num_images=0, text=" two", answer="<think>a thought that was cut in the"),
    Exchange(num_images=1, text="three", answer="<think>a third thought</think>\n\n<answer>Left</answer> "),
    Exchange(num_images=1, text="four", answer=None),
)
"""Several pictures and none, thoughts in earlier answers, an answer that was cut off, white space at the edges."""

SYSTEM_PROBE = " the rules\nof a game\n"
"""A system message with white space at its edges, too."""


def rendered_probe(tokenizer: PreTrainedTokenizerBase, system: str = "") -> str:
    """Returns the template's rendering of `PROBE`, ready for the next answer.

    Args:
        tokenizer: The checkpoint's tokenizer, with its template.
        system: A system message to begin with; empty for none.

    Raises:
        ValueError: If there is no template, it is no template, it takes text only or is not ChatML.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "The checkpoint has no chat template; expected chat_template.jinja or chat_template.json beside the "
            "tokenizer, as Qwen2.5-VL and Qwen3-VL checkpoints have it."
        )
    try:
        rendered = _render(tokenizer, system, with_pictures=True)
    except Exception as error:  # a template is a program: whatever it raises, it cannot be spoken
        if system:  # without one it was rendered
            raise ValueError(f"{_NO_SYSTEM} ({type(error).__name__}: {error})") from error
        raise ValueError(_why_not_rendered(tokenizer, error)) from error
    if IMAGE_PAD not in rendered and f"{IM_START}user" in rendered:
        raise ValueError(_text_only(f"pictures leave no {IMAGE_PAD}"))
    if f"{IM_START}user" not in rendered:
        raise ValueError("The checkpoint's chat template is not ChatML; expected a Qwen-VL checkpoint.")
    return rendered


def mismatch(rendered: str, ours: str, system: str = "") -> str:
    """Returns why a template cannot be spoken whose rendering of `PROBE` is not ours, for an error."""
    if system:  # without one the template was found to agree
        return f"{_NO_SYSTEM}\nexpected: {ours!r}\ntemplate: {rendered!r}"
    faults = []
    answers = [exchange.answer for exchange in PROBE if exchange.answer is not None]
    if any(answer not in rendered for answer in answers):
        without_thoughts = all(answer.split("</think>")[-1].strip() in rendered for answer in answers)
        is_strip = without_thoughts and any(answer.strip() not in rendered for answer in answers)
        faults.append(
            "removes the thoughts, all before </think>, from earlier answers" if is_strip else "changes what was said"
        )
    elif any(f"{exchange.text}{IM_END}" not in rendered for exchange in PROBE):
        faults.append("changes what was said")
    opening = rendered.rpartition(OPENING)[2]
    if opening and IM_END not in opening:  # else the template opens answers in another way altogether
        faults.append(f"opens every answer with {opening!r}, which our formats have the model write")
    reasons = f" It {', and it '.join(faults)}. {_REMEDY}" if faults else ""
    return (
        f"The checkpoint's chat template differs from ChatML with Qwen-VL image markers.{reasons}\n"
        f"expected: {ours!r}\ntemplate: {rendered!r}"
    )


def processor_template(directory: Path) -> str | None:
    """Returns the template that older releases keep for their processor, or None if there is no such file.

    Raises:
        ValueError: If the file is damaged.
    """
    path = directory / "chat_template.json"
    if (directory / "chat_template.jinja").is_file() or not path.is_file():
        return None
    try:
        template = json.loads(path.read_text(encoding="utf-8"))["chat_template"]
    except (ValueError, KeyError, TypeError) as error:
        raise ValueError(f"{path} is damaged: expected {{'chat_template': a Jinja text}} ({error}).") from error
    if not isinstance(template, str):
        raise ValueError(f"{path} is damaged: expected {{'chat_template': a Jinja text}}, got {template!r:.80}.")
    return template


def _render(tokenizer: PreTrainedTokenizerBase, system: str = "", *, with_pictures: bool) -> str:
    messages: list[dict[str, Any]] = [{"role": "system", "content": system}] if system else []
    for exchange in PROBE:
        pictures = [{"type": "image"}] * exchange.num_images
        messages.append({"role": "user", "content": _content(exchange.text, pictures, with_pictures)})
        if exchange.answer is not None:
            messages.append({"role": "assistant", "content": _content(exchange.answer, [], with_pictures)})
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _content(text: str, pictures: list[dict[str, str]], with_pictures: bool) -> Any:
    return [*pictures, {"type": "text", "text": text}] if with_pictures else text


def _why_not_rendered(tokenizer: PreTrainedTokenizerBase, error: Exception) -> str:
    came = f"{type(error).__name__}: {error}"
    try:
        _render(tokenizer, with_pictures=False)
    except (TemplateError, TypeError, ValueError, LookupError, AttributeError):
        return f"The checkpoint's chat template cannot be rendered ({came}); expected that of a Qwen-VL checkpoint."
    return _text_only(came)


def _text_only(came: str) -> str:
    return (
        f"The checkpoint's chat template differs from ChatML with Qwen-VL image markers: it takes text only ({came}). "
        "Put the template of the Qwen-VL checkpoint it was made from into its directory as chat_template.jinja."
    )
