"""Reads model responses, strictly (`parse_response`) or leniently (`read_response`). It never raises for any text.

Strict reading matches the whole response: exactly the strategy's tags in order, with only white space between
them, and no tag of any strategy inside a section. `error` explains any failure in words that can be shown to
the model.

Lenient reading, for worlds with `reading="lenient"`, also accepts actions from a response that is not in the
format. Format and actions are separate: `format_correct`, `error`, and `sections` are always those of strict
reading, so lenient reading never changes a format reward or a judge's score. Only the executed actions
differ.

- A response in the format is read as in strict reading.
- Otherwise the last complete `<answer>…</answer>` outside of thoughts is read; the case of tags does not
  matter. A section without its closing tag is not complete, not even at the end of a response. Blank sections
  count only if all are blank.
- In formats that end with one of several sections (`arm`: a tool call or the answer) the last complete one
  counts, up to the tag after which the format ends a response.
- In formats whose actions are written among the thoughts (the first rounds of `mags` and `ivgr_views`), the
  last complete thought is read, or the whole response if there is none.
- Markup around the list and around each action is removed: code fences, bold, boxes, quotes, brackets,
  end-of-turn tokens, and a period after the last action. Full-width and ASCII commas, semicolons, and bars,
  and line breaks also separate actions, but only outside of brackets, and only if splitting at the grammar's
  own separator leaves a piece that is not an action.
- The first invalid action ends the list, as in strict reading.
- Lists that also use periods, arrows, or "and" and "then" between actions, or that have a label ("Actions:"),
  numbers, bullets, or remarks such as "(to reach the goal)", are read only if every piece is an action: "Do
  not go right" executes nothing. Answers of grammars without a separator (questions, drawings) are never
  split.
"""

from __future__ import annotations

import itertools
import re
import unicodedata
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Generic, Literal, TypeVar, get_args

from vlm_envs.responses.extraction import last_section, unwrap, without_thoughts
from vlm_envs.responses.formats import KNOWN_TAGS, ResponseFormat

ActionT = TypeVar("ActionT")

MAX_RESPONSE_CHARS = 100_000
"""Longer responses are rejected without being read, which bounds the time spent on them."""

_ANY_TAG = re.compile("|".join(re.escape(tag) for tag in sorted(KNOWN_TAGS, key=len, reverse=True)))


@dataclass(frozen=True, kw_only=True)
class ParsedResponse(Generic[ActionT]):
    """The parsed contents of a response.

    Attributes:
        sections: Text per section; empty if the tags are wrong.
        actions: Actions to carry out: at most the turn's maximum, up to the first invalid one.
        format_correct: Whether the tags are correct and every action in the list is valid.
        error: Error message for the model; None if `format_correct`.
        unread: Reason why no action could be read; empty if one was.
    """

    sections: dict[str, str] = field(default_factory=dict)
    actions: tuple[ActionT, ...] = ()
    format_correct: bool = False
    error: str | None = None
    unread: str = ""


@dataclass(frozen=True, kw_only=True)
class ActionGrammar(Generic[ActionT]):
    """The syntax of a list of actions.

    Attributes:
        parse: Reads one action from stripped text; returns None if it is not an action.
        parse_in: The same for the text of sections other than `<answer>`, by section.
        lenient_in: Reads one action from a section in lenient reading, by section. Other sections are read as
            in strict reading after the markup around actions is removed. See `vlm_envs.responses.parsing`.
        separator: Text between actions. If empty, the whole answer is one action.
        expected: Description of an action, for error messages.
    """

    parse: Callable[[str], ActionT | None]
    parse_in: Mapping[str, Callable[[str], ActionT | None]] = field(default_factory=dict)
    lenient_in: Mapping[str, Callable[[str], ActionT | None]] = field(default_factory=dict)
    separator: str = ","
    expected: str

    def lenient_parser(self, section: str) -> Callable[[str], ActionT | None]:
        """Returns the function that reads a section's text in lenient reading."""
        return self.lenient_in.get(section) or self.parse_in.get(section, self.parse)

    def split(self, answer: str) -> list[str]:
        """Returns the stripped pieces of an answer."""
        if not self.separator:
            return [answer.strip()]
        return [piece.strip() for piece in answer.split(self.separator)]


