"""One strict reader of model responses. It never raises, whatever the string.

Strict means anchored at both ends: the response is exactly the strategy's tags in order, with only white space
between them, and no tag of any strategy inside a section. What goes wrong is said in `error`, in words that can be
shown to the model.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Generic, TypeVar

from vlm_envs.responses.formats import KNOWN_TAGS, ResponseFormat

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
        unread: Why no action could be read; empty where one was.
        num_actions_cut: Valid-looking actions dropped because the turn's maximum was reached.
    """

    sections: dict[str, str] = field(default_factory=dict)
    actions: tuple[ActionT, ...] = ()
    format_correct: bool = False
    error: str | None = None
    unread: str = ""
    num_actions_cut: int = 0


@dataclass(frozen=True, kw_only=True)
class ActionGrammar(Generic[ActionT]):
    """How a list of actions is written.

    Attributes:
        parse: Reads one action from stripped text; returns None when it is not one.
        parse_in: The same for text of sections other than `<answer>`, by section.
        lenient_in: Reads one action from a section in lenient reading, by section. Other sections are read as in strict
            reading after the markup around actions is removed. See `vlm_envs.responses.lenient_reading`.
        separator: What stands between actions. Empty: the whole answer is one action.
        expected: What an action looks like, for error messages.
    """

    parse: Callable[[str], ActionT | None]
    parse_in: Mapping[str, Callable[[str], ActionT | None]] = field(default_factory=dict)
    lenient_in: Mapping[str, Callable[[str], ActionT | None]] = field(default_factory=dict)
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
        return ParsedResponse(error=error, unread=error)
    holder = next(name for name in response_format.action_sections if name in sections)
    actions, num_cut, error = _read_actions(sections[holder], holder, grammar, max_actions)
    return ParsedResponse(
        sections=sections,
        actions=actions,
        format_correct=error is None,
        error=error,
        unread="" if actions else error or "",
        num_actions_cut=num_cut,
    )


def _read_sections(text: str, response_format: ResponseFormat) -> tuple[dict[str, str], str | None]:
    """Returns the text of each section, or an explanation."""
    if len(text) > MAX_RESPONSE_CHARS:
        return {}, f"the response has {len(text)} characters, more than the {MAX_RESPONSE_CHARS} allowed"
    text = response_format.cut(text)
    found = list(_ANY_TAG.finditer(text))
    expected = _best_sequence([match.group() for match in found], response_format.tag_sequences)
    for number, (match, tag) in enumerate(zip(found, expected, strict=False)):
        if match.group() != tag:
            return {}, f"expected {_wanted(response_format, expected, number)} but found {match.group()}"
    if len(found) < len(expected):
        return {}, f"{_wanted(response_format, expected, len(found))} is missing"
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


def _best_sequence(found: Sequence[str], sequences: Sequence[tuple[str, ...]]) -> tuple[str, ...]:
    """Returns the tags, of those allowed, that agree with the tags found for longest; the first of equals."""

    def agreement(sequence: tuple[str, ...]) -> int:
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(found, sequence, strict=False)))

    return max(sequences, key=agreement)


def _wanted(response_format: ResponseFormat, expected: tuple[str, ...], number: int) -> str:
    """Returns the tags that may come at a place, after those before it, for a message."""
    alternatives = {
        sequence[number]: None
        for sequence in response_format.tag_sequences
        if len(sequence) > number and sequence[:number] == expected[:number]
    }
    return " or ".join(alternatives)


def _read_actions(
    answer: str, section: str, grammar: ActionGrammar[ActionT], max_actions: int
) -> tuple[tuple[ActionT, ...], int, str | None]:
    """Returns the actions to carry out, how many were cut, and what is wrong with them if anything is."""
    if not answer:
        return (), 0, f"<{section}> is empty; expected {grammar.expected}"
    parse = grammar.parse_in.get(section, grammar.parse)
    pieces = grammar.split(answer)
    actions: list[ActionT] = []
    for piece in pieces[:max_actions]:
        action = parse(piece)
        if action is None:
            shown = piece if len(piece) <= 60 else piece[:60] + "…"
            return tuple(actions), 0, f"{shown!r} is not an action; expected {grammar.expected}"
        actions.append(action)
    return tuple(actions), max(0, len(pieces) - max_actions), None
