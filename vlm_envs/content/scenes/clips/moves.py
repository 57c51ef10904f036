"""Where a thing is at a time, when something happens to it, and how it moves."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

import numpy as np

from vlm_envs.content.drawing import pick, pick_several
from vlm_envs.content.scenes.clips.drawing import ClipLimits, Want, crosses
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
    with_frames,
    with_movers,
)
from vlm_envs.content.scenes.questions.question import choice
from vlm_envs.content.scenes.video_sentences import in_frame, quarter_of, stretch
from vlm_envs.content.scenes.videos import Clip


def side_then(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the side of the line on which a thing that crosses it is at a time."""
    wanted = -1 if rng.random() < 0.5 else 1

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        frames = [frame for frame in _frames(clip) if clip.is_clear(0, frame) and clip.side(0, frame) == wanted]
        frame = pick(rng, frames)
        text = f"On which side of {line_of(clip)} is the {name_of(clip, 0)} at t = {clip.time_s(frame):.1f} s?"
        sides = ["to the left of it", "to the right of it"] if clip.line_upright else ["above it", "below it"]
        right = sides.pop(0 if wanted < 0 else 1)
        fact = in_frame(clip, frame, f"the {name_of(clip, 0)} is {side_of(clip, 0, frame)} {line_of(clip)}")
        return ClipQuestion(text=text, key=choice(rng, text, right, sides), evidence=((0, frame),), facts=fact)

    return ClipDraft(limits=limits, wants=(crosses,), ask=ask)


def quarter_then(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the quarter of the picture in which a thing that moves is at a time."""
    wanted = pick(rng, _QUARTERS)

    def changes_quarter(clip: Clip) -> bool:
        quarters = {quarter_of(clip, 0, frame) for frame in _frames(clip)}
        return wanted in quarters and len(quarters - {None}) > 1

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        frame = pick(rng, [frame for frame in _frames(clip) if quarter_of(clip, 0, frame) == wanted])
        text = f"In which quarter of the picture is the {name_of(clip, 0)} at t = {clip.time_s(frame):.1f} s?"
        key = choice(rng, text, f"the {wanted} one", [f"the {other} one" for other in _QUARTERS if other != wanted])
        fact = in_frame(clip, frame, f"the {name_of(clip, 0)} is in the {wanted} quarter")
        return ClipQuestion(text=text, key=key, evidence=((0, frame),), facts=fact)

    return ClipDraft(limits=limits, wants=(changes_quarter,), ask=ask)


_QUARTERS = ("upper left", "upper right", "lower left", "lower right")


def _frames(clip: Clip) -> range:
    return range(1, clip.num_frames + 1)


def when(
    rng: np.random.Generator,
    limits: ClipLimits,
    *,
    text: Callable[[Clip], str],
    befores: Callable[[int], Iterable[int]],
    before: Callable[[Clip], int | None],
    also: Want,
    facts: Callable[[Clip], Iterable[str]],
) -> ClipDraft:
    """Returns a question about between which two frames something happens to the first mover.

    Args:
        rng: The source of chance.
        limits: What clips may be.
        text: The question.
        befores: By a clip's number of frames: the frames after which it may happen.
        before: By a clip with the mover: after which of them it happens.
        also: What must be so besides.
        facts: What is told of it.
    """
    limits, num_frames = with_frames(rng, limits)
    # Whichever of the options is right, the others could be: who knows clips knows no more.
    wanted, *others = pick_several(rng, tuple(befores(num_frames)), NUM_CHOICES)

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        asked = text(clip)
        said = [stretch(clip, frame, frame + 1) for frame in (wanted, *others)]
        return ClipQuestion(
            text=asked,
            key=choice(rng, asked, said[0], said[1:]),
            evidence=((0, wanted), (0, wanted + 1)),
            facts=" ".join(facts(clip)),
        )

    return ClipDraft(limits=limits, wants=(lambda clip: before(clip) == wanted and also(clip),), ask=ask)


def moves_on(clip: Clip) -> bool:
    """Returns whether a clip's first mover goes at least a fiftieth of the side from frame to frame while it moves."""
    mover = clip.movers[0]
    return _distance(clip) >= (mover.last - mover.first) * clip.width / 50


def _distance(clip: Clip, mover: int = 0) -> int:
    """Returns how far a mover goes along the axis along which it goes farther, in pixels."""
    return max(map(abs, _step(clip, mover)))


def _step(clip: Clip, mover: int = 0) -> tuple[int, int]:
    moved = clip.movers[mover]
    return moved.to[0] - moved.thing.x, moved.to[1] - moved.thing.y


def told_move(clip: Clip) -> Iterable[str]:
    """Yields when the first mover rests, moves and rests again."""
    mover, the = clip.movers[0], f"The {name_of(clip, 0)}"
    if mover.first > 1:
        yield f"{the} stands still {stretch(clip, 1, mover.first)}."
    yield f"{the} moves {stretch(clip, mover.first, mover.last)}."
    if mover.last < clip.num_frames:
        yield f"{the} stands still {stretch(clip, mover.last, clip.num_frames)}."


def told_crossing(clip: Clip) -> Iterable[str]:
    """Yields when the first mover crosses the line."""
    frame = clip.crossing(0)
    assert frame is not None, "it was wanted"
    yield f"The {name_of(clip, 0)} crosses {line_of(clip)} {stretch(clip, frame, frame + 1)}."


def direction(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the way a thing moves, which is clearly one of four."""
    wanted = pick(rng, tuple(_WAYS))
    axis, sign = _WAYS[wanted]

    def goes(clip: Clip) -> bool:
        along, aside = _step(clip)[axis] * sign, abs(_step(clip)[1 - axis])
        return along >= clip.width / 6 and along >= 2 * aside

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        mover = clip.movers[0]
        text = f"Which way does the {name_of(clip, 0)} move?"
        key = choice(rng, text, wanted, [way for way in _WAYS if way != wanted])
        fact = f"The {name_of(clip, 0)} moves {wanted} {stretch(clip, mover.first, mover.last)}."
        return ClipQuestion(text=text, key=key, evidence=((0, mover.first), (0, mover.last)), facts=fact)

    return ClipDraft(limits=limits, wants=(goes,), ask=ask)


_WAYS: Mapping[str, tuple[int, int]] = {"to the left": (0, -1), "to the right": (0, 1), "up": (1, -1), "down": (1, 1)}


def still(rng: np.random.Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the one thing of several that stands still."""
    limits, number = with_movers(rng, limits, 2)

    def ask(rng: np.random.Generator, clip: Clip) -> ClipQuestion:
        text = "Which thing stands still throughout?"
        right, *wrong = all_names(clip)
        facts = [f"The {name_of(clip, 0)} stands still {throughout(clip)}."]
        evidence: list[Seen] = [(0, 1), (0, clip.num_frames)]
        for index, mover in enumerate(clip.movers[1:], start=1):
            facts.append(f"The {name_of(clip, index)} moves {stretch(clip, mover.first, mover.last)}.")
            evidence += [(index, mover.first), (index, mover.last)]
        return ClipQuestion(
            text=text, key=choice(rng, text, right, wrong), evidence=tuple(evidence), facts=" ".join(facts)
        )

    def goes_far(clip: Clip) -> bool:
        return _distance(clip) >= clip.width / 8

    return ClipDraft(limits=limits, wants=(lambda clip: _distance(clip) == 0, *(goes_far,) * (number - 1)), ask=ask)
