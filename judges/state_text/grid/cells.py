"""Absolute facts: which cell each object is in, read from structured and symbolic state text.

Both readers accept any string in time linear in its length and never raise: what cannot be read is not a
claim. The grid's size and its walls are not scored, as they are the same in every state of a level.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from judges.state_text.grid.vocabulary import PLAYER, Cell, ObjectVocabulary, cells_at
from judges.state_text.tally import Tally

CellsByKind = dict[str, set[Cell]]

# A key is a whole word, with or without quotes; four digits bound the integers that are converted.
_KEY = re.compile(r"\b([a-z_]{1,40})[0-9]{0,3}[\"']?\s{0,20}[:=]")
_CELL = re.compile(r"[(\[]\s{0,20}(-?[0-9]{1,4})\s{0,20},\s{0,20}(-?[0-9]{1,4})\s{0,20}[)\]]")
_DECORATION = str.maketrans("", "", " \t\r,|'\"[]`")


def read_structured(text: str, vocabulary: ObjectVocabulary) -> CellsByKind:
    """Returns the cells of `{player_position: (4, 2), box_positions: [(3, 2)], …}`, or the same as Python or JSON.

    Args:
        text: Any string.
        vocabulary: Gives the words that keys are made of; unknown keys are skipped.

    Returns:
        Every cell claimed for each kind, over the whole text.
    """
    text = text.lower()
    claims: CellsByKind = {}
    keys = list(_KEY.finditer(text))
    ends = [*(key.start() for key in keys), len(text)][1:]
    for key, end in zip(keys, ends, strict=True):
        kind = vocabulary.kind_of(re.sub(r"_?(positions?|pos|coordinates?)$", "", key[1]))
        if kind is not None:
            cells = _CELL.finditer(text, key.end(), end)
            claims.setdefault(kind, set()).update((int(cell[1]), int(cell[2])) for cell in cells)
    return claims


def read_symbolic(text: str, vocabulary: ObjectVocabulary) -> CellsByKind:
    r"""Returns the cells of rows of symbols; lines that hold anything else are prose and end a grid.

    Args:
        text: Any string; symbols may be spaced out, quoted or fenced, and `\\n` may be written out.
        vocabulary: Gives the symbols.

    Returns:
        Every cell claimed for each kind; a second grid's rows count from zero again.
    """
    claims: CellsByKind = {}
    for row, line in _grid_rows(text.replace("\\n", "\n"), vocabulary.symbols):
        for column, symbol in enumerate(line):
            for kind in vocabulary.symbols[symbol]:
                claims.setdefault(kind, set()).add((row, column))
    return claims


def _grid_rows(text: str, symbols: Mapping[str, tuple[str, ...]]) -> Iterator[tuple[int, str]]:
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
    """Returns how claimed cells compare with a state, as a tally for each category's name.

    The player's cell is a fact of every category, so misplacing the player lowers each of them. Two cells
    claimed for the one player contradict each other: both count as claimed, neither as correct. Objects of a
    kind are interchangeable, and as a cell is right or wrong, the best matching is the set intersection.

    Args:
        claims: The cells that the text claims for each kind of object, and for the player.
        state: What is true.
        vocabulary: The world's kinds of objects, and where they stand in the state.

    Raises:
        ConfigError: The state is another world's.
    """
    true_player = set(cells_at(state, "player_position"))
    players = claims.get(PLAYER, set())
    tallies = {}
    for category in vocabulary.categories:
        true_cells = set(cells_at(state, category.state_key))
        claimed_cells = claims.get(category.kind, set())
        tallies[category.name] = Tally(
            num_correct=len(true_cells & claimed_cells) + int(players == true_player),
            num_claimed=len(claimed_cells) + len(players),
            num_true=len(true_cells) + len(true_player),
        )
    return tallies
