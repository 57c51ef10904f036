"""Writers of state texts with known sight: blind ones, which set the bar, and truthful ones, which must clear it.

    blind         sees nothing of the state, or only what the prompt states
    half_blind    describes one thing truly and guesses the rest
    partial       true, but describes one thing only
    full          true, and describes everything

A judge is sound if the best blind text scores below the worst partial truth, and the best half-blind text below the
worst full truth. The tests of `judges.calibration` check this for every judged world.

Most texts are templates in `state_text_writers.toml`; the functions below compute their fields.
"""

from __future__ import annotations

import itertools
import json
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

from judges.state_text.metric_rules import CUBE, name_of_key
from judges.state_text.vocabulary import Cell, load_table
from vlm_envs.content.homes.home import words_of
from vlm_envs.responses.formats import Representation
from vlm_envs.responses.numbers import SMALL_NUMBERS
from vlm_envs.worlds.grids.grid_levels import RELATION_PHRASES, relation_between

Section = Literal["observation", "prediction"]
"""The state that a text describes: the one that the model sees, or the one that its actions lead to."""

Sight = Literal["blind", "half_blind", "partial", "full"]
State = Mapping[str, Any]
Write = Callable[[State, Section], str | None]
"""Returns the text for a state; None if the phrasing does not apply, such as for a goal that is not reached."""

Fields = Callable[[State, Section], Mapping[str, Any]]
"""Returns the fields for a world's templates."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """One way to write a state text.

    Attributes:
        name: Name of the phrasing, for reports.
        sight: The part of the state that it describes truly.
        write: Returns the text for a state.
        representation: Representation of the text.
    """

    name: str
    sight: Sight
    write: Write
    representation: Representation = "natural_language"


def _template(text: str, fields: Fields, condition: str | None) -> Write:
    def write(state: State, section: Section) -> str | None:
        values = fields(state, section)
        return text.format_map(values) if condition is None or values[condition] else None

    return write


def _templates(world: str, fields: Fields) -> Iterator[Writer]:
    """Yields the writers of a world's templates."""
    for group in _TEMPLATES[world]:
        texts = group["texts"]
        for name, text in texts.items() if isinstance(texts, dict) else zip(texts, texts, strict=True):
            yield Writer(name=name, sight=group["sight"], write=_template(text, fields, group.get("only_if")))


_TEMPLATES = load_table(__file__)
_DICTS = tuple(
    Writer(name=name, sight="full", write=write, representation="structured")
    for name, write in (
        ("JSON", lambda state, section: json.dumps(state)),
        ("Python", lambda state, section: str(dict(state))),
    )
)


def _verb(section: Section, verb: str = "is") -> str:
    return "will be" if section == "prediction" else verb


def _joined(sentences: Iterable[str]) -> str:
    """Joins sentences into one text and capitalizes each."""
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences)


def _appended(sentences: Iterable[str]) -> str:
    """Joins capitalized sentences, with a leading space, to append them to a text."""
    return "".join(f" {sentence[0].upper()}{sentence[1:]}" for sentence in sentences)


# Grid worlds

_VERTICAL = {-1: "above", 1: "below"}
_HORIZONTAL = {-1: "to the left of", 1: "to the right of"}
_COMPASS = {(-1, 0): "north", (1, 0): "south", (0, -1): "west", (0, 1): "east"}
_LINES = (*_VERTICAL.values(), *_HORIZONTAL.values())


class Sides(NamedTuple):
    """The side of another cell that a cell lies on, in several phrasings.

    Attributes:
        stated: Names an aligned axis: "below and at the same column as".
        omitted: Omits an aligned axis: "below".
        directly: Implies an aligned axis: "directly below".
        compass: The same with compass directions: "directly south of".
        one_axis: The vertical side, or the horizontal one within a row.
    """

    stated: str
    omitted: str
    directly: str
    compass: str
    one_axis: str


