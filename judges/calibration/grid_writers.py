"""Blind and truthful writers for the grid worlds, in natural language and as dictionaries."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Literal

from judges.calibration.writers import Section, Sight, State, Writer, constant, joined, verb
from judges.state_text.grid.vocabulary import Cell

Style = Literal["stated", "omitted", "directly", "compass"]
"""How an aligned axis is written: "in the same row", not at all, by "directly below", or by "directly south"."""

_VERTICAL = {-1: "above", 1: "below"}
_HORIZONTAL = {-1: "to the left of", 1: "to the right of"}
_COMPASS = {(-1, 0): "north", (1, 0): "south", (0, -1): "west", (0, 1): "east"}
_NUMBERS = {1: "one", 2: "two", 3: "three", 4: "four", 5: "five", 6: "six", 7: "seven", 8: "eight", 9: "nine"}


def _signs(cell: Cell, anchor: Cell) -> Cell:
    vertical, horizontal = ((a > b) - (a < b) for a, b in zip(cell, anchor, strict=True))
    return vertical, horizontal


def side(cell: Cell, anchor: Cell, style: Style = "stated") -> str:
    """Returns on which side of `anchor` a cell lies, such as "below and to the right of"."""
    vertical, horizontal = _signs(cell, anchor)
    if vertical == horizontal == 0:
        return "at the same place as"
    if style == "compass":
        both = _COMPASS.get((vertical, 0), "") + _COMPASS.get((0, horizontal), "")
        return f"{both} of" if vertical and horizontal else f"directly {both} of"
    words = " and ".join(filter(None, (_VERTICAL.get(vertical), _HORIZONTAL.get(horizontal))))
    if (vertical and horizontal) or style == "omitted":
        return words
    if style == "directly":
        return f"directly {words}"
    return f"{words} and at the same column as" if vertical else f"at the same row and {words}"


def one_axis(cell: Cell, anchor: Cell) -> str:
    """Returns the vertical side of a cell, or the horizontal one where the two are in one row."""
    vertical = _signs(cell, anchor)[0]
    return side(cell, anchor, "omitted") if not vertical else _VERTICAL[vertical]


def _mirrored(cell: Cell, anchor: Cell) -> Cell:
    return 2 * anchor[0] - cell[0], 2 * anchor[1] - cell[1]


# FrozenLake


def _goal(state: State, section: Section, style: Style = "stated") -> str:
    return f"the goal {verb(section)} {side(state['target_position'], state['player_position'], style)} the player."


def _holes_by_side(state: State) -> Iterator[tuple[int, str]]:
    """Yields each side that has holes with their number."""
    player = state["player_position"]
    yield from ((count, text) for text, count in Counter(side(h, player) for h in state["hole_positions"]).items())


def _goal_and(holes: Callable[[State, Section], list[str]], style: Style = "stated") -> Callable[[State, Section], str]:
    return lambda state, section: joined(_goal(state, section, style), *holes(state, section))


def _single_holes(style: Style) -> Callable[[State, Section], list[str]]:
    def write(state: State, section: Section) -> list[str]:
        articles = ["a", *["another"] * len(state["hole_positions"])]
        return [
            f"{article} hole {verb(section)} {side(hole, state['player_position'], style)} the player."
            for article, hole in zip(articles, state["hole_positions"], strict=False)
        ]

    return write


def _counted_holes(state: State, section: Section) -> list[str]:
    return [
        f"{_NUMBERS[count]} hole{'s' * (count > 1)} {verb(section, is_plural=count > 1)} {text} the player."
        for count, text in _holes_by_side(state)
    ]


def _plural_holes(state: State, section: Section) -> list[str]:
    there = "there will be" if section == "prediction" else "there are"
    singular = there.replace("are", "is")
    return [
        f"{there} holes {text} the player." if count > 1 else f"{singular} a hole {text} the player."
        for count, text in _holes_by_side(state)
    ]


def _always_plural_holes(state: State, section: Section) -> list[str]:
    there = "there will be" if section == "prediction" else "there are"
    return [f"{there} holes {text} the player." for _, text in _holes_by_side(state)]


def _lake_in_one_sentence(state: State, section: Section) -> str:
    player, goal = state["player_position"], state["target_position"]
    holes = [
        f"and there {verb(section, is_plural=count > 1)} "
        f"{_NUMBERS[count] if count > 1 else 'a'} hole{'s' * (count > 1)} {text} the player"
        for count, text in _holes_by_side(state)
    ]
    return joined(", ".join([f"the player {verb(section)} {side(player, goal)} the gift", *holes]) + ".")


def _player_at_goal(sentence: str) -> Callable[[State, Section], str | None]:
    return lambda state, section: sentence if state["player_position"] == state["target_position"] else None


def _gift_reached_and_holes(state: State, section: Section) -> str | None:
    if state["player_position"] != state["target_position"]:
        return None
    return joined("The player will be at the position of the gift.", *_counted_holes(state, section))


def _guessed_holes(*sides: str) -> list[str]:
    return [f"another hole is {text} the player." for text in sides]


def _where_the_goal_is(num_holes: int) -> Callable[[State, Section], list[str]]:
    return lambda state, section: _guessed_holes(
        *[side(state["target_position"], state["player_position"])] * num_holes
    )


def _plural_where_the_goal_is(state: State, section: Section) -> list[str]:
    return [f"there are holes {side(state['target_position'], state['player_position'])} the player."]


def _axes_of_the_goal(state: State, section: Section) -> list[str]:
    vertical, horizontal = _signs(state["target_position"], state["player_position"])
    sides = (_VERTICAL.get(vertical), _HORIZONTAL.get(horizontal))
    return [f"there are holes {text} the player." for text in sides if text]


def _opposite_the_goal(state: State, section: Section) -> list[str]:
    player = state["player_position"]
    return _guessed_holes(side(_mirrored(state["target_position"], player), player))


_QUADRANTS = tuple(f"{v} and {h}" for v in _VERTICAL.values() for h in _HORIZONTAL.values())
_HOLE_GUESSES: dict[str, Callable[[State, Section], list[str]]] = {
    "a hole where the goal is": _where_the_goal_is(1),
    "two holes where the goal is": _where_the_goal_is(2),
    "three holes where the goal is": _where_the_goal_is(3),
    "the holes are where the goal is": _plural_where_the_goal_is,
    "holes on each axis of the goal": _axes_of_the_goal,
    "a hole opposite the goal": _opposite_the_goal,
    "a hole in each quadrant": lambda state, section: _guessed_holes(*_QUADRANTS),
    "holes in each quadrant": lambda state, section: [f"there are holes {text} the player." for text in _QUADRANTS],
    "holes on each side": lambda state, section: [
        f"there are holes {text} the player." for text in (*_VERTICAL.values(), *_HORIZONTAL.values())
    ],
    "there are holes all around": lambda state, section: [
        "There are holes above, below, to the left and to the right of the player."
    ],
}
_FULL_LAKES: dict[str, Callable[[State, Section], str | None]] = {
    "each object by itself": _goal_and(_single_holes("stated")),
    "each object by itself, aligned axes omitted": _goal_and(_single_holes("omitted"), "omitted"),
    "each object by itself, with 'directly'": _goal_and(_single_holes("directly"), "directly"),
    "each object by itself, in compass directions": _goal_and(_single_holes("compass"), "compass"),
    "holes counted for each side": _goal_and(_counted_holes),
    "holes as a plural for each side with several": _goal_and(_plural_holes),
    "holes as a plural for each side with any": _goal_and(_always_plural_holes),
    "one sentence about the gift and the holes": _lake_in_one_sentence,
    "the player at the position of the gift, and the holes": _gift_reached_and_holes,
}
_SUCCESS = (
    "The player will be at the position of the gift.",
    "The player will be at the gift's position.",
    "The goal is reached.",
    "The player will get to the goal.",
    "The player will be where the goal is.",
)
_PARTIAL_LAKES: dict[str, Callable[[State, Section], str | None]] = {
    "the goal only": _goal,
    "the goal only, aligned axes omitted": lambda state, section: _goal(state, section, "omitted"),
    "the player against the gift only": lambda state, section: joined(
        f"the player {verb(section)} {side(state['player_position'], state['target_position'], 'omitted')} the gift."
    ),
    **{sentence: _player_at_goal(sentence) for sentence in _SUCCESS},
}

# Sokoban with one box


def _sokoban(state: State) -> tuple[Cell, Cell, Cell]:
    return state["player_position"], state["box_positions"][0], state["target_positions"][0]


def _three_relations(style: Style) -> Callable[[State, Section], str]:
    def write(state: State, section: Section) -> str:
        player, box, target = _sokoban(state)
        return joined(
            f"the box {verb(section)} {side(box, player, style)} the player.",
            f"the target {verb(section)} {side(target, player, style)} the player.",
            f"the target {verb(section)} {side(target, box, style)} the box.",
        )

    return write


def _player_box_target(style: Style) -> Callable[[State, Section], str]:
    def write(state: State, section: Section) -> str:
        player, box, target = _sokoban(state)
        return joined(
            f"the player {verb(section)} {side(player, box, style)} the box, and the box {verb(section)} "
            f"{side(box, target, style)} the target."
        )

    return write


def _solved_with_commas(state: State, section: Section) -> str | None:
    player, box, target = _sokoban(state)
    if box != target:
        return None
    return f"The player will be {side(player, box, 'omitted')} the box, the target and box will be at the same place."


def _box_on_target(sentence: str) -> Callable[[State, Section], str | None]:
    return lambda state, section: sentence if state["box_positions"][0] == state["target_positions"][0] else None


def _one_axis_each(state: State, section: Section) -> str:
    player, box, target = _sokoban(state)
    return joined(
        f"the box {verb(section)} {one_axis(box, player)} the player and the target {verb(section)} "
        f"{one_axis(target, box)} the box."
    )


def _box_and(*guesses: str) -> Callable[[State, Section], str]:
    """Returns a writer of the box's side and of guesses, in which {} is that side."""

    def write(state: State, section: Section) -> str:
        player, box, _ = _sokoban(state)
        text = side(box, player)
        return joined(f"the box is {text} the player.", *(guess.format(text) for guess in guesses))

    return write


