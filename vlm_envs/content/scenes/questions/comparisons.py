"""Which of the two? Numbers, heights and times compared."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.brush import FRAME
from vlm_envs.content.scenes.kinds.table import KINDS
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate, choice, exact
from vlm_envs.content.scenes.questions.wording import clock_time, several, there_are
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.things import CLOCK_PX, Limits, Trait, clock_minutes, colors_of, small

_MAX_COUNT = 4
_HEIGHT_RATIO = 1.4
_LEAST_SEEN_RATIO = 1.3


def _more(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 2)
    colors = [pick_several(rng, colors_of(kind), 1)[0] for kind in kinds]
    traits: tuple[Trait, ...] = tuple(zip(kinds, colors, strict=True))
    more = int(rng.integers(3))  # The first, the second, or neither.
    if more == 2:
        numbers = [int(rng.integers(1, _MAX_COUNT + 1))] * 2
    else:
        fewer = int(rng.integers(_MAX_COUNT))
        numbers = [fewer, fewer]
        numbers[more] = int(rng.integers(fewer + 1, _MAX_COUNT + 1))
    things = [
        small(rng, limits, kind, color)
        for kind, color, number in zip(kinds, colors, numbers, strict=True)
        for _ in range(number)
    ]

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        text = pick(rng, ("Of which are there more in the picture?", "Which does the picture show more of?"))
        options = [several(kind, color) for kind, color in zip(kinds, colors, strict=True)]
        options.append("neither, there are as many of both")
        key = choice(rng, text, options.pop(more), options)
        facts = [there_are(number, kind, color) for kind, color, number in zip(kinds, colors, numbers, strict=True)]
        return Question(text=text, key=key, evidence=tuple(range(len(things))), facts=" ".join(facts))

    return QuestionDraft(things=tuple(things), reserved=frozenset(traits), ask=ask)


def _taller(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
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

    def ask(rng: np.random.Generator, scene: Scene) -> Question | None:
        heights = [scene.box(index).y2 - scene.box(index).y1 for index in (0, 1)]
        if heights[0] < _LEAST_SEEN_RATIO * heights[1]:
            return None
        text = pick(rng, ("Which of the two is taller in the picture?", "Which of these takes up more of the height?"))
        first, second = (thing.name for thing in things)
        key = choice(rng, text, f"the {first}", [f"the {second}"])
        return Question(text=text, key=key, evidence=(0, 1), facts=f"The {first} is taller than the {second}.")

    return QuestionDraft(things=things, reserved=frozenset((thing.kind, thing.color) for thing in things), ask=ask)


def _same_time(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    colors = pick_several(rng, colors_of("clock"), 2)
    minutes = [clock_minutes(rng)] * 2
    same = bool(rng.random() < 0.5)
    while not same and minutes[0] == minutes[1]:
        minutes[1] = clock_minutes(rng)
    things = tuple(
        replace(small(rng, limits, "clock", color), minutes=shown) for color, shown in zip(colors, minutes, strict=True)
    )

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        first, second = (thing.name for thing in things)
        text = pick(
            rng,
            (
                f"Do the {first} and the {second} show the same time?",
                f"Is it the same time by the {first} as by the {second}?",
            ),
        )
        times = [f"The {thing.name} shows {clock_time(thing.minutes)}." for thing in things]
        return Question(text=text, key=exact(text, "yes" if same else "no"), evidence=(0, 1), facts=" ".join(times))

    return QuestionDraft(things=things, reserved=frozenset((thing.kind, thing.color) for thing in things), ask=ask)


COMPARISONS = (
    QuestionTemplate(name="more", kind="choice", chance=1 / 3, draft=_more),
    QuestionTemplate(
        name="taller",
        kind="choice",
        chance=0.5,
        draft=_taller,
        least_px=18,
        ratio=_HEIGHT_RATIO,
    ),
    QuestionTemplate(name="same_time", kind="exact", chance=0.5, draft=_same_time, least_px=CLOCK_PX),
)
"""Questions of comparison."""
