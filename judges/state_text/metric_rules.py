"""Reads and scores text about a table: the position of each named object, in millimeters.

The natural-language reader reads the world's own sentences ("the red cube is at (83, -102, 20)") exactly and free
text by a simple rule: a position belongs to the subject of its clause, or else to the objects named before it in
order ("the red and the green cube are at (…) and (…)"), or else to the next object named ("at (…) is the red
cube"). The position of an action ("place it at (…)") and negated statements claim nothing. Instead of a position,
a cube may lie "on the left target" or "near" it. No string raises an error, and time is linear in its length.

Source: VAGEN, appendix D.1.1, for the state dict of PrimitiveSkill and the tolerance of 10 mm in each of x, y
and z; section 5.1 and D.1.2 for F1 over facts. The paper prints no weights. These choices are ours:

- The drawer's opening has the tolerance of a coordinate.
- A cube is on a target if it rests within the tolerance of the target's center, and near a target if no other target
  is nearer and its center is at most 150 mm away; the paper's state has 127 mm.
- 0.7 for the cubes, 0.3 for all else (targets, the drawer's handle, its opening). In a task with only cubes they get
  the whole weight; the task, never the level, determines which objects there are.
- If there are several objects of a kind, a claim must identify one by name: prompts may list all positions without
  names, and copying that list requires no sight.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from numbers import Real
from typing import Any, TypeVar

from judges.state_text.tally import Part, Tally
from judges.state_text.vocabulary import LENGTH, TRIPLE, first_number, lengths_m, plain_text, position, spread, words_of
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import require, require_at_least

Name = frozenset[str]
"""The words of an object's name in any order, such as {"red", "cube"}; synonyms are replaced, plurals made singular."""

CUBE, TARGET, DRAWER, OPEN = "cube", "target", "drawer", "open"

_NOUNS = spread(
    {
        "cube block box": CUBE,
        "target goal region disc disk circle zone area": TARGET,
        "drawer": DRAWER,
        "handle knob": "handle",
        "cabinet gripper arm robot ball sphere peg apple bowl": "other",
    }
)
PARTS = words_of("inside interior")
"""Words that name only a part of the preceding object: "the drawer inside"."""

MODIFIERS = words_of(
    "red green yellow blue purple orange white black pink brown grey gray cyan magenta left right middle center centre"
)
_NO_NAMES = words_of("position positions pos coordinate coordinates location mm")


@dataclass(frozen=True, slots=True)
class MetricClaim:
    """A text's claim about one object.

    Attributes:
        name: The object's name.
        value: x, y, and z in mm, or one length in mm, such as a drawer's opening. With a `spot`, the position of the
            spot or the object, or empty.
        spot: The name of the target that the object lies at.
        is_near: The object lies near its `spot`, not on it.
    """

    name: Name
    value: tuple[float, ...] = ()
    spot: Name | None = None
    is_near: bool = False


def noun_of(word: str) -> str | None:
    """Returns the kind of object that a lower-case word names, singular or plural, or None."""
    return _NOUNS.get(word) or (_NOUNS.get(word.removesuffix("s")) if len(word) > 3 else None)


def name_of_key(key: str) -> Name:
    """Returns the name in a key of a dict: {"red", "cube"} for `red_cube_position`."""
    words = re.findall("[a-z]+", key.lower())
    return frozenset(noun_of(word) or word for word in words if word not in _NO_NAMES)


def is_key_word(word: str) -> bool:
    """Returns whether a lower-case word may be part of a key with spaces, such as `red cube position`."""
    return noun_of(word) is not None or word in MODIFIERS | PARTS | _NO_NAMES | {OPEN, "held"}