def _sides(cell: Cell, anchor: Cell) -> Sides:
    _, vertical, horizontal, _ = relation_between("", cell, "", anchor)
    stated = RELATION_PHRASES[vertical, horizontal]
    if vertical == horizontal == 0:
        return Sides(stated, stated, stated, stated, stated)
    omitted = " and ".join(filter(None, (_VERTICAL.get(vertical), _HORIZONTAL.get(horizontal))))
    directly = "" if vertical and horizontal else "directly "
    compass = _COMPASS.get((vertical, 0), "") + _COMPASS.get((0, horizontal), "")
    one_axis = _VERTICAL.get(vertical, omitted)
    return Sides(stated, omitted, directly + omitted, f"{directly}{compass} of", one_axis)


def _lake_fields(state: State, section: Section) -> dict[str, Any]:
    player, target = state["player_position"], state["target_position"]
    goal, is_, are = _sides(target, player), _verb(section), _verb(section, "are")
    holes = [_sides(hole, player) for hole in state["hole_positions"]]
    introduced = list(zip(("a hole", *["another hole"] * len(holes)), holes, strict=False))
    counts = Counter(hole.stated for hole in holes).items()
    axes = [line for line in _LINES if line in goal.omitted]
    return {
        "is": is_,
        "goal": goal,
        "player": _sides(player, target),
        "opposite_goal": _sides(player, target),
        "solved": player == target,
        "holes": Sides(
            *(
                _appended(f"{name} {is_} {hole[n]} the player." for name, hole in introduced)
                for n in range(len(Sides._fields))
            )
        ),
        "counted_holes": _appended(
            f"{SMALL_NUMBERS[n]} {'holes' if n > 1 else 'hole'} {are if n > 1 else is_} {side} the player."
            for side, n in counts
        ),
        "plural_holes": _appended(
            f"there {are} holes {side} the player." if n > 1 else f"there {is_} a hole {side} the player."
            for side, n in counts
        ),
        "always_plural_holes": _appended(f"there {are} holes {side} the player." for side, _ in counts),
        "chained_holes": "".join(
            f", and there {are} {SMALL_NUMBERS[n]} holes {side} the player"
            if n > 1
            else f", and there {is_} a hole {side} the player"
            for side, n in counts
        ),
        "holes_on_axes_of_goal": _appended(f"there are holes {line} the player." for line in axes),
    }


def _sokoban_fields(state: State, section: Section) -> dict[str, Any]:
    player, box, target = state["player_position"], state["box_positions"][0], state["target_positions"][0]
    return {
        "is": _verb(section),
        "player": _sides(player, box),
        "box": _sides(box, player),
        "target": _sides(target, player),
        "target_from_box": _sides(target, box),
        "box_from_target": _sides(box, target),
        "solved": box == target,
    }


FROZEN_LAKE: tuple[Writer, ...] = (*_DICTS, *_templates("FrozenLake", _lake_fields))
SOKOBAN: tuple[Writer, ...] = (*_DICTS, *_templates("Sokoban", _sokoban_fields))


# Navigation

_PHRASES = {"ahead": "ahead of me", "left": "to my left", "right": "to my right", "back": "behind me"}


def _navigation_fields(state: State, section: Section) -> dict[str, Any]:
    is_, direction = _verb(section), _PHRASES[state["target_direction_to_player"]]
    is_ahead = state["target_direction_to_player"] == "ahead"
    visible = [(words_of(seen["type"]), _PHRASES[seen["direction_to_player"]]) for seen in state["visible_objects"]]
    by_side: dict[str, list[str]] = {}
    for name, side in visible:
        by_side.setdefault(side, []).append(f"a {name}")
    return {
        "is": is_,
        "target": words_of(state["target_obj_type"]),
        "direction": direction,
        "straight": f"straight {direction}" if is_ahead else direction,
        "distance": state["target_distance_to_player"],
        "visible": " ".join(f"the {name} {is_} {side}." for name, side in visible),
        "visible_by_side": _appended(f"{side}, there {is_} {_listed(names)}." for side, names in by_side.items()),
        "ahead": is_ahead,
    }


def _listed(names: list[str]) -> str:
    return " and ".join(filter(None, (", ".join(names[:-1]), names[-1])))


NAVIGATION: tuple[Writer, ...] = (*_DICTS, *_templates("Navigation", _navigation_fields))


# PrimitiveSkill

Point = tuple[float, ...]
_BRACKETED = "({}, {}, {})"
_EXACT = "({:g}, {:g}, {:g})"


