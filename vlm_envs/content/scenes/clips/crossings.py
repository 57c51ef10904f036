"""Which things cross the line, in which order, and how many."""

from __future__ import annotations

from itertools import pairwise, permutations

import numpy as np

from vlm_envs.content.drawing import pick_several
from vlm_envs.content.scenes.clips.drawing import ClipLimits, Want, crosses, keeps_off
from vlm_envs.content.scenes.clips.question import (
    NUM_CHOICES,
    ClipDraft,
    ClipQuestion,
    Seen,
    all_names,
    line_of,
    name_of,
    side_of,
    throughout,
    with_movers,
)
from vlm_envs.content.scenes.questions.question import choice
from vlm_envs.content.scenes.video_sentences import stretch
from vlm_envs.content.scenes.videos import Clip
from vlm_envs.responses.answers import AnswerKey

_MIDDLES = " A thing crosses it when its middle passes it."


def crossings(clip: Clip) -> list[tuple[int, int]]:
    """Returns which movers cross the line, each behind the last frame before, in the order they do."""
    ahead = ((clip.crossing(mover), mover) for mover in range(len(clip.movers)))
    return sorted((frame, mover) for frame, mover in ahead if frame is not None)


def _told_crossings(clip: Clip) -> tuple[tuple[Seen, ...], list[str]]:
    """Returns where to look at each crossing and, of what does not cross, at the start; and a sentence of each."""
    evidence: list[Seen] = []
    facts: list[str] = []
    found = crossings(clip)
    for frame, mover in found:
        evidence += [(mover, frame), (mover, frame + 1)]
        facts.append(f"The {name_of(clip, mover)} crosses {line_of(clip)} {stretch(clip, frame, frame + 1)}.")
    for mover in sorted({*range(len(clip.movers))} - {mover for _, mover in found}):
        evidence.append((mover, 1))
        facts.append(f"The {name_of(clip, mover)} is {side_of(clip, mover, 1)} {line_of(clip)} {throughout(clip)}.")
    return tuple(evidence), facts


def end(rng: np.random.Generator, limits: ClipLimits, *, last: bool) -> ClipDraft:
    """Drafts a question about which of two to all things is the first or the last to cross."""
    limits, number = with_movers(rng, limits, 2)
    num_crossing = int(rng.integers(2, number + 1))

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion | None:
        found = crossings(clip)
        (frame, mover), (other, _) = (found[-1], found[-2]) if last else (found[0], found[1])
        if frame == other:
            return None
        text = f"Which thing crosses {line_of(clip)} {'last' if last else 'first'}?{_MIDDLES}"
        names = all_names(clip)
        right = names.pop(mover)
        evidence, facts = _told_crossings(clip)
        return ClipQuestion(text=text, key=choice(rng, text, right, names), evidence=evidence, facts=" ".join(facts))

    return ClipDraft(limits=limits, wants=_some_cross(num_crossing, number), ask=ask)


def sequence(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the order in which three things cross."""
    limits, number = with_movers(rng, limits, 3)

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion | None:
        found = crossings(clip)
        if any(one == other for (one, _), (other, _) in pairwise(found)):
            return None
        right = tuple(mover for _, mover in found)
        wrong = [order for order in permutations(sorted(right)) if order != right]
        text = f"In which order do things cross {line_of(clip)}?{_MIDDLES}"
        said = [
            ", ".join(f"the {name_of(clip, mover)}" for mover in order)
            for order in (right, *pick_several(rng, wrong, NUM_CHOICES - 1))
        ]
        evidence, facts = _told_crossings(clip)
        return ClipQuestion(
            text=text, key=choice(rng, text, said[0], said[1:]), evidence=evidence, facts=" ".join(facts)
        )

    return ClipDraft(limits=limits, wants=_some_cross(3, number), ask=ask)


def count(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about how many things cross, none of them as often as all."""
    wanted = int(rng.integers(0, limits.num_movers[1] + 1))
    limits, number = with_movers(rng, limits, max(wanted, 1))

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        text = f"How many things cross {line_of(clip)}?{_MIDDLES}"
        evidence, facts = _told_crossings(clip)
        key = AnswerKey(kind="number", answers=(str(wanted),), question=text)
        return ClipQuestion(text=text, key=key, evidence=evidence, facts=" ".join(facts))

    return ClipDraft(limits=limits, wants=_some_cross(wanted, number), ask=ask)


def _some_cross(num_crossing: int, number: int) -> tuple[Want, ...]:
    return (*(crosses,) * num_crossing, *(keeps_off,) * (number - num_crossing))
