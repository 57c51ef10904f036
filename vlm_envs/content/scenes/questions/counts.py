"""How many? From none to five, each as often, with others of the kind or the colour about."""

from __future__ import annotations

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate
from vlm_envs.content.scenes.questions.wording import several, there_are
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.things import Limits, Trait, colors_of, look_alikes, small
from vlm_envs.responses.answers import AnswerKey

MAX_COUNT = 5


def _of_a_color(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kind = pick_several(rng, limits.plain_kinds, 1)[0]
    color = pick_several(rng, colors_of(kind), 1)[0]
    reserved: frozenset[Trait] = frozenset(((kind, color),))
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, color) for _ in range(number)]
    others = look_alikes(rng, limits, kind, color, int(rng.integers(2, 5)), reserved)

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        names = several(kind, color)
        text = pick(rng, (f"How many {names} are there in the picture?", f"How many {names} does the picture show?"))
        return _counted(text, number, there_are(number, kind, color))

    return QuestionDraft(things=(*counted, *others), reserved=reserved, ask=ask)


def _of_a_kind(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kind = pick_several(rng, limits.plain_kinds, 1)[0]
    reserved: frozenset[Trait] = frozenset(((kind, None),))
    number = int(rng.integers(MAX_COUNT + 1))
    counted = [small(rng, limits, kind, pick_several(rng, colors_of(kind), 1)[0]) for _ in range(number)]

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        text = pick(
            rng,
            (
                f"How many {several(kind)} of any colour are there in the picture?",
                f"Whatever their colours, how many {several(kind)} does the picture show?",
            ),
        )
        return _counted(text, number, there_are(number, kind))

    return QuestionDraft(things=tuple(counted), reserved=reserved, ask=ask)


def _counted(text: str, number: int, facts: str) -> Question:
    key = AnswerKey(kind="number", answers=(str(number),), question=text)
    return Question(text=text, key=key, evidence=tuple(range(number)), facts=facts)


COUNTS = (
    QuestionTemplate(name="count", kind="number", chance=1 / (MAX_COUNT + 1), draft=_of_a_color),
    QuestionTemplate(name="count_of_kind", kind="number", chance=1 / (MAX_COUNT + 1), draft=_of_a_kind),
)
"""Questions of counts."""
