"""Whether one text denies what another says, by words: what the offline consistency judge pays nothing for.

Two texts contradict each other where

- one denies what the other affirms: "the mug is red" and "the mug is not red", "a boat" and "no boat";
- they give one thing different values of a kind of which it has one, and none in common: colour, number, score, size,
  side, open or closed, full or empty, on or off;
- they relate two things the other way round: "the mug is left of the tree" and "the tree is left of the mug";
- a clock shows, or a sign says, one thing by the one and another by the other (`judges.consistency.readings`).

A text contradicts itself where it says two values of one such kind of "the" thing, or two readings, affirms and denies
one thing, relates "the" one to "the" other both ways round, or gives two totals of one thing ("there are two mugs",
"there are three mugs") of which the larger is not the sum of the others.

How a text is read is `judges.consistency.statements`' part. What no rule here sees is left to the shared words.
"""

from __future__ import annotations

import re

from judges.consistency.affirmed import ALTERNATIVES
from judges.consistency.readings import QUOTED, other_reading, two_readings
from judges.consistency.statements import (
    ASKING,
    MAX_CLAUSE_CHARS,
    MAX_CLAUSES,
    OPPOSITES,
    Clause,
    Statements,
    said_shorter,
    statements_of,
)

_SENTENCE_END = re.compile(r"[!?;\n]|[.](?!\d)")


def contradiction(reference: str, text: str) -> str | None:
    """Returns how one text contradicts the other, for logs; None where no rule sees that it does.

    Args:
        reference: What is taken for true.
        text: What is compared with it.
    """
    true, said = statements_of(reference), statements_of(text)
    for one, other in ((true, said), (said, true)):
        if denial := _denial(one, other):
            return f"one says what the other denies: {denial}"
    for (thing, family), values in true.values.items():
        others = said.values.get((thing, family), values)
        is_part = family == "number" and _may_be_parts(true.numbers[thing], said.numbers.get(thing, []))
        if not values & others and not is_part:
            return f"{family} of {thing}: {' '.join(sorted(values))} and {' '.join(sorted(others))}"
    for (first, second, axis), signs in true.relations.items():
        if not signs & said.relations.get((first, second, axis), signs):
            return f"{first} and {second} the other way round"
    return other_reading(reference, text)


def own_contradiction(text: str) -> str | None:
    """Returns how a text contradicts itself, for logs; None where no rule sees that it does."""
    claims = statements_of(text)
    for (thing, family), stated in claims.stated.items():
        if not set.intersection(*stated):
            return f"more than one {family} of {thing}"
    for things, signs in claims.both_ways.items():
        if len(signs) > 1:
            return f"both ways round: {' '.join(things)}"
    for thing, totals in claims.totals.items():
        if len(totals) > 1 and max(totals) != sum(totals) - max(totals):
            return f"{' and '.join(map(str, sorted(totals)))} {thing}"
    for denial in claims.clauses:
        if denial.denied and denial.affirmed:
            for clause in claims.clauses:
                same = clause.subject == denial.subject  # or it is the same once more: the plate is not above the cup
                if same and denial.denied <= clause.affirmed and denial.affirmed <= clause.affirmed:
                    return f"says and denies: {' '.join(sorted(denial.denied))}"
    return two_readings(text)


def hedge(reference: str, text: str) -> str | None:
    """Returns what a text leaves open that the reference settles, for logs; None where no rule sees anything.

    Left open is what it lists with "or", says twice with "could be", or gives three values and more. A sentence or a
    quotation of the reference is not held against the text.
    """
    for quotation in QUOTED.findall(reference)[:MAX_CLAUSES]:
        text = text.replace(quotation, " ")
    settled = set(_sentences(reference))
    for sentence in _sentences(text):
        if (match := ALTERNATIVES.search(sentence)) and sentence not in settled and ASKING.isdisjoint(sentence.split()):
            return f"leaves open: {sentence[max(0, match.start() - 20) : match.end() + 20].strip()}"
    true, said = statements_of(reference), statements_of(text)
    for (thing, family), values in said.open_values.items():
        if len(values) > 1:
            return f"leaves open: {family} of {thing}"
    for (thing, family), values in said.values.items():
        if family == "colour" and len(values) > 2 and len(true.values.get((thing, family), ())) == 1:
            return f"every {family} of {thing}"
    return None


def _sentences(text: str) -> list[str]:
    """Returns the sentences of a text that are no questions, in lower case and without the marks that end them."""
    plain = said_shorter(text.casefold())[: MAX_CLAUSES * MAX_CLAUSE_CHARS]
    return [sentence.strip() for sentence in _SENTENCE_END.split(plain)]


def _may_be_parts(ones: list[float], others: list[float]) -> bool:
    """Returns whether the numbers of one side can be parts of the single number of the other."""
    return any(
        len(whole) == 1 < len(parts) and sum(parts) <= whole[0] for whole, parts in ((ones, others), (others, ones))
    )


def _denial(affirming: Statements, denying: Statements) -> str | None:
    """Returns the words that one text denies and the other, but not the first itself, says in one clause."""
    for clause in denying.clauses:
        if clause.denied and _says(affirming, clause) and not _says(denying, clause):
            return " ".join(sorted(clause.denied))
    return None


def _says(claims: Statements, denial: Clause) -> bool:
    """Returns whether a clause says what another denies, and of the same where it is how two things stand."""
    relates = not denial.denied.isdisjoint(OPPOSITES)
    return any(
        (clause.subject == denial.subject or not relates)
        and denial.denied <= clause.affirmed
        and (not denial.affirmed or denial.affirmed & clause.affirmed)
        for clause in claims.clauses
    )
