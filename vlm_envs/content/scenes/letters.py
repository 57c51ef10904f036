"""Letters and digits of 5 by 7 dots, so that signs look the same wherever they are drawn."""

from __future__ import annotations

from collections.abc import Mapping

GLYPH_WIDTH, GLYPH_HEIGHT = 5, 7

GLYPHS: Mapping[str, str] = {
    "A": ".###. #...# #...# ##### #...# #...# #...#",
    "C": ".#### #.... #.... #.... #.... #.... .####",
    "E": "##### #.... #.... ####. #.... #.... #####",
    "F": "##### #.... #.... ####. #.... #.... #....",
    "H": "#...# #...# #...# ##### #...# #...# #...#",
    "J": "..### ...#. ...#. ...#. ...#. #..#. .##..",
    "K": "#...# #..#. #.#.. ##... #.#.. #..#. #...#",
    "L": "#.... #.... #.... #.... #.... #.... #####",
    "M": "#...# ##.## #.#.# #.#.# #...# #...# #...#",
    "N": "#...# ##..# ##..# #.#.# #..## #..## #...#",
    "P": "####. #...# #...# ####. #.... #.... #....",
    "R": "####. #...# #...# ####. #.#.. #..#. #...#",
    "T": "##### ..#.. ..#.. ..#.. ..#.. ..#.. ..#..",
    "U": "#...# #...# #...# #...# #...# #...# .###.",
    "V": "#...# #...# #...# #...# .#.#. .#.#. ..#..",
    "W": "#...# #...# #...# #.#.# #.#.# ##.## #...#",
    "X": "#...# #...# .#.#. ..#.. .#.#. #...# #...#",
    "Y": "#...# #...# .#.#. ..#.. ..#.. ..#.. ..#..",
    "2": ".###. #...# ....# ...#. ..#.. .#... #####",
    "3": "####. ....# ....# .###. ....# ....# ####.",
    "4": "...#. ..##. .#.#. #..#. ##### ...#. ...#.",
    "6": ".###. #.... #.... ####. #...# #...# .###.",
    "7": "##### ....# ...#. ...#. ..#.. ..#.. ..#..",
    "9": ".###. #...# #...# .#### ....# ....# .###.",
}
"""Rows of dots from the top; without those easily taken for each other: O and 0, I and 1, S and 5, B and 8."""

LETTERS = "ACEFHJKLMNPRTUVWXY"
DIGITS = "234679"


def dots(text: str) -> list[tuple[int, int]]:
    """Returns column and row of every dot of a line of text; columns count on over letters, with one free between."""
    found = []
    for index, character in enumerate(text):
        for row, line in enumerate(GLYPHS[character].split()):
            for column, dot in enumerate(line):
                if dot == "#":
                    found.append((index * (GLYPH_WIDTH + 1) + column, row))
    return found
