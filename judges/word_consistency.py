"""Whether two thoughts agree, by their words: iVGR's alpha where no model judges.

A stand-in that is free and reproducible, for generated scenes whose facts are said in few words. Contradictions
are looked for by rule first. What a language model would see as a paraphrase it takes for another content;
`judges.llm.llm_graders.LLMConsistencyJudge` asks one.

Two texts contradict each other where

- one denies what the other affirms: "the mug is red" and "the mug is not red", "a boat" and "no boat";
- they give one thing different values of a kind of which it has one, and none in common: colour, number, score, size,
  side, open or closed, full or empty, on or off;
- they relate two things the other way round: "the mug is left of the tree" and "the tree is left of the mug";
- a clock shows, or a sign says, one thing by the one and another by the other.

A text contradicts itself where it says two values of one such kind of "the" thing, or two readings, affirms and
denies one thing, relates "the" one to "the" other both ways round, or gives two totals of one thing ("there are
two mugs", "there are three mugs") of which the larger is not the sum of the others.

How a text is read is `judges.statements`' part. What no rule here sees is left to the shared words.

Words count as said in sentences that affirm something. A question, a condition, a doubt, and a list of
alternatives describe nothing, although they may hold every word of a true description. Neither does a list of
all values of one kind. Unlike with contradictions, a false alarm here costs a true text only the words
concerned.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Set
from dataclasses import dataclass

from judges.scores import JudgeScore
from judges.state_text.vocabulary import words_of
from judges.statements import (
    ASKING,
    DECIMAL,
    MAX_CLAUSE_CHARS,
    MAX_CLAUSES,
    OPPOSITES,
    SAME,
    SCORE,
    UNSAID,
    Clause,
    Statements,
    family_of,
    is_question,
    one_number,
    said_shorter,
    sentences,
    shared_names,
    singular,
    statements_of,
    with_hyphens,
    without_boxes,
)
from vlm_envs.responses.extraction import MAX_TEXT_CHARS
from vlm_envs.responses.numbers import SMALL_NUMBERS, in_digits

CONSISTENCY_GRADES = (0.0, 0.3, 0.7, 1.0)
"""α: contradicts; omits and adds; omits or adds; the same content. Source: iVGR, section 3.3."""

MAX_DEVIATION = 0.25
"""Part of the words that may be missing, or added, without counting as omitted or added content."""

MAX_ADDED = 4.0
"""Words added to each of the reference's beyond which a text says everything there is, and so nothing."""

MIN_SHARED = 0.25
"""Part of the reference's words below which the text speaks of something else."""

_WORD = re.compile(rf"\d{{1,2}}:\d\d\b|{SCORE}|{DECIMAL}|[^\W_]*\d[^\W_]*|[^\W\d_]{{3,}}")
"""Times, decimals, scores, and what holds a digit stay whole: "3:15" is neither 3 nor 15."""

_SHORT_TEXT = re.compile(r"\b[A-Z]{2}\b")
_READS = dict.fromkeys(("says", "reads", "displays"), "shows")
"""Verbs for what a clock or a sign shows."""
_DIGITS = {word: str(number) for number, word in enumerate(SMALL_NUMBERS) if word != "one"}
_COMMON = words_of(
    "the and are was were there this that these those which what with within for from has have had its his her one "
    "box boxes picture image shown see seen look looks looking settles question answer therefore because here "
    "can count counted total see sees notice find you"
)


def content_words(text: str) -> frozenset[str]:
    """Returns the words of a text that say what is in a picture: no boxes, no tags, nothing that every thought says.

    Numbers are digits, times and what holds a digit are whole, and what is quoted or in capitals counts however short.
    """
    plain = _plain(text)
    quoted = " ".join(QUOTED.findall(plain))
    texts = [word.casefold() for word in (*_SHORT_TEXT.findall(plain), *re.findall(r"[^\W_]+", quoted))]
    words = (
        *map(one_number, _WORD.findall(with_hyphens(in_digits(plain.casefold())))),
        *(text for text in texts if not text.isdecimal()),
    )
    return frozenset(_DIGITS.get(word, word) for word in words) - _COMMON