def _target_and(*guesses: str) -> Callable[[State, Section], str]:
    def write(state: State, section: Section) -> str:
        player, _, target = _sokoban(state)
        text = side(target, player)
        return joined(f"the target is {text} the player.", *(guess.format(text) for guess in guesses))

    return write


_HALF_BLIND_SOKOBAN = {
    "the target where the box is": _box_and("the target is {} the player."),
    "the target where the box is, and beyond it": _box_and("the target is {} the player.", "the target is {} the box."),
    "the target beyond the box": _box_and("the target is {} the box."),
    "the target where the box is, in its row": _box_and(
        "the target is {} the player.", "the target is at the same row as the box."
    ),
    "the target at the box": _box_and("the target is {} the player.", "the target is at the same place as the box."),
    "the box where the target is": _target_and("the box is {} the player."),
    "the box where the target is, and before it": _target_and("the box is {} the player.", "the target is {} the box."),
    "the box at the target": _target_and("the box is {} the player.", "the target is at the same place as the box."),
}
_FULL_SOKOBAN: dict[str, Callable[[State, Section], str | None]] = {
    "each relation by itself": _three_relations("stated"),
    "each relation by itself, aligned axes omitted": _three_relations("omitted"),
    "each relation by itself, with 'directly'": _three_relations("directly"),
    "each relation by itself, in compass directions": _three_relations("compass"),
    "the player, the box and the target in a chain": _player_box_target("stated"),
    "the player, the box and the target in a chain, with 'directly'": _player_box_target("directly"),
    "the player, the box and the target in a chain, aligned axes omitted": _player_box_target("omitted"),
    "solved, with a comma for a full stop": _solved_with_commas,
}
_COINCIDE = ("The box and target will coincide.", "The target and box will be at the same place.")
_PARTIAL_SOKOBAN: dict[str, Callable[[State, Section], str | None]] = {
    "one axis each": _one_axis_each,
    "the box only": _box_and(),
    **{sentence: _box_on_target(sentence) for sentence in _COINCIDE},
}


