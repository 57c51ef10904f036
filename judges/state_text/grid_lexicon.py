"""Tokenizes text: the part of the natural-language reader that knows English.

Only words that matter to a spatial relation become tokens: objects and their number, sides, and the function words
that decide which object is on which side of which. All other words are dropped. Facts with many wordings, such as
reaching the goal, are first rewritten, so that the lexicon needs only one wording:

    at the position of the gift, at the gift's position, where the gift is, gets to the gift   ->  at the gift
    neither left nor right of                                                                  ->  same column of

Every pattern of a rewrite has bounded repetitions, so that time is linear in the text's length.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import Literal

from judges.state_text.grid_relations import ALL, SOME
from judges.state_text.vocabulary import (
    FRAME,
    PLAYER,
    ObjectVocabulary,
    plain_text,
    rewriter,
    spread,
    word_at,
    words_of,
)
from vlm_envs.responses.numbers import SMALL_NUMBERS, in_digits

TokenKind = Literal["object", "pronoun", "side", "copula", "and", "but", "not", "move", "near", "stop"]


@dataclass(slots=True)
class Token:
    """One meaningful word.

    Attributes:
        kind: The token's role in a sentence.
        name: An object's kind, such as `box`; for a negation the word itself.
        index: The number written with an object, as 0 in "box0"; None without one.
        count: Number of objects; `SOME` for a plural without a number, `ALL` for "all holes"; 0 if nothing is claimed:
            "zero holes", and numbers that are bounds or cannot be read ("fewer than two").
        is_new: The article introduces an object not mentioned before ("a hole", "another hole").
        is_definite: Of a plural, the article refers to objects mentioned before ("the two holes", "both holes").
        is_member: Of a pronoun, one of several objects mentioned before ("one", "the other").
        axis: Of a side, 0 vertical or 1 horizontal.
        sign: Of a side, -1 above or left, 1 below or right, 0 aligned.
        is_absolute: The side alone names a region of the image ("at the bottom").
        is_contact: The side comes from touching words ("on the target").
        is_implied: An aligned side that "directly" implies of the axis that is not named.
        is_possessive: Of an object, "the player's".
    """

    kind: TokenKind
    name: str = ""
    index: int | None = None
    count: int = 1
    is_new: bool = False
    is_definite: bool = False
    is_member: bool = False
    axis: int = 0
    sign: int = 0
    is_absolute: bool = False
    is_contact: bool = False
    is_implied: bool = False
    is_possessive: bool = False


_SIDES = spread(
    {
        "above up over north top upper higher upward upwards": (0, -1),
        "below under underneath beneath down south bottom lower downward downwards": (0, 1),
        "left west leftward leftwards": (1, -1),
        "right east rightward rightwards": (1, 1),
    }
)
_COMPASS = {f"{vertical}{side}": (vertical, side) for vertical in ("north", "south") for side in ("west", "east")}
_ABSOLUTE = words_of("top upper bottom lower")
_AFTER_ADVERB_RIGHT = words_of("above below under underneath beneath next at on in beside over by now where")
_ALIGNED: dict[str, tuple[int, ...]] = spread(
    {"row": (0,), "column": (1,), "place position location cell square tile spot coordinate": (0, 1)}
)
_ALIGNED_ADVERBS = {"horizontally": 0, "vertically": 1}
_COINCIDE = re.compile(r"(coincid|overlap)(e|es|ed|s|ing|ped|ping)?")
_DIRECTLY = words_of("directly straight due exactly immediately precisely just right squarely perfectly")
_BEFORE_SIDE = words_of("to on at in the my your its 's player agent ahead")
_BEFORE_NOUN_RIGHT = words_of("the my your its to")
_ALMOST = words_of("almost nearly practically virtually")
_BASE_REACH = words_of("reach occupy")
_CLAUSE_ENDS = words_of(". , ; : ! ? and but while whereas")
_MAX_CLAUSE_WORDS = 8
_COPULAS = (
    "is are be was were been being lies lie sits stands standing located positioned situated placed end ends "
    "ending remain remains stay stays become becomes has"
)
_NEGATIONS = words_of("not no never neither nor without none nowhere hardly scarcely barely")
_SMALL_WORDS = spread(
    {
        "it": Token("pronoun"),
        "its": Token("pronoun", is_possessive=True),
        "they them both": Token("pronoun", count=SOME),
        "my your": Token("object", name="player", is_possessive=True),
        "and , or while whereas": Token("and"),
        "but instead rather": Token("but"),
        _COPULAS: Token("copula"),
        "near next adjacent beside close front behind between around toward towards": Token("near"),
        ". ; ! ?": Token("stop"),
        **{word: Token("not", name=word) for word in _NEGATIONS},
    }
)
_ENDS = words_of("end ends ending ended")
_MOVES = re.compile(r"(mov|push|walk|slid|pull|turn|fac|head)(e|es|ed|ing|s)?|go|goes|going|gone|step(ping|ped)")
_REACH = words_of("reach reaches reached reaching occupy occupies occupied")
_CONTACT = words_of("on onto at in into inside") | _REACH
_BE = words_of("is are be was were been being get gets")
_MODALS = words_of("can could must should may might cannot")
_ARTICLES = words_of("the a an this that its his their")
_NEW = words_of("a an another one other second third fourth")
_NUMBERS = {word: number for number, word in enumerate(SMALL_NUMBERS)}
_NUMBER = re.compile(r"[0-9]{1,9}(?:\.[0-9]{1,9})?")
_UNREAD_NUMBERS = words_of(
    "half dozens hundreds thousands million millions billion billions trillion trillions minus negative infinite "
    "infinitely"
)
_BOUNDS = words_of("than but except minus negative half million billion trillion")
_BEFORE_SECOND_NUMBER = words_of("or to")
_BREAKS_PLURAL = words_of("to from with by for than that which where as avoid avoids see sees find finds have has be")
_MAX_ADJECTIVES = 2
_PAIRS = words_of("both couple pair")
_WITHIN_PLURAL = words_of("the these those of other more remaining icy dangerous deadly nearby additional visible")
_DEFINITE = words_of("the these those both")
_MEMBERS = words_of("one another other")
_BEFORE_MEMBER = words_of(f"to on at directly straight due exactly {_COPULAS}")
_UNITS = re.compile(r"(cell|step|square|tile|unit|row|column|block|space|move)s?")
_WORD = re.compile(r"[a-z]{1,24}'t\b|[a-z]{1,24}|[0-9]{1,9}(?:\.[0-9]{1,9})?|'s?\b|[.,;:!?()]|\n\s*\n|\n\s*[-*]")


def tokenize(text: str, vocabulary: ObjectVocabulary) -> list[Token]:
    """Returns the tokens of a text's spatial claims in order, ending with a `stop`; the vocabulary gives the nouns."""
    words = _WORD.findall(rewrite(in_digits(plain_text(text))))
    tokens: list[Token] = []
    position = 0
    while position < len(words):
        position += _read_word(words, position, tokens, vocabulary)
    tokens.append(Token("stop"))
    return _unfold_possessives(tokens)


