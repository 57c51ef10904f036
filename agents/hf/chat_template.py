"""A checkpoint's conversation format, read from its chat template, and the reasons why some templates do not work.

Conversations only grow here, token by token, and are never rendered again, so a template must keep all earlier messages
unchanged. Some do not: Qwen3-VL-Thinking drops the thoughts of earlier answers and opens new ones with `<think>`.
"""

from __future__ import annotations

import itertools
import json
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from transformers import PreTrainedTokenizerBase

from vlm_envs.responses.formats import KNOWN_TAGS

_NOT_SPOKEN = (
    "The checkpoint's chat template is not supported: it changes earlier messages, such as the thoughts of earlier "
    "answers, or opens answers itself. Answers must stay in the conversation as they were sampled, so that training "
    "sees the same tokens as sampling. Use an Instruct checkpoint, or copy this one and add the template of an "
    "Instruct checkpoint as chat_template.jinja: the model then learns to keep its thoughts."
)

_NO_SYSTEM = (
    "The checkpoint's chat template does not keep a system message unchanged. Leave out the world's "
    "system_prompt=True, so that the instructions are in the first turn."
)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One turn of a conversation for testing templates.

    Attributes:
        num_images: Number of images before the text.
        text: The world's text.
        answer: The model's answer, or None at the end.
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
"""Several images and none, thoughts in earlier answers, an answer that was cut off, white space at the edges."""

SYSTEM_PROBE = " the rules\nof a game\n"
"""A system message that also has white space at its edges."""

_SYSTEM, _FIRST, _ANSWER, _LATER = "qzsystemqz", "qzfirstqz", "qzanswerqz", "qzlaterqz"
"""Texts that occur in no template, for finding the text around them."""


@dataclass(frozen=True, kw_only=True)
class Heads:
    """A template's text before the content of a turn.

    Attributes:
        text: Before content that is text only.
        images: Before content that starts with images.
    """

    text: str
    images: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """A template's text around images, texts, and answers.

    Attributes:
        first: Before the content of the first turn, without a system message.
        later: Before the content of a later turn, starting at the end of the previous answer.
        image: For one image, including the marker.
        opening: Between the text of a turn and the start of the answer.
        before_answer: At the start of every earlier answer, unless it is part of the opening; often empty. The policy
            samples it itself, such as SmolVLM's space.
    """

    first: Heads
    later: Heads
    image: str
    opening: str
    before_answer: str


def read_dialect(tokenizer: PreTrainedTokenizerBase, marker: str) -> Dialect:
    """Returns a checkpoint's conversation format.

    Args:
        tokenizer: The checkpoint's tokenizer, with its template.
        marker: The template's text for an image.

    Raises:
        ValueError: If there is no valid template, it accepts text only, or it changes earlier messages.
    """
    rendered = rendered_probe(tokenizer)
    if marker not in rendered:
        raise ValueError(_not_rendered(f"images leave no {marker}"))
    turns = [Exchange(num_images=0, text=_FIRST, answer=_ANSWER), Exchange(num_images=0, text=_LATER, answer=None)]
    shown = [Exchange(num_images=1, text=turn.text, answer=turn.answer) for turn in turns]
    two = [Exchange(num_images=2, text=_FIRST, answer=None)]
    said = [_FIRST, _ANSWER, _LATER]
    plain, pictured = _around(tokenizer, turns, said), _around(tokenizer, shown, said)
    two_pictures = _around(tokenizer, two, [_FIRST])
    if plain is None or pictured is None or two_pictures is None:
        raise ValueError(mismatch(rendered))
    before_answer, opening = plain[1], plain[3]
    image = two_pictures[0][len(pictured[0]) :]
    alike_chars = itertools.takewhile(lambda pair: pair[0] == pair[1], zip(before_answer, opening, strict=False))
    num_common = sum(1 for _ in alike_chars)
    added = opening[num_common:] or next((tag for tag in sorted(KNOWN_TAGS) if tag in opening), "")
    alike = all(head.endswith(image) for head in (pictured[0], pictured[2], two_pictures[0]))
    if added or image.count(marker) != 1 or not alike:
        raise ValueError(mismatch(rendered))
    return Dialect(
        first=Heads(text=plain[0], images=pictured[0].removesuffix(image)),
        later=Heads(text=plain[2], images=pictured[2].removesuffix(image)),
        image=image,
        opening=opening,
        before_answer=before_answer[num_common:],
    )