def _things(state: State) -> dict[str, Point]:
    """Returns the positions of a state by name, such as `red cube`."""
    positions = {key: value for key, value in state.items() if key.endswith("_position")}
    return {
        key.removesuffix("_position").replace("_", " "): tuple(map(float, point)) for key, point in positions.items()
    }


def _cubes(state: State) -> dict[str, Point]:
    return {name: point for name, point in _things(state).items() if CUBE in name_of_key(name)}


def _opening(state: State) -> dict[str, Any]:
    return {key: value for key, value in state.items() if key == "drawer_open_mm"}


def _positions(form: str, rounded_to: int = 1) -> Write:
    """Returns a writer of all positions in a form such as `({}, {}, {})`."""

    def write(state: State, section: Section) -> str:
        places = {
            name: form.format(*(rounded_to * round(value / rounded_to) for value in point))
            for name, point in _things(state).items()
        }
        sentences = [f"the {name} {_verb(section)} at {position}." for name, position in places.items()]
        return _joined([*sentences, *(f"the drawer is open by {mm} mm." for mm in _opening(state).values())])

    return write


def _nested(state: State, section: Section) -> str:
    places = {name.replace(" ", "_"): dict(zip("xyz", point, strict=True)) for name, point in _things(state).items()}
    return json.dumps(places | _opening(state))


def _spaced_keys(state: State, section: Section) -> str:
    places = {name: _EXACT.format(*point) for name, point in _things(state).items()}
    return "{" + ", ".join(f"{key}: {value}" for key, value in (places | _opening(state)).items()) + "}"


def _cubes_by_target(state: State, section: Section) -> str | None:
    """Describes cubes on a target by the target's name, and the others by their position."""
    targets = {name: point for name, point in _things(state).items() if "target" in name}
    places = {cube: f"at {_EXACT.format(*point)}" for cube, point in _cubes(state).items()}
    on_target = {
        cube: f"on the {name}"
        for cube, point in _cubes(state).items()
        for name, target in reversed(targets.items())
        if _lies_on(point, target)
    }
    sentences = (f"the {cube} {_verb(section)} {where}." for cube, where in (places | on_target).items())
    return _joined(sentences) if on_target else None


def _lies_on(place: Point, target: Point) -> bool:
    return all(abs(a - b) <= 10 for a, b in zip(place[:2], target[:2], strict=True)) and abs(place[2] - 20) <= 10


def _cubes_only(state: State, section: Section) -> str:
    cubes = _cubes(state).items()
    return _joined(f"the {name} {_verb(section)} at {_EXACT.format(*point)}." for name, point in cubes)


def _cubes_at_targets(preposition: str, targets: tuple[str, ...]) -> Writer:
    """Returns a writer that knows the cubes' names from the prompt and guesses that they lie at targets."""

    def write(state: State, section: Section) -> str:
        guesses = zip(_cubes(state), itertools.cycle(targets))
        return _joined(f"the {cube} {_verb(section)} {preposition} the {target}." for cube, target in guesses)

    return Writer(name=f"each cube {preposition} the {targets[0]}", sight="blind", write=write)


PRIMITIVE_SKILL: tuple[Writer, ...] = (
    *_templates("PrimitiveSkill", lambda state, section: {}),
    *(
        _cubes_at_targets(preposition, targets)
        for preposition in ("on", "near")
        for targets in (
            ("left target", "right target"),
            ("right target", "left target"),
            ("left target",),
            ("right target",),
        )
    ),
    *(
        Writer(name=name, sight="full", write=write)
        for name, write in {
            "bracketed positions": _positions(_BRACKETED),
            "labeled coordinates": _positions("x={}, y={}, z={}"),
            "bare coordinates": _positions("{}, {}, {}"),
            "positions rounded to 10 mm": _positions(_BRACKETED, rounded_to=10),
        }.items()
    ),
    Writer(name="cubes only", sight="partial", write=_cubes_only),
    Writer(name="cubes on targets by the target's name", sight="partial", write=_cubes_by_target),
    _DICTS[0],
    Writer(name="nested JSON", sight="full", write=_nested, representation="structured"),
    Writer(name="spaced keys", sight="full", write=_spaced_keys, representation="structured"),
)