def _read_word(words: list[str], position: int, tokens: list[Token], vocabulary: ObjectVocabulary) -> int:
    """Appends the tokens of the word at `position`; returns the number of words consumed."""
    word, following = words[position], word_at(words, position + 1)
    if vocabulary.kind_of(word) is not None and not (word in _ALIGNED and word_at(words, position - 1) == "same"):
        return _read_object(words, position, tokens, vocabulary)
    if word == "same" and following in _ALIGNED:
        return _read_same(words, position, tokens)
    if word in _ALIGNED_ADVERBS:
        tokens.append(Token("side", axis=_ALIGNED_ADVERBS[word]))
    elif _is_side(word):
        _read_side(words, position, tokens)
    elif _is_contact(words, position, vocabulary) or _COINCIDE.fullmatch(word):
        tokens.extend(Token("side", axis=axis, is_contact=True) for axis in (0, 1))
    elif word in _MEMBERS and _is_member(following):
        tokens.append(Token("pronoun", is_member=True))
    elif word not in _CONTACT:
        tokens.extend(_small_word(word))
    return 1


def _is_contact(words: list[str], position: int, vocabulary: ObjectVocabulary) -> bool:
    """Returns whether a word puts its subject at its object: "on the target", "the goal is reached"."""
    word, before = words[position], word_at(words, position - 1)
    is_possible = word in _REACH and not _MODALS.isdisjoint(words[max(0, position - 3) : position])
    if word not in _CONTACT or is_possible or _is_almost(words, position):
        return False
    if word == "reached" and before in _BE:
        return True
    # "to reach the goal" is a purpose, "going to reach the goal" a prediction.
    is_purpose = word in _REACH and before == "to" and word_at(words, position - 2) != "going"
    return not is_purpose and _touches_object(words, position, vocabulary)


