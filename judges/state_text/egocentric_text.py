"""Reads text about a search through a home: the directions and distances of objects.

The list of names determines which words claim an object that is absent; objects that are present are always known
from the types in the state. Types are compared as letters only, so that `GarbageCan`, "garbage can", and
"garbage_can" are equal.

The natural-language reader reads the world's own sentences exactly and free text by a simple rule: a sentence is
split into segments at commas and conjunctions, and a segment's claims apply to the first object that it names, or
else to the objects before it ("the sofa and the lamp are on the left, 2 m away"), or else to those after it ("to
my left, there is a bin"). "Ahead and to the left" is one combined direction, and "facing the lamp" means that the
lamp is ahead. Directions of movement ("I turn left"), directions from other objects ("left of the sofa", "on the
left side of the image"), and negated statements claim nothing. No string raises an error, and time is linear in
its length.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field

from judges.state_text.vocabulary import (
    LENGTH,
    lengths_m,
    plain_text,
    singulars,
    spell_digits,
    spread,
    word_at,
    words_of,
)

_SYNONYMS = """
    sofa couch settee loveseat
    television tv tvset flatscreen
    garbagecan bin trashcan trashbin garbagebin rubbishbin wastebin wastebasket wastepaperbasket dustbin
    fridge refrigerator
    bathtub tub
    armchair recliner
    cabinet cupboard
    countertop counter worktop
    laptop notebookcomputer
    stove cooker oven stoveburner
    houseplant plant pottedplant
    bookshelf bookcase
    shelf shelvingunit shelving
    statue sculpture figurine
    sink basin washbasin sinkbasin
    wardrobe closet
    nightstand bedsidetable
    toilet lavatory
    rug carpet
    cellphone phone smartphone mobilephone
    remotecontrol tvremote
    teddybear teddy
    mug cup
    dresser chestofdrawers
    laundrybasket hamper laundryhamper
    rubberduck duck
    tablelamp desklamp
    floorlamp standinglamp
    painting artwork
    cushion pillow
"""
_OTHERS = """
    alarmclock apple bag ball banana baseballbat basket basketball bed bench blanket book boot bottle bowl box bread
    brush bucket candle chair clock coffeemachine coffeemaker coffeetable creditcard curtain desk diningtable
    dishwasher dogbed drawer dumbbell egg fan faucet footstool fork globe guitar jar jug kettle keyboard
    keychain knife ladder ladle lamp lettuce lightswitch microwave mirror monitor mug newspaper ottoman pan
    papertowel pen pencil peppershaker piano pitcher plate plunger poster pot potato printer radiator radio
    saltshaker shower showerhead sidetable soap soapbar soapbottle spatula speaker sponge spoon stool suitcase table
    teapot tennisracket tissuebox toaster toiletpaper tomato towel toy tray tvstand umbrella vacuumcleaner vase
    washingmachine wateringcan window winebottle
"""
_SAME_AS = {word: words.split()[0] for words in _SYNONYMS.strip().splitlines() for word in words.split()}
THINGS = frozenset(_SAME_AS) | words_of(_OTHERS)
"""Every known name of an object, as letters only."""


def plain(name: str) -> str:
    """Returns a type or a phrase as lower-case letters only: `garbagecan` for `GarbageCan`."""
    return re.sub("[^a-z]", "", name.lower())


def is_name_of(claimed: str, actual: str) -> bool:
    """Returns whether a plain name fits a plain type: the same word, a synonym, or a more general word.

    "Lamp" fits a desk lamp, but "desk lamp" does not fit a lamp.
    """
    claimed, actual = _SAME_AS.get(claimed, claimed), _SAME_AS.get(actual, actual)
    return claimed == actual or (claimed in THINGS and actual.endswith(claimed))


def known_name(words: Iterable[str], vocabulary: frozenset[str]) -> str | None:
    """Returns the object that the joined words name, singular or plural, or None."""
    joined = "".join(words)
    return next((name for name in singulars(joined) if name in vocabulary), None)


DIRECTIONS: dict[str, str] = spread(
    {
        "ahead forward forwards front frontward frontwards": "ahead",
        "left leftward leftwards": "left",
        "right rightward rightwards": "right",
        "back behind rear backward backwards": "back",
    }
)
"""Word to direction, one of the four that the world's state names."""