_TOKEN = re.compile(rf"{TRIPLE}|{LENGTH}|[a-z]{{1,24}}n't\b|[a-z]{{1,24}}|[.;!?\n,]")
_LENGTH = re.compile(LENGTH)
_TRIPLE = re.compile(TRIPLE)
_ON = words_of("on onto atop at")
_NEAR = words_of("near close next beside by")
_STOPS = words_of(". ; ! ?") | {"\n"}
_COPULAS = words_of(
    "is are be been was were being lies lie stands rests remains stays sits located situated positioned"
)
_NEGATIONS = words_of("not no never neither nor without")
_ACTION = re.compile(r"(pick|plac|put|push|mov|pull|grasp|grab|drop|stack|align)(e|es|ed|ting|s|ing)?")
_LASTING = re.compile(r"(plac|put|push|mov|pull|drop|stack|align)\w*")
_PARTICIPLE = re.compile(r"\w+ed|put")
_SHUT = words_of("closed shut")
_DRAWER = frozenset({DRAWER})
_OPENING = frozenset({DRAWER, OPEN})
_MM_PER_M = 1000.0


def read_metric_text(text: str) -> list[MetricClaim]:
    """Returns the positions and drawer openings that a text claims, in order; no text raises an error."""
    reader = _Reader()
    for token in _TOKEN.findall(plain_text(text).replace("_", " ")):
        reader.read(token)
    return reader.claims


_Thing = TypeVar("_Thing")


class _Reader:
    """Reads from left to right, keeping names until their position follows."""

    def __init__(self) -> None:
        self.claims: list[MetricClaim] = []
        self._latest: list[Name] = []
        self._begin_sentence()

    def _begin_sentence(self) -> None:
        self._subjects: list[Name] = []
        self._named: list[Name] = []
        self._last: Name | None = None
        self._waiting: list[tuple[float, ...]] = []
        self._modifiers: list[set[str]] = [set()]
        self._preposition = ""
        self._spotted: MetricClaim | None = None
        self._is_placed = self._is_acting = self._is_lasting = self._is_negated = self._is_after_noun = False

    def read(self, token: str) -> None:
        """Processes the next token."""
        is_part = token in PARTS and self._named[-1:] == [_DRAWER]
        noun = token if is_part and self._is_after_noun else noun_of(token)
        if noun is not None:
            self._read_noun(noun)
        elif token in MODIFIERS:
            self._modifiers[-1].add(token)
        elif token in ("and", ",", "or"):
            # "the red and green cubes" are two objects.
            self._modifiers.append(set())
            self._is_negated &= token == "or"
        elif token not in ("the", "a", "an"):
            self._modifiers = [set()]
            is_near_to = token in ("to", "of") and self._preposition in _NEAR
            self._preposition = self._preposition if is_near_to else token if token in _ON | _NEAR else ""
            self._read_other(token)
        self._is_after_noun = noun is not None

    def _read_other(self, token: str) -> None:
        if token in _STOPS:
            self._begin_sentence()
        elif _TRIPLE.fullmatch(token):
            self._read_position(position(token))
        elif _LENGTH.fullmatch(token):
            self._read_opening(_MM_PER_M * lengths_m(token)[0])
        elif token in _SHUT:
            self._read_opening(0.0)
        elif token in _COPULAS or token.endswith("n't"):
            self._is_acting = False
            self._is_negated |= token.endswith("n't")
            self._subjects, self._named = self._named or self._subjects, []
        elif token in _NEGATIONS:
            self._is_negated = True
        elif token == "it":
            self._subjects, self._named = list(self._latest), []
        elif _ACTION.fullmatch(token):
            self._read_action(token)

    def _read_noun(self, noun: str) -> None:
        if self._is_after_noun and self._named:
            names = [self._named.pop() | {noun}]
        else:
            names = [frozenset({*modifiers, noun}) for modifiers in self._modifiers if modifiers]
            names = names or [frozenset({noun})]
        self._modifiers = [set()]
        self._is_acting &= self._is_lasting
        self._latest = names
        if self._spotted is not None and not self._preposition:
            # "The red cube is on the left target, the green cube …" begins another clause.
            self._subjects, self._named, self._spotted = [], [], None
        if self._waiting:
            self._end_wait(names)
        elif self._preposition and noun == TARGET and self._are_cubes(self._subjects):
            self._read_spots(names)
        elif self._is_placed and not self._subjects:
            # Names still pending only described the object at the position: "the red cube on the target at (…)".
            self._named, self._is_placed = list(names), False
        else:
            self._named += names

    @staticmethod
    def _are_cubes(names: list[Name]) -> bool:
        return bool(names) and all(CUBE in name for name in names)

    def _read_spots(self, spots: list[Name]) -> None:
        """Claims that the subjects lie at the targets, in order, or all at one target."""
        is_near = self._preposition in _NEAR
        if not self._is_acting and not self._is_negated:
            for name, spot in _paired(self._subjects, spots):
                self._spotted = MetricClaim(name, spot=spot, is_near=is_near)
                self.claims.append(self._spotted)
        self._preposition = ""

    def _end_wait(self, names: list[Name]) -> None:
        """Assigns pending positions to the objects that follow them."""
        self.claims += [MetricClaim(name, value) for value, name in _paired(self._waiting, names)]
        self._waiting, self._last, self._named = [], None, []

    def _read_action(self, word: str) -> None:
        is_done = _PARTICIPLE.fullmatch(word) and (self._subjects or self._named)
        if not is_done:
            self._is_acting, self._is_lasting = True, _LASTING.fullmatch(word) is not None

    def _read_position(self, value: tuple[float, ...]) -> None:
        if self._subjects:
            self._last, self._named = self._subjects.pop(0), []
        elif self._named:
            self._last = self._named.pop(0)
        self._is_placed = True
        spotted, self._spotted = self._spotted, None
        if spotted is not None and spotted.name == self._last:
            # "on the left target at (…)": the position of the object or the target.
            self.claims[self.claims.index(spotted)] = replace(spotted, value=value)
            return
        if self._is_acting or self._is_negated:
            return
        if self._last is not None:
            self.claims.append(MetricClaim(self._last, value))
        else:
            self._waiting.append(value)

    def _read_opening(self, length_mm: float) -> None:
        is_drawer = [*self._subjects, *self._named][:1] == [_DRAWER]
        if is_drawer and not self._is_acting and not self._is_negated:
            self.claims.append(MetricClaim(_OPENING, (length_mm,)))