def _is_almost(words: list[str], position: int) -> bool:
    """Returns whether a word's clause makes it not yet true: "almost at the goal", "about to reach it"."""
    joins = words[position] in _BASE_REACH and word_at(words, position - 1) == "and"  # "about to move and reach"
    first = position - 1 - joins
    for back in range(first, max(-1, first - _MAX_CLAUSE_WORDS), -1):
        word, following = words[back], words[back + 1]
        if word in _CLAUSE_ENDS or word.startswith("\n"):
            return False
        if word in _ALMOST or word == "verge" or (word == "about" and following == "to"):
            return True
    return False


def _is_member(following: str) -> bool:
    return _is_side(following) or following in _BEFORE_MEMBER


def _is_side(word: str) -> bool:
    return word in _SIDES or word in _COMPASS


def _small_word(word: str) -> list[Token]:
    if word.endswith("n't"):
        return [Token("copula"), Token("not", name="not")]
    if word in _SMALL_WORDS:
        return [_SMALL_WORDS[word]]
    if _MOVES.fullmatch(word):
        return [Token("move")]
    return [Token("stop")] if word.startswith("\n") else []


def _read_object(words: list[str], position: int, tokens: list[Token], vocabulary: ObjectVocabulary) -> int:
    number = word_at(words, position + 1)
    # "the box 2 cells to the left" gives a distance, "box 2" a name.
    has_index = number.isdigit() and not _UNITS.fullmatch(word_at(words, position + 2))
    taken = 2 if has_index else 1
    kind = vocabulary.kind_of(words[position]) or FRAME
    is_plural = words[position] not in vocabulary.words and not has_index and kind not in (PLAYER, FRAME)
    is_new = word_at(words, position - 1) in _NEW
    count, is_definite = 1, False
    if kind not in (PLAYER, FRAME) and not has_index:
        count, is_definite = _number_before(words, position, vocabulary)
        is_one = count == 1
        count = count if is_plural or count == 0 else 1
        is_new |= is_plural and is_one
    tokens.append(
        Token(
            "object",
            name=kind,
            index=int(number) if has_index else None,
            count=count,
            is_new=is_new,
            is_definite=is_definite and count != 1,
            is_possessive=word_at(words, position + taken).startswith("'"),
        )
    )
    return taken


def _number_before(words: list[str], position: int, vocabulary: ObjectVocabulary) -> tuple[int, bool]:
    """Returns the count of the noun at `position`, and whether it was mentioned before: (2, True) for "both"."""
    first = _start_of_plural(words, position, vocabulary)
    between, number = words[first:position], word_at(words, first - 1)
    is_further = "other" in between or "more" in between
    is_definite = not is_further and not _DEFINITE.isdisjoint([*between, number, word_at(words, first - 2)])
    if number in _NUMBERS or _NUMBER.fullmatch(number):
        return _exact_count(words, first - 1), is_definite
    if number in _UNREAD_NUMBERS:
        return 0, False
    if number in _PAIRS:
        return 2, is_definite
    if number == "all":
        return ALL, True
    return SOME, not is_further and not _DEFINITE.isdisjoint(between)


def _start_of_plural(words: list[str], position: int, vocabulary: ObjectVocabulary) -> int:
    """Returns where the articles and adjectives before the noun at `position` start."""
    first, num_adjectives = position, 0
    while first > max(0, position - 5):
        word = words[first - 1]
        if word not in _WITHIN_PLURAL:
            num_adjectives += 1
            if num_adjectives > _MAX_ADJECTIVES or not _is_adjective(word, vocabulary):
                break
        first -= 1
    return first


def _is_adjective(word: str, vocabulary: ObjectVocabulary) -> bool:
    """Returns whether a word is unknown to the reader, so that a number before it may count the noun after it."""
    means_something = _small_word(word) or _is_side(word) or word in _CONTACT
    is_number = word in _NUMBERS or word in _PAIRS or word in _UNREAD_NUMBERS or word == "all"
    is_name = vocabulary.kind_of(word) is not None or _UNITS.fullmatch(word)
    return word.isalpha() and not (means_something or is_number or is_name or word in _BREAKS_PLURAL)


def _exact_count(words: list[str], position: int) -> int:
    """Returns the number at `position`, or 0 for a bound or a range: "fewer than two", "two or three"."""
    number, before, second = (word_at(words, position - back) for back in range(3))
    value = int(number) if number.isdigit() else _NUMBERS.get(number, 0)
    other = second if before in _BEFORE_SECOND_NUMBER else before
    is_range = other in _NUMBERS or _NUMBER.fullmatch(other) is not None
    return 0 if before in _BOUNDS or is_range else value