def parse_response(
    text: str, response_format: ResponseFormat, grammar: ActionGrammar[ActionT], max_actions: int
) -> ParsedResponse[ActionT]:
    """Reads a whole response.

    The action list is truncated to `max_actions` without a penalty. The first invalid action among the
    remaining ones ends the turn: earlier ones are carried out, and the format is not correct.

    Args:
        text: The model's whole response, any string.
        response_format: The strategy's tags.
        grammar: Syntax of the actions.
        max_actions: Maximum number of actions per turn.

    Returns:
        The parsed response. Never raises for any `text`.
    """
    sections, error = _read_sections(text, response_format)
    if error is not None:
        return ParsedResponse(error=error, unread=error)
    holder = next(name for name in response_format.action_sections if name in sections)
    actions, error = _read_actions(sections[holder], holder, grammar, max_actions)
    return ParsedResponse(
        sections=sections,
        actions=actions,
        format_correct=error is None,
        error=error,
        unread="" if actions else error or "",
    )


def _read_sections(text: str, response_format: ResponseFormat) -> tuple[dict[str, str], str | None]:
    """Returns the text of each section, or an explanation of why there is none."""
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
    """Returns the allowed tag sequence that agrees with the found tags for longest; the first one if tied."""

    def agreement(sequence: tuple[str, ...]) -> int:
        return sum(1 for _ in itertools.takewhile(lambda pair: pair[0] == pair[1], zip(found, sequence, strict=False)))

    return max(sequences, key=agreement)


def _wanted(response_format: ResponseFormat, expected: tuple[str, ...], number: int) -> str:
    """Returns the tags that may come at a position, given those before it, for a message."""
    alternatives = {
        sequence[number]: None
        for sequence in response_format.tag_sequences
        if len(sequence) > number and sequence[:number] == expected[:number]
    }
    return " or ".join(alternatives)


def _read_actions(
    answer: str, section: str, grammar: ActionGrammar[ActionT], max_actions: int
) -> tuple[tuple[ActionT, ...], str | None]:
    """Returns the actions to carry out, and an explanation if something is wrong with them."""
    if not answer:
        return (), f"<{section}> is empty; expected {grammar.expected}"
    parse = grammar.parse_in.get(section, grammar.parse)
    actions: list[ActionT] = []
    for piece in grammar.split(answer)[:max_actions]:
        action = parse(piece)
        if action is None:
            shown = piece if len(piece) <= 60 else piece[:60] + "…"
            return tuple(actions), f"{shown!r} is not an action; expected {grammar.expected}"
        actions.append(action)
    return tuple(actions), None


Reading = Literal["strict", "lenient"]
READINGS: tuple[str, ...] = get_args(Reading)
"""How a world reads actions."""

_SEPARATORS = ",，、;；|｜\n"
_OPENING, _CLOSING = "([{（［【｛", ")]}）］】｝"
_BRACKETS = re.compile(f"[{re.escape(_OPENING + _CLOSING)}]")
_SEPARATORS_AND_BRACKETS = re.compile(f"[{re.escape(_OPENING + _CLOSING + _SEPARATORS)}]")
_LOOSE_SEPARATORS_AND_BRACKETS = re.compile(
    rf"{_SEPARATORS_AND_BRACKETS.pattern}|[-=]>|[→⇒➔➜]|(?<![\d\s])[.。](?=\s)|\b(?:and|then)\b", re.IGNORECASE
)
_LABEL = re.compile(
    r"[*_]*(?:(?:my|the|final|next|best)\s+)*(?:actions?|moves?|answer|plan)\s*[*_]*[:：][*_]*", re.IGNORECASE
)
_ITEM = re.compile(r"[-*•–]|\(?\d{1,3}[.)]|(?:step|action)\s*\d{1,3}\s*[.):]", re.IGNORECASE)
_REMARK = re.compile(r"\s\((?:to|because|since|so|as)\s[^()\d]*\)[.。]?$", re.IGNORECASE)
_PERIODS = ".。．"
_MAX_LAYERS = 8
"""Maximum number of layers of markup removed from a list or an action."""
_MAX_ACTION_CHARS = 1_000
"""Maximum length of a list item from which markup is removed."""
_MAX_UNWRAPPED_CHARS = 20_000
"""Maximum length of a text from which markup is removed."""
_MAX_LOOSE_CHARS = 2_000
"""Maximum length of a list with labels, numbers, or words between actions. All four bound the time per response."""
_MAX_SHOWN_CHARS = 40
"""Maximum number of characters of an unread answer that are quoted."""