def _plain(text: str) -> str:
    """Returns a text without its boxes and tags."""
    return without_boxes(text[:MAX_TEXT_CHARS])


def _in_one_form(*texts: Set[str]) -> list[frozenset[str]]:
    """Returns the words of some texts with nouns in the singular and one word for what has several."""
    texts = tuple(frozenset(singular(_READS.get(word, word)) for word in words) for words in texts)
    same = shared_names(*texts)
    return [frozenset(same.get(word, SAME.get(word, word)) for word in words) for words in texts]


def word_consistency(question: str, reference: str, text: str, temperature: float = 0.0) -> JudgeScore:
    """Returns the grade of one text against the reference, by the content words that they share.

    Args:
        question: Its own words count in neither text.
        reference: The grounded thought.
        text: The textual thought.
        temperature: Of no use here.

    Returns:
        1 for the same content, 0.7 where it omits or adds, 0.3 for both, for a list of all words there are and for one
        of what may be ("red or blue"), 0 where it contradicts the reference or hardly shares anything with it.

    Source: iVGR, section 3.3, for the grades. Choices: `MAX_DEVIATION`, `MAX_ADDED`, `MIN_SHARED`; what contradicts
    is decided by `contradiction`; a reference without content words is matched by any text that does not.
    """
    true_plainly, said_plainly = _plain(reference), _plain(text)
    if contrary := contradiction(true_plainly, said_plainly) or own_contradiction(said_plainly):
        return JudgeScore(value=0.0, reason=f"contradicts: {contrary}")
    asked, expected, said = _in_one_form(
        content_words(question),
        content_words(affirmed(true_plainly)) or content_words(true_plainly),
        content_words(affirmed(said_plainly)),
    )
    expected, said = expected - asked, said - asked
    if not expected:
        return JudgeScore(value=1.0, reason="the reference says no more than the question")
    shared = len(expected & said - unsettled(said, said_plainly, expected))
    added = len(said - expected)
    if shared < MIN_SHARED * len(expected):
        return JudgeScore(value=0.0, reason=f"shares {shared} of {len(expected)} words")
    omits = len(expected) - shared > MAX_DEVIATION * len(expected)
    adds = added > MAX_DEVIATION * max(1, len(said))
    says_everything = added > MAX_ADDED * len(expected)
    if says_everything and omits:
        return JudgeScore(value=0.0, reason=f"shares {shared} of {len(expected)} words and adds {added}")
    if (left_open := hedge(true_plainly, said_plainly)) and shared:
        return JudgeScore(value=0.3, reason=left_open)
    if says_everything:
        return JudgeScore(value=0.3, reason=f"adds {added} words to {len(expected)}")
    grade = {0: 1.0, 1: 0.7, 2: 0.3}[omits + adds]
    return JudgeScore(value=grade, reason=f"{'omits ' * omits}{'adds' * adds}".strip() or "the same content")


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


_DOUBT = UNSAID | words_of("suppose imagine assume guess unless either wonder")
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
_BEARS_TEXT = words_of(
    "sign label board billboard banner poster plate sticker note text caption title headline button placard signboard"
)
_NO_TEXT = words_of("something that so it what this to how")
"""What may follow "says" without being the text."""
_TOLD_APART = words_of(
    "other another first second third last left right top bottom upper lower not never no might may could does do "
    "did if whether perhaps probably"
)
"""Words that tell a thing from another of its name, and that leave open what it shows."""
_NOT_SAID = UNSAID | words_of("not never no wrong false untrue first later then earlier before after once")
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


def readings(text: str) -> Iterator[Reading]:
    """Yields what a text says that things show or say, in order; "it" is the thing read before, if none is between.

    Sentences that ask, doubt, deny or tell of several moments say nothing.
    """
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


def _by_thing(found: Iterable[Reading]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = defaultdict(set)
    for each in found:
        values[each.thing].add(each.value)
    return values


def _agree(one: str, other: str) -> bool:
    """Returns whether two readings can be of one thing: a text may be read in part, a time may not."""
    if ":" in one or ":" in other:
        return one == other
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
