"""Questions about scenes by category, and how they are worded and drafted."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
from numpy.random import Generator

from vlm_envs.content.random_choice import pick, pick_several
from vlm_envs.content.scenes.asked import Question, choice, exact, number_key
from vlm_envs.content.scenes.brush import DIGITS, FRAME, LETTERS
from vlm_envs.content.scenes.scene import (
    CLOCK_PX,
    SIGN_PX,
    TIME_STEP_MINUTES,
    Limits,
    Scene,
    Thing,
    Trait,
    clock_minutes,
    colors_of,
    look_alikes,
    small,
)
from vlm_envs.content.scenes.scene_kinds import HOLDER_KINDS, KINDS
from vlm_envs.responses.answers import AnswerKind

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def a(words: str) -> str:
    """Returns words with the indefinite article."""
    return f"{'an' if words[0] in 'aeio' or words.startswith('um') else 'a'} {words}"


def several(kind: str, color: str = "") -> str:
    """Returns the plural, such as `red mugs`."""
    return f"{color} {KINDS[kind].several}".strip()


def there_are(number: int, kind: str, color: str = "") -> str:
    """Returns a sentence that says how many there are: There are three red mugs."""
    one = f"{color} {kind}".strip()
    if number == 1:
        return f"There is one {one}."
    count = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"There is no {one}." if number == 0 else f"There are {count} {several(kind, color)}."


def clock_time(minutes: int) -> str:
    """Returns a time as a clock of twelve hours tells it: `3:45`, `12:00`."""
    return f"{minutes // 60 or 12}:{minutes % 60:02d}"


SceneQuestion = Question[int]
"""A question whose evidence is the indices of things."""


@dataclass(frozen=True, slots=True)
class QuestionDraft:
    """A question before its scene is there.

    Attributes:
        things: What it needs: the scene's first things, in this order, without places. One that lies in another comes
            after it.
        reserved: Traits that no further thing may have, or the answer would not be the only true one.
        ask: Draws the wording and the options; None where the things lie so that it cannot be asked.
    """

    things: tuple[Thing, ...]
    reserved: frozenset[Trait]
    ask: Callable[[Generator, Scene], SceneQuestion | None]


@dataclass(frozen=True, slots=True)
class QuestionTemplate:
    """A way to ask.

    Attributes:
        name: What reports call it.
        kind: Of its keys.
        chance: What the best constant answer scores, by construction.
        draft: Draws what is asked about, and the answer where places do not decide it.
        least_px: Least of the largest small size at which it can be asked.
        ratio: Least ratio of the largest to the least small size.
    """

    name: str
    kind: AnswerKind
    chance: float
    draft: Callable[[Generator, Limits], QuestionDraft]
    least_px: int = 12
    ratio: float = 1.0

    def can_be_asked(self, small_px: tuple[int, int]) -> bool:
        """Returns whether things of these sizes can be asked about."""
        return small_px[1] >= self.least_px and small_px[1] >= self.ratio * small_px[0]


def draft_of(things: Iterable[Thing], ask: Callable[[Generator, Scene], SceneQuestion | None]) -> QuestionDraft:
    """Returns a draft of things of which no further one may share both kind and color."""
    needed = tuple(things)
    return QuestionDraft(needed, frozenset((thing.kind, thing.color) for thing in needed), ask)


def _any_kind(rng: Generator, limits: Limits) -> str:
    return pick_several(rng, limits.plain_kinds, 1)[0]


def _any_color(rng: Generator, kind: str) -> str:
    return pick_several(rng, colors_of(kind), 1)[0]


_NUM_LOOK_ALIKES = 4
_NUM_OPTIONS = 4


def _presence(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    color = _any_color(rng, kind)
    reserved: frozenset[Trait] = frozenset(((kind, color),))
    there = bool(rng.random() < 0.5)
    things = look_alikes(rng, limits, kind, color, _NUM_LOOK_ALIKES, reserved)
    if there:  # In place of a look-alike, so that numbers tell nothing.
        things[0] = small(rng, limits, kind, color)

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        name = f"{color} {kind}"
        text = pick(
            rng,
            (
                f"Is there {a(name)} anywhere in the picture?",
                f"Can {a(name)} be seen in the picture?",
                f"Does the picture show {a(name)}?",
            ),
        )
        key = exact(text, "yes" if there else "no")
        return Question(key, (0,) if there else (), there_are(int(there), kind, color))

    return QuestionDraft(tuple(things), reserved, ask)


def _which_is_there(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, _NUM_OPTIONS)
    traits = [(kind, _any_color(rng, kind)) for kind in kinds]
    reserved: frozenset[Trait] = frozenset(traits)
    things = [small(rng, limits, *traits[0])]
    for kind, color in traits[1:]:  # Each absent thing has one of its kind there.
        things += look_alikes(rng, limits, kind, color, 1, reserved)

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        text = pick(rng, ("Which of these things is in the picture?", "One of these is in the picture. Which?"))
        there, *absent = (f"{color} {kind}" for kind, color in traits)
        key = choice(rng, text, a(there), [a(name) for name in absent])
        return Question(key, (0,), there_are(1, *traits[0]))

    return QuestionDraft(tuple(things), reserved, ask)


_NUM_WRONG = 3


def _color(answered_by: AnswerKind) -> Callable[[Generator, Limits], QuestionDraft]:
    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        kind = _any_kind(rng, limits)
        color, *others = pick_several(rng, colors_of(kind), 1 + _NUM_WRONG)
        reserved: frozenset[Trait] = frozenset(((kind, None),))
        others_there = [thing for other in others for thing in look_alikes(rng, limits, kind, other, 2, reserved)[:1]]
        things = (small(rng, limits, kind, color), *others_there)

        def ask(rng: Generator, scene: Scene) -> SceneQuestion:
            text = pick(rng, (f"What colour is the {kind}?", f"Which colour does the only {kind} in the picture have?"))
            key = choice(rng, text, color, others) if answered_by == "choice" else exact(text, *_spellings(color))
            return Question(key, (0,), f"The {kind} is {color}.")

        return QuestionDraft(things, reserved, ask)

    return draft


def _shown(
    kind: str,
    field: str,
    draw_four: Callable[[Generator], list[Any]],
    ask: Callable[[Generator, str, Any, list[Any]], SceneQuestion],
) -> Callable[[Generator, Limits], QuestionDraft]:
    """Returns a way to draft a question about what the first of three signs or clocks shows, of four values drawn."""

    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        colors = pick_several(rng, colors_of(kind), 3)
        right, *wrong = draw_four(rng)
        things = tuple(
            replace(small(rng, limits, kind, color), **{field: value})
            for color, value in zip(colors, (right, *wrong[:2]), strict=True)
        )
        return draft_of(things, lambda rng, scene: ask(rng, things[0].name, right, wrong))

    return draft


def _text(answered_by: AnswerKind) -> Callable[[Generator, Limits], QuestionDraft]:
    def ask(rng: Generator, name: str, right: str, wrong: list[str]) -> SceneQuestion:
        text = pick(rng, (f"What is written on the {name}?", f"What does the {name} say?"))
        key = choice(rng, text, right, wrong) if answered_by == "choice" else exact(text, right)
        return Question(key, (0,), f'The {name} says "{right}".')

    return _shown("sign", "text", _four_texts, ask)


def _time(answered_by: AnswerKind) -> Callable[[Generator, Limits], QuestionDraft]:
    def ask(rng: Generator, name: str, right: int, wrong: list[int]) -> SceneQuestion:
        time = clock_time(right)
        text = pick(rng, (f"What time does the {name} show?", f"What time is it by the {name}?"))
        if answered_by == "choice":
            key = choice(rng, text, time, [clock_time(minutes) for minutes in wrong])
        else:
            text = f"{text} Answer in hours and minutes with a colon between them."
            key = exact(text, time, *([f"0{time}"] if len(time) == 4 else []))
        return Question(key, (0,), f"The {name} shows {time}.")

    return _shown("clock", "minutes", _four_times, ask)


def _four_texts(rng: Generator) -> list[str]:
    """Returns four texts, of which any differs from two others in one place: none stands out without the picture."""
    pattern = (LETTERS, DIGITS, DIGITS) if rng.random() < 0.5 else (LETTERS, LETTERS, DIGITS)
    pairs = [pick_several(rng, letters, 2) for letters in pattern]
    fixed = int(rng.integers(len(pairs)))
    pairs[fixed] = [pairs[fixed][0]]
    texts = ["".join((first, second, third)) for first in pairs[0] for second in pairs[1] for third in pairs[2]]
    return [texts[index] for index in rng.permutation(len(texts))]


def _four_times(rng: Generator) -> list[int]:
    """Returns four times, of which any shares its hour or its minutes with two others."""
    hours = rng.permutation(12)[:2]
    quarters = rng.permutation(60 // TIME_STEP_MINUTES)[:2] * TIME_STEP_MINUTES
    times = [60 * int(hour) + int(minutes) for hour in hours for minutes in quarters]
    return [times[index] for index in rng.permutation(len(times))]


def _spellings(color: str) -> tuple[str, ...]:
    return (color, "gray") if color == "grey" else (color,)


MAX_COUNT = 5


def _of_a_color(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    color = _any_color(rng, kind)
    reserved: frozenset[Trait] = frozenset(((kind, color),))
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, color) for _ in range(number)]
    others = look_alikes(rng, limits, kind, color, int(rng.integers(2, 5)), reserved)

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        names = several(kind, color)
        text = pick(rng, (f"How many {names} are there in the picture?", f"How many {names} does the picture show?"))
        return _counted(text, number, there_are(number, kind, color))

    return QuestionDraft((*counted, *others), reserved, ask)


def _of_a_kind(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    reserved: frozenset[Trait] = frozenset(((kind, None),))
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, _any_color(rng, kind)) for _ in range(number)]

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        text = pick(
            rng,
            (
                f"How many {several(kind)} of any colour are there in the picture?",
                f"Whatever their colours, how many {several(kind)} does the picture show?",
            ),
        )
        return _counted(text, number, there_are(number, kind))

    return QuestionDraft(tuple(counted), reserved, ask)


def _counted(text: str, count: int, facts: str) -> SceneQuestion:
    return Question(number_key(text, count), tuple(range(count)), facts)


HOLDER_RATIO = 2.6
"""Size of a holder by that of what lies in it."""

_NUM_ELSEWHERE = 3


def relation(scene: Scene, first: int, second: int) -> tuple[str, str]:
    """Returns where one thing lies as seen from another, by their boxes.

    Args:
        scene: Where both are.
        first: Index of the one.
        second: Index of the other.

    Returns:
        `left`, `right` or nothing, and `above`, `below` or nothing. A word stands for a gap between the boxes, along
        its axis, of at least a fiftieth of the picture's longer side and 6 pixels.
    """
    one, other = scene.box(first), scene.box(second)
    gap = max(6.0, max(scene.width, scene.height) / 50)
    across = "left" if other.x1 - one.x2 >= gap else "right" if one.x1 - other.x2 >= gap else ""
    upright = "above" if other.y1 - one.y2 >= gap else "below" if one.y1 - other.y2 >= gap else ""
    return across, upright


def _pair(
    ask: Callable[[Generator, Scene, str, str], SceneQuestion | None],
) -> Callable[[Generator, Limits], QuestionDraft]:
    """Returns a way to draft a question about two things, each the only one of its kind and colour."""

    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        # Kites are above mugs and boats beside them wherever one looks; pairs of one place tell nothing.
        first = _any_kind(rng, limits)
        alike = [kind for kind in limits.plain_kinds if KINDS[kind].place == KINDS[first].place and kind != first]
        kinds = [first, pick_several(rng, alike, 1)[0] if alike else first]
        kinds = [kinds[index] for index in rng.permutation(2)]
        colors = pick_several(rng, colors_of(kinds[0]), 2)
        one, other = (small(rng, limits, kind, color) for kind, color in zip(kinds, colors, strict=True))
        return draft_of((one, other), lambda rng, scene: ask(rng, scene, one.name, other.name))

    return draft


def _side(rng: Generator, scene: Scene, one: str, other: str) -> SceneQuestion | None:
    across, _ = relation(scene, 0, 1)
    if not across:
        return None
    text = pick(rng, (f"On which side of the {other} is the {one}?", f"Where is the {one}, as seen from the {other}?"))
    sides = {"left": "to the left", "right": "to the right"}
    key = choice(rng, text, sides.pop(across), list(sides.values()))
    return Question(key, (0, 1), f"The {one} is to the {across} of the {other}.")


def _height(rng: Generator, scene: Scene, one: str, other: str) -> SceneQuestion | None:
    _, upright = relation(scene, 0, 1)
    if not upright:
        return None
    text = f"Compared with the {other}, where in the height of the picture is the {one}?"
    words = {"above": "further up", "below": "further down"}
    key = choice(rng, text, words.pop(upright), list(words.values()))
    return Question(key, (0, 1), f"The {one} is {upright} the {other}.")


def _direction(rng: Generator, scene: Scene, one: str, other: str) -> SceneQuestion | None:
    across, upright = relation(scene, 0, 1)
    if not across or not upright:
        return None
    text = pick(
        rng,
        (
            f"In which direction from the {other} is the {one}?",
            f"Relative to the {other}, where in the picture is the {one}?",
        ),
    )
    options = [
        _diagonal(*words) for words in (("left", "above"), ("right", "above"), ("left", "below"), ("right", "below"))
    ]
    options.remove(right := _diagonal(across, upright))
    key = choice(rng, text, right, options)
    facts = f"The {one} is to the {across} of the {other}. The {one} is {upright} the {other}."
    return Question(key, (0, 1), facts)


def _claim(rng: Generator, scene: Scene, one: str, other: str) -> SceneQuestion | None:
    across, upright = relation(scene, 0, 1)
    true = across if rng.random() < 0.5 else upright
    if not true:
        return None
    claim = pick(rng, (("left", "right") if true == across else ("above", "below")))
    words = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
    text = f"Is the {one} {words[claim]} the {other} in the picture?"
    facts = f"The {one} is {words[true]} the {other}."
    return Question(exact(text, "yes" if claim == true else "no"), (0, 1), facts)


def _diagonal(across: str, upright: str) -> str:
    return f"{upright} and to the {across}"


def _contents(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 1 + _NUM_ELSEWHERE)
    inner, *elsewhere = (small(rng, limits, kind, _any_color(rng, kind)) for kind in kinds)
    holder_kind = pick_several(rng, HOLDER_KINDS, 1)[0]
    size_px = max(KINDS[holder_kind].legible_px, math.ceil(HOLDER_RATIO * inner.size_px))
    holder = Thing(kind=holder_kind, color=_any_color(rng, holder_kind), size_px=size_px)
    things = (holder, replace(inner, inside=0), *elsewhere)

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        text = pick(rng, (f"What lies in the {holder.name}?", f"Which thing is inside the {holder.name}?"))
        key = choice(rng, text, a(inner.name), [a(thing.name) for thing in elsewhere])
        return Question(key, (1, 0), f"In the {holder.name} lies {a(inner.name)}.")

    return draft_of(things, ask)


_MAX_COMPARED = 4
_HEIGHT_RATIO = 1.4
_LEAST_SEEN_RATIO = 1.3


def _more(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 2)
    colors = [_any_color(rng, kind) for kind in kinds]
    traits: tuple[Trait, ...] = tuple(zip(kinds, colors, strict=True))
    more = int(rng.integers(3))  # The first, the second, or neither.
    if more == 2:
        numbers = [int(rng.integers(1, _MAX_COMPARED + 1))] * 2
    else:
        fewer = int(rng.integers(_MAX_COMPARED))
        numbers = [fewer, fewer]
        numbers[more] = int(rng.integers(fewer + 1, _MAX_COMPARED + 1))
    things = [
        small(rng, limits, kind, color)
        for kind, color, number in zip(kinds, colors, numbers, strict=True)
        for _ in range(number)
    ]

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        text = pick(rng, ("Of which are there more in the picture?", "Which does the picture show more of?"))
        options = [several(kind, color) for kind, color in zip(kinds, colors, strict=True)]
        options.append("neither, there are as many of both")
        key = choice(rng, text, options.pop(more), options)
        facts = [there_are(number, kind, color) for kind, color, number in zip(kinds, colors, numbers, strict=True)]
        return Question(key, tuple(range(len(things))), " ".join(facts))

    return QuestionDraft(tuple(things), frozenset(traits), ask)


def _taller(rng: Generator, limits: Limits) -> QuestionDraft:
    high = limits.small_px[1]
    # Kinds as high as their frames: of flat ones one would know without looking.
    upright = [
        kind
        for kind in limits.plain_kinds
        if KINDS[kind].height == FRAME and max(KINDS[kind].legible_px, limits.small_px[0]) * _HEIGHT_RATIO <= high
    ]
    kinds = pick_several(rng, upright, 2)
    colors = pick_several(rng, colors_of(kinds[0]), 2)
    low = max(limits.small_px[0], *(KINDS[kind].legible_px for kind in kinds))
    short = int(rng.integers(low, int(high / _HEIGHT_RATIO) + 1))
    tall = int(rng.integers(int(np.ceil(short * _HEIGHT_RATIO)), high + 1))
    sizes = (tall, short)
    things = tuple(
        replace(small(rng, limits, kind, color), size_px=size)
        for kind, color, size in zip(kinds, colors, sizes, strict=True)
    )

    def ask(rng: Generator, scene: Scene) -> SceneQuestion | None:
        heights = [scene.box(index).y2 - scene.box(index).y1 for index in (0, 1)]
        if heights[0] < _LEAST_SEEN_RATIO * heights[1]:
            return None
        text = pick(rng, ("Which of the two is taller in the picture?", "Which of these takes up more of the height?"))
        first, second = (thing.name for thing in things)
        key = choice(rng, text, f"the {first}", [f"the {second}"])
        return Question(key, (0, 1), f"The {first} is taller than the {second}.")

    return draft_of(things, ask)


def _same_time(rng: Generator, limits: Limits) -> QuestionDraft:
    colors = pick_several(rng, colors_of("clock"), 2)
    minutes = [clock_minutes(rng)] * 2
    same = bool(rng.random() < 0.5)
    while not same and minutes[0] == minutes[1]:
        minutes[1] = clock_minutes(rng)
    things = tuple(
        replace(small(rng, limits, "clock", color), minutes=shown) for color, shown in zip(colors, minutes, strict=True)
    )

    def ask(rng: Generator, scene: Scene) -> SceneQuestion:
        first, second = (thing.name for thing in things)
        text = pick(
            rng,
            (
                f"Do the {first} and the {second} show the same time?",
                f"Is it the same time by the {first} as by the {second}?",
            ),
        )
        times = [f"The {thing.name} shows {clock_time(thing.minutes)}." for thing in things]
        return Question(exact(text, "yes" if same else "no"), (0, 1), " ".join(times))

    return draft_of(things, ask)


TEMPLATES: Mapping[str, tuple[QuestionTemplate, ...]] = {
    "existence": (
        QuestionTemplate("presence", "exact", 0.5, _presence),
        QuestionTemplate("which_is_there", "choice", 0.25, _which_is_there),
    ),
    "attribute": (
        QuestionTemplate("colour_choice", "choice", 0.25, _color("choice")),
        QuestionTemplate("colour", "exact", 1 / 11, _color("exact")),
        QuestionTemplate("text_choice", "choice", 0.25, _text("choice"), least_px=SIGN_PX),
        QuestionTemplate("text", "exact", 0.0, _text("exact"), least_px=SIGN_PX),
        QuestionTemplate("time_choice", "choice", 0.25, _time("choice"), least_px=CLOCK_PX),
        QuestionTemplate("time", "exact", 1 / 48, _time("exact"), least_px=CLOCK_PX),
    ),
    "relation": (
        QuestionTemplate("side", "choice", 0.5, _pair(_side)),
        QuestionTemplate("height", "choice", 0.5, _pair(_height)),
        QuestionTemplate("direction", "choice", 0.25, _pair(_direction)),
        QuestionTemplate("claim", "exact", 0.5, _pair(_claim)),
        QuestionTemplate("contents", "choice", 0.25, _contents),
    ),
    "count": (
        QuestionTemplate("count", "number", 1 / (MAX_COUNT + 1), _of_a_color),
        QuestionTemplate("count_of_kind", "number", 1 / (MAX_COUNT + 1), _of_a_kind),
    ),
    "comparison": (
        QuestionTemplate("more", "choice", 1 / 3, _more),
        QuestionTemplate("taller", "choice", 0.5, _taller, least_px=18, ratio=_HEIGHT_RATIO),
        QuestionTemplate("same_time", "exact", 0.5, _same_time, least_px=CLOCK_PX),
    ),
}
"""Ways to ask, by the category of their questions."""

CATEGORIES = tuple(TEMPLATES)
