"""What things in a picture show or say: times on clocks and texts on signs, of which each has one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TIME = r"\b\d{1,2}:\d\d\b"
_QUOTED = r"\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|(?<!\w)'[^'\n]{1,80}'(?!\w)|‘[^’\n]{1,80}’"
_CAPITALS = r"\b[A-Z][A-Z0-9]+\b(?: [A-Z0-9]{2,}\b)*"
_NAME_WORD = r"(?!(?:the|an?|is|are|was|were|and)\b)[^\W\d_]+"
_WORDS = rf"{_NAME_WORD}(?: {_NAME_WORD}){{0,3}}?"
_PREPOSITION = r"(?:to|of|by|at|in|on|near|with|from|over|under|above|below|beside|behind|for)"
_JOINT = rf" {_PREPOSITION} (?:the|an?) "
_PLAIN = rf"{_NAME_WORD}(?: {_NAME_WORD}){{0,3}}(?=[ \t]?(?:[.;!\n]|\Z))"
_VERB = r"(?:[Ss]hows?|[Rr]eads?|[Ss]ays?|[Dd]isplays?)"
_PARTICIPLE = r"(?:showing|reading|saying|displaying)"
_READING = re.compile(
    rf"\b(?:(?P<it>[Ii]t)|(?P<article>[Tt]he|[Aa]n?) (?P<thing>{_WORDS}(?:{_JOINT}{_WORDS}){{0,2}}))"
    rf"(?:(?P<attached> {_PARTICIPLE}| (?:which|that) {_VERB})|(?:, which)? {_VERB}| (?:is|are) {_PARTICIPLE})"
    r" (?:the (?:time|word|words|text|letters) )?"
    rf"(?P<value>{_TIME}|{_QUOTED}|{_CAPITALS}|(?P<plain>{_PLAIN}))(?! ?(?:in the (?:first|second|last)|or\b))"
)
_SAYS = re.compile(r"\b(?:[Ss]ays?|[Rr]eads?|saying|reading)\b")
_BEARS_TEXT = frozenset(
    "sign label board billboard banner poster plate sticker note text caption title headline button placard "  # noqa: SIM905
    "signboard".split()
)
_NO_TEXT = frozenset("something that so it what this to how".split())  # noqa: SIM905
"""What may follow "says" without being the text."""
_TOLD_APART = frozenset(
    "other another first second third last left right top bottom upper lower not never no might may could does do "  # noqa: SIM905
    "did if whether perhaps probably".split()
)
"""Words that tell a thing from another of its name, and that leave open what it shows."""
_NOT_SAID = frozenset(
    "if whether might may maybe perhaps possibly could would not never no wrong false untrue first later then "  # noqa: SIM905
    "earlier before after once".split()
)
"""In a sentence with one of these a thing may well show something else, or at another moment."""
_ENDS = re.compile(r"[.!?\n]")
_HANGS_ON = re.compile(rf"\b{_PREPOSITION}\s\Z", re.IGNORECASE)
_ANOTHER = re.compile(r"\b(?:the|an?)\s", re.IGNORECASE)

TIME = re.compile(_TIME)
QUOTED = re.compile(_QUOTED)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one sentence says that a thing shows.

    Attributes:
        thing: Its name with its colour, in lower case, such as `"pink clock"`.
        value: A time such as `"3:15"`, in twelve hours, or a text in lower case without punctuation.
        is_the_one: Whether it is "the" thing, and not one of its kind.
    """

    thing: str
    value: str
    is_the_one: bool


def readings(text: str) -> tuple[Reading, ...]:
    """Returns what a text says that things show or say, in order; "it" is the thing read before, if none is between.

    Sentences that ask, doubt, deny or tell of several moments say nothing.
    """
    return tuple(_readings(text))


def _readings(text: str) -> Iterator[Reading]:
    thing, is_the_one, end = "", False, 0
    for match in _READING.finditer(text):
        between, end = text[end : match.start()], match.end()
        if match["it"]:
            thing = "" if _ANOTHER.search(between) else thing
        elif _HANGS_ON.search(between) and not match["attached"]:  # "the man next to the sign says": not the sign does
            thing = ""
        else:
            thing, is_the_one = match["thing"].casefold(), match["article"].casefold() == "the"
            if match["attached"]:  # "the man next to the sign that says": the sign does
                thing = re.split(_JOINT, thing)[-1]
        if match["plain"] and not _is_text(text, match, thing):
            continue
        if thing and _TOLD_APART.isdisjoint(thing.split()) and _is_said(text, match):
            yield Reading(thing, _value(match["value"]), is_the_one)


def _is_text(text: str, match: re.Match[str], thing: str) -> bool:
    """Returns whether words without quotation marks are the text of a thing: "the sign says exit now"."""
    head = re.split(_JOINT, thing)[0].split()[-1:]
    is_told = _SAYS.search(text, match.start(), match.start("value")) is not None
    return is_told and not _BEARS_TEXT.isdisjoint(head) and match["plain"].split()[0].casefold() not in _NO_TEXT


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Returns whether the sentence of a reading affirms it, as far as single words tell."""
    start = max((each.end() for each in _ENDS.finditer(text, 0, match.start())), default=0)
    stop = _ENDS.search(text, match.end())
    around = text[start : match.start("value")] + text[match.end("value") : stop.start() if stop else len(text)]
    return (stop is None or stop[0] != "?") and _NOT_SAID.isdisjoint(re.findall(r"[^\W\d_]+", around.casefold()))


def _value(said: str) -> str:
    said = said.strip("\"'“”‘’")
    if TIME.fullmatch(said):
        hours, _, minutes = said.partition(":")
        return f"{int(hours) % 12 or 12}:{minutes}"
    return " ".join(re.findall(r"[^\W_]+", said.casefold()))


def other_reading(reference: str, text: str) -> str | None:
    """Returns what one thing shows by one text and not by the other, for logs; None where there is no such thing."""
    true, said = _by_thing(readings(reference)), _by_thing(readings(text))
    for thing, values in true.items():
        others = said.get(thing, values)
        if not any(_agree(one, other) for one in values for other in others):
            return f"{thing} shows {' and '.join(sorted(values))}, or {' and '.join(sorted(others))}"
    return None


def two_readings(text: str) -> str | None:
    """Returns which two things a text says that "the" one thing shows, for logs; None where it shows one."""
    for thing, values in _by_thing(each for each in readings(text) if each.is_the_one).items():
        if any(not _agree(one, other) for one in values for other in values):
            return f"{thing} shows {' and '.join(sorted(values))}"
    return None


def _by_thing(found: Iterator[Reading] | tuple[Reading, ...]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = {}
    for each in found:
        values.setdefault(each.thing, set()).add(each.value)
    return values


def _agree(one: str, other: str) -> bool:
    """Returns whether two readings can be of one thing: a text may be read in part, a time may not."""
    if ":" in one or ":" in other:
        return one == other
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
