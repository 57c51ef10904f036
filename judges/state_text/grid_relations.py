"""Facts of a grid: the relative sides and the cells of objects, and the count of right claims.

Relative facts give the side of one object relative to another: "box0 is above and to the left of the player" is
two facts, one per axis. An aligned axis ("at the same row") is also a fact, because the worlds' own text states it.

Absolute facts give the cell of each object and are read from structured and symbolic state text. Both readers accept
any string, in time linear in its length, and never raise an error: unreadable text claims nothing. The grid's size
and walls are not scored, because they are the same in every state of a level.
"""

from __future__ import annotations

import itertools
import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from judges.state_text.tally import Tally, best_matching
from judges.state_text.vocabulary import PLAYER, Cell, ObjectVocabulary, cells_at

Name = tuple[str, int]
"""An object as a text identifies it: its kind, and its index in order of introduction."""

Sides = dict[tuple[Name, int], set[int]]
"""Signs claimed for an object relative to others, by the other object and the axis: 0 vertical, 1 horizontal.

The signs are -1 for above or left, 1 for below or right, and 0 for aligned.
"""

THE_PLAYER: Name = (PLAYER, 0)
SOME, ALL = -1, -2
"""Counts for a plural without a number ("there are holes") and for all objects of a kind ("all holes")."""

_MAX_COUNT = 20
_MAX_PAIRINGS = 120
_CountMatrix = npt.NDArray[np.int64]

Pairing = dict[Name, Cell]

CellsByKind = defaultdict[str, set[Cell]]

# A key is a whole word, with or without quotes; four digits bound the integers that are converted.
_KEY = re.compile(r"\b([a-z_]{1,40})[0-9]{0,3}[\"']?\s{0,20}[:=]")
_CELL = re.compile(r"[(\[]\s{0,20}(-?[0-9]{1,4})\s{0,20},\s{0,20}(-?[0-9]{1,4})\s{0,20}[)\]]")
_DECORATION = str.maketrans("", "", " \t\r,|'\"[]`")


