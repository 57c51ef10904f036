"""Grades whether two thoughts agree by their words: iVGR's alpha without a model.

A free and reproducible substitute for generated scenes, whose facts take few words. Contradictions are detected by
rule first. Paraphrases count as different content; `judges.llm.llm_graders.LLMConsistencyJudge` asks a language
model, which recognizes them.

Two texts contradict each other if

- one denies a statement of the other: "the mug is red" and "the mug is not red", "a boat" and "no boat";
- they give one thing different values of an exclusive kind, with none in common: color, number, score, size, side,
  open or closed, full or empty, on or off;
- they relate two things in opposite ways: "the mug is left of the tree" and "the tree is left of the mug";
- they give different readings of a clock or a sign.

A text contradicts itself if it gives two values of one such kind or two readings for "the" thing, affirms and denies
one thing, relates "the" one to "the" other in opposite ways, or gives two totals of one thing ("there are two mugs",
"there are three mugs"), the larger of which is not the sum of the others.

`judges.statements` reads the texts. If no rule applies, the shared words decide.

Only words in affirmative sentences count. A question, a condition, a doubt, and a list of alternatives describe
nothing, although they may contain every word of a true description. Neither does a list of all values of one kind.
Unlike with contradictions, a false alarm here costs a true text only the words involved.
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
"""Share of the words that may be missing or added without counting as omitted or added content."""

MAX_ADDED = 4.0
"""Added words per word of the reference, above which a text lists everything and thus claims nothing."""

MIN_SHARED = 0.25
"""Share of the reference's words below which the text describes something else."""

_WORD = re.compile(rf"\d{{1,2}}:\d\d\b|{SCORE}|{DECIMAL}|[^\W_]*\d[^\W_]*|[^\W\d_]{{3,}}")
"""Times, decimals, scores, and words with a digit stay whole: "3:15" is neither 3 nor 15."""

_SHORT_TEXT = re.compile(r"\b[A-Z]{2}\b")
_READS = dict.fromkeys(("says", "reads", "displays"), "shows")
"""Verbs for the reading of a clock or a sign."""
_DIGITS = {word: str(number) for number, word in enumerate(SMALL_NUMBERS) if word != "one"}
_COMMON = words_of(
    "the and are was were there this that these those which what with within for from has have had its his her one "
    "box boxes picture image shown see seen look looks looking settles question answer therefore because here "
    "can count counted total see sees notice find you"
)


def content_words(text: str) -> frozenset[str]:
    """Returns the words of a text that describe an image, without boxes, tags, and words common to all thoughts.

    Numbers are written as digits, times and words with a digit stay whole, and words in quotes or capitals count at
    any length.
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
    """Returns the words of some texts with nouns in the singular and synonyms unified."""
    texts = tuple(frozenset(singular(_READS.get(word, word)) for word in words) for words in texts)
    same = shared_names(*texts)
    return [frozenset(same.get(word, SAME.get(word, word)) for word in words) for words in texts]


def word_consistency(question: str, reference: str, text: str, temperature: float = 0.0) -> JudgeScore:
    """Grades one text against the reference by their shared content words.

    Args:
        question: Its words count in neither text.
        reference: The grounded thought.
        text: The textual thought.
        temperature: Unused.

    Returns:
        1 for the same content; 0.7 if the text omits or adds content; 0.3 if it does both, lists every word, or lists
        alternatives ("red or blue"); 0 if it contradicts the reference or shares hardly anything with it.

    Source: iVGR, section 3.3, for the grades. Choices: `MAX_DEVIATION`, `MAX_ADDED`, `MIN_SHARED`; `contradiction`
    detects contradictions; any text without a contradiction matches a reference without content words.
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
    """Returns how one text contradicts the other, for logs; None if no rule detects it.

    Args:
        reference: The text that is assumed true.
        text: The text to compare with it.
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
    """Returns how a text contradicts itself, for logs; None if no rule detects it."""
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
                same = clause.subject == denial.subject  # else it may restate it: "the plate is not above the cup"
                if same and denial.denied <= clause.affirmed and denial.affirmed <= clause.affirmed:
                    return f"says and denies: {' '.join(sorted(denial.denied))}"
    return two_readings(text)


def hedge(reference: str, text: str) -> str | None:
    """Returns how a text leaves open a fact that the reference settles, for logs; None if no rule detects it.

    A fact is left open by alternatives with "or", by two values with "could be", and by three or more values.
    Sentences and quotations of the reference do not count.
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
    """Returns the sentences of a text except questions, in lower case and without their final punctuation."""
    plain = said_shorter(text.casefold())[: MAX_CLAUSES * MAX_CLAUSE_CHARS]
    return [sentence.strip() for sentence in _SENTENCE_END.split(plain)]


def _may_be_parts(ones: list[float], others: list[float]) -> bool:
    """Returns whether the numbers of one side can be parts of the single number of the other."""
    return any(
        len(whole) == 1 < len(parts) and sum(parts) <= whole[0] for whole, parts in ((ones, others), (others, ones))
    )


def _denial(affirming: Statements, denying: Statements) -> str | None:
    """Returns the words that `denying` denies and `affirming` affirms in one clause, unless `denying` does, too."""
    for clause in denying.clauses:
        if clause.denied and _says(affirming, clause) and not _says(denying, clause):
            return " ".join(sorted(clause.denied))
    return None


