"""Levels of grid worlds: directions, levels drawn as text, spatial relations, and shared rules.

Level text comes from a person or a file, so every error is reported with its position and a fix. Agents
describe spatial relations and judges parse the descriptions; both use `RELATION_PHRASES`.
"""

from __future__ import annotations

from abc import abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from enum import IntEnum
from typing import ClassVar, NamedTuple, Protocol, Self, TypeVar

import numpy as np

from vlm_envs.errors import GenerationError, LevelError
from vlm_envs.parts import Dynamics
from vlm_envs.splits import split_of
from vlm_envs.validation import require, require_positive

Cell = tuple[int, int]
"""A grid position as (row, column), counted from the top left."""


class Direction(IntEnum):
    """One move on the grid; its value is the action number, in the order in which worlds list their actions."""

    UP = 0
    DOWN = 1
    LEFT = 2
    RIGHT = 3

    @property
    def delta(self) -> Cell:
        """Change of (row, column) by one move."""
        return _DELTAS[self]

    @property
    def title(self) -> str:
        """The action's name as an agent writes it, e.g. `"Up"`."""
        return self.name.capitalize()

    def from_cell(self, cell: Cell) -> Cell:
        """Returns the neighbor of `cell` in this direction."""
        row_change, column_change = _DELTAS[self]
        return cell[0] + row_change, cell[1] + column_change


_DELTAS: tuple[Cell, ...] = ((-1, 0), (1, 0), (0, -1), (0, 1))


def parse_rows(level: str | Sequence[str], symbols: Mapping[str, str]) -> tuple[str, ...]:
    """Parses a rectangular level that uses only known symbols; returns its rows, at least one.

    Blank lines around the level and white space around a row are removed.

    Raises:
        LevelError: If the level is empty or ragged, or contains an unknown symbol.
    """
    lines = level.strip().split("\n") if isinstance(level, str) else list(level)
    rows = tuple(line.strip() for line in lines)
    if not rows or not rows[0]:
        raise LevelError(f"A level needs at least one row; got {level!r}. Draw it with: {_legend(symbols)}.")
    for index, row in enumerate(rows):
        if len(row) != len(rows[0]):
            raise LevelError(
                f"All rows of a level must be equally long: row 0 has {len(rows[0])} symbols, "
                f"row {index} ({row!r}) has {len(row)}. Pad the shorter ones."
            )
    for cell in cells_of(rows):
        symbol = rows[cell[0]][cell[1]]
        if symbol not in symbols:
            raise LevelError(f"Unknown symbol {symbol!r} at (row, column) {cell}. Use: {_legend(symbols)}.")
    return rows


def find_symbols(rows: Sequence[str], symbols: str) -> tuple[Cell, ...]:
    """Returns the cells that contain one of `symbols`, in reading order."""
    return tuple(cell for cell in cells_of(rows) if rows[cell[0]][cell[1]] in symbols)


def find_single(rows: Sequence[str], symbols: str, what: str) -> Cell:
    """Returns the only cell that contains one of `symbols`.

    Raises:
        LevelError: If there is not exactly one such cell; the message names `what`.
    """
    cells = find_symbols(rows, symbols)
    if len(cells) != 1:
        drawn_as = " or ".join(repr(symbol) for symbol in symbols)
        raise LevelError(f"A level needs exactly one {what} ({drawn_as}); got {len(cells)}: {list(cells)}.")
    return cells[0]


def cells_of(rows: Sequence[str]) -> list[Cell]:
    """Returns every (row, column) of a rectangular level in reading order."""
    return [(row, column) for row in range(len(rows)) for column in range(len(rows[row]))]


def _legend(symbols: Mapping[str, str]) -> str:
    return ", ".join(f"{symbol} {meaning}" for symbol, meaning in symbols.items())


class GridState(Protocol):
    """An immutable level at one moment."""

    @property
    def player(self) -> Cell:
        """(row, column) of the player."""

    def level_text(self) -> str:
        """Returns the level as rows of symbols joined by newlines; equal states give equal text."""

    def move(self, direction: Direction) -> Self:
        """Returns the level after one move, or the same object if nothing moves."""


