"""Is it there? Half of what is asked for is, and things like it are always about."""

from __future__ import annotations

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate, choice, exact
from vlm_envs.content.scenes.questions.wording import a, there_are
from vlm_envs.content.scenes.scene import Scene
from vlm_envs.content.scenes.things import Limits, Trait, colors_of, look_alikes, small

_NUM_LOOK_ALIKES = 4
_NUM_OPTIONS = 4


def _presence(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kind = pick_several(rng, limits.plain_kinds, 1)[0]
    color = pick_several(rng, colors_of(kind), 1)[0]
    reserved: frozenset[Trait] = frozenset(((kind, color),))
    there = bool(rng.random() < 0.5)
    things = look_alikes(rng, limits, kind, color, _NUM_LOOK_ALIKES, reserved)
    if there:  # In place of a look-alike, so that numbers tell nothing.
        things[0] = small(rng, limits, kind, color)

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        name = f"{color} {kind}"
        text = pick(
            rng,
            (
                f"Is there {a(name)} anywhere in the picture?",
                f"Can {a(name)} be seen in the picture?",
                f"Does the picture show {a(name)}?",
            ),
        )
        return Question(
            text=text,
            key=exact(text, "yes" if there else "no"),
            evidence=(0,) if there else (),
            facts=there_are(int(there), kind, color),
        )

    return QuestionDraft(things=tuple(things), reserved=reserved, ask=ask)


def _which_is_there(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, _NUM_OPTIONS)
    traits = [(kind, pick_several(rng, colors_of(kind), 1)[0]) for kind in kinds]
    reserved: frozenset[Trait] = frozenset(traits)
    things = [small(rng, limits, *traits[0])]
    for kind, color in traits[1:]:  # Each absent thing has one of its kind there.
        things += look_alikes(rng, limits, kind, color, 1, reserved)

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        text = pick(rng, ("Which of these things is in the picture?", "One of these is in the picture. Which?"))
        there, *absent = (f"{color} {kind}" for kind, color in traits)
        key = choice(rng, text, a(there), [a(name) for name in absent])
        return Question(text=text, key=key, evidence=(0,), facts=there_are(1, *traits[0]))

    return QuestionDraft(things=tuple(things), reserved=reserved, ask=ask)


EXISTENCE = (
    QuestionTemplate(name="presence", kind="exact", chance=0.5, draft=_presence),
    QuestionTemplate(name="which_is_there", kind="choice", chance=0.25, draft=_which_is_there),
)
"""Questions of existence."""