_Parse = Callable[[str], ActionT | None]


def read_response(
    text: str, response_format: ResponseFormat, grammar: ActionGrammar[ActionT], max_actions: int, reading: str
) -> ParsedResponse[ActionT]:
    """Reads a whole response, strictly or leniently.

    Args:
        text: The model's whole response, any string.
        response_format: The strategy's tags.
        grammar: Syntax of the actions.
        max_actions: Maximum number of actions per turn.
        reading: `"strict"` or `"lenient"`.

    Returns:
        The parsed response. Never raises for any `text`. In lenient reading, there may be `actions` even if
        `error` reports a wrong format.
    """
    strict = parse_response(text, response_format, grammar, max_actions)
    if reading == "strict" or len(text) > MAX_RESPONSE_CHARS:
        return strict
    if strict.format_correct:
        return _with_lenient_section(strict, response_format, grammar)
    actions, unread = _lenient_actions(text, response_format, grammar, max_actions)
    if len(actions) < len(strict.actions):  # a tag in another case is within the answer
        return strict
    return replace(strict, actions=actions, unread=unread)


def _with_lenient_section(
    strict: ParsedResponse[ActionT], response_format: ResponseFormat, grammar: ActionGrammar[ActionT]
) -> ParsedResponse[ActionT]:
    """Returns a response in the format, with the action from a section that the grammar has a lenient reader for."""
    holder = next(name for name in response_format.action_sections if name in strict.sections)
    action = grammar.lenient_in[holder](strict.sections[holder]) if holder in grammar.lenient_in else None
    return strict if action is None else replace(strict, actions=(action,))


def _lenient_actions(
    text: str, response_format: ResponseFormat, grammar: ActionGrammar[ActionT], max_actions: int
) -> tuple[tuple[ActionT, ...], str]:
    """Returns the actions, and the reason if there are none."""
    section, answer = response_format.thought_tag, text
    if not response_format.endings:  # the one action is among the thoughts
        _, thought = last_section(text, section) or ("", "")
        actions = _one_action(grammar.lenient_parser(section), (thought, without_thoughts(text), text))
    else:
        found = last_section(response_format.cut(without_thoughts(text)), *response_format.endings)
        if found is None:
            wanted = " or ".join(f"<{name}>…</{name}>" for name in response_format.endings)
            return (), f"there is no complete {wanted} outside of thoughts"
        section, answer = found
        parse = grammar.lenient_parser(section)
        if not grammar.separator or section in grammar.lenient_in:
            actions = _one_action(parse, (_unwrapped(answer), answer.strip()))
        else:
            actions = _read_list(answer, parse, grammar.separator, max_actions)
    return actions, "" if actions else _not_an_action(answer, section, grammar)


def _one_action(parse: _Parse[ActionT], texts: Iterable[str]) -> tuple[ActionT, ...]:
    action = _first(parse, texts)
    return () if action is None else (action,)


def _first(parse: _Parse[ActionT], texts: Iterable[str]) -> ActionT | None:
    """Returns the action that the first readable of some texts stands for."""
    return next((action for text in texts if text and (action := parse(text)) is not None), None)


def _not_an_action(text: str, section: str, grammar: ActionGrammar[ActionT]) -> str:
    if not text.strip():
        return f"<{section}> is empty"
    start = text.strip()
    shown = start if len(start) <= _MAX_SHOWN_CHARS else f"{start[:_MAX_SHOWN_CHARS]}…"
    return f"<{section}> does not begin with an action: {shown!r}; expected {grammar.expected}"