DIAGONALS: dict[str, str] = {
    f"{primary}{side}": f"{primary} {side}" for primary in ("ahead", "back") for side in ("left", "right")
}
"""Word to a combined direction, the primary one first; `join_diagonals` writes these words into a text."""

_PRIMARY = r"(ahead|forwards?|in front|front|behind|back|backwards?)"
_SIDE = r"(left|right)(?:[ -](?:hand )?side)?"
_OF_ME = r"(?: (?:of )?(?:me|us|you|the player))?"
_BEFORE_SIDE = r"(?:(?:to|on|at|off to) )?(?:the |my |our |your )?"
_LAST_SIDE = rf", (?={_BEFORE_SIDE}{_SIDE.replace('(left', '(?:left')}\s{{0,3}}(?:[.;!?\n]|$))"
_PRIMARY_FIRST = re.compile(
    rf"\b(?<!slightly )(?:diagonally )?{_PRIMARY}{_OF_ME}(?:-| and | |{_LAST_SIDE}){_BEFORE_SIDE}{_SIDE}\b{_OF_ME}"
)
_SIDE_FIRST = re.compile(
    rf"\b(?<!slightly ){_SIDE}(?: and (?:in )?| ?- ?| (?=front\b))(ahead|forwards?|front|behind|back)\b"
)
_CLAUSE = re.compile(r",? ?(?:is|are|there|stands?|lies?|sits?|i|we|you)\b")
_SENTENCE_START = re.compile(r"(?:^|[.;!?\n:])[\s-]{0,3}(?:(?:to|on|in) )?(?:the |my |our )?$")


def join_diagonals(text: str) -> str:
    """Returns lower-case text with each combined direction as one word: `aheadleft` for "ahead and to the left"."""
    text = _PRIMARY_FIRST.sub(lambda match: _joined(match, match[1], match[2]), text)
    return _SIDE_FIRST.sub(lambda match: _joined(match, match[2], match[1]), text)


def _joined(match: re.Match[str], primary: str, side: str) -> str:
    text = match.string
    starts_clause = _CLAUSE.match(text, match.end()) or _CLAUSE.match(text, match.end() + 1)
    if starts_clause and not _SENTENCE_START.search(text, max(0, match.start() - 20), match.start()):
        # "It is ahead and to the left is a sofa": the second direction leads another clause.
        return match[0]
    return f"{DIRECTIONS[primary.removeprefix('in ')]}{side}"


def directions_in(text: str) -> set[str]:
    """Returns the directions that a short lower-case text names, such as the value of a dict."""
    words = re.findall("[a-z]+", join_diagonals(text))
    return {(DIRECTIONS | DIAGONALS)[word] for word in words if word in DIRECTIONS or word in DIAGONALS}


@dataclass(slots=True)
class ObjectMention:
    """One object that a text mentions.

    Attributes:
        name: Its name, as lower-case letters only; empty if it is only called "the target".
        is_target: Whether it is called the target.
        is_listed: Whether it is in a list of visible objects.
        directions: The directions claimed for it; a combined direction has both parts, the primary one first.
        distances_m: The distances claimed for it, in meters.
    """

    name: str
    is_target: bool = False
    is_listed: bool = False
    directions: set[str] = field(default_factory=set)
    distances_m: set[float] = field(default_factory=set)


