"""What things in a picture show or say: times on clocks and texts on signs, of which each has one at a time."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass

_TIME = r"\b\d{1,2}:\d\d\b"
_QUOTED = r"\"[^\"\n]{1,80}\"|“[^”\n]{1,80}”|(?<!\w)'[^'\n]{1,80}'(?!\w)|‘[^’\n]{1,80}’"
_CAPITALS = r"\b[A-Z][A-Z0-9]+\b(?: [A-Z0-9]{2,}\b)*"
_READING = re.compile(
    r"\b(?:(?P<it>[Ii]t)|(?P<article>[Tt]he|[Aa]n?) (?P<thing>[^\W\d_]+(?: [^\W\d_]+){0,3}?))"
    r" (?:[Ss]hows?|[Rr]eads?|[Ss]ays?|[Dd]isplays?) (?:the (?:time|word|words|text|letters) )?"
    rf"(?P<value>{_TIME}|{_QUOTED}|{_CAPITALS})(?! ?(?:in the (?:first|second|last)|or\b))"
)
_TOLD_APART = frozenset(
    "other another first second third last left right top bottom upper lower not never no might may could does do "  # noqa: SIM905
    "did if whether perhaps probably".split()
)
"""Words that tell a thing from another of its name, and that leave open what it shows."""

TIME = re.compile(_TIME)
QUOTED = re.compile(_QUOTED)


@dataclass(frozen=True, slots=True)
class Reading:
    """What one sentence says that a thing shows.

    Attributes:
        thing: its name with its colour, in lower case, such as `"pink clock"`.
        value: a time such as `"3:15"`, in twelve hours, or a text in lower case without punctuation.
        is_the_one: whether it is "the" thing, and not one of its kind.
    """

    thing: str
    value: str
    is_the_one: bool


def readings(text: str) -> tuple[Reading, ...]:
    """Returns what a text says that things show or say, in order; "it" is the thing read before."""
    return tuple(_readings(text))


def _readings(text: str) -> Iterator[Reading]:
    thing, is_the_one = "", False
    for match in _READING.finditer(text):
        if not match["it"]:
            thing, is_the_one = match["thing"].casefold(), match["article"].casefold() == "the"
        if thing and _TOLD_APART.isdisjoint(thing.split()):
            yield Reading(thing, _value(match["value"]), is_the_one)


def _value(said: str) -> str:
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
    """Whether two readings can be of one thing: a text may be read in part, a time may not."""
    if ":" in one or ":" in other:
        return one == other
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
