"""Where is it? Sides and heights of pairs whose kinds are found in the same places, and what lies in a holder."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.kinds.table import HOLDER_KINDS, KINDS
from vlm_envs.content.scenes.questions.question import Question, QuestionDraft, QuestionTemplate, choice, exact
from vlm_envs.content.scenes.questions.wording import a
from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.things import Limits, colors_of, small

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
    ask: Callable[[np.random.Generator, Scene, str, str], Question | None],
) -> Callable[[np.random.Generator, Limits], QuestionDraft]:
    """Returns a way to draft a question about two things, each the only one of its kind and colour."""

    def draft(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
        # Kites are above mugs and boats beside them wherever one looks; pairs of one place tell nothing.
        first = pick_several(rng, limits.plain_kinds, 1)[0]
        alike = [kind for kind in limits.plain_kinds if KINDS[kind].place == KINDS[first].place and kind != first]
        kinds = [first, pick_several(rng, alike, 1)[0] if alike else first]
        kinds = [kinds[index] for index in rng.permutation(2)]
        colors = pick_several(rng, colors_of(kinds[0]), 2)
        one, other = (small(rng, limits, kind, color) for kind, color in zip(kinds, colors, strict=True))
        return QuestionDraft(
            things=(one, other),
            reserved=frozenset(((one.kind, one.color), (other.kind, other.color))),
            ask=lambda rng, scene: ask(rng, scene, one.name, other.name),
        )

    return draft


def _side(rng: np.random.Generator, scene: Scene, one: str, other: str) -> Question | None:
    across, _ = relation(scene, 0, 1)
    if not across:
        return None
    text = pick(rng, (f"On which side of the {other} is the {one}?", f"Where is the {one}, as seen from the {other}?"))
    sides = {"left": "to the left", "right": "to the right"}
    key = choice(rng, text, sides.pop(across), list(sides.values()))
    return Question(text=text, key=key, evidence=(0, 1), facts=f"The {one} is to the {across} of the {other}.")


def _height(rng: np.random.Generator, scene: Scene, one: str, other: str) -> Question | None:
    _, upright = relation(scene, 0, 1)
    if not upright:
        return None
    text = f"Compared with the {other}, where in the height of the picture is the {one}?"
    words = {"above": "further up", "below": "further down"}
    key = choice(rng, text, words.pop(upright), list(words.values()))
    return Question(text=text, key=key, evidence=(0, 1), facts=f"The {one} is {upright} the {other}.")


def _direction(rng: np.random.Generator, scene: Scene, one: str, other: str) -> Question | None:
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
    return Question(text=text, key=key, evidence=(0, 1), facts=facts)


def _claim(rng: np.random.Generator, scene: Scene, one: str, other: str) -> Question | None:
    across, upright = relation(scene, 0, 1)
    true = across if rng.random() < 0.5 else upright
    if not true:
        return None
    claim = pick(rng, (("left", "right") if true == across else ("above", "below")))
    words = {"left": "to the left of", "right": "to the right of", "above": "above", "below": "below"}
    text = f"Is the {one} {words[claim]} the {other} in the picture?"
    facts = f"The {one} is {words[true]} the {other}."
    return Question(text=text, key=exact(text, "yes" if claim == true else "no"), evidence=(0, 1), facts=facts)


def _diagonal(across: str, upright: str) -> str:
    return f"{upright} and to the {across}"


def _contents(rng: np.random.Generator, limits: Limits) -> QuestionDraft:
    kinds = pick_several(rng, limits.plain_kinds, 1 + _NUM_ELSEWHERE)
    inner, *elsewhere = (small(rng, limits, kind, pick_several(rng, colors_of(kind), 1)[0]) for kind in kinds)
    holder_kind = pick_several(rng, HOLDER_KINDS, 1)[0]
    size_px = max(KINDS[holder_kind].legible_px, math.ceil(HOLDER_RATIO * inner.size_px))
    holder = Thing(kind=holder_kind, color=pick_several(rng, colors_of(holder_kind), 1)[0], size_px=size_px)
    things = (holder, replace(inner, inside=0), *elsewhere)

    def ask(rng: np.random.Generator, scene: Scene) -> Question:
        text = pick(rng, (f"What lies in the {holder.name}?", f"Which thing is inside the {holder.name}?"))
        key = choice(rng, text, a(inner.name), [a(thing.name) for thing in elsewhere])
        return Question(text=text, key=key, evidence=(1, 0), facts=f"In the {holder.name} lies {a(inner.name)}.")

    return QuestionDraft(things=things, reserved=frozenset((thing.kind, thing.color) for thing in things), ask=ask)


RELATIONS = (
    QuestionTemplate(name="side", kind="choice", chance=0.5, draft=_pair(_side)),
    QuestionTemplate(name="height", kind="choice", chance=0.5, draft=_pair(_height)),
    QuestionTemplate(name="direction", kind="choice", chance=0.25, draft=_pair(_direction)),
    QuestionTemplate(name="claim", kind="exact", chance=0.5, draft=_pair(_claim)),
    QuestionTemplate(name="contents", kind="choice", chance=0.25, draft=_contents),
)
"""Questions of relations."""