_WORD = re.compile(rf"visible[a-z ]{{0,20}}:|{LENGTH}|[a-z]{{1,24}}n't\b|[a-z]{{1,24}}|[.;!?\n,]")
_LIST = "visible:"
_NUMBER_START = re.compile(r"[-+.]?\d|[-+]?(nan|inf)")
_TARGET = words_of("target goal destination")
_CUTS = words_of(", and while whereas but then")
_STOPS = words_of(". ; ! ?") | {"\n"}
_CORRECTION = re.compile(
    r"[.\N{HORIZONTAL ELLIPSIS}!?;:\N{EM DASH}-]{1,5}\s{0,3}(?:or |oh |ah )?"
    r"(?:no|nope|wait|sorry|correction|actually|rather)\b"
    r"(?:[,:.]?\s{1,3}(?:no|wait|sorry|actually|rather|i mean)\b)?[,:.\N{EM DASH}-]{0,3}\s{0,3}"
    r"(?=(?:it(?:'s| is)? )?(?:(?:to|on|in|at) )?(?:the |my |your |our )?"
    rf"(?:directly |straight )?(?:{'|'.join(sorted(DIRECTIONS))})\b)"
)
"""A correction that retracts the preceding sentence: "…, no, behind"."""
_SINGULAR_COPULAS = words_of("is was lies stands sits appears remains stays")
_COPULAS = _SINGULAR_COPULAS | words_of("are be were there")
_MOVES = re.compile(r"(mov|rotat|turn|walk|go|step|straf|fac|look|head)(e|es|ed|ing|s)?|going|went")
_FACING = words_of("facing face")
_BEFORE_FACED = words_of("directly straight right now")
_ALL_DIRECTIONS = DIRECTIONS | DIAGONALS
_NEGATIONS = words_of(
    "not no never nothing neither nor without cannot none nowhere hardly scarcely barely rarely seldom"
)
_NO_LONGER = re.compile(r"(stop|stopp|ceas|quit|avoid|finish)(e|es|ed|s|ing)?|from|of")
_HEDGES = words_of("slightly somewhat bit")
_ARTICLES = words_of("the a an my your its this that our")
_PLAYER = words_of("me you us myself player agent robot camera here current")
_AFTER_ADVERB_RIGHT = words_of("in behind ahead at on there now away beside by above below under before next")
_BEFORE_NOUN_RIGHT = words_of("the my your its to on")
_SIDES = words_of("side hand part")
_FROM = words_of("from of")
_MAX_NAME_WORDS = 3


def read_egocentric_text(text: str, types: Iterable[str]) -> list[ObjectMention]:
    """Returns what a text claims of the target and of the visible objects.

    Args:
        text: Any string.
        types: Types of the objects that are present, as letters only, in addition to the usual ones.

    Returns:
        All mentions, in order; without direction and distance a mention claims nothing.
    """
    vocabulary = THINGS.union(types, _TARGET)
    mentions: list[ObjectMention] = []
    is_list = False
    for words in _sentences(text):
        is_list = is_list or words[:1] == [_LIST]
        segments = [_Segment(part, vocabulary) for part in _cut(words)]
        _Sentence(mentions).join(segments)
        for segment in segments:
            if segment.thing is not None:
                segment.thing.is_listed = is_list
    return mentions


def _sentences(text: str) -> Iterator[list[str]]:
    plain = spell_digits(plain_text(text).replace("_", " "))
    words: list[str] = []
    for word in _WORD.findall(join_diagonals(_CORRECTION.sub(", ", plain))):
        is_list = word.endswith(":")
        if is_list or word in _STOPS:
            yield words
            words = [_LIST] if is_list else []
        else:
            words.append(word)
    yield words


def _cut(words: list[str]) -> list[list[str]]:
    return [list(part) for is_cut, part in itertools.groupby(words, key=_CUTS.__contains__) if not is_cut]


