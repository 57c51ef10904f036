"""How a checkpoint writes conversations, read off its chat template, and why some templates cannot be spoken.

A conversation grows token by token here and is never rendered anew, so a template has to keep everything that was said
as it was said. Some do not: Qwen3-VL-Thinking drops the thoughts of earlier answers and opens new ones with `<think>`.
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
    "The checkpoint's chat template cannot be spoken turn by turn: it changes what was said, such as the thoughts of "
    "earlier answers, or opens answers itself. Answers stay in the conversation as they were sampled, so that what is "
    "trained on is what was read. Use an Instruct checkpoint, or put the template of one into a copy of this one as "
    "chat_template.jinja: the model then learns to keep its thoughts."
)

_NO_SYSTEM = (
    "The checkpoint's chat template takes no system message as it was written. Leave out the world's "
    "system_prompt=True, so that the instructions stand in the first turn."
)


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One turn of a conversation that templates are tried with.

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

_SYSTEM, _FIRST, _ANSWER, _LATER = "qzsystemqz", "qzfirstqz", "qzanswerqz", "qzlaterqz"
"""Texts that no template has in it, to find what it writes around them."""


@dataclass(frozen=True, kw_only=True)
class Heads:
    """What a template writes before the content of a turn.

    Attributes:
        text: Where the content is text only.
        images: Where pictures come first.
    """

    text: str
    images: str


@dataclass(frozen=True, kw_only=True)
class Dialect:
    """What a template writes around pictures, texts and answers.

    Attributes:
        first: Before the content of the first turn, without a system message.
        later: Before that of a later turn, from the end of the answer before it on.
        image: For one picture, the marker within.
        opening: Between the text of a turn and where the answer begins.
        before_answer: At the beginning of every earlier answer, where it was not part of the opening; often empty. The
            policy says it itself, as SmolVLM its space.
    """

    first: Heads
    later: Heads
    image: str
    opening: str
    before_answer: str


def read_dialect(tokenizer: PreTrainedTokenizerBase, marker: str) -> Dialect:
    """Returns how a checkpoint writes conversations.

    Args:
        tokenizer: The checkpoint's tokenizer, with its template.
        marker: What the template writes where a picture goes.

    Raises:
        ValueError: If there is no template, it is no template, it takes text only or it changes what was said.
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
    alike = all(each.endswith(image) for each in (pictured[0], pictured[2], two_pictures[0]))
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
    """Returns what a template writes before a system message, and what between it and the first turn's content.

    Raises:
        ValueError: If it takes none.
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
        system: A system message to begin with; empty for none.

    Raises:
        ValueError: If there is no template, it is no template or it takes text only.
    """
    if not tokenizer.chat_template:
        raise ValueError(
            "The checkpoint has no chat template; expected chat_template.jinja or chat_template.json beside the "
            "tokenizer, as `save_pretrained` of its processor writes it."
        )
    try:
        return _render(tokenizer, PROBE, system)
    except Exception as error:  # a template is a program: whatever it raises, it cannot be spoken
        if system:  # without one it was rendered
            raise ValueError(f"{_NO_SYSTEM} ({type(error).__name__}: {error})") from error
        raise ValueError(_not_rendered(f"{type(error).__name__}: {error}")) from error


def mismatch(rendered: str, ours: str | None = None, *, system: str = "") -> str:
    """Returns why a template cannot be spoken, for an error.

    Args:
        rendered: What it makes of `PROBE`.
        ours: What we make of it, if the template could be read at all.
        system: The system message it was tried with, if any; without one it was found to agree.
    """
    came = f"\ntemplate: {rendered!r}" if ours is None else f"\nexpected: {ours!r}\ntemplate: {rendered!r}"
    return f"{_NO_SYSTEM if system else _NOT_SPOKEN}{came}"


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


def _around(
    tokenizer: PreTrainedTokenizerBase, exchanges: Sequence[Exchange], said: Sequence[str], system: str = ""
) -> list[str] | None:
    """Returns what a template writes before, between and after what is said; None if it does not keep that."""
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
        f"The checkpoint's chat template cannot be rendered with images ({came}); it may take text only. Put the "
        "template of the vision-language checkpoint it was made from into its directory as chat_template.jinja."
    )
