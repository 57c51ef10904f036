"""Reads statements from a text by its words.

    text ── clauses ──> affirmed words, denied words, values of things, relations of two things

Choices: a clause ends at punctuation and at "and", "but", "while"; a denial reaches from the negation to the end of
its clause; "it" and "they" refer to the previous clause's subject; all size comparisons share one axis; a shade counts
as its color; several numbers of one thing may be parts of a whole. A false alarm costs a true text its whole score, so
a value is ignored if it is approximate, partial, or past ("about 20", "half full", "was …, now …"), or describes a part
("grey in the west") or one of several things ("the left light"). Questions and clauses of doubt ("if", "might",
"perhaps") are also ignored.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Set
from dataclasses import dataclass, field
from functools import lru_cache, partial
from typing import Any

from judges.state_text.vocabulary import load_table, rewriter, spread, word_at, words_of
from vlm_envs.content.colors import COLORS
from vlm_envs.content.scenes.scene_kinds import KINDS
from vlm_envs.responses.numbers import SMALL_NUMBERS, in_digits

MAX_CLAUSES = 200
MAX_CLAUSE_CHARS = 600
"""Maximum number of clauses read from a text, and of characters read from each; bounds the time."""

_BREAK = re.compile(r"[!?;,\n()]|[.:](?!\d)|\b(?:but|and|while|whereas|although|though|however)\b", re.IGNORECASE)
SCORE = r"(?<![\d.-])\d{1,3}-\d{1,3}(?![\d-]|\.\d)"
DECIMAL = r"(?<![\d.])\d{1,9}\.\d{1,9}(?!\.?\d)"
_TOKEN = re.compile(rf"\d{{1,2}}:\d\d\b|{SCORE}|{DECIMAL}|[^\W_]+(?:['’][^\W_]+)?")
_DASH = re.compile(r"(?<=\d)[\N{EN DASH}\N{MINUS SIGN}](?=\d)")

_SAID_SHORTER = {
    r"\b(?:it is|it's|that is|it isn't) (?:false|untrue|wrong|not true|not the case) that\b": " not ",
    r"\bno longer\b(?! than)": " not ",
    r"\b(?:rather than|instead of|as opposed to|anything but|by no means)\b": " not ",
    r"\bin front of\b": " front ",
    r"\b(?:on top of|atop)\b": " on ",
    r"\b(?:turned|switched) (?=on\b|off\b)": "",
}
_FAR_FROM = re.compile(r"\bfar from (?:being )?(?=([^\W_]+))")
_NEGATIONS = words_of("not no never without neither nor none cannot")
_SHORT_NOT = ("n't", "n’t")
_NO_DENIAL = words_of("only other more less longer further doubt")
"""Words after "no" or "not" that make it deny nothing."""

_FUNCTION = words_of(
    "the this that these those there here and are was were been being has have had does did its his her their them "
    "they with within for from into onto over near beside next behind before after between which what who where "
    "when than then stands stand lies lie sits sit hangs hang shows show says say reads read "
    "displays display can could will would "
    "may might seems seem looks look appears appear see seen you your our also just very some any all both each "
    "every other another side off hand picture image photo scene"
)
_PRONOUNS = words_of("it they he she one")
_NOT_A_NUMBER_AFTER = words_of("the this that which other each every no another")
_NO_COUNT_AFTER = words_of(
    "number numbered page line route about around approximately roughly nearly almost over under least most"
)
_BOUND = words_of("more fewer less up")
"""Words before "than" or "to" that make the number after it a bound, not a count."""
_IN_PART = words_of("half partly partially nearly almost")
_PLACES = words_of("left right top bottom upper lower middle front back rear")
_TELLING = _PLACES | words_of("first second third fourth fifth sixth last next other another each")
"""Words that distinguish things of one name, so that the other text may describe a different thing."""
_REGIONS = _PLACES | words_of("west east north south centre center distance")
UNSAID = words_of("if whether might may maybe perhaps possibly could would")
"""Words of doubt: a clause with one of them affirms nothing."""
ASKING = words_of("if whether")
_EXACTLY = words_of("exactly only just precisely")
_PAST = words_of("was were previously formerly earlier")

_TABLES = load_table(__file__)
_SHADES = spread(_TABLES["shades"])
_COLORS = (*COLORS, *_SHADES, "gray")
_FAMILIES = spread({" ".join(_COLORS): "colour", " ".join(SMALL_NUMBERS): "number", **_TABLES["families"]})
SAME = spread(_TABLES["same"]) | {word: str(number) for number, word in enumerate(SMALL_NUMBERS)}
_COLOR_WORDS = "|".join(sorted(_COLORS))
_COLOR_OF = {
    rf"\bthe colou?r of (the (?:[^\W_]+ ){{1,2}}is (?=(?:not )?(?:{_COLOR_WORDS})\b))": r"\1",
    rf"\b([^\W_]+)['’]s colou?r (?=is (?:not )?(?:{_COLOR_WORDS})\b)": r"\1 ",
    rf"\bits colou?r (?=is (?:not )?(?:{_COLOR_WORDS})\b)": "it ",
}
_shorten_phrases = rewriter(_SAID_SHORTER | _COLOR_OF)
_TWO_COLORS = re.compile(rf"\b({_COLOR_WORDS}),? and (?=(?:{_COLOR_WORDS})\b)")
_PREPOSITIONS = words_of("on over under above below beneath underneath behind")
_SIDES = words_of("left right top front back side")
OPPOSITES: Mapping[str, tuple[str, int]] = spread(_TABLES["opposites"])
"""Words that relate two things, each with its axis and its sign on it."""


@dataclass(frozen=True, slots=True)
class Clause:
    """The statements of one clause.

    Attributes:
        affirmed: Its affirmed content words, in the singular.
        denied: Its denied content words, in the singular.
        subject: Its subject, in the singular; empty without one.
    """

    affirmed: frozenset[str]
    denied: frozenset[str]
    subject: str


_sets: Callable[[], Any] = partial(defaultdict, set)
_lists: Callable[[], Any] = partial(defaultdict, list)


@dataclass(frozen=True, slots=True)
class Statements:
    """The statements of a text.

    Attributes:
        clauses: In order.
        values: Values of a thing, by the thing and the family of the values.
        stated: Values stated after "the" thing ("the mug is red"), each with its synonyms.
        numbers: Every stated number of a thing.
        relations: Signs of two things on an axis, by both in alphabetical order and the axis.
        both_ways: Signs of relations between "the" one thing and "the" other, which allow only one sign.
        totals: Numbers stated with "there are", by the words after the number.
        open_values: Values that a thing could have.
    """

    clauses: list[Clause] = field(default_factory=list)
    values: dict[tuple[str, str], set[str]] = field(default_factory=_sets)
    stated: dict[tuple[str, str], list[set[str]]] = field(default_factory=_lists)
    numbers: dict[str, list[float]] = field(default_factory=_lists)
    relations: dict[tuple[str, str, str], set[int]] = field(default_factory=_sets)
    both_ways: dict[tuple[str, ...], set[int]] = field(default_factory=_sets)
    totals: dict[str, set[int]] = field(default_factory=_sets)
    open_values: dict[tuple[str, str], set[str]] = field(default_factory=_sets)


@lru_cache(maxsize=8)
def statements_of(text: str) -> Statements:
    """Returns the statements of a text; callers must not change the cached result."""
    claims = Statements()
    subject, text = "", said_shorter(text.casefold())
    is_over = frozenset(("was", "were")) | _PAST if re.search(r"\bnow\b", text) else frozenset()
    for part in _BREAK.split(text, maxsplit=MAX_CLAUSES)[:MAX_CLAUSES]:
        tokens = [SAME.get(token, token) for token in tokens_of(part[:MAX_CLAUSE_CHARS])]
        cut = next(_denials(tokens), len(tokens))
        own = next((token for token in tokens[:cut] if _is_noun(token)), "")
        subject = singular(own) if own else subject
        if not (UNSAID | is_over).isdisjoint(tokens):
            if ASKING.isdisjoint(tokens):
                _note_open(claims, tokens[:cut], subject)
            continue
        before, after = tokens[:cut], tokens[cut:]
        affirmed = {singular(token) for token in before if _is_content(token)}
        if not own and subject and _PRONOUNS & set(before):
            affirmed.add(subject)
        denied = {singular(token) for token in after if _is_content(token) and token not in _NEGATIONS}
        claims.clauses.append(Clause(frozenset(affirmed), frozenset(denied), subject))
        _note_values(claims, before, subject)
        _note_relations(claims, before, subject)
        _note_total(claims, tokens)
    return claims


def tokens_of(text: str) -> list[str]:
    """Returns the words of a lower-case text; times, decimals, and scores stay whole: "3:15", "3.5" for 3.50, "3-2"."""
    return [one_number(token) for token in _TOKEN.findall(with_hyphens(text))]


def with_hyphens(text: str) -> str:
    """Replaces dashes between digits by hyphens."""
    return _DASH.sub("-", text)


def one_number(word: str) -> str:
    """Returns a decimal number in its shortest form, and any other word unchanged."""
    return f"{float(word):.12g}" if re.fullmatch(DECIMAL, word) else word


def _note_open(claims: Statements, tokens: list[str], subject: str) -> None:
    """Records the values that a clause of doubt names as possible."""
    possible = Statements()
    _note_values(possible, tokens, subject)
    for named, values in possible.values.items():
        claims.open_values[named].update(values)


def _note_total(claims: Statements, tokens: list[str]) -> None:
    """Records the total of a clause that states only that: "there are three red mugs in the picture"."""
    said = [token for token in tokens if token not in _EXACTLY]
    if len(said) > 3 and said[0] == "there" and said[1] in ("is", "are") and said[2].isdecimal():
        claims.totals[" ".join(map(singular, said[3:]))].add(int(said[2]))


@lru_cache(maxsize=8)
def said_shorter(text: str) -> str:
    """Returns a text with multi-word negations, positions, and numbers shortened to one word."""
    text = _shorten_phrases(without_questions(text))
    text = _FAR_FROM.sub(lambda match: "not " if family_of(match[1]) else match.group(), text)
    return _TWO_COLORS.sub(r"\1 ", in_digits(text))


def _denials(tokens: list[str]) -> Iterator[int]:
    """Yields the positions at which a denial starts."""
    for position, token in enumerate(tokens):
        after = word_at(tokens, position + 1)
        if (token in _NEGATIONS and after not in _NO_DENIAL) or token.endswith(_SHORT_NOT):
            yield position


def _note_values(claims: Statements, tokens: list[str], subject: str) -> None:
    """Records each value for the word after it, or else for the subject of the clause."""
    for position, token in enumerate(tokens):
        family = family_of(token)
        if family is None or _is_not_of_the_whole(tokens, position, family):
            continue
        named = next((after for after in tokens[position:] if family_of(after) is None), "")
        is_attribute = _is_noun(named)
        thing = singular(named) if is_attribute else subject
        if family == "score" and is_attribute:
            continue  # "2-3 mugs" is a range.
        if thing:
            meant = set(_SHADES.get(token, token).split())
            claims.values[thing, family].update(meant)
            if family == "number":
                claims.numbers[thing].append(float(token) if token[0].isdecimal() else 0.0)
            elif thing == subject and position + 1 == len(tokens) and _is_the_one(tokens[:position], subject):
                claims.stated[thing, family].append(meant)
    if tokens and tokens[-1] in ("on", "off") and subject:
        claims.values[subject, "switch"].add(tokens[-1])


def _is_not_of_the_whole(tokens: list[str], place: int, family: str) -> bool:
    """Returns whether a value is not an exact count, or describes a part or one of several things."""
    before, after = tokens[:place], tokens[place + 1 :]
    last = before[-1] if before else ""
    if family == "number":
        is_bound = last in ("than", "to") and len(before) > 1 and before[-2] in _BOUND
        is_one = tokens[place] == "1" and (last in _NOT_A_NUMBER_AFTER or after[:1] == ["of"])
        return is_one or is_bound or last in _NO_COUNT_AFTER
    is_region = (
        after[:1] in (["in"], ["at"], ["on"], ["to"]) and not _REGIONS.isdisjoint(after) and last in ("is", "are")
    )
    return is_region or last in _IN_PART or before[:1] == ["1"] or not _TELLING.isdisjoint(before)


def _is_the_one(before: list[str], subject: str) -> bool:
    """Returns whether a value follows "the" thing, without words that distinguish it from others of its name."""
    return len(before) > 2 and before[0] == "the" and singular(before[1]) == subject and before[-1] in ("is", "are")


def _note_relations(claims: Statements, tokens: list[str], subject: str) -> None:
    """Records the relative sides of two things; a side without a second thing is a value of the first."""
    for position, token in enumerate(tokens):
        if token not in OPPOSITES or (
            token == "on" and (position + 1 == len(tokens) or _SIDES & set(tokens[position + 1 :]))
        ):
            continue
        after = word_at(tokens, position + 1)
        is_note = position == 1 and len(tokens) == 3 and _are_bare(tokens, position)
        if (token not in _PREPOSITIONS and after and _is_noun(after) and not is_note) or (
            token in _SIDES and after in ("is", "are")
        ):
            continue  # "the left mug" and "the mug on the left is" are names.
        axis, sign = OPPOSITES[token]
        first, second = _phrase(tokens[:position]) or subject, _phrase(tokens[position + 1 :])
        if first and second:
            if first >= second:
                first, second, sign = second, first, -sign
            claims.relations[first, second, axis].add(sign)
            if _are_the_ones(tokens, position) or _are_bare(tokens, position):
                claims.both_ways[first, second, axis].add(sign)
        elif first:
            claims.values[first, axis].add(token)
            if tokens[position - 2 :] == ["on", "the", token] and _are_the_ones(tokens, position):
                claims.both_ways[first, axis].add(sign)


def _are_the_ones(tokens: list[str], place: int) -> bool:
    """Returns whether a clause relates "the" one thing to "the" other, without distinguishing words for either."""
    others = tokens[:place] + tokens[place + 1 :]
    is_definite = tokens[0] == "the" and "is" in tokens[:place] and "the" in tokens[place - 1 :]
    return is_definite and _TELLING.isdisjoint(others)


def _are_bare(tokens: list[str], place: int) -> bool:
    """Returns whether a side stands between two nouns without articles, as in notes: "mug left of tree"."""
    things = [token for token in tokens if token not in ("is", "of", "to", tokens[place])]
    return len(things) == 2 and all(_is_noun(thing) and thing == singular(thing) for thing in things)


def _phrase(tokens: list[str]) -> str:
    """Returns the first thing named, with the color before it, if any."""
    noun = next((position for position, token in enumerate(tokens) if _is_noun(token)), None)
    if noun is None:
        return ""
    color = tokens[noun - 1] if noun and family_of(tokens[noun - 1]) == "colour" else ""
    return f"{color} {singular(tokens[noun])}".strip()


def family_of(token: str) -> str | None:
    """Returns the kind of value that a word is, such as `number`; None for other words."""
    if token.isdecimal() or re.fullmatch(DECIMAL, token):
        return "number"
    return "score" if re.fullmatch(SCORE, token) else _FAMILIES.get(token)


def _is_content(token: str) -> bool:
    if token in _FUNCTION or token in _PRONOUNS or token.endswith(_SHORT_NOT):
        return False
    return token.isdecimal() or len(token) > 2


def _is_noun(token: str) -> bool:
    names = _is_content(token) and ":" not in token
    return names and family_of(token) is None and token not in OPPOSITES and token not in _NEGATIONS


_NUMBER = r"[-+]?(?:(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][-+]?[0-9]+)?|(?i:nan|infinity|inf))"
_GAP = r"[ \t]{0,4}"
_NUMBERS = rf"{_NUMBER}(?:(?:{_GAP}[,;]{_GAP}|[ \t]{{1,4}}){_NUMBER}){{1,63}}"
_FLAT = rf"[\[(]{_GAP}{_NUMBERS}{_GAP}[\])]"
_NESTED = rf"[\[(]{_GAP}{_FLAT}(?:{_GAP},?{_GAP}{_FLAT}){{0,63}}{_GAP}[\])]"
_COORDINATES = rf"(?:{_NESTED}|{_FLAT}|(?<=>){_GAP}{_NUMBERS}{_GAP}(?=<))"
_LABEL = r"(?:bbox(?:_2d)?|box|boxes|bounding box|coordinates|position|point|region|area)"
_BOXES = re.compile(
    rf"(?:\b(?:at|in|inside|within|around|near)[ \t](?:the[ \t])?(?:{_LABEL}[ \t]?)?|\b{_LABEL}[ \t]?:[ \t]?)?"
    rf"{_COORDINATES}(?:{_GAP}(?:,|and|to)?{_GAP}{_COORDINATES}){{0,63}}",
    re.IGNORECASE,
)
_TAG = re.compile(r"<[^<>]{0,200}>")
_MARK = "\0"
"""Stands for removed boxes until the punctuation around them is removed too."""
_tidy_around_marks = rewriter(
    {
        rf"[\[({{][ \t]*{_MARK}[ \t]*[\])}}]": _MARK,  # brackets that hold nothing else
        rf",[ \t]*{_MARK}[ \t]*,": _MARK,  # commas that set off nothing else
        _MARK: " ",
        r"[^\S\n]+": " ",
        r" (?=[.,;:!?])": "",
    }
)
_SENTENCE = re.compile(r"(?:[^.!?？;\n]|[.](?=\d))+[.!?？;\n]?")
_BEGINS_QUESTION = re.compile(
    r"\s*(?:is|are|was|were|am|do|does|did|can|could|has|have|had|will|would|should|shall)\b", re.IGNORECASE
)


def without_boxes(text: str) -> str:
    """Removes boxes, points, and tags, so that the rest reads as if written without them.

    Also removes series of boxes, brackets and commas that enclose only boxes, words that only introduce a box
    ("at [1, 2, 3, 4]"), and repeated spaces.
    """
    return _tidy_around_marks(_TAG.sub(" ", _BOXES.sub(_MARK, text.replace(_MARK, " "))))


def sentences(text: str) -> list[str]:
    """Returns the sentences of a text with their final punctuation; line breaks and semicolons also end sentences."""
    return _SENTENCE.findall(text)


def is_question(sentence: str) -> bool:
    """Returns whether a sentence is a question: by its question mark or an initial auxiliary verb."""
    return sentence.endswith(("?", "？")) or _BEGINS_QUESTION.match(sentence) is not None


def without_questions(text: str) -> str:
    """Returns a text without its questions."""
    return " ".join(sentence for sentence in sentences(text) if not is_question(sentence))


_IRREGULAR: Mapping[str, str] = _TABLES["singulars"] | {kind.several: kind.name for kind in KINDS.values()}
_ES = re.compile(r"(?<=ss|ch|sh)es\Z|(?<=x)es\Z")
_NAMES: Mapping[str, str] = {other: kind.name for kind in KINDS.values() for other in kind.also} | spread(
    _TABLES["names"]
)
"""Other names of things, in the singular."""


def singular(noun: str) -> str:
    """Returns a noun in the singular; a word without a known plural form stays unchanged."""
    if noun in _IRREGULAR:
        return _IRREGULAR[noun]
    if len(noun) > 5 and noun.endswith("ies"):
        return f"{noun[:-3]}y"
    if len(noun) > 4 and _ES.search(noun):
        return noun[:-2]
    return noun[:-1] if len(noun) > 3 and noun.endswith("s") and not noun.endswith("ss") else noun


def shared_names(*texts: Set[str]) -> Mapping[str, str]:
    """Maps other names of things to the name to use, except for names that one text uses together.

    A text that names a cup and a mug names two things.
    """
    return {
        other: name for other, name in _NAMES.items() if not any(other in words and name in words for words in texts)
    }