class _Segment:
    """A part of a sentence between two cuts, read from left to right.

    Attributes:
        thing: The first object named.
        is_about_it: Whether a pronoun refers to the object mentioned last.
        is_alone: Whether a singular verb follows the object.
        directions: Directions from the player.
        leads: Whether the directions precede the object, or there is no object.
        distances_m: Distances from the player.
        is_negated: Whether it claims nothing.
    """

    def __init__(self, words: list[str], vocabulary: frozenset[str]) -> None:
        self._words, self._vocabulary = words, vocabulary
        self.thing: ObjectMention | None = None
        self.directions: set[str] = set()
        self.distances_m: set[float] = set()
        self.is_about_it = self.is_alone = self.leads = self.is_negated = self._is_moving = False
        position = 0
        while position < len(words):
            position += self._read_word(position)

    @property
    def says_something(self) -> bool:
        """Whether it contains a direction or a distance."""
        return bool(self.directions or self.distances_m)

    def _read_word(self, position: int) -> int:
        """Reads the words at `position`; returns the number of words consumed."""
        word, name = self._words[position], self._name_at(position)
        if name is not None:
            self._read_name(name[0])
            return name[1]
        if _NUMBER_START.match(word):
            return self._read_length(position)
        if word in _ALL_DIRECTIONS:
            return self._read_direction(position)
        if word in _FACING and self._faces_a_thing(position):
            self.directions.add("ahead")
            return 1
        self._read_small_word(word)
        return 1

    def _faces_a_thing(self, position: int) -> bool:
        """Returns whether "facing" at `position` means that the player faces an object now."""
        before = word_at(self._words, position - 1)
        is_other = before == "to" or _NO_LONGER.fullmatch(before) is not None
        thing = self._skip(self._skip(position + 1, _BEFORE_FACED), _ARTICLES)
        is_player = self.thing is None and not self.is_about_it
        return is_player and not is_other and thing < len(self._words) and self._name_at(thing) is not None

    def _name_at(self, position: int) -> tuple[str, int] | None:
        """Returns the longest name at a position and its number of words."""
        for length in range(_MAX_NAME_WORDS, 0, -1):
            name = known_name(self._words[position : position + length], self._vocabulary)
            if name is not None:
                return name, length
        return None

    def _read_name(self, name: str) -> None:
        self._is_moving = False
        if self.thing is None:
            is_target = name in _TARGET
            self.thing = ObjectMention("" if is_target else name, is_target=is_target)

    def _read_small_word(self, word: str) -> None:
        if word in _COPULAS:
            self._is_moving = False
            self.is_alone |= word in _SINGULAR_COPULAS and self.thing is not None
        elif _MOVES.fullmatch(word):
            self._is_moving = True
        elif word in _NEGATIONS or word.endswith("n't"):
            self.is_negated = True
        elif word == "it":
            self._is_moving, self.is_about_it = False, True

    def _read_length(self, position: int) -> int:
        after = self._skip(position + 1, frozenset({"away"}))
        anchor = self._other_thing_after(after, _FROM)
        is_of_this = self.thing is None and "it" not in self._words[after:anchor]
        if anchor is not None and not is_of_this:
            return anchor - position
        if not self._is_moving:
            self.distances_m.update(lengths_m(self._words[position])[:1])
        return 1

    def _read_direction(self, position: int) -> int:
        word, following = self._words[position], self._words[position + 1 : position + 2]
        is_noun = not _BEFORE_NOUN_RIGHT.isdisjoint(self._words[max(0, position - 1) : position])
        is_adverb = word == "right" and not is_noun and not _AFTER_ADVERB_RIGHT.isdisjoint(following)
        is_hedged = not _HEDGES.isdisjoint(self._words[max(0, position - 3) : position])
        anchor = self._other_thing_after(self._skip(position + 1, _SIDES), _FROM)
        if anchor is None and word == "behind":
            anchor = self._other_thing_after(position, frozenset({"behind"}))
        if anchor is not None:
            return anchor - position
        if not is_adverb and not is_hedged and not self._is_moving:
            self.directions.add(_ALL_DIRECTIONS[word])
            self.leads |= self.thing is None
        return 1

    def _skip(self, position: int, words: frozenset[str]) -> int:
        while position < len(self._words) and self._words[position] in words:
            position += 1
        return position

    def _other_thing_after(self, position: int, prepositions: frozenset[str]) -> int | None:
        """Returns where "of the sofa" ends, if a preposition stands at `position` and its object is not the player."""
        start = self._skip(position, prepositions)
        noun = self._skip(start, _ARTICLES)
        if start == position or noun == len(self._words) or self._words[noun] in _PLAYER:
            return None
        name = self._name_at(noun)
        if name is not None:
            return noun + name[1]
        return noun + 1 if noun > start or self._words[noun] == "it" else None


