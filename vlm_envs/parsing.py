"""One strict reader of model responses. It never raises, whatever the string.

Strict means anchored at both ends: the response is exactly the strategy's tags in order, with only white space
between them, and no tag of any strategy inside a section. What goes wrong is said in `error`, in words that can be
shown to the model.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vlm_envs.formats import KNOWN_TAGS, ResponseFormat

ActionT = TypeVar("ActionT")

MAX_RESPONSE_CHARS = 100_000
"""Longer responses are refused unread, which bounds the time spent on them."""

_ANY_TAG = re.compile("|".join(re.escape(tag) for tag in sorted(KNOWN_TAGS, key=len, reverse=True)))


@dataclass(frozen=True, kw_only=True)
class ParsedResponse(Generic[ActionT]):
    """What was read from one response.

    Attributes:
        sections: Text per section; empty when the tags are wrong.
        actions: Actions to carry out: at most the turn's maximum, up to the first invalid one.
        format_correct: Whether the tags are right and every action in the list is valid.
        error: Why not, for the model to read; None when `format_correct`.
        num_actions_cut: Valid-looking actions dropped because the turn's maximum was reached.
    """

    sections: dict[str, str] = field(default_factory=dict)
    actions: tuple[ActionT, ...] = ()
    format_correct: bool = False
    error: str | None = None
    num_actions_cut: int = 0


@dataclass(frozen=True, kw_only=True)
class ActionGrammar(Generic[ActionT]):
    """How a list of actions is written.

    Attributes:
        parse: Reads one action from stripped text; returns None when it is not one.
        separator: What stands between actions. Empty: the whole answer is one action.
        expected: What an action looks like, for error messages.
    """

    parse: Callable[[str], ActionT | None]
    separator: str = ","
    expected: str

    def split(self, answer: str) -> list[str]:
        """Returns the stripped pieces of an answer."""
        if not self.separator:
            return [answer.strip()]
        return [piece.strip() for piece in answer.split(self.separator)]


def parse_response(
    text: str, response_format: ResponseFormat, grammar: ActionGrammar[ActionT], max_actions: int
) -> ParsedResponse[ActionT]:
    """Reads a whole response.

    The action list is cut at `max_actions`, which costs nothing. The first invalid action among those kept stops
    the turn: earlier ones stand, and the format is not correct.

    Args:
        text: The model's whole response, any string.
        response_format: The strategy's tags.
        grammar: How actions are written.
        max_actions: Most actions a turn carries out.

    Returns:
        What was read. Never raises for any `text`.
    """
    sections, error = _read_sections(text, response_format)
    if error is not None:
        return ParsedResponse(error=error)
    actions, num_cut, error = _read_actions(sections["answer"], grammar, max_actions)
    return ParsedResponse(
        sections=sections, actions=actions, format_correct=error is None, error=error, num_actions_cut=num_cut
    )


def _read_sections(text: str, response_format: ResponseFormat) -> tuple[dict[str, str], str | None]:
    """Returns the text of each section, or an explanation."""
    if len(text) > MAX_RESPONSE_CHARS:
        return {}, f"the response has {len(text)} characters, more than the {MAX_RESPONSE_CHARS} allowed"
    expected = response_format.tags
    found = list(_ANY_TAG.finditer(text))
    for match, tag in zip(found, expected, strict=False):
        if match.group() != tag:
            return {}, f"expected {tag} but found {match.group()}"
    if len(found) < len(expected):
        return {}, f"{expected[len(found)]} is missing"
    if len(found) > len(expected):
        return {}, f"{found[len(expected)].group()} comes after the end of the response"
    sections: dict[str, str] = {}
    start = 0
    for match, tag in zip(found, expected, strict=True):
        between = text[start : match.start()]
        name = tag.strip("</>")
        if tag.startswith("</") and name in response_format.sections:
            sections[name] = between.strip()
        elif between.strip():
            return {}, f"text before {tag} is outside every section"
        start = match.end()
    if text[start:].strip():
        return {}, f"text follows {expected[-1]}"
    return sections, None


def _read_actions(
    answer: str, grammar: ActionGrammar[ActionT], max_actions: int
) -> tuple[tuple[ActionT, ...], int, str | None]:
    """Returns the actions to carry out, how many were cut, and what is wrong with them if anything is."""
    if not answer:
        return (), 0, f"<answer> is empty; expected {grammar.expected}"
    pieces = grammar.split(answer)
    actions: list[ActionT] = []
    for piece in pieces[:max_actions]:
        action = grammar.parse(piece)
        if action is None:
            shown = piece if len(piece) <= 60 else piece[:60] + "…"
            return tuple(actions), 0, f"{shown!r} is not an action; expected {grammar.expected}"
        actions.append(action)
    return tuple(actions), max(0, len(pieces) - max_actions), None