def _paired(things: list[_Thing], names: list[Name]) -> Iterator[tuple[_Thing, Name]]:
    """Pairs items with names, or all with the first name if the numbers differ."""
    return zip(things, names if len(names) == len(things) else names[:1] * len(things), strict=True)


# A key has two letters or more, because x, y, and z are coordinates. It may include words before it: `red cube: (…)`.
_KEY = re.compile(r"((?:\b[a-z]{2,20} ){0,4})\b([a-z_][a-z_-]{1,39})[0-9]{0,3}[\"']?\s{0,20}[:=]")


def read_metric_dict(text: str) -> list[MetricClaim]:
    """Returns each position and single number of a dict (Python, JSON, or unquoted), with the name in its key.

    A key without a name, such as `position`, takes that of the preceding key: `{red_cube: {position: …}}`.
    """
    text = text.lower()
    claims = []
    keys = list(_KEY.finditer(text))
    ends = [*(key.start() for key in keys), len(text)][1:]
    name: Name = frozenset()
    for key, end in zip(keys, ends, strict=True):
        name, value = _name_of(key) or name, text[key.end() : end]
        triples = [MetricClaim(name, position(triple)) for triple in _TRIPLE.findall(value)]
        number = None if triples else first_number(value)
        claims += triples if number is None else [MetricClaim(name, (number,))]
    return claims


def _name_of(key: re.Match[str]) -> Name:
    """Returns the name in a key, including the preceding words that may be part of a key."""
    words = key[1].split()
    while words and not all(map(is_key_word, words)):
        del words[0]
    return name_of_key(" ".join([*words, key[2]]))


_ROUNDING_MM = 1e-6
_NEAR_MM = 150.0
_RESTING_MM = 20.0
"""Height of a cube's center above what it rests on."""
_WEIGHTS = 0.7, 0.3
_Truth = Mapping[Name, tuple[float, ...]]