GridStateT = TypeVar("GridStateT", bound=GridState)
StateT = TypeVar("StateT")


ActionT = TypeVar("ActionT")


def descend(
    state: StateT,
    cost_to_go: Callable[[StateT], int | None],
    successors: Callable[[StateT], Iterable[tuple[ActionT, StateT]]],
) -> tuple[ActionT, ...] | None:
    """Returns a shortest solution; ties go to the first successor.

    Args:
        state: The start state.
        cost_to_go: Returns the fewest remaining actions from a state, or None if there is no solution.
        successors: Returns the possible actions in a state, and the resulting states.
    """
    cost = cost_to_go(state)
    if cost is None:
        return None
    actions: list[ActionT] = []
    while cost > 0:
        cost -= 1
        action, state = next(pair for pair in successors(state) if cost_to_go(pair[1]) == cost)
        actions.append(action)
    return tuple(actions)


def moves_of(state: GridStateT) -> Iterable[tuple[int, GridStateT]]:
    """Returns the moves on a grid by number, and the resulting states."""
    return ((int(direction), state.move(direction)) for direction in Direction)


def walk_distances(walls: bytes | bytearray, num_cols: int, start: int, occupied: frozenset[int]) -> list[int]:
    """Returns the number of moves to each flat cell (row * num_cols + column) from a start, -1 for no path.

    Args:
        walls: One byte per cell; 1 is a wall. The border is all walls.
        num_cols: Width in cells.
        start: The start cell.
        occupied: Other blocked cells.
    """
    distances = [-1] * len(walls)
    distances[start] = 0
    frontier = deque([start])
    while frontier:
        cell = frontier.popleft()
        for step in (-num_cols, num_cols, -1, 1):
            neighbor = cell + step
            if distances[neighbor] < 0 and not walls[neighbor] and neighbor not in occupied:
                distances[neighbor] = distances[cell] + 1
                frontier.append(neighbor)
    return distances


class Relation(NamedTuple):
    """The position of `subject` relative to `object`.

    Attributes:
        subject: Name of the thing described, as written in the sentence, e.g. `"box0"`.
        vertical: -1 if the subject is above the object, 0 in the same row, 1 below.
        horizontal: -1 if the subject is to the left of the object, 0 in the same column, 1 to the right.
        object: Name of the thing it is compared with, e.g. `"the player"`.
    """

    subject: str
    vertical: int
    horizontal: int
    object: str


RELATION_PHRASES: Mapping[tuple[int, int], str] = {
    (-1, -1): "above and to the left of",
    (-1, 0): "above and at the same column as",
    (-1, 1): "above and to the right of",
    (0, -1): "at the same row and to the left of",
    (0, 0): "at the same place as",
    (0, 1): "at the same row and to the right of",
    (1, -1): "below and to the left of",
    (1, 0): "below and at the same column as",
    (1, 1): "below and to the right of",
}
"""The phrase for each (vertical, horizontal) pair of signs.

Source: VAGEN, Appendix C and the state texts of the visual-reasoning judge. Deviation: diagonal phrases use
"above and to the left of", where the paper's dumps have "above and on the left side of", so that all
relations with a side share one wording.
"""


def relation_between(subject: str, subject_cell: Cell, object: str, object_cell: Cell) -> Relation:
    """Returns the relation between two named cells: the signs of their row and column differences."""
    (row, column), (other_row, other_column) = subject_cell, object_cell
    vertical, horizontal = (row > other_row) - (row < other_row), (column > other_column) - (column < other_column)
    return Relation(subject, vertical, horizontal, object)


def relations_of(subjects: Mapping[str, Cell], objects: Mapping[str, Cell]) -> tuple[Relation, ...]:
    """Returns the relation of every subject to every object, grouped by subject."""
    return tuple(
        relation_between(subject, subject_cell, object_, object_cell)
        for subject, subject_cell in subjects.items()
        for object_, object_cell in objects.items()
    )


