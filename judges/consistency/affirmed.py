"""Which words of a text count as said: those of sentences that affirm something, and values of one thing or another.

A question, a condition, a doubt, and a list of alternatives describe nothing, although they may hold every word of a
true description. Neither does a list of all values of one kind. Contradictions are looked for elsewhere
(`judges.consistency.contradictions`); here a false alarm costs a true text only the words concerned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping

from judges.consistency.sentences import is_question, sentences
from judges.consistency.statements import OPPOSITES, UNSAID, family_of, statements_of

_DOUBT = UNSAID | frozenset("suppose imagine assume guess unless either wonder".split())  # noqa: SIM905
_ANY_WORD = re.compile(r"[^\W_]+")
ALTERNATIVES = re.compile(r"(?<!more )\bor\b(?! (?:so|more|less|fewer|at least|at most)\b)", re.IGNORECASE)
"""An "or" between alternatives, unlike those of rough numbers: "three or so"."""
_DENIAL = re.compile(r"\b(?:no|not|never|neither|nor|without)\b|n['’]t\b", re.IGNORECASE)
_LEFT_OVER = re.compile(r"\b(?:but|although|though|however)\b", re.IGNORECASE)
_AXES = frozenset(axis for axis, _ in OPPOSITES.values())

MAX_SPARE_VALUES = 1
"""A text that gives more than twice as many values of a kind as the reference, and this many more, settles none."""


def affirmed(text: str) -> str:
    """Returns the sentences of a text that affirm something; of alternatives all but the values they leave open."""
    return " ".join(
        _without_alternatives(part)
        for sentence in sentences(text)
        if not is_question(sentence)
        for part in _LEFT_OVER.split(sentence)
        if _DOUBT.isdisjoint(_ANY_WORD.findall(part.casefold()))
    )


def _without_alternatives(part: str) -> str:
    if not ALTERNATIVES.search(part) or _DENIAL.search(part):
        return part
    return _ANY_WORD.sub(lambda match: "" if _kind_of(match.group().casefold()) else match.group(), part)


def _kind_of(word: str) -> str | None:
    """Returns the kind of value that a word is, a side included; None for other words."""
    return family_of(word) or ("side" if word in OPPOSITES else None)


def unsettled(said: Iterable[str], text: str, reference: Iterable[str]) -> frozenset[str]:
    """Returns the values that a text lists without settling on any: too many of one kind, and not of different things.

    Args:
        said: The text's content words.
        text: The text itself.
        reference: The reference's content words.
    """
    expected = _by_kind(reference)
    settled = _of_things(text)
    return frozenset(
        value
        for kind, values in _by_kind(said).items()
        if len(values - settled[kind]) > 2 * max(1, len(expected[kind])) + MAX_SPARE_VALUES
        for value in values - settled[kind]
    )


def _by_kind(words: Iterable[str]) -> Mapping[str, set[str]]:
    by_kind: dict[str, set[str]] = defaultdict(set)
    for word in words:
        if kind := _kind_of(word):
            by_kind[kind].add(word)
    return by_kind


def _of_things(text: str) -> Mapping[str, set[str]]:
    """Returns the values that a text gives to things to which it gives no other value of the kind."""
    settled: dict[str, set[str]] = defaultdict(set)
    claims = statements_of(text)
    for (_, kind), values in claims.values.items():
        if len(values) == 1:
            settled["side" if kind in _AXES else kind] |= values
    for (_, _, axis), signs in claims.relations.items():
        if len(signs) == 1:
            settled["side"] |= {word for word, (other, _) in OPPOSITES.items() if other == axis}
    return settled