def _read_same(words: list[str], position: int, tokens: list[Token]) -> int:
    """Reads "same row", "same row and column", or "same place"; returns the number of words consumed."""
    axes, taken = _ALIGNED[words[position + 1]], 2
    second = word_at(words, position + 3)
    if word_at(words, position + 2) == "and" and second in _ALIGNED:
        axes, taken = axes + _ALIGNED[second], 4
    tokens.extend(Token("side", axis=axis) for axis in axes)
    return taken


def _read_side(words: list[str], position: int, tokens: list[Token]) -> None:
    word, before, following = words[position], word_at(words, position - 1), word_at(words, position + 1)
    is_adverb = word == "right" and following in _AFTER_ADVERB_RIGHT and before not in _BEFORE_NOUN_RIGHT
    is_end_up = word == "up" and before in _ENDS
    if is_adverb or is_end_up:
        return
    for part in _COMPASS.get(word, (word,)):
        axis, sign = _SIDES[part]
        tokens.append(Token("side", axis=axis, sign=sign, is_absolute=part in _ABSOLUTE))
    if word in _SIDES and _is_direct(words, position):
        tokens.append(Token("side", axis=1 - _SIDES[word][0], is_implied=True))


def _is_direct(words: list[str], position: int) -> bool:
    """Returns whether "directly" belongs to the side at `position`: "directly below", "directly to the left"."""
    position -= 1
    while word_at(words, position) in _BEFORE_SIDE:
        position -= 1
    is_noun = word_at(words, position) == "right" and word_at(words, position - 1) in _BEFORE_NOUN_RIGHT
    return word_at(words, position) in _DIRECTLY and not is_noun


def _touches_object(words: list[str], position: int, vocabulary: ObjectVocabulary) -> bool:
    """Returns whether the next noun is an object: "on the target", but not "on the left" or "in the player's way"."""
    position += 1
    if word_at(words, position) in _ARTICLES:
        position += 1
    noun_kind = vocabulary.kind_of(word_at(words, position))
    after = word_at(words, position + 1)
    return noun_kind not in (None, FRAME) and not after.startswith("'") and after not in _SIDES


def _unfold_possessives(tokens: list[Token]) -> list[Token]:
    """Returns the tokens with "left of the player" for "the player's left"."""
    unfolded: list[Token] = []
    owner: Token | None = None
    for token in tokens:
        if owner is not None and token.kind != "side":
            unfolded.append(owner)
            owner = None
        if token.is_possessive:
            owner = token
        else:
            unfolded.append(token)
    return unfolded


_PLACE = r"(?:position|location|place|spot|cell|square|tile|coordinates?)"
_AT_OR_TO = r"(?:at|in|on|into|onto|inside|to|reach|reaches|reached|occupy|occupies)"
_ARTICLE = r"(?:the|a|an|this|that)"
_END = r"(?=\s{0,3}(?:[.,;!?)]|and\b|but\b|\n|$))"
_TO_THE = r"(?:(?:to|on|at) )?(?:the )?"

_rewrite_phrases = rewriter(
    {
        r"\bon top of\b": "on",
        # The object's location stands for the object.
        rf"\b({_AT_OR_TO}) (?:{_ARTICLE} )?(?:exact |very |same |current )?{_PLACE} of\b": r"\1",
        rf"\b({_AT_OR_TO}) ((?:{_ARTICLE} )?[a-z]{{1,20}}\d{{0,3}})'s? (?:exact |current )?{_PLACE}\b": r"\1 \2",
        rf"\b({_AT_OR_TO}) (?:my|your|our) (?:exact |current )?{_PLACE}\b": r"\1 me",
        rf"\bwhere ((?:{_ARTICLE} )?[a-z]{{1,20}}(?: ?\d{{1,3}})?) (?:is|was|lies|sits|stands|will be)"
        rf"(?: located| now| currently)?{_END}": r"at \1",
        rf"\bwhere (?:i am|you are|we are){_END}": "at me",
        # Arriving is being there.
        rf"\b(?:get|gets|got|come|comes|came|make it|makes it) (?:back )?to (?={_ARTICLE} )": "reach ",
    }
)
_NEITHER = re.compile(
    rf"\bneither {_TO_THE}(above|below|left|right)(?: side)?,? nor {_TO_THE}(above|below|left|right)\b"
)
_SAME_LINE = {
    frozenset({"above", "below"}): "in the same row",
    frozenset({"left", "right"}): "in the same column",
}


def rewrite(text: str) -> str:
    """Returns lower-case text with those phrases rewritten."""
    return _NEITHER.sub(lambda match: _SAME_LINE.get(frozenset(match.groups()), match[0]), _rewrite_phrases(text))
