"""Questions about scenes: templates by category, wording, and drafting."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import product
from typing import Any

from numpy.random import Generator

from vlm_envs.content.random_choice import pick, pick_several
from vlm_envs.content.scenes.asked import Question, Template, choice, number_key
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
from vlm_envs.content.seeded import exact
from vlm_envs.responses.answers import AnswerKey, AnswerKind

_NUMBERS = ("no", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten")


def a(words: str) -> str:
    """Prefixes words with an indefinite article."""
    return f"{'an' if words[0] in 'aeio' or words.startswith('um') else 'a'} {words}"


def several(kind: str, color: str = "") -> str:
    """Returns the plural, such as `red mugs`."""
    return f"{color} {KINDS[kind].several}".strip()


def there_are(number: int, kind: str, color: str = "") -> str:
    """Returns a sentence with a count, such as "There are three red mugs"."""
    one = f"{color} {kind}".strip()
    if number == 1:
        return f"There is one {one}."
    count = _NUMBERS[number] if number < len(_NUMBERS) else str(number)
    return f"There is no {one}." if number == 0 else f"There are {count} {several(kind, color)}."


def clock_time(minutes: int) -> str:
    """Formats a time of a twelve-hour clock: `3:45`, `12:00`."""
    return f"{minutes // 60 or 12}:{minutes % 60:02d}"


SceneQuestion = Question[int]
"""A question whose evidence is a list of thing indices."""

Ask = Callable[[Generator, Scene], SceneQuestion | None]
"""Draws the wording and the options; None if the positions of things make the question unsuitable."""


@dataclass(frozen=True)
class QuestionDraft:
    """A question before its scene has been drawn.

    Attributes:
        things: The first things of the scene, in this order, without positions. A thing inside another comes
            after it.
        reserved: Traits that no other thing may have, because the answer would no longer be unique.
        ask: Draws the wording and the options; None if the positions make the question unsuitable.
    """

    things: tuple[Thing, ...]
    reserved: Collection[Trait]
    ask: Ask


Drafter = Callable[[Generator, Limits], QuestionDraft]


@dataclass(frozen=True)
class QuestionTemplate(Template):
    """A question template for scenes.

    Attributes:
        chance: Score of the best constant answer, by construction.
        draft: Draws the question, and the answer unless positions decide it.
        least_px: Smallest allowed maximum size of small things.
        ratio: Smallest allowed ratio of the maximum to the minimum size of small things.
    """

    chance: float
    draft: Drafter
    least_px: int = 12
    ratio: float = 1.0

    def can_be_asked(self, small_px: tuple[int, int]) -> bool:
        """Returns whether this question can be asked about things of these sizes."""
        return small_px[1] >= self.least_px and small_px[1] >= self.ratio * small_px[0]


def draft_of(things: Iterable[Thing], ask: Ask) -> QuestionDraft:
    """Returns a draft whose things are unique in their combination of kind and color."""
    needed = tuple(things)
    return QuestionDraft(needed, {(thing.kind, thing.color) for thing in needed}, ask)


Key = Callable[[Generator, str], AnswerKey]
"""Makes the answer key of a question."""


def _is(*answers: str) -> Key:
    return lambda rng, text: exact(text, *answers)


def _one_of(right: str, wrong: Sequence[str]) -> Key:
    return lambda rng, text: choice(rng, text, right, wrong)


def _worded(key: Key, evidence: Iterable[int], facts: str, *texts: str) -> Ask:
    """Returns a function that asks in one of several wordings, whatever the positions."""
    return lambda rng, scene: Question(key(rng, pick(rng, texts)), tuple(evidence), facts)


def _any_kind(rng: Generator, limits: Limits) -> str:
    return pick_several(rng, limits.plain_kinds, 1)[0]


def _any_color(rng: Generator, kind: str) -> str:
    return pick_several(rng, colors_of(kind), 1)[0]


_NUM_LOOK_ALIKES = 4
_NUM_OPTIONS = 4


def _presence(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    color = _any_color(rng, kind)
    reserved = {(kind, color)}
    there = bool(rng.random() < 0.5)
    things = look_alikes(rng, limits, kind, color, _NUM_LOOK_ALIKES, reserved)
    if there:  # replaces a look-alike, so that the number of things reveals nothing
        things[0] = small(rng, limits, kind, color)
    name = a(f"{color} {kind}")
    ask = _worded(
        _is("yes" if there else "no"),
        (0,) if there else (),
        there_are(int(there), kind, color),
        f"Is there {name} anywhere in the picture?",
        f"Can {name} be seen in the picture?",
        f"Does the picture show {name}?",
    )
    return QuestionDraft(tuple(things), reserved, ask)


def _which_is_there(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, _NUM_OPTIONS)
    traits = [(kind, _any_color(rng, kind)) for kind in kinds]
    reserved = set(traits)
    things = [small(rng, limits, *traits[0])]
    for kind, color in traits[1:]:  # each absent thing has a look-alike of its kind
        things += look_alikes(rng, limits, kind, color, 1, reserved)
    there, *absent = (a(f"{color} {kind}") for kind, color in traits)
    ask = _worded(
        _one_of(there, absent),
        (0,),
        there_are(1, *traits[0]),
        "Which of these things is in the picture?",
        "One of these is in the picture. Which?",
    )
    return QuestionDraft(tuple(things), reserved, ask)


_NUM_WRONG = 3


def _color(answered_by: AnswerKind) -> Drafter:
    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        kind = _any_kind(rng, limits)
        color, *others = pick_several(rng, colors_of(kind), 1 + _NUM_WRONG)
        reserved = {(kind, None)}
        others_there = [thing for other in others for thing in look_alikes(rng, limits, kind, other, 2, reserved)[:1]]
        spellings = (color, "gray") if color == "grey" else (color,)
        ask = _worded(
            _one_of(color, others) if answered_by == "choice" else _is(*spellings),
            (0,),
            f"The {kind} is {color}.",
            f"What colour is the {kind}?",
            f"Which colour does the only {kind} in the picture have?",
        )
        return QuestionDraft((small(rng, limits, kind, color), *others_there), reserved, ask)

    return draft


def _shown(
    kind: str, field: str, draw_four: Callable[[Generator], list[Any]], ask: Callable[[str, Any, list[Any]], Ask]
) -> Drafter:
    """Returns a drafter of questions about the first of three signs or clocks, with four drawn values as options."""

    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        colors = pick_several(rng, colors_of(kind), 3)
        right, *wrong = draw_four(rng)
        things = tuple(
            replace(small(rng, limits, kind, color), **{field: value})
            for color, value in zip(colors, (right, *wrong[:2]), strict=True)
        )
        return draft_of(things, ask(things[0].name, right, wrong))

    return draft


def _text(answered_by: AnswerKind) -> Drafter:
    def ask(name: str, right: str, wrong: list[str]) -> Ask:
        key = _one_of(right, wrong) if answered_by == "choice" else _is(right)
        texts = f"What is written on the {name}?", f"What does the {name} say?"
        return _worded(key, (0,), f'The {name} says "{right}".', *texts)

    return _shown("sign", "text", _four_texts, ask)


def _time(answered_by: AnswerKind) -> Drafter:
    def ask(name: str, right: int, wrong: list[int]) -> Ask:
        time = clock_time(right)
        texts = [f"What time does the {name} show?", f"What time is it by the {name}?"]
        key = _one_of(time, [clock_time(minutes) for minutes in wrong])
        if answered_by == "exact":
            texts = [f"{text} Answer in hours and minutes with a colon between them." for text in texts]
            key = _is(time, *([f"0{time}"] if len(time) == 4 else []))
        return _worded(key, (0,), f"The {name} shows {time}.", *texts)

    return _shown("clock", "minutes", _four_times, ask)


def _four_texts(rng: Generator) -> list[str]:
    """Returns four texts, each differing from two others in one character, so that none stands out."""
    pattern = (LETTERS, DIGITS, DIGITS) if rng.random() < 0.5 else (LETTERS, LETTERS, DIGITS)
    pairs = [pick_several(rng, letters, 2) for letters in pattern]
    fixed = int(rng.integers(len(pairs)))
    pairs[fixed] = [pairs[fixed][0]]
    texts = ["".join(letters) for letters in product(*pairs)]
    return pick_several(rng, texts, len(texts))


def _four_times(rng: Generator) -> list[int]:
    """Returns four times, each sharing its hour or its minutes with two others."""
    hours = rng.permutation(12)[:2]
    quarters = rng.permutation(60 // TIME_STEP_MINUTES)[:2] * TIME_STEP_MINUTES
    times = [60 * int(hour) + int(minutes) for hour in hours for minutes in quarters]
    return pick_several(rng, times, len(times))


MAX_COUNT = 5


def _of_a_color(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    color = _any_color(rng, kind)
    reserved = {(kind, color)}
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, color) for _ in range(number)]
    others = look_alikes(rng, limits, kind, color, int(rng.integers(2, 5)), reserved)
    names = several(kind, color)
    texts = f"How many {names} are there in the picture?", f"How many {names} does the picture show?"
    ask = _worded(_counts(number), range(number), there_are(number, kind, color), *texts)
    return QuestionDraft((*counted, *others), reserved, ask)


def _of_a_kind(rng: Generator, limits: Limits) -> QuestionDraft:
    kind = _any_kind(rng, limits)
    reserved = {(kind, None)}
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, _any_color(rng, kind)) for _ in range(number)]
    ask = _worded(
        _counts(number),
        range(number),
        there_are(number, kind),
        f"How many {several(kind)} of any colour are there in the picture?",
        f"Whatever their colours, how many {several(kind)} does the picture show?",
    )
    return QuestionDraft(tuple(counted), reserved, ask)


def _counts(number: int) -> Key:
    return lambda rng, text: number_key(text, number)


HOLDER_RATIO = 2.6
"""Minimum ratio between the sizes of a holder and its contents."""

_NUM_ELSEWHERE = 3


def relation(scene: Scene, first: int, second: int) -> tuple[str, str]:
    """Returns the position of one thing relative to another, by their boxes.

    Args:
        scene: The scene.
        first: Index of the one.
        second: Index of the other.

    Returns:
        `left`, `right` or nothing, and `above`, `below` or nothing. A word requires a gap between the boxes,
        along its axis, of at least 1/50 of the image's longer side and 6 pixels.
    """
    one, other = scene.box(first), scene.box(second)
    gap = max(6.0, max(scene.width, scene.height) / 50)
    across = "left" if other.x1 - one.x2 >= gap else "right" if one.x1 - other.x2 >= gap else ""
    upright = "above" if other.y1 - one.y2 >= gap else "below" if one.y1 - other.y2 >= gap else ""
    return across, upright


def _pair(ask: Callable[[Generator, str, str, str, str], SceneQuestion | None]) -> Drafter:
    """Returns a drafter of questions about two things, each the only one of its kind and color.

    Args:
        ask: Asks a question, given a generator, the names of both things, and their relation (`left`,
            `right`, or nothing; `above`, `below`, or nothing).
    """

    def draft(rng: Generator, limits: Limits) -> QuestionDraft:
        # Both things occur in the same kind of place: a kite is above a mug in almost every scene
        first = _any_kind(rng, limits)
        alike = [kind for kind in limits.plain_kinds if KINDS[kind].place == KINDS[first].place and kind != first]
        kinds = pick_several(rng, [first, pick_several(rng, alike, 1)[0] if alike else first], 2)
        colors = pick_several(rng, colors_of(kinds[0]), 2)
        one, other = (small(rng, limits, kind, color) for kind, color in zip(kinds, colors, strict=True))
        return draft_of((one, other), lambda rng, scene: ask(rng, one.name, other.name, *relation(scene, 0, 1)))

    return draft


def _side(rng: Generator, one: str, other: str, across: str, upright: str) -> SceneQuestion | None:
    if not across:
        return None
    text = pick(rng, (f"On which side of the {other} is the {one}?", f"Where is the {one}, as seen from the {other}?"))
    opposite = "right" if across == "left" else "left"
    key = choice(rng, text, f"to the {across}", [f"to the {opposite}"])
    return Question(key, (0, 1), f"The {one} is to the {across} of the {other}.")


def _height(rng: Generator, one: str, other: str, across: str, upright: str) -> SceneQuestion | None:
    if not upright:
        return None
    text = f"Compared with the {other}, where in the height of the picture is the {one}?"
    words = {"above": "further up", "below": "further down"}
    key = choice(rng, text, words.pop(upright), list(words.values()))
    return Question(key, (0, 1), f"The {one} is {upright} the {other}.")


def _direction(rng: Generator, one: str, other: str, across: str, upright: str) -> SceneQuestion | None:
    if not across or not upright:
        return None
    texts = (
        f"In which direction from the {other} is the {one}?",
        f"Relative to the {other}, where in the picture is the {one}?",
    )
    options = [f"{words[0]} and to the {words[1]}" for words in product(("above", "below"), ("left", "right"))]
    options.remove(right := f"{upright} and to the {across}")
    key = choice(rng, pick(rng, texts), right, options)
    facts = f"The {one} is to the {across} of the {other}. The {one} is {upright} the {other}."
    return Question(key, (0, 1), facts)


def _claim(rng: Generator, one: str, other: str, across: str, upright: str) -> SceneQuestion | None:
    true = across if rng.random() < 0.5 else upright
    if not true:
        return None
    claim = pick(rng, (("left", "right") if true == across else ("above", "below")))
    words = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
    text = f"Is the {one} {words[claim]} the {other} in the picture?"
    key = exact(text, "yes" if claim == true else "no")
    return Question(key, (0, 1), f"The {one} is {words[true]} the {other}.")


def _contents(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 1 + _NUM_ELSEWHERE)
    inner, *elsewhere = (small(rng, limits, kind, _any_color(rng, kind)) for kind in kinds)
    holder_kind = pick_several(rng, HOLDER_KINDS, 1)[0]
    size_px = max(KINDS[holder_kind].legible_px, math.ceil(HOLDER_RATIO * inner.size_px))
    holder = Thing(kind=holder_kind, color=_any_color(rng, holder_kind), size_px=size_px)
    ask = _worded(
        _one_of(a(inner.name), [a(thing.name) for thing in elsewhere]),
        (1, 0),
        f"In the {holder.name} lies {a(inner.name)}.",
        f"What lies in the {holder.name}?",
        f"Which thing is inside the {holder.name}?",
    )
    return draft_of((holder, replace(inner, inside=0), *elsewhere), ask)


_MAX_COMPARED = 4
_HEIGHT_RATIO = 1.4
_LEAST_SEEN_RATIO = 1.3


def _more(rng: Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 2)
    traits = [(kind, _any_color(rng, kind)) for kind in kinds]
    more = int(rng.integers(3))  # the first, the second, or neither
    if more == 2:
        numbers = [int(rng.integers(1, _MAX_COMPARED + 1))] * 2
    else:
        numbers = [int(rng.integers(_MAX_COMPARED))] * 2
        numbers[more] = int(rng.integers(numbers[more] + 1, _MAX_COMPARED + 1))
    counted = list(zip(traits, numbers, strict=True))
    things = tuple(small(rng, limits, *trait) for trait, number in counted for _ in range(number))
    options = [*(several(*trait) for trait in traits), "neither, there are as many of both"]
    ask = _worded(
        _one_of(options.pop(more), options),
        range(len(things)),
        " ".join(there_are(number, *trait) for trait, number in counted),
        "Of which are there more in the picture?",
        "Which does the picture show more of?",
    )
    return QuestionDraft(things, set(traits), ask)


def _taller(rng: Generator, limits: Limits) -> QuestionDraft:
    high = limits.small_px[1]
    # Only kinds as tall as their frames: the answer for flat ones could be guessed without looking
    upright = [
        kind
        for kind in limits.plain_kinds
        if KINDS[kind].height == FRAME and max(KINDS[kind].legible_px, limits.small_px[0]) * _HEIGHT_RATIO <= high
    ]
    kinds = pick_several(rng, upright, 2)
    colors = pick_several(rng, colors_of(kinds[0]), 2)
    low = max(limits.small_px[0], *(KINDS[kind].legible_px for kind in kinds))
    short = int(rng.integers(low, int(high / _HEIGHT_RATIO) + 1))
    tall = int(rng.integers(math.ceil(short * _HEIGHT_RATIO), high + 1))
    things = tuple(
        replace(small(rng, limits, kind, color), size_px=size)
        for kind, color, size in zip(kinds, colors, (tall, short), strict=True)
    )
    first, second = (thing.name for thing in things)
    word = _worded(
        _one_of(f"the {first}", [f"the {second}"]),
        (0, 1),
        f"The {first} is taller than the {second}.",
        "Which of the two is taller in the picture?",
        "Which of these takes up more of the height?",
    )

    def ask(rng: Generator, scene: Scene) -> SceneQuestion | None:
        heights = [scene.box(index).y2 - scene.box(index).y1 for index in (0, 1)]
        return None if heights[0] < _LEAST_SEEN_RATIO * heights[1] else word(rng, scene)

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
    first, second = (thing.name for thing in things)
    ask = _worded(
        _is("yes" if same else "no"),
        (0, 1),
        " ".join(f"The {thing.name} shows {clock_time(thing.minutes)}." for thing in things),
        f"Do the {first} and the {second} show the same time?",
        f"Is it the same time by the {first} as by the {second}?",
    )
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
"""Question templates, by category."""

CATEGORIES = tuple(TEMPLATES)
