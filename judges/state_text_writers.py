"""Writers of state texts with known sight: blind ones, which set the bar, and truthful ones, which must clear it.

    blind         sees nothing of the state, or only what the prompt states
    half-blind    describes one thing truly and guesses the rest
    partial       true, but describes one thing only
    full          true, and describes everything

A judge is sound where the best blind text scores below the worst partial truth, and the best half-blind text below
the worst full truth. The tests of `judges.calibration` hold every judged world to that.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from judges.state_text.metric_rules import CUBE, name_of_key
from judges.state_text.vocabulary import Cell
from vlm_envs.content.homes.home import words_of
from vlm_envs.responses.formats import Representation

Section = Literal["observation", "prediction"]
"""What a text describes: the state that the model sees, or the state that its actions lead to."""

Sight = Literal["blind", "half_blind", "partial", "full"]
State = Mapping[str, Any]
Write = Callable[[State, Section], str | None]
"""Returns the text for a state; None where the phrasing does not apply, such as a goal that is not reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """One way to write a state text.

    Attributes:
        name: Of the phrasing, for reports.
        sight: How much of the state it describes truly.
        write: The text for a state.
        representation: In which it is written.
    """

    name: str
    sight: Sight
    write: Write
    representation: Representation = "natural_language"


def constant(text: str, representation: Representation = "natural_language") -> Writer:
    """Returns a blind writer that writes the same text of every state."""
    return Writer(name=text, sight="blind", write=lambda state, section: text, representation=representation)


def verb(section: Section, *, is_plural: bool = False) -> str:
    """Returns "is", "are" or "will be"."""
    if section == "prediction":
        return "will be"
    return "are" if is_plural else "is"


def joined(*sentences: str) -> str:
    """Returns sentences as one text, each with its first letter in upper case."""
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences if sentence)


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


# Navigation

_PHRASES = {"ahead": "ahead of me", "left": "to my left", "right": "to my right", "back": "behind me"}
_DISTANCES_M = tuple(step / 10 for step in range(10, 31, 2))
_DIAGONALS = ("to our front-left", "ahead and to the left", "forward-right", "diagonally ahead on the right")
_COMMON_TYPES = ("window", "chair", "mug", "statue", "bottle")


def _target(state: State) -> str:
    return words_of(state["target_obj_type"])


def _target_ahead(rest: str) -> Write:
    """Returns a writer that knows the target's name from the prompt and guesses where it is."""
    return lambda state, section: f"The {_target(state)} {verb(section)} {rest}."


def _visible(state: State, section: Section) -> list[str]:
    return [
        f"the {words_of(seen['type'])} {verb(section)} {_PHRASES[seen['direction_to_player']]}."
        for seen in state["visible_objects"]
    ]


def _direction(state: State) -> str:
    return _PHRASES[state["target_direction_to_player"]]


def _target_and_visible(state: State, section: Section) -> str:
    target = f"the {_target(state)} {verb(section)} {_direction(state)}, {state['target_distance_to_player']} m away."
    return joined(target, "visible: " + " ".join(_visible(state, section)))


def _target_and_list(state: State, section: Section) -> str:
    by_side: dict[str, list[str]] = {}
    for seen in state["visible_objects"]:
        by_side.setdefault(seen["direction_to_player"], []).append(f"a {words_of(seen['type'])}")
    sides = (f"{_PHRASES[side]}, there {verb(section)} {_listed(names)}." for side, names in by_side.items())
    away = f"It {verb(section)} about {state['target_distance_to_player']:.1f} meters away."
    return joined(f"the {_target(state)} {verb(section)} {_direction(state)}.", away, *sides)


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


def _straight_ahead(state: State, section: Section) -> str:
    where = "straight ahead of me" if state["target_direction_to_player"] == "ahead" else _direction(state)
    return f"The {_target(state)} {verb(section)} {where}."


def _if_ahead(text: str) -> Write:
    """Returns a writer of a text, in which {} is the target, about targets that are ahead."""

    def write(state: State, section: Section) -> str | None:
        return text.format(_target(state)) if state["target_direction_to_player"] == "ahead" else None

    return write


NAVIGATION: tuple[Writer, ...] = (
    Writer(name="JSON", sight="full", write=lambda state, section: json.dumps(state), representation="structured"),
    Writer(name="Python", sight="full", write=lambda state, section: str(dict(state)), representation="structured"),
    *(
        Writer(name=f"the target by its name {rest}", sight="blind", write=_target_ahead(rest))
        for rest in (
            *_PHRASES.values(),
            *_DIAGONALS,
            *(f"ahead at {distance_m} m" for distance_m in _DISTANCES_M),
            *(f"to our front-left, {distance_m} m away" for distance_m in _DISTANCES_M),
            *(f"ahead of me, and there is a {name} ahead of me" for name in _COMMON_TYPES),
        )
    ),
    Writer(name="each object by itself", sight="full", write=_target_and_visible),
    Writer(name="objects listed for each direction", sight="full", write=_target_and_list),
    Writer(name="the target's direction only", sight="partial", write=_straight_ahead),
    *(
        Writer(name=text, sight="partial", write=_if_ahead(text))
        for text in (
            "The {} is straight ahead of me.",
            "There is a {} directly in front of me.",
            "I will be facing the {}.",
            "The {} is ahead and to the left.",
            "The {} is to our front-left.",
            "The {} is forward-right of me.",
            "The {} is diagonally ahead on the left.",
        )
    ),
)

