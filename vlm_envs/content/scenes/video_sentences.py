"""A closed set of sentences about clips, and their truth.

About every frame of an interval, or a single frame:

    The red ball is to the left of the blue line.       left, right; above, below; undecided while it touches
    the line
    The red ball is above the green kite.               by their middles; undecided below 1/50 of the side
    The red ball is in the upper left quarter.          upper, lower; left, right; undecided near the image's
    center lines
    There are two mugs.                                 also `a red mug`, `no boat`

About an interval of at least two frames:

    The red ball crosses the blue line.
    The red ball moves to the left.                      left, right, up, down: by at least 1/50 of the side
    The red ball moves. The red ball stands still.

Anchors in a sentence (`[F2 @ t=0.50s]`, `from 1.0 to 1.5 seconds`, `in frame 3`) are ignored. A sentence of
another form, or about an unknown kind of thing, has no truth value; a sentence about a known kind that is not
there is false.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from vlm_envs.content.colors import COLORS
from vlm_envs.content.scenes.scene_labels import named_things
from vlm_envs.content.scenes.videos import Clip

MAX_SENTENCE_CHARS = 400

_NUMBER = r"[0-9]{1,4}(?:\.[0-9]{1,4})?"
_SECONDS = r"\s?(?:seconds?|secs?|s)\b"
_AT = rf"(?: ?[(@]? ?(?:at )?(?:t ?= ?)?{_NUMBER}{_SECONDS}\)?)?"
_ANCHORS = re.compile(
    rf"\b(?:from|between) frame [0-9]{{1,4}}{_AT} (?:to|and|until|through) frame [0-9]{{1,4}}{_AT}"
    rf"|\[f[^\]]{{0,200}}\]|\b(?:from|between) {_NUMBER}(?:{_SECONDS})? (?:to|and|until) {_NUMBER}{_SECONDS}"
    rf"|\b(?:at|after|in)? ?(?:t ?= ?)?{_NUMBER}{_SECONDS}"
    r"|\b(?:in|from|at|between)? ?frames? [0-9]{1,4}(?: ?(?:to|and|until|-|through) ?(?:frame )?[0-9]{1,4})?"
)
_WORDS = re.compile(r"[a-z0-9]+")
_LINE = re.compile(r"(?:the |a )?(?:(\w+) )?line")
_COUNTS = {word: n for n, words in enumerate(("no 0", "a an one 1", "two 2", "three 3", "four 4", "five 5", "six 6",
    "seven 7", "eight 8")) for word in words.split()}  # fmt: skip
_STEPS = {"left": (0, -1), "right": (0, 1), "up": (1, -1), "down": (1, 1)}


@dataclass(frozen=True)
class Happening:
    """A true sentence about an interval of a clip.

    Attributes:
        text: The sentence, including its times.
        first: First frame of the interval, counted from 1.
        last: Last frame of the interval.
    """

    text: str
    first: int
    last: int


def describes(clip: Clip, description: str, first: int, last: int | None = None) -> bool | None:
    """Returns whether a sentence is true in a frame or an interval of a clip.

    Args:
        clip: The clip.
        description: A sentence of one of the module's forms; case is ignored.
        first: The frame, or the first of the interval, counted from 1.
        last: The last frame of the interval; None for a single frame.

    Returns:
        Its truth; None if it has an unknown form, names no single known thing, or the clip does not have the
        frames.
    """
    frames = range(first, (first if last is None else last) + 1)
    if not frames or first < 1 or frames[-1] > clip.num_frames or len(description) > MAX_SENTENCE_CHARS:
        return None
    said = " ".join(_WORDS.findall(_ANCHORS.sub(" ", description.casefold())))
    for form, tell in _FORMS:
        if match := form.fullmatch(said):
            return tell(clip, match, frames)
    return None


def happenings(clip: Clip) -> tuple[Happening, ...]:
    """Returns the events of a clip: each crossing of the line, each move, and everything that never moves."""
    found: list[Happening] = []
    for index, mover in enumerate(clip.movers):
        name = mover.thing.name
        for frame in range(1, clip.num_frames):
            if clip.side(index, frame) != clip.side(index, frame + 1):
                found.append(_happening(clip, f"The {name} crosses the {clip.line_color} line", frame, frame + 1))
        if (mover.thing.x, mover.thing.y) == mover.to:
            found.append(_happening(clip, f"The {name} stands still", 1, clip.num_frames))
            continue
        for direction in _STEPS:
            if _has_moved(clip, index, range(mover.first, mover.last + 1), direction):
                way = direction if direction in ("up", "down") else f"to the {direction}"
                found.append(_happening(clip, f"The {name} moves {way}", mover.first, mover.last))
    return tuple(found)


def stretch(clip: Clip, first: int, last: int) -> str:
    """Returns an interval as sentences express it, such as `from 1.5 to 2.0 seconds`."""
    return f"from {clip.time_s(first):.1f} to {clip.time_s(last):.1f} seconds"


def in_frame(clip: Clip, frame: int, words: str) -> str:
    """Returns a sentence about a frame, such as "In frame 4 at 1.5 seconds the red ball is below the line"."""
    return f"In frame {frame} at {clip.time_s(frame):.1f} seconds {words}."


def quarter_of(clip: Clip, index: int, frame: int) -> str | None:
    """Returns the quarter of the image that a mover's middle is in, such as `upper left`.

    None within 1/16 of the side of a center line, where it is hard to tell.
    """
    x, y = (at - clip.width / 2 for at in clip.middle(index, frame))
    if min(abs(x), abs(y)) < clip.width / 16:
        return None
    return f"{'upper' if y < 0 else 'lower'} {'left' if x < 0 else 'right'}"


def _happening(clip: Clip, text: str, first: int, last: int) -> Happening:
    return Happening(f"{text} {stretch(clip, first, last)}.", first, last)


def _single(clip: Clip, words: str) -> int | bool | None:
    """Returns the index of the only thing that words name; False if it is not there, None if they do not name one."""
    found = named_things(clip.scene(1), words)
    if found is None or len(found) > 1:
        return None
    return found[0] if found else False


def _line_named(clip: Clip, words: str) -> bool | None:
    """Returns whether words name the clip's line; None if they name no possible line."""
    match = _LINE.fullmatch(words)
    if match is None or match[1] not in (None, *COLORS):
        return None
    return match[1] in (None, clip.line_color)


