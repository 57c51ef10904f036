"""What a question about a clip is, and words that several of them take."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from vlm_envs.content.scenes.clips.drawing import ClipLimits, Want
from vlm_envs.content.scenes.video_sentences import stretch
from vlm_envs.content.scenes.videos import Clip
from vlm_envs.responses.answers import AnswerKey, AnswerKind

NUM_CHOICES = 4
"""Options of a choice that is not between the things."""

Seen = tuple[int, int]
"""Index of a mover, and a frame, from 1."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipQuestion:
    """A question about a clip.

    Attributes:
        text: What is asked, options not included.
        key: The answer.
        evidence: In which frames which things have to be looked at.
        facts: True sentences from which the answer follows, of the forms of `video_sentences` where there is one.
    """

    text: str
    key: AnswerKey
    evidence: tuple[Seen, ...]
    facts: str


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipDraft:
    """A question before its clip is there.

    Attributes:
        limits: What the clip may be; narrower than what was asked for.
        wants: What its first movers are to do.
        ask: Draws the options; None where the clip cannot be asked about.
    """

    limits: ClipLimits
    wants: tuple[Want, ...]
    ask: Callable[[np.random.Generator, Clip], ClipQuestion | None]


@dataclass(frozen=True, kw_only=True, slots=True)
class ClipTemplate:
    """A way to ask.

    Attributes:
        name: What reports call it.
        kind: Of its keys.
        draft: Draws what is asked about, and the answer.
        fewest_movers: Most things that clips must be allowed to have, at least.
        fewest_frames: Fewest frames that clips may have.
    """

    name: str
    kind: AnswerKind
    draft: Callable[[np.random.Generator, ClipLimits], ClipDraft]
    fewest_movers: int = 1
    fewest_frames: int = 4

    def can_be_asked(self, limits: ClipLimits) -> bool:
        """Returns whether clips of these limits can be asked about."""
        return limits.num_movers[1] >= self.fewest_movers and limits.num_frames[0] >= self.fewest_frames


def with_movers(rng: np.random.Generator, limits: ClipLimits, fewest: int) -> tuple[ClipLimits, int]:
    """Returns limits with one number of movers, at least so many, and the number."""
    low, high = limits.num_movers
    number = int(rng.integers(max(low, fewest), max(high, fewest) + 1))
    return replace(limits, num_movers=(number, number)), number


def with_frames(rng: np.random.Generator, limits: ClipLimits) -> tuple[ClipLimits, int]:
    """Returns limits with one number of frames, and the number."""
    number = int(rng.integers(limits.num_frames[0], limits.num_frames[1] + 1))
    return replace(limits, num_frames=(number, number)), number


def name_of(clip: Clip, mover: int) -> str:
    """Returns what a mover is called, such as `red mug`."""
    return clip.movers[mover].thing.name


def all_names(clip: Clip) -> list[str]:
    """Returns what all movers are called, with the article."""
    return [f"the {mover.thing.name}" for mover in clip.movers]


def line_of(clip: Clip) -> str:
    """Returns what the line is called."""
    return f"the {clip.line_color} line"


def side_of(clip: Clip, mover: int, frame: int) -> str:
    """Returns on which side of the line a mover is in a frame, such as `to the left of`."""
    words = ("to the left of", "to the right of") if clip.line_upright else ("above", "below")
    return words[0] if clip.side(mover, frame) < 0 else words[1]


def throughout(clip: Clip) -> str:
    """Returns the stretch from the first frame to the last."""
    return stretch(clip, 1, clip.num_frames)