# Both


def _writers(sight: Sight, named: Mapping[str, Callable[[State, Section], str | None]]) -> list[Writer]:
    return [Writer(name=name, sight=sight, write=write) for name, write in named.items()]


_DICTS = (
    Writer(name="JSON", sight="full", write=lambda state, section: json.dumps(state), representation="structured"),
    Writer(name="Python", sight="full", write=lambda state, section: str(dict(state)), representation="structured"),
)

FROZEN_LAKE: tuple[Writer, ...] = (
    *_DICTS,
    *(constant(f"The goal is {text} the player.") for text in _QUADRANTS),
    *(
        constant(joined(f"the goal is {goal} the player.", f"there are holes {holes} the player."))
        for goal in _QUADRANTS
        for holes in (*_QUADRANTS, *_VERTICAL.values())
    ),
    *map(constant, _SUCCESS),
    *(
        Writer(name=name, sight="half_blind", write=_goal_and(guess), representation="natural_language")
        for name, guess in _HOLE_GUESSES.items()
    ),
    *_writers("partial", _PARTIAL_LAKES),
    *_writers("full", _FULL_LAKES),
)
SOKOBAN: tuple[Writer, ...] = (
    *_DICTS,
    *map(constant, _COINCIDE),
    *(
        constant(f"The player is {text} the box, and the box is {text} the target.")
        for text in (*_QUADRANTS, *_VERTICAL.values(), *_HORIZONTAL.values())
    ),
    *_writers("half_blind", _HALF_BLIND_SOKOBAN),
    *_writers("partial", _PARTIAL_SOKOBAN),
    *_writers("full", _FULL_SOKOBAN),
)
