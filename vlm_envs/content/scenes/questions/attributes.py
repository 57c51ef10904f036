"""What is it like? Colours of things, texts on signs, times on clocks."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.letters import DIGITS, LETTERS
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate, choice, exact
from vlm_envs.content.scenes.questions.wording import clock_time
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.things import (
    CLOCK_PX,
    SIGN_PX,
    TIME_STEP_MINUTES,
    Limits,
    Trait,
    colors_of,
    look_alikes,
    small,
)
from vlm_envs.responses.answers import AnswerKind

_NUM_WRONG = 3


def _color(answered_by: AnswerKind) -> Callable[[np.random.Generator, Limits], QuestionDraft]:
    def draft(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
        kind = pick_several(rng, limits.plain_kinds, 1)[0]
        color, *others = pick_several(rng, colors_of(kind), 1 + _NUM_WRONG)
        reserved: frozenset[Trait] = frozenset(((kind, None),))
        others_there = [thing for other in others for thing in look_alikes(rng, limits, kind, other, 2, reserved)[:1]]
        things = (small(rng, limits, kind, color), *others_there)

        def ask(rng: np.random.Generator, scene: Scene) -> Question:
            text = pick(rng, (f"What colour is the {kind}?", f"Which colour does the only {kind} in the picture have?"))
            key = choice(rng, text, color, others) if answered_by == "choice" else exact(text, *_spellings(color))
            return Question(text=text, key=key, evidence=(0,), facts=f"The {kind} is {color}.")

        return QuestionDraft(things=things, reserved=reserved, ask=ask)

    return draft


def _shown(
    kind: str,
    field: str,
    draw_four: Callable[[np.random.Generator], list[Any]],
    ask: Callable[[np.random.Generator, str, Any, list[Any]], Question],
) -> Callable[[np.random.Generator, Limits], QuestionDraft]:
    """Returns a way to draft a question about what the first of three signs or clocks shows, of four values drawn."""

    def draft(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
        colors = pick_several(rng, colors_of(kind), 3)
        right, *wrong = draw_four(rng)
        things = tuple(
            replace(small(rng, limits, kind, color), **{field: value})
            for color, value in zip(colors, (right, *wrong[:2]), strict=True)
        )
        reserved = frozenset((thing.kind, thing.color) for thing in things)
        return QuestionDraft(
            things=things, reserved=reserved, ask=lambda rng, scene: ask(rng, things[0].name, right, wrong)
        )

    return draft


def _text(answered_by: AnswerKind) -> Callable[[np.random.Generator, Limits], QuestionDraft]:
    def ask(rng: np.random.Generator, name: str, right: str, wrong: list[str]) -> Question:
        text = pick(rng, (f"What is written on the {name}?", f"What does the {name} say?"))
        key = choice(rng, text, right, wrong) if answered_by == "choice" else exact(text, right)
        return Question(text=text, key=key, evidence=(0,), facts=f'The {name} says "{right}".')

    return _shown("sign", "text", _four_texts, ask)


def _time(answered_by: AnswerKind) -> Callable[[np.random.Generator, Limits], QuestionDraft]:
    def ask(rng: np.random.Generator, name: str, right: int, wrong: list[int]) -> Question:
        time = clock_time(right)
        text = pick(rng, (f"What time does the {name} show?", f"What time is it by the {name}?"))
        if answered_by == "choice":
            key = choice(rng, text, time, [clock_time(minutes) for minutes in wrong])
        else:
            text = f"{text} Answer in hours and minutes with a colon between them."
            key = exact(text, time, *([f"0{time}"] if len(time) == 4 else []))
        return Question(text=text, key=key, evidence=(0,), facts=f"The {name} shows {time}.")

    return _shown("clock", "minutes", _four_times, ask)


def _four_texts(rng: np.random.Generator) -> list[str]:
    """Returns four texts, of which any differs from two others in one place: none stands out without the picture."""
    pattern = (LETTERS, DIGITS, DIGITS) if rng.random() < 0.5 else (LETTERS, LETTERS, DIGITS)
    pairs = [pick_several(rng, letters, 2) for letters in pattern]
    fixed = int(rng.integers(len(pairs)))
    pairs[fixed] = [pairs[fixed][0]]
    texts = ["".join((first, second, third)) for first in pairs[0] for second in pairs[1] for third in pairs[2]]
    return [texts[index] for index in rng.permutation(len(texts))]


def _four_times(rng: np.random.Generator) -> list[int]:
    """Returns four times, of which any shares its hour or its minutes with two others."""
    hours = rng.permutation(12)[:2]
    quarters = rng.permutation(60 // TIME_STEP_MINUTES)[:2] * TIME_STEP_MINUTES
    times = [60 * int(hour) + int(minutes) for hour in hours for minutes in quarters]
    return [times[index] for index in rng.permutation(len(times))]


def _spellings(color: str) -> tuple[str, ...]:
    return (color, "gray") if color == "grey" else (color,)


ATTRIBUTES = (
    QuestionTemplate(name="colour_choice", kind="choice", chance=0.25, draft=_color("choice")),
    QuestionTemplate(name="colour", kind="exact", chance=1 / 11, draft=_color("exact")),
    QuestionTemplate(name="text_choice", kind="choice", chance=0.25, draft=_text("choice"), least_px=SIGN_PX),
    QuestionTemplate(name="text", kind="exact", chance=0.0, draft=_text("exact"), least_px=SIGN_PX),
    QuestionTemplate(name="time_choice", kind="choice", chance=0.25, draft=_time("choice"), least_px=CLOCK_PX),
    QuestionTemplate(name="time", kind="exact", chance=1 / 48, draft=_time("exact"), least_px=CLOCK_PX),
)
"""Questions of attributes."""