def _read_list(answer: str, parse: _Parse[ActionT], separator: str, max_actions: int) -> tuple[ActionT, ...]:
    """Returns the actions of a list: of the text as written if all are valid, else of the text without markup."""
    best: tuple[ActionT, ...] = ()
    for text in _peeled(answer):
        actions, is_valid = _read_pieces(text, parse, separator, max_actions)
        if is_valid and actions:
            return actions
        best = max(best, actions, key=len)
    if len(answer) <= _MAX_LOOSE_CHARS:
        readings = (_read_loosely(text, parse, separator) for text in _peeled(answer))
        if actions := next(filter(None, readings), ()):
            return actions[:max_actions]
    return best


def _read_loosely(text: str, parse: _Parse[ActionT], separator: str) -> tuple[ActionT, ...]:
    """Returns the actions of a list in prose or with labels and numbers; empty unless every piece is an action."""
    label = _LABEL.match(text)
    actions: list[ActionT] = []
    for part in text[label.end() if label else 0 :].split(separator):
        for piece in _pieces(part, parse, _LOOSE_SEPARATORS_AND_BRACKETS):
            action = _read_piece(piece, parse)
            if action is None:
                item = _ITEM.match(piece.strip())
                bare = piece.strip()[item.end() if item else 0 :]
                action = _read_piece(_REMARK.sub("", bare), parse)
            if action is None:
                return ()
            actions.append(action)
    return tuple(actions)


def _read_pieces(
    text: str, parse: _Parse[ActionT], separator: str, max_actions: int
) -> tuple[tuple[ActionT, ...], bool]:
    """Returns the actions before the first invalid one, at most `max_actions`, and whether there was no invalid one."""
    actions: list[ActionT] = []
    for part in filter(str.strip, text.split(separator)):
        for piece in _pieces(part, parse, _SEPARATORS_AND_BRACKETS):
            if len(actions) == max_actions:
                return tuple(actions), True
            if (action := _read_piece(piece, parse)) is None:
                return tuple(actions), False
            actions.append(action)
    return tuple(actions), True


def _pieces(part: str, parse: _Parse[ActionT], separators_and_brackets: re.Pattern[str]) -> list[str]:
    """Returns the pieces between separators outside of brackets, unless the whole part is one action."""
    if _read_piece(part, parse) is not None:
        return [part]
    pieces, start, depth = [], 0, 0
    for match in separators_and_brackets.finditer(part):
        if match.group() in _OPENING:
            depth += 1
        elif match.group() in _CLOSING:
            depth = max(0, depth - 1)
        elif depth == 0:
            pieces.append(part[start : match.start()])
            start = match.end()
    return [piece for piece in (*pieces, part[start:]) if piece.strip()]


def _read_piece(piece: str, parse: _Parse[ActionT]) -> ActionT | None:
    """Returns the action in a piece of a list, within any markup, in full-width characters or not."""
    if len(piece) > _MAX_ACTION_CHARS:
        return _first(parse, (piece.strip(),))
    return _first(parse, (form for text in _peeled(piece) for form in (text, unicodedata.normalize("NFKC", text))))


def _peeled(text: str) -> Iterator[str]:
    """Yields a text unchanged, then without the period at its end, then with layer after layer of markup removed."""
    for _ in range(_MAX_LAYERS):
        text = text.strip()
        yield text
        bare = text.rstrip(_PERIODS).rstrip()
        if bare != text:
            yield bare
        inside = _unwrapped(text)
        if inside == text:
            inside = _without_brackets(bare)
        if inside in (text, bare):
            return
        text = inside


def _unwrapped(text: str) -> str:
    return unwrap(text) if len(text) <= _MAX_UNWRAPPED_CHARS else text.strip()


def _without_brackets(text: str) -> str:
    """Returns the text inside brackets that enclose all of a text; the text itself if there are none."""
    if len(text) < 2 or text[0] not in _OPENING or text[-1] != _CLOSING[_OPENING.index(text[0])]:
        return text
    depth = 0
    for match in _BRACKETS.finditer(text):
        depth += 1 if match.group() in _OPENING else -1
        if depth == 0 and match.end() < len(text):
            return text
    return text[1:-1]