@dataclass(slots=True)
class RelationClaims:
    """The relations that a text claims between the objects of a world.

    Attributes:
        vocabulary: Decides which pairs are facts; other pairs are dropped, because they are neither right nor wrong.
        by_object: The sides claimed for each object or group of objects relative to others.
        counts: The number of objects in each group, or `SOME` or `ALL`.
        denied: The sides denied for single objects; a wrong denial is a wrong claim.
        num_excess: By kind, the facts that plurals claim beyond the objects they stand for.
    """

    vocabulary: ObjectVocabulary
    by_object: dict[Name, Sides] = field(default_factory=dict)
    counts: dict[Name, int] = field(default_factory=dict)
    denied: dict[Name, Sides] = field(default_factory=dict)
    num_excess: dict[str, int] = field(default_factory=dict)

    def add(self, subject: Name, anchor: Name, axis: int, sign: int) -> None:
        """Claims that `subject` lies on side `sign` of `anchor` along `axis` (0 vertical, 1 horizontal)."""
        self._note(self.by_object, subject, anchor, axis, sign)

    def deny(self, subject: Name, anchor: Name, axis: int, sign: int) -> None:
        """Claims the opposite of `add`."""
        if subject not in self.counts and anchor not in self.counts:
            self._note(self.denied, subject, anchor, axis, sign)

    def _note(self, noted: dict[Name, Sides], subject: Name, anchor: Name, axis: int, sign: int) -> None:
        if self.vocabulary.is_scored(anchor[0], subject[0]):
            subject, anchor, sign = anchor, subject, -sign
        elif not self.vocabulary.is_scored(subject[0], anchor[0]):
            return
        noted.setdefault(subject, {}).setdefault((anchor, axis), set()).add(sign)

    def take_member(self, group: Name, member: Name) -> None:
        """Separates one object from a group; a group without a number then has no objects left."""
        self.by_object[member] = {relation: set(signs) for relation, signs in self.by_object.get(group, {}).items()}
        self.counts[group] = max(0, self.counts.get(group, 0) - 1)

    def expanded(self, cells: Mapping[str, tuple[Cell, ...]]) -> RelationClaims:
        """Returns the same claims with each group replaced by single objects.

        A plural without a number claims as many objects as really lie on its sides of the player, but at least two.
        If there is only one, the second is in excess: it counts as claimed but does not cancel a right claim.
        """
        if not self.counts:
            return self
        names = self._names() | self.counts.keys()
        expanded = RelationClaims(self.vocabulary)
        copies: dict[Name, list[Name]] = {}
        num_named: dict[str, int] = {}
        for name in sorted(names):
            count = self._count(name, cells)
            start = num_named.get(name[0], 0)
            copies[name] = [(name[0], start + copy) for copy in range(count)] if name != THE_PLAYER else [name]
            num_named[name[0]] = start + count
            if count == 1 and self.counts.get(name) == SOME:
                num_facts = _num_facts(self.by_object[name])
                expanded.num_excess[name[0]] = expanded.num_excess.get(name[0], 0) + num_facts
        for subject, sides in self.by_object.items():
            for copy in copies[subject]:
                expanded.by_object[copy] = {
                    (anchor_copy, axis): signs
                    for (anchor, axis), signs in sides.items()
                    for anchor_copy in copies[anchor]
                }
        return expanded

    def _count(self, name: Name, cells: Mapping[str, tuple[Cell, ...]]) -> int:
        """Returns the number of objects that a name stands for; 1 for a plural without a number if only one matches."""
        count = self.counts.get(name, 1)
        if count == ALL:
            return len(cells[name[0]])
        if count != SOME:
            return min(count, _MAX_COUNT)
        all_sides = self.by_object.get(name, {}).items()
        sides = {relation: signs for relation, signs in all_sides if relation[0] == THE_PLAYER}
        num_sides = _num_facts(sides)
        player = {THE_PLAYER: cells[PLAYER][0]}
        num_lying = sum(_correct_sides(sides, cell, player).said == num_sides for cell in cells[name[0]])
        return num_lying if num_sides and num_lying else 2

    def num_denied_wrongly(self, cells: Mapping[str, tuple[Cell, ...]]) -> Counter[str]:
        """Returns, for each kind, the number of true sides that are denied; counts only single objects of a kind."""
        numbers: Counter[str] = Counter()
        for subject, sides in self.denied.items():
            for (anchor, axis), signs in sides.items():
                if subject in self.by_object and len(cells[subject[0]]) == len(cells[anchor[0]]) == 1:
                    (cell,), (origin,) = cells[subject[0]], cells[anchor[0]]
                    numbers[subject[0]] += _sign(cell[axis] - origin[axis]) in signs
        return numbers

    def of_kind(self, kind: str) -> list[Sides]:
        """Returns the claims about each object of a kind, in order of introduction."""
        return [self.by_object[name] for name in sorted(self.by_object) if name[0] == kind]

    def names_of_kind(self, kind: str) -> list[Name]:
        """Returns every named object of a kind, on either side of a relation."""
        return sorted(name for name in self._names() if name[0] == kind)

    def _names(self) -> set[Name]:
        return {*self.by_object, *(anchor for sides in self.by_object.values() for anchor, _ in sides)}


def _num_facts(sides: Sides) -> int:
    return sum(map(len, sides.values()))


def tally_relations(claims: RelationClaims, state: Mapping[str, Any], vocabulary: ObjectVocabulary) -> dict[str, Tally]:
    """Compares claimed relations with a state, using the best pairing of named with real objects.

    Names are free: "box0" may be any box, if it is the same box throughout. The pairing has the highest weighted score,
    found exactly by the Hungarian method for every pairing of the objects that others refer to. If there are more than
    120 such pairings (such as five boxes against six), only the order of introduction and the Hungarian pairing of the
    objects referred to are tried.

    Two signs claimed for a pair on one axis contradict each other: both count as claimed, neither as correct, so
    listing every direction earns nothing. If one axis is right and the other is aligned but not mentioned, the other
    counts as right, too: "the goal is below" fully describes a goal straight below.

    Args:
        claims: The text's claims about objects, by their names in the text.
        state: The true state.
        vocabulary: The world's kinds of objects: their keys in the state, and the pairs that are facts.

    Returns:
        A tally for each category's name, in facts (one axis of a pair).

    Raises:
        ValueError: The state is from another world.
    """
    cells = {c.kind: cells_at(state, c.state_key) for c in vocabulary.categories}
    cells[PLAYER] = cells_at(state, "player_position")
    num_denied = claims.num_denied_wrongly(cells)
    claims = claims.expanded(cells)
    num_true, num_claimed, share = {}, {}, {}
    for c in vocabulary.categories:
        num_true[c.name] = 2 * len(cells[c.kind]) * sum(len(cells[anchor]) for anchor in c.relative_to)
        num_claimed[c.name] = sum(map(_num_facts, claims.of_kind(c.kind))) + num_denied[c.kind]
        share[c.name] = c.weight / max(1, num_true[c.name] + num_claimed[c.name])
    pairings = _pairings(claims, cells, vocabulary)
    counts = (_num_correct(claims, cells, vocabulary, pairing) for pairing in pairings)
    best = max(counts, key=lambda count: sum(share[name] * sum(number) for name, number in count.items()))
    return {
        c.name: Tally(
            num_correct=best[c.name].said,
            num_claimed=num_claimed[c.name] + claims.num_excess.get(c.kind, 0),
            num_true=num_true[c.name],
            num_implied=best[c.name].unsaid,
            num_excess=claims.num_excess.get(c.kind, 0),
        )
        for c in vocabulary.categories
    }


