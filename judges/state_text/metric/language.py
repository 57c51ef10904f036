"""Natural-language text of a table to claims: "the red cube is at (83, -102, 20)".

It reads the world's own sentences exactly, and freely written ones as far as a simple rule carries: a position
belongs to the subject of its clause, or else to the things named before it in their order ("the red and the green
cube are at (…) and (…)"), or else to the next thing named ("at (…) is the red cube"). Where an action is to pick or
place something is no claim ("place it at (…)"), and neither is what is negated. A cube may lie "on the left target" or
"near" it in place of a position. No string makes it raise, and time is linear in its length.
"""

from __future__ import annotations

import re
from dataclasses import replace

from judges.state_text.grid.vocabulary import words_of
from judges.state_text.metric.words import CUBE, DRAWER, MODIFIERS, OPEN, PARTS, TARGET, MetricClaim, Name, noun_of
from judges.state_text.quantities import LENGTH, TRIPLE, length_m, position

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
    """Returns the positions, and how far a drawer stands open, that a text claims, in order; no text raises."""
    reader = _Reader()
    plain = text.lower().replace("\N{RIGHT SINGLE QUOTATION MARK}", "'").replace("_", " ")
    for token in _TOKEN.findall(plain):
        reader.read(token)
    return reader.claims


class _Reader:
    """Reads from left to right, holding names until their position arrives."""

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
        """Takes in the next token."""
        is_part = token in PARTS and self._named[-1:] == [_DRAWER]
        noun = token if is_part and self._is_after_noun else noun_of(token)
        if noun is not None:
            self._read_noun(noun)
        elif token in MODIFIERS:
            self._modifiers[-1].add(token)
        elif token in ("and", ",", "or"):
            # "the red and green cubes" are two things.
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
            self._read_opening(_MM_PER_M * length_m(token))
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
            # What is still held was only named along with what has its position: "the red cube on the target at (…)".
            self._named, self._is_placed = list(names), False
        else:
            self._named += names

    @staticmethod
    def _are_cubes(names: list[Name]) -> bool:
        return bool(names) and all(CUBE in name for name in names)

    def _read_spots(self, spots: list[Name]) -> None:
        """Reads that the subjects lie at targets, in their order, or all at one."""
        is_near = self._preposition in _NEAR
        if len(spots) != len(self._subjects):
            spots = spots[:1] * len(self._subjects)
        if not self._is_acting and not self._is_negated:
            for name, spot in zip(self._subjects, spots, strict=True):
                self.claims.append(MetricClaim(name, spot=spot, is_near=is_near))
                self._spotted = self.claims[-1]
        self._preposition = ""

    def _end_wait(self, names: list[Name]) -> None:
        """Gives the positions that came first to the things they are of."""
        if len(names) != len(self._waiting):
            names = names[:1] * len(self._waiting)
        for name, value in zip(names, self._waiting, strict=True):
            self.claims.append(MetricClaim(name, value))
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
            # "on the left target at (…)": the position of either.
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