def _is_placed(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    one, where = _single(clip, match[1]), match[2]
    axis, sign = (0, -1 if where == "left of" else 1) if where.endswith("of") else (1, -1 if where == "above" else 1)
    line = _line_named(clip, match[3])
    other = _single(clip, match[3]) if line is None else None
    if one is None or (line is None and other is None):
        return None
    if one is False or line is False or other is False:
        return False
    if line:
        if clip.line_upright != (axis == 0):
            return False  # nothing is above a vertical line, or to the side of a horizontal one
        return _throughout(clip.side(one, frame) == sign if clip.is_clear(one, frame) else None for frame in frames)
    assert other is not None
    gap = max(clip.width, clip.height) / 50
    return _throughout(
        by * sign > 0 if abs(by) >= gap else None
        for by in (clip.middle(one, frame)[axis] - clip.middle(other, frame)[axis] for frame in frames)
    )


def _throughout(verdicts: Iterable[bool | None]) -> bool | None:
    """Returns whether something holds in every frame; None if no frame contradicts it but some are undecided."""
    found = list(verdicts)
    return False if False in found else None if None in found else True


def _is_in_quarter(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    one = _single(clip, match[1])
    if one is None or one is False:
        return one
    quarters = (quarter_of(clip, one, frame) for frame in frames)
    return _throughout(None if quarter is None else quarter == match[2] for quarter in quarters)


def _are_there(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    found = named_things(clip.scene(1), match[2])
    if found is None:
        return None
    # "There is a mug" does not deny that there are others
    return len(found) >= 1 if match[1] in ("a", "an") else len(found) == _COUNTS[match[1]]


def _has_crossed(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    one, line = _single(clip, match[1]), _line_named(clip, match[2])
    if one is None or line is None or len(frames) < 2:
        return None
    return one is not False and line and clip.side(one, frames[0]) != clip.side(one, frames[-1])


def _moves(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    one = _single(clip, match[1])
    if one is None or len(frames) < 2:
        return None
    ways = [match[2]] if match[2] else list(_STEPS)
    return one is not False and any(_has_moved(clip, one, frames, way) for way in ways)


def _rests(clip: Clip, match: re.Match[str], frames: range) -> bool | None:
    one = _single(clip, match[1])
    if one is None or len(frames) < 2:
        return None
    return one is not False and len({clip.middle(one, frame) for frame in frames}) == 1


def _has_moved(clip: Clip, index: int, frames: range, way: str) -> bool:
    axis, sign = _STEPS[way]
    by = clip.middle(index, frames[-1])[axis] - clip.middle(index, frames[0])[axis]
    return by * sign >= max(clip.width, clip.height) / 50


_FORMS: tuple[tuple[re.Pattern[str], Callable[[Clip, re.Match[str], range], bool | None]], ...] = (
    (re.compile(r"(.+?) is (?:to the )?(left of|right of|above|below) (.+)"), _is_placed),
    (
        re.compile(r"(.+?) is in the ((?:upper|lower) (?:left|right)) quarter(?: of the (?:picture|frame|image))?"),
        _is_in_quarter,
    ),
    (re.compile(r"there (?:is|are) (no|an?|one|two|three|four|five|six|seven|eight|[0-8]) (.+)"), _are_there),
    (re.compile(r"(.+?) cross(?:es|ed) (.+)"), _has_crossed),
    (re.compile(r"(.+?) (?:stands still|rests|does not move|stays where it is)"), _rests),
    (re.compile(r"(.+?) move[sd](?: (?:to the )?(left|right|up|down)(?:wards)?)?"), _moves),
)