def read_system(tokenizer: PreTrainedTokenizerBase, dialect: Dialect) -> tuple[str, Heads]:
    """Returns a template's text before a system message, and between it and the first turn's content.

    Raises:
        ValueError: If the template does not keep a system message unchanged.
    """
    rendered = rendered_probe(tokenizer, SYSTEM_PROBE)
    plain, pictured = (
        _around(tokenizer, [Exchange(num_images=number, text=_FIRST, answer=None)], [_SYSTEM, _FIRST], _SYSTEM)
        for number in (0, 1)
    )
    if plain is None or pictured is None or plain[0] != pictured[0]:
        raise ValueError(mismatch(rendered, system=SYSTEM_PROBE))
    return plain[0], Heads(text=plain[1], images=pictured[1].removesuffix(dialect.image))


def rendered_probe(tokenizer: PreTrainedTokenizerBase, system: str = "") -> str:
    """Returns the template's rendering of `PROBE`, ready for the next answer.

    Args:
        tokenizer: The checkpoint's tokenizer, with its template.
        system: A system message to start with; empty for none.

    Raises:
        ValueError: If there is no valid template, or it accepts text only.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "The checkpoint has no chat template; expected chat_template.jinja or chat_template.json next to the "
            "tokenizer, as `save_pretrained` of its processor writes it."
        )
    try:
        return _render(tokenizer, PROBE, system)
    except Exception as error:  # a template is a program and may raise anything
        if system:  # rendering without one succeeded
            raise ValueError(f"{_NO_SYSTEM} ({type(error).__name__}: {error})") from error
        raise ValueError(_not_rendered(f"{type(error).__name__}: {error}")) from error


def mismatch(rendered: str, ours: str | None = None, *, system: str = "") -> str:
    """Returns the error message for a template that is not supported.

    Args:
        rendered: The template's rendering of `PROBE`.
        ours: Our rendering, if the template could be read.
        system: The system message of the test, if any; the renderings without one agree.
    """
    came = f"\ntemplate: {rendered!r}" if ours is None else f"\nexpected: {ours!r}\ntemplate: {rendered!r}"
    return f"{_NO_SYSTEM if system else _NOT_SPOKEN}{came}"


def processor_template(directory: Path) -> str | None:
    """Returns the template that older releases save for the processor, or None if there is no such file.

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


def _around(
    tokenizer: PreTrainedTokenizerBase, exchanges: Sequence[Exchange], said: Sequence[str], system: str = ""
) -> list[str] | None:
    """Returns a template's text before, between, and after messages; None if it changes the messages."""
    rest, pieces = _render(tokenizer, exchanges, system), []
    for text in said:
        before, found, rest = rest.partition(text)
        if not found or text in rest:
            return None
        pieces.append(before)
    return [*pieces, rest]


def _render(tokenizer: PreTrainedTokenizerBase, exchanges: Sequence[Exchange], system: str = "") -> str:
    messages = [_message("system", system)] if system else []
    for exchange in exchanges:
        messages.append(_message("user", exchange.text, exchange.num_images))
        if exchange.answer is not None:
            messages.append(_message("assistant", exchange.answer))
    return str(tokenizer.apply_chat_template(messages, tokenize=False, add_generation_prompt=True))


def _message(role: str, text: str, num_images: int = 0) -> dict[str, Any]:
    return {"role": role, "content": [*[{"type": "image"}] * num_images, {"type": "text", "text": text}]}


def _not_rendered(came: str) -> str:
    return (
        f"The checkpoint's chat template cannot be rendered with images ({came}); it may accept text only. Put the "
        "template of the vision-language checkpoint it was derived from into its directory as chat_template.jinja."
    )