class _Correct(NamedTuple):
    """Number of right facts: those claimed, and aligned axes that are not mentioned."""

    said: int
    unsaid: int


def _pairings(
    claims: RelationClaims, cells: Mapping[str, tuple[Cell, ...]], vocabulary: ObjectVocabulary
) -> Iterator[Pairing]:
    """Yields assignments of real cells to the player and to every named object that others are described against."""
    anchor_kinds = sorted({kind for c in vocabulary.categories for kind in c.relative_to} - {PLAYER})
    choices = [list(_assignments(claims, kind, cells)) for kind in anchor_kinds]
    for chosen in itertools.product(*choices):
        yield dict(itertools.chain([(THE_PLAYER, cells[PLAYER][0])], *(part.items() for part in chosen)))


def _assignments(claims: RelationClaims, kind: str, cells: Mapping[str, tuple[Cell, ...]]) -> Iterator[Pairing]:
    names, real = claims.names_of_kind(kind), cells[kind]
    fewer, more = sorted((len(names), len(real)))
    if math.perm(more, fewer) > _MAX_PAIRINGS:
        pairing = {THE_PLAYER: cells[PLAYER][0]}
        matrix = _correct_matrix([claims.by_object.get(name, {}) for name in names], real, pairing)
        yield dict(zip(names, real, strict=False))
        yield {names[row]: real[column] for row, column in best_matching(matrix)}
    elif len(names) <= len(real):
        for order in itertools.permutations(real, len(names)):
            yield dict(zip(names, order, strict=True))
    else:
        for subset in itertools.permutations(names, len(real)):
            yield dict(zip(subset, real, strict=True))


def _num_correct(
    claims: RelationClaims, cells: Mapping[str, tuple[Cell, ...]], vocabulary: ObjectVocabulary, pairing: Pairing
) -> dict[str, _Correct]:
    counts = {}
    for category in vocabulary.categories:
        if any(category.kind in other.relative_to for other in vocabulary.categories):
            counts[category.name] = _total(
                _correct_sides(claims.by_object.get(name, {}), cell, pairing)
                for name, cell in pairing.items()
                if name[0] == category.kind
            )
        else:
            counts[category.name] = _best_total(claims.of_kind(category.kind), cells[category.kind], pairing)
    return counts


def _total(counts: Iterable[_Correct]) -> _Correct:
    said, unsaid = 0, 0
    for count in counts:
        said, unsaid = said + count.said, unsaid + count.unsaid
    return _Correct(said, unsaid)


def _correct_matrix(claimed: list[Sides], real: tuple[Cell, ...], pairing: Pairing) -> _CountMatrix:
    """Returns the number of correct facts for each pair of a named and a real object: int [num_named, num_real]."""
    counts = [[sum(_correct_sides(sides, cell, pairing)) for cell in real] for sides in claimed]
    return np.array(counts, dtype=np.int64).reshape(len(claimed), len(real))


