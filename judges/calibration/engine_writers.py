"""Blind and truthful writers for the worlds on engines: Navigation, and PrimitiveSkill with its tasks."""

from __future__ import annotations

import itertools
import json
from collections.abc import Callable, Iterator
from typing import Any

from judges.calibration.writers import Section, State, Write, Writer, constant, joined, verb
from judges.state_text.metric.words import CUBE, name_of_key
from vlm_envs.content.homes.home import words_of

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
