"""What a question is, and how the answers of choices are laid out."""

from __future__ import annotations

import string
from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from vlm_envs.content.scenes.scene import Scene, Thing
from vlm_envs.content.scenes.things import Limits, Trait
from vlm_envs.responses.answers import AnswerKey, AnswerKind


@dataclass(frozen=True, kw_only=True, slots=True)
class Question:
    """A question about a scene.

    Attributes:
        text: What is asked, options not included.
        key: The answer.
        evidence: Indices of the things that the answer rests on.
        facts: True sentences from which the answer follows.
    """

    text: str
    key: AnswerKey
    evidence: tuple[int, ...]
    facts: str


@dataclass(frozen=True, kw_only=True, slots=True)
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
    ask: Callable[[np.random.Generator, Scene], Question | None]


@dataclass(frozen=True, kw_only=True, slots=True)
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
    draft: Callable[[np.random.Generator, Limits], QuestionDraft]
    least_px: int = 12
    ratio: float = 1.0

    def can_be_asked(self, small_px: tuple[int, int]) -> bool:
        """Returns whether things of these sizes can be asked about."""
        return small_px[1] >= self.least_px and small_px[1] >= self.ratio * small_px[0]


def choice(rng: np.random.Generator, question: str, right: str, wrong: Sequence[str]) -> AnswerKey:
    """Returns the key of a choice whose options are in random order.

    Args:
        rng: The source of chance.
        question: For the key.
        right: The right option.
        wrong: The others, all different.
    """
    options = [right, *wrong]
    order = rng.permutation(len(options))
    shown = tuple(options[index] for index in order)
    letter = string.ascii_uppercase[shown.index(right)]
    return AnswerKey(kind="choice", answers=(letter,), options=shown, question=question)


def exact(question: str, *answers: str) -> AnswerKey:
    """Returns the key of an answer that is compared as a text."""
    return AnswerKey(kind="exact", answers=answers, question=question)