class _Sentence:
    """Assigns the directions and distances in one sentence's segments to the objects they apply to."""

    def __init__(self, mentions: list[ObjectMention]) -> None:
        self._mentions = mentions
        self._subjects: list[ObjectMention] = []
        self._leading: set[str] = set()
        self._is_open = False

    def join(self, segments: Sequence[_Segment]) -> None:
        """Adds the objects of a sentence to the mentions, with their directions and distances."""
        for segment, following in itertools.zip_longest(segments, segments[1:]):
            if segment.thing is not None:
                self._read_thing(segment.thing, segment)
            else:
                self._read_attributes(segment, following)

    def _read_thing(self, thing: ObjectMention, segment: _Segment) -> None:
        """Reads a segment that names an object: its own directions, or leading ones, or those still to come."""
        self._mentions.append(thing)
        if segment.is_negated:
            self._subjects, self._leading, self._is_open = [thing], set(), False
            return
        is_one_of_several = self._is_open and not segment.is_alone
        self._subjects = [*self._subjects, thing] if is_one_of_several else [thing]
        self._is_open = not (segment.says_something or self._leading)
        if segment.directions:
            self._leading = segment.directions if segment.leads else set()
        self._say(segment.directions or self._leading, segment.distances_m)

    def _read_attributes(self, segment: _Segment, following: _Segment | None) -> None:
        """Reads a segment that names no object: it applies to earlier objects, or else to those that follow."""
        if segment.is_about_it and self._mentions:
            self._subjects, self._is_open = self._mentions[-1:], False
        if segment.is_negated or not segment.says_something:
            return
        is_lead_awaited = following is not None and following.thing is not None and not following.directions
        if segment.directions and is_lead_awaited and all(subject.directions for subject in self._subjects):
            self._leading = segment.directions
        else:
            self._say(segment.directions, segment.distances_m)
            self._is_open = False

    def _say(self, directions: set[str], distances_m: set[float]) -> None:
        for subject in self._subjects:
            subject.directions |= directions
            subject.distances_m |= distances_m


_TOKEN = re.compile(r"[{}]|\b([a-z_]{1,40})[\"']?\s{0,20}[:=]\s{0,20}([^,;{}\[\]:=\n]{0,60})")


def read_egocentric_dict(text: str) -> list[ObjectMention]:
    """Returns a dict's claims about the target and the visible objects.

    Keys may be quoted, shortened, and in any order: a key that contains "target" is about the target, "direction" and
    "distance" give these values, and "type", "name", or "object" gives the type. No string raises an error, and time is
    linear in its length.

    Returns:
        The target, if there is a claim about it, and every other object.
    """
    target, objects = ObjectMention("", is_target=True), [ObjectMention("", is_listed=True)]
    for token in _TOKEN.finditer(text.lower()):
        key, value = token[1], token[2]
        if key is None:
            objects.append(ObjectMention("", is_listed=True))
        elif "target" in key:
            _read_field(target, key, value)
        else:
            if _is_type(key) and objects[-1].name:
                objects.append(ObjectMention("", is_listed=True))
            _read_field(objects[-1], key, value)
    return [target, *(mention for mention in objects if mention.name)]


def _is_type(key: str) -> bool:
    return any(word in key for word in ("type", "name", "object"))


def _read_field(mention: ObjectMention, key: str, value: str) -> None:
    if "direction" in key:
        mention.directions |= directions_in(value)
    elif "distance" in key:
        mention.distances_m.update(lengths_m(value)[:1])
    elif _is_type(key):
        mention.name = plain(value)