def _best_total(claimed: list[Sides], real: tuple[Cell, ...], pairing: Pairing) -> _Correct:
    """Returns the right facts of the named objects under the best pairing with distinct real objects."""
    if not claimed or not real:
        return _Correct(0, 0)
    matrix = _correct_matrix(claimed, real, pairing)
    # A single row or column, the usual case in training, needs no assignment solver.
    is_single = min(matrix.shape) == 1
    pairs = [divmod(int(matrix.argmax()), len(real))] if is_single else best_matching(matrix)
    return _total(_correct_sides(claimed[row], real[column], pairing) for row, column in pairs)


def _correct_sides(sides: Sides, cell: Cell, pairing: Pairing) -> _Correct:
    said, unsaid = 0, 0
    for (anchor, axis), signs in sides.items():
        if anchor in pairing:
            true, other = _sign(cell[axis] - pairing[anchor][axis]), 1 - axis
            if signs == {true}:
                said += 1
                # A side implies that the other axis is aligned; being in one row implies nothing about the column.
                is_aligned = cell[other] == pairing[anchor][other]
                unsaid += bool(true) and is_aligned and (anchor, other) not in sides
    return _Correct(said, unsaid)


def _sign(number: int) -> int:
    return (number > 0) - (number < 0)


def read_structured(text: str, vocabulary: ObjectVocabulary) -> CellsByKind:
    """Returns the cells of `{player_position: (4, 2), box_positions: [(3, 2)], …}`, or the same as Python or JSON.

    Args:
        text: Any string.
        vocabulary: Gives the words that keys are made of; unknown keys are skipped.

    Returns:
        Every cell claimed for each kind, over the whole text.
    """
    text = text.lower()
    claims: CellsByKind = defaultdict(set)
    keys = list(_KEY.finditer(text))
    ends = [*(key.start() for key in keys), len(text)][1:]
    for key, end in zip(keys, ends, strict=True):
        kind = vocabulary.kind_of(re.sub(r"_?(positions?|pos|coordinates?)$", "", key[1]))
        if kind is not None:
            cells = _CELL.finditer(text, key.end(), end)
            claims[kind].update((int(cell[1]), int(cell[2])) for cell in cells)
    return claims


def read_symbolic(text: str, vocabulary: ObjectVocabulary) -> CellsByKind:
    r"""Returns the cells of rows of symbols; lines that hold anything else are prose and end a grid.

    Args:
        text: Any string; symbols may be spaced out, quoted or fenced, and `\\n` may be written out.
        vocabulary: Gives the symbols.

    Returns:
        Every cell claimed for each kind; a second grid's rows count from zero again.
    """
    claims: CellsByKind = defaultdict(set)
    for row, line in _grid_rows(text.replace("\\n", "\n"), vocabulary.symbols):
        for column, symbol in enumerate(line):
            for kind in vocabulary.symbols[symbol]:
                claims[kind].add((row, column))
    return claims


def _grid_rows(text: str, symbols: Mapping[str, Sequence[str]]) -> Iterator[tuple[int, str]]:
    row = 0
    for line in text.split("\n"):
        symbols_only = line.translate(_DECORATION)
        # A single symbol is more often a stray letter or a bullet than a grid one cell wide.
        if len(symbols_only) > 1 and symbols.keys() >= set(symbols_only):
            yield row, symbols_only
            row += 1
        else:
            row = 0


def tally_cells(claims: CellsByKind, state: Mapping[str, Any], vocabulary: ObjectVocabulary) -> dict[str, Tally]:
    """Compares claimed cells with a state and returns a tally for each category's name.

    The player's cell is a fact of every category, so misplacing the player lowers each of them. Two cells
    claimed for the player contradict each other: both count as claimed, neither as correct. Objects of a kind are
    interchangeable and a cell is either right or wrong, so the best matching is the set intersection.

    Args:
        claims: The cells that the text claims for each kind of object, and for the player.
        state: The true state.
        vocabulary: The world's kinds of objects and their keys in the state.

    Raises:
        ConfigError: The state is from another world.
    """
    true_player, players = set(cells_at(state, "player_position")), claims[PLAYER]
    tallies = {}
    for category in vocabulary.categories:
        true_cells, claimed_cells = set(cells_at(state, category.state_key)), claims[category.kind]
        tallies[category.name] = Tally(
            num_correct=len(true_cells & claimed_cells) + int(players == true_player),
            num_claimed=len(claimed_cells) + len(players),
            num_true=len(true_cells) + len(true_player),
        )
    return tallies