@dataclass(frozen=True, kw_only=True)
class MetricRules:
    """Rules for worlds with named positions in mm in their state, such as PrimitiveSkill.

    Attributes:
        tolerance_mm: Maximum error of a right coordinate or length, in mm.
        representations: Representations that can be read.
    """

    tolerance_mm: float = 10.0
    representations: tuple[Representation, ...] = ("natural_language", "structured")

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a negative tolerance."""
        require_at_least(self, 0, "tolerance_mm")

    def parts(self, text: str, representation: Representation, state: Mapping[str, Any]) -> tuple[Part, ...]:
        """Returns how a text compares with a state; see `judges.state_text.exact_judge.StateTextRules.parts`."""
        truth = _truth_of(state)
        claims = read_metric_dict(text) if representation == "structured" else read_metric_text(text)
        cubes = {name: value for name, value in truth.items() if CUBE in name}
        others = {name: value for name, value in truth.items() if CUBE not in name}
        of_cubes = [claim for claim in claims if CUBE in claim.name]
        of_others = [claim for claim in claims if CUBE not in claim.name]
        cubes_weight, others_weight = _WEIGHTS if cubes and others else (float(bool(cubes)), float(not cubes))
        return (
            Part(name="cubes", weight=cubes_weight, tally=self._tally(of_cubes, cubes, truth)),
            Part(name="others", weight=others_weight, tally=self._tally(of_others, others, truth)),
        )

    def guesses(self, representation: Representation) -> tuple[str, ...]:
        """Returns no texts: no object is at the same position often enough."""
        return ()

    def _tally(self, claims: Sequence[MetricClaim], category: _Truth, truth: _Truth) -> Tally:
        """Counts the claims of one category; claims about absent objects are wrong."""
        by_name: defaultdict[Name | None, set[MetricClaim]] = defaultdict(set)
        for claim in claims:
            by_name[_meant(claim.name, category)].add(claim)
        tallies = [
            Tally.of_one_fact(self._is_right(claim, actual, truth) for claim in by_name[name])
            for name, actual in category.items()
        ]
        unknown = {(claim.name, claim.value, claim.spot) for claim in by_name[None]}
        return Tally(
            num_correct=sum(tally.num_correct for tally in tallies),
            num_claimed=sum(tally.num_claimed for tally in tallies) + len(unknown),
            num_true=len(category),
        )

    def _is_right(self, claim: MetricClaim, actual: tuple[float, ...], truth: _Truth) -> bool:
        is_at_value = len(claim.value) == len(actual) and self._is_within(claim.value, actual)
        if claim.spot is None or is_at_value:
            return is_at_value
        targets = {name: center for name, center in truth.items() if TARGET in name}
        spot = _meant(claim.spot, targets)
        if spot is None or len(actual) != 3:
            return False
        x, y, z = targets[spot]
        if claim.value and not self._is_within(claim.value, (x, y, z)):
            return False
        if not claim.is_near:
            return self._is_within((x, y, z + _RESTING_MM), actual)
        nearest = min(targets.values(), key=lambda center: math.dist(center[:2], actual[:2]))
        return nearest == targets[spot] and math.dist((x, y), actual[:2]) <= _NEAR_MM

    def _is_within(self, claimed: tuple[float, ...], actual: tuple[float, ...]) -> bool:
        # Comparisons with NaN are false, as intended.
        limit = self.tolerance_mm + _ROUNDING_MM
        return all(abs(a - b) <= limit for a, b in zip(claimed, actual, strict=True))


def _meant(claimed: Name, truth: Iterable[Name]) -> Name | None:
    """Returns the object that a name stands for, or None if it is absent or ambiguous."""
    candidates = [name for name in truth if claimed <= name]
    if claimed in candidates:
        return claimed
    return candidates[0] if len(candidates) == 1 else None


def _truth_of(state: Mapping[str, Any]) -> dict[Name, tuple[float, ...]]:
    """Returns the positions and lengths in mm of a state dict; other entries are not scored."""
    truth: dict[Name, tuple[float, ...]] = {}
    for key, value in state.items():
        if isinstance(value, (tuple, list)) and len(value) == 3:
            truth[name_of_key(key)] = tuple(map(float, value))
        elif key.endswith("_mm") and isinstance(value, Real):
            truth[name_of_key(key)] = (float(value),)
    require(
        bool(truth),
        f"Expected a state with positions in mm, got the keys {sorted(state)}. Is this another world's state?",
    )
    return truth