# PrimitiveSkill

Point = tuple[float, ...]


def _things(state: State) -> dict[str, Point]:
    """Returns the positions of a state by name, such as `red cube`."""
    places = {key: value for key, value in state.items() if key.endswith("_position")}
    return {key.removesuffix("_position").replace("_", " "): tuple(map(float, place)) for key, place in places.items()}


def _opening(state: State) -> list[str]:
    return [f"the drawer is open by {state['drawer_open_mm']} mm."] if "drawer_open_mm" in state else []


def _positions(form: str, rounded_to: int = 1) -> Write:
    """Returns a writer of all positions in a form such as `({}, {}, {})`."""

    def write(state: State, section: Section) -> str:
        sentences = (
            f"the {name} {verb(section)} at {form.format(*_rounded(place, rounded_to))}."
            for name, place in _things(state).items()
        )
        return joined(*sentences, *_opening(state))

    return write


def _rounded(place: Point, step: int) -> Iterator[int]:
    return (step * round(value / step) for value in place)


def _nested(state: State, section: Section) -> str:
    fields: dict[str, Any] = {
        name.replace(" ", "_"): dict(zip("xyz", place, strict=True)) for name, place in _things(state).items()
    }
    return json.dumps(fields | _opening_field(state))


def _spaced_keys(state: State, section: Section) -> str:
    fields = [f"{name}: ({x:g}, {y:g}, {z:g})" for name, (x, y, z) in _things(state).items()]
    return "{" + ", ".join(fields + [f"{key}: {value}" for key, value in _opening_field(state).items()]) + "}"


def _opening_field(state: State) -> dict[str, Any]:
    return {"drawer_open_mm": state["drawer_open_mm"]} if "drawer_open_mm" in state else {}


def _is_cube(name: str) -> bool:
    return CUBE in name_of_key(name)


def _cubes_by_target(state: State, section: Section) -> str | None:
    """Returns the cubes that lie on a target by the target's name, and the others by their position."""
    things = _things(state)
    targets = {name: place for name, place in things.items() if "target" in name}
    sentences, num_named = [], 0
    for cube, place in things.items():
        if not _is_cube(cube):
            continue
        on = [name for name, spot in targets.items() if _lies_on(place, spot)]
        num_named += len(on)
        where = f"on the {on[0]}" if on else "at ({:g}, {:g}, {:g})".format(*place)
        sentences.append(f"the {cube} {verb(section)} {where}.")
    return joined(*sentences) if num_named else None


def _lies_on(place: Point, target: Point) -> bool:
    return all(abs(a - b) <= 10 for a, b in zip(place[:2], target[:2], strict=True)) and abs(place[2] - 20) <= 10


def _cubes_only(state: State, section: Section) -> str:
    cubes = ((name, place) for name, place in _things(state).items() if _is_cube(name))
    return joined(*(f"the {name} {verb(section)} at ({x:g}, {y:g}, {z:g})." for name, (x, y, z) in cubes))


def _cubes_at_targets(preposition: str, places: tuple[str, ...]) -> Callable[[State, Section], str]:
    """Returns a writer that knows the cubes' names from the prompt and guesses that they lie at targets."""

    def write(state: State, section: Section) -> str:
        names = filter(_is_cube, _things(state))
        cubes = zip(names, itertools.cycle(places))
        return joined(*(f"the {name} {verb(section)} {preposition} the {place}." for name, place in cubes))

    return write


_COLORS = ("red", "green", "blue", "yellow", "purple", "orange")
_USUAL = "the left target is at (80, -100, 0). the right target is at (80, 100, 0)."
_USUAL_DRAWER = "the drawer handle is at (110, 0, 40). the drawer is open by 0 mm."

PRIMITIVE_SKILL: tuple[Writer, ...] = (
    constant(_USUAL),
    constant(_USUAL_DRAWER),
    constant("the drawer is closed."),
    constant(" ".join(f"the {color} cube is at (0, 0, 20)." for color in _COLORS)),
    constant(
        "The red cube is on the left target, the green cube is near the right target. " + _USUAL,
    ),
    *(
        Writer(
            name=f"each cube {preposition} the {places[0]}",
            sight="blind",
            write=_cubes_at_targets(preposition, places),
        )
        for preposition in ("on", "near")
        for places in (
            ("left target", "right target"),
            ("right target", "left target"),
            ("left target",),
            ("right target",),
        )
    ),
    Writer(name="bracketed positions", sight="full", write=_positions("({}, {}, {})")),
    Writer(name="labeled coordinates", sight="full", write=_positions("x={}, y={}, z={}")),
    Writer(name="bare coordinates", sight="full", write=_positions("{}, {}, {}")),
    Writer(name="positions rounded to 10 mm", sight="full", write=_positions("({}, {}, {})", rounded_to=10)),
    Writer(name="cubes only", sight="partial", write=_cubes_only),
    Writer(name="cubes on targets by the target's name", sight="partial", write=_cubes_by_target),
    Writer(name="JSON", sight="full", write=lambda state, section: json.dumps(state), representation="structured"),
    Writer(name="nested JSON", sight="full", write=_nested, representation="structured"),
    Writer(name="spaced keys", sight="full", write=_spaced_keys, representation="structured"),
)