def _says(claims: Statements, denial: Clause) -> bool:
    """Returns whether a clause affirms what another denies; for relations, both must have the same subject."""
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
"""An "or" between alternatives, unlike in approximate numbers such as "three or so"."""
_DENIAL = re.compile(r"\b(?:no|not|never|neither|nor|without)\b|n['’]t\b", re.IGNORECASE)
_LEFT_OVER = re.compile(r"\b(?:but|although|though|however)\b", re.IGNORECASE)
_AXES = frozenset(axis for axis, _ in OPPOSITES.values())

MAX_SPARE_VALUES = 1
"""A text that exceeds twice the reference's number of values of a kind by more than this settles on none."""


def affirmed(text: str) -> str:
    """Returns the affirmative sentences of a text, without the values in alternatives."""
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
    """Returns the kind of value that a word is, including `side`; None for other words."""
    return family_of(word) or ("side" if word in OPPOSITES else None)


def unsettled(said: Iterable[str], text: str, reference: Iterable[str]) -> frozenset[str]:
    """Returns the values that a text lists without settling on any: too many of one kind that belong to no one thing.

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
    """Returns the values of things that have only one value of that kind."""
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
"""Words after "says" that are not the text of a sign."""
_TOLD_APART = words_of(
    "other another first second third last left right top bottom upper lower not never no might may could does do "
    "did if whether perhaps probably"
)
"""Words that distinguish things of one name, or leave the reading open."""
_NOT_SAID = UNSAID | words_of("not never no wrong false untrue first later then earlier before after once")
"""Words that make a sentence's reading uncertain or limit it to a certain moment."""
_ENDS = re.compile(r"[.!?\n]")
_HANGS_ON = re.compile(rf"\b{_PREPOSITION}\s\Z", re.IGNORECASE)
_ANOTHER = re.compile(r"\b(?:the|an?)\s", re.IGNORECASE)

TIME = re.compile(_TIME)
QUOTED = re.compile(_QUOTED)


@dataclass(frozen=True, slots=True)
class Reading:
    """The reading of a clock or a sign in one sentence.

    Attributes:
        thing: Its name with its color, in lower case, such as `"pink clock"`.
        value: A 12-hour time such as `"3:15"`, or a text in lower case without punctuation.
        is_the_one: Whether it is "the" thing, not "a" thing.
    """

    thing: str
    value: str
    is_the_one: bool


def readings(text: str) -> Iterator[Reading]:
    """Yields a text's readings in order; "it" is the previous reading's thing if no other thing is named in between.

    Sentences with a question, doubt, denial, or several moments have no reading.
    """
    thing, is_the_one, end = "", False, 0
    for match in _READING.finditer(text):
        between, end = text[end : match.start()], match.end()
        if match["it"]:
            thing = "" if _ANOTHER.search(between) else thing
        elif _HANGS_ON.search(between) and not match["attached"]:  # "the man next to the sign says": not the sign
            thing = ""
        else:
            thing, is_the_one = match["thing"].casefold(), match["article"].casefold() == "the"
            if match["attached"]:  # "the man next to the sign that says": the sign
                thing = re.split(_JOINT, thing)[-1]
        if match["plain"] and not _is_text(text, match, thing):
            continue
        if thing and _TOLD_APART.isdisjoint(thing.split()) and _is_said(text, match):
            yield Reading(thing, _value(match["value"]), is_the_one)


def _is_text(text: str, match: re.Match[str], thing: str) -> bool:
    """Returns whether unquoted words are the text of a thing: "the sign says exit now"."""
    head = re.split(_JOINT, thing)[0].split()[-1:]
    is_told = _SAYS.search(text, match.start(), match.start("value")) is not None
    return is_told and not _BEARS_TEXT.isdisjoint(head) and match["plain"].split()[0].casefold() not in _NO_TEXT


def _is_said(text: str, match: re.Match[str]) -> bool:
    """Returns whether the sentence of a reading affirms it, judging by single words."""
    start = max((ending.end() for ending in _ENDS.finditer(text, 0, match.start())), default=0)
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
    """Returns a thing with different readings in the two texts, for logs; None without one."""
    true, said = _by_thing(readings(reference)), _by_thing(readings(text))
    for thing, values in true.items():
        others = said.get(thing, values)
        if not any(_agree(one, other) for one in values for other in others):
            return f"{thing} shows {' and '.join(sorted(values))}, or {' and '.join(sorted(others))}"
    return None


def two_readings(text: str) -> str | None:
    """Returns "the" thing to which a text gives two readings, for logs; None without one."""
    for thing, values in _by_thing(reading for reading in readings(text) if reading.is_the_one).items():
        if any(not _agree(one, other) for one in values for other in values):
            return f"{thing} shows {' and '.join(sorted(values))}"
    return None


def _by_thing(found: Iterable[Reading]) -> dict[str, set[str]]:
    values: dict[str, set[str]] = defaultdict(set)
    for reading in found:
        values[reading.thing].add(reading.value)
    return values


def _agree(one: str, other: str) -> bool:
    """Returns whether two readings can be of one thing: a text may be read partially, a time may not."""
    if ":" in one or ":" in other:
        return one == other
    return f" {one} " in f" {other} " or f" {other} " in f" {one} "