def named_cells(kind: str, cells: Iterable[Cell]) -> dict[str, Cell]:
    """Returns cells with the names `kind0`, `kind1`, ... in the given order."""
    return {f"{kind}{index}": cell for index, cell in enumerate(cells)}


def relation_text(relation: Relation) -> str:
    """Returns one relation as a clause, e.g. `"box0 is above and to the left of the player"`."""
    phrase = RELATION_PHRASES[relation.vertical, relation.horizontal]
    return f"{relation.subject} is {phrase} {relation.object}"


def relations_text(relations: Iterable[Relation]) -> str:
    """Returns relations as sentences: clauses joined by `". "`, with a final period."""
    return ". ".join(relation_text(relation) for relation in relations) + "."


_DIRECTIONS = tuple(Direction)


def longest_solution(given: int | None, shortest: int, max_turns: int, max_actions_per_turn: int) -> int:
    """Returns the given maximum solution length, or by default the move budget of an episode.

    Raises:
        ConfigError: If the budget is below the minimum solution length.
    """
    if given is not None:
        return given
    budget = require_positive("max_turns", max_turns) * require_positive("max_actions_per_turn", max_actions_per_turn)
    require(
        budget >= require_positive("min_solution_length", shortest),
        f"max_turns={max_turns} and max_actions_per_turn={max_actions_per_turn} allow {budget} moves, but every "
        "level needs "
        f"at least min_solution_length={shortest}. Allow more turns or actions, or lower min_solution_length.",
    )
    return budget


class GridDynamics(Dynamics[GridStateT, int]):
    """The rules of one configuration of a grid world, without episode state.

    Args:
        shape: (rows, columns) of every level.
        min_solution_length: Minimum length of a generated level's shortest solution, in moves.
        max_solution_length: Maximum length of it.

    Raises:
        ConfigError: If the lengths are not a valid range.
    """

    is_slippery: bool = False
    """Whether each move consumes one uniform random number because it may slip."""

    num_tries: ClassVar[int]
    """Number of maps drawn before generation fails."""

    def __init__(self, shape: tuple[int, int], *, min_solution_length: int, max_solution_length: int) -> None:
        self.shape = shape
        self.min_solution_length = require_positive("min_solution_length", min_solution_length)
        self.max_solution_length = require_positive(
            "max_solution_length", max_solution_length, minimum=self.min_solution_length
        )

    @abstractmethod
    def starts(self, rng: np.random.Generator) -> Iterable[GridStateT]:
        """Returns start states on one random map, possibly none; `fits` checks their solution lengths."""

    def fits(self, state: GridStateT) -> bool:
        """Returns whether a start's shortest solution is in the range; by default, `starts` ensures it."""
        return True

    @property
    @abstractmethod
    def wanted(self) -> tuple[str, str]:
        """A description of the level, and a suggestion in addition to widening the range, for messages."""

    def generate(self, rng: np.random.Generator, split: str) -> GridStateT:
        """Returns a random level of a split whose shortest solution is in the configured range.

        Raises:
            GenerationError: If no such level was found.
        """
        for _ in range(self.num_tries):
            for state in self.starts(rng):
                if split_of(self.level_key(state)) == split and self.fits(state):
                    return state
        what, remedy = self.wanted
        raise GenerationError(
            f"No {what} and a shortest solution of {self.min_solution_length} to {self.max_solution_length} moves "
            "was "
            f"found for split {split!r} in {self.num_tries} attempts. Widen the range (min_solution_length, "
            f"max_solution_length), or {remedy}."
        )

    def dump(self, state: GridStateT) -> str:
        """Returns the level as rows of symbols; `load` reads it back."""
        return state.level_text()

    def step(self, state: GridStateT, action: int, rng: np.random.Generator) -> tuple[GridStateT, bool]:
        """Returns the level after a move (0 up, 1 down, 2 left, 3 right), and whether anything moved.

        `rng` provides one uniform random number per step if the ground is slippery; otherwise it is unused.
        """
        successor = state.move(_DIRECTIONS[action])
        return successor, successor is not state
