"""Questions about clips: crossings and their times, positions at a time, and directions.

The answer is drawn first; then clips are tried until one has it. All options of a choice are plausible and in
random order, so that no letter or number is right more often than another.

    order    first, last     which thing crosses the line first or last            one of the things
             sequence        in which order three things cross it                  one of four orders
    count    crossings       how many things cross it                              a number from 0
    place    side            which side of the line a thing is on at a time        one of two
             quarter         which quarter of the image it is in then              one of four
    time     crossing        when a thing's middle passes the line                 one of four intervals
             start, stop     when a thing starts to move, or stops                 one of four intervals
    motion   direction       which way a thing moves                               one of four
             still           which thing stands still                              one of the things
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from itertools import pairwise, permutations

from numpy.random import Generator

from vlm_envs.content.random_choice import pick, pick_several
from vlm_envs.content.scenes.asked import Question, Template, choice, number_key
from vlm_envs.content.scenes.clip_drawing import ClipLimits, Want, crosses, keeps_off
from vlm_envs.content.scenes.video_sentences import in_frame, quarter_of, stretch
from vlm_envs.content.scenes.videos import Clip

NUM_CHOICES = 4
"""Number of options of a choice that is not between the things."""

Seen = tuple[int, int]
"""Index of a mover, and a frame counted from 1."""


ClipQuestion = Question[Seen]
"""A question whose evidence lists things and the frames to look at them in."""


@dataclass(frozen=True)
class ClipDraft:
    """A question before its clip has been drawn.

    Attributes:
        limits: Limits of the clip, narrower than the source's.
        wants: Requirements for its first movers.
        ask: Draws the options; None if the clip is unsuitable.
    """

    limits: ClipLimits
    wants: tuple[Want, ...]
    ask: Callable[[Generator, Clip], ClipQuestion | None]


@dataclass(frozen=True)
class ClipTemplate(Template):
    """A question template for clips.

    Attributes:
        draft: Draws the question and its answer.
        fewest_movers: Smallest allowed maximum number of things.
        fewest_frames: Smallest allowed minimum number of frames.
    """

    draft: Callable[[Generator, ClipLimits], ClipDraft]
    fewest_movers: int = 1
    fewest_frames: int = 4

    def can_be_asked(self, limits: ClipLimits) -> bool:
        """Returns whether this question can be asked about clips within these limits."""
        return limits.num_movers[1] >= self.fewest_movers and limits.num_frames[0] >= self.fewest_frames


def with_movers(rng: Generator, limits: ClipLimits, fewest: int) -> tuple[ClipLimits, int]:
    """Returns limits with a fixed number of movers, at least `fewest`, and that number."""
    low, high = limits.num_movers
    number = int(rng.integers(max(low, fewest), max(high, fewest) + 1))
    return replace(limits, num_movers=(number, number)), number


def name_of(clip: Clip, mover: int) -> str:
    """Returns a mover's name, such as `red mug`."""
    return clip.movers[mover].thing.name


def all_names(clip: Clip) -> list[str]:
    """Returns the names of all movers, with articles."""
    return [f"the {mover.thing.name}" for mover in clip.movers]


def line_of(clip: Clip) -> str:
    """Returns the name of the line."""
    return f"the {clip.line_color} line"


def side_of(clip: Clip, mover: int, frame: int) -> str:
    """Returns the side of the line that a mover is on in a frame, such as `to the left of`."""
    words = ("to the left of", "to the right of") if clip.line_upright else ("above", "below")
    return words[0] if clip.side(mover, frame) < 0 else words[1]


def throughout(clip: Clip) -> str:
    """Returns the interval from the first frame to the last."""
    return stretch(clip, 1, clip.num_frames)


_MIDDLES = " A thing crosses it when its middle passes it."


def _crossings(clip: Clip) -> list[tuple[int, int]]:
    """Returns the frame before each crossing and the mover that crosses, in order of time."""
    ahead = ((clip.crossing(mover), mover) for mover in range(len(clip.movers)))
    return sorted((frame, mover) for frame, mover in ahead if frame is not None)


def _told_crossings(clip: Clip) -> tuple[tuple[Seen, ...], str]:
    """Returns evidence and a fact for each crossing, and for each mover that does not cross, at the start."""
    evidence: list[Seen] = []
    facts: list[str] = []
    found = _crossings(clip)
    for frame, mover in found:
        evidence += [(mover, frame), (mover, frame + 1)]
        facts.append(f"The {name_of(clip, mover)} crosses {line_of(clip)} {stretch(clip, frame, frame + 1)}.")
    for mover in sorted({*range(len(clip.movers))} - {mover for _, mover in found}):
        evidence.append((mover, 1))
        facts.append(f"The {name_of(clip, mover)} is {side_of(clip, mover, 1)} {line_of(clip)} {throughout(clip)}.")
    return tuple(evidence), " ".join(facts)


def _draft_end(rng: Generator, limits: ClipLimits, *, last: bool) -> ClipDraft:
    """Drafts a question about which of two or more things crosses first or last."""
    limits, number = with_movers(rng, limits, 2)
    num_crossing = int(rng.integers(2, number + 1))

    def ask(rng: Generator, clip: Clip) -> ClipQuestion | None:
        found = _crossings(clip)
        (frame, mover), (other, _) = (found[-1], found[-2]) if last else (found[0], found[1])
        if frame == other:
            return None
        text = f"Which thing crosses {line_of(clip)} {'last' if last else 'first'}?{_MIDDLES}"
        names = all_names(clip)
        right = names.pop(mover)
        evidence, facts = _told_crossings(clip)
        return Question(choice(rng, text, right, names), evidence, facts)

    return ClipDraft(limits, _some_cross(num_crossing, number), ask)


def _draft_sequence(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the order in which three things cross."""
    limits, number = with_movers(rng, limits, 3)

    def ask(rng: Generator, clip: Clip) -> ClipQuestion | None:
        found = _crossings(clip)
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
        return Question(choice(rng, text, said[0], said[1:]), evidence, facts)

    return ClipDraft(limits, _some_cross(3, number), ask)


def _draft_count(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about how many things cross; each number from none to all is equally likely."""
    wanted = int(rng.integers(0, limits.num_movers[1] + 1))
    limits, number = with_movers(rng, limits, max(wanted, 1))

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        text = f"How many things cross {line_of(clip)}?{_MIDDLES}"
        evidence, facts = _told_crossings(clip)
        return Question(number_key(text, wanted), evidence, facts)

    return ClipDraft(limits, _some_cross(wanted, number), ask)


def _some_cross(num_crossing: int, number: int) -> tuple[Want, ...]:
    return (*(crosses,) * num_crossing, *(keeps_off,) * (number - num_crossing))


def _draft_side(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the side of the line that a crossing thing is on at a time."""
    wanted = -1 if rng.random() < 0.5 else 1

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        frames = [frame for frame in _frames(clip) if clip.is_clear(0, frame) and clip.side(0, frame) == wanted]
        frame = pick(rng, frames)
        text = f"On which side of {line_of(clip)} is the {name_of(clip, 0)} at t = {clip.time_s(frame):.1f} s?"
        sides = ["to the left of it", "to the right of it"] if clip.line_upright else ["above it", "below it"]
        right = sides.pop(0 if wanted < 0 else 1)
        fact = in_frame(clip, frame, f"the {name_of(clip, 0)} is {side_of(clip, 0, frame)} {line_of(clip)}")
        return Question(choice(rng, text, right, sides), ((0, frame),), fact)

    return ClipDraft(limits, (crosses,), ask)


def _draft_quarter(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the quarter of the image that a moving thing is in at a time."""
    wanted = pick(rng, _QUARTERS)

    def changes_quarter(clip: Clip) -> bool:
        quarters = {quarter_of(clip, 0, frame) for frame in _frames(clip)}
        return wanted in quarters and len(quarters - {None}) > 1

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        frame = pick(rng, [frame for frame in _frames(clip) if quarter_of(clip, 0, frame) == wanted])
        text = f"In which quarter of the picture is the {name_of(clip, 0)} at t = {clip.time_s(frame):.1f} s?"
        key = choice(rng, text, f"the {wanted} one", [f"the {other} one" for other in _QUARTERS if other != wanted])
        fact = in_frame(clip, frame, f"the {name_of(clip, 0)} is in the {wanted} quarter")
        return Question(key, ((0, frame),), fact)

    return ClipDraft(limits, (changes_quarter,), ask)


_QUARTERS = ("upper left", "upper right", "lower left", "lower right")


def _frames(clip: Clip) -> range:
    return range(1, clip.num_frames + 1)


def _draft_when(
    rng: Generator,
    limits: ClipLimits,
    *,
    text: Callable[[Clip], str],
    befores: Callable[[int], Iterable[int]],
    before: Callable[[Clip], int | None],
    also: Want,
    facts: Callable[[Clip], Iterable[str]],
) -> ClipDraft:
    """Drafts a question about the pair of frames between which something happens to the first mover.

    Args:
        rng: The only source of randomness.
        limits: Limits of the clip.
        text: The question text.
        befores: Possible frames before the event, given the number of frames.
        before: The frame before the event, given the clip.
        also: Additional requirement for the mover.
        facts: Facts about the event.
    """
    num_frames = int(rng.integers(limits.num_frames[0], limits.num_frames[1] + 1))
    limits = replace(limits, num_frames=(num_frames, num_frames))
    # The wrong options are drawn like the right one, so that the distribution of answers reveals nothing
    wanted, *others = pick_several(rng, tuple(befores(num_frames)), NUM_CHOICES)

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        asked = text(clip)
        said = [stretch(clip, frame, frame + 1) for frame in (wanted, *others)]
        seen = (0, wanted), (0, wanted + 1)
        return Question(choice(rng, asked, said[0], said[1:]), seen, " ".join(facts(clip)))

    return ClipDraft(limits, (lambda clip: before(clip) == wanted and also(clip),), ask)


def _moves_on(clip: Clip) -> bool:
    """Returns whether the first mover travels at least 1/50 of the side per frame while it moves."""
    mover = clip.movers[0]
    return _distance(clip) >= (mover.last - mover.first) * clip.width / 50


def _distance(clip: Clip, mover: int = 0) -> int:
    """Returns how far a mover travels along its main axis, in pixels."""
    return max(map(abs, _step(clip, mover)))


def _step(clip: Clip, mover: int = 0) -> tuple[int, int]:
    moved = clip.movers[mover]
    return moved.to[0] - moved.thing.x, moved.to[1] - moved.thing.y


def _told_move(clip: Clip) -> Iterable[str]:
    """Yields facts about when the first mover rests, moves, and rests again."""
    mover, the = clip.movers[0], f"The {name_of(clip, 0)}"
    if mover.first > 1:
        yield f"{the} stands still {stretch(clip, 1, mover.first)}."
    yield f"{the} moves {stretch(clip, mover.first, mover.last)}."
    if mover.last < clip.num_frames:
        yield f"{the} stands still {stretch(clip, mover.last, clip.num_frames)}."


def _told_crossing(clip: Clip) -> Iterable[str]:
    """Yields a fact about when the first mover crosses the line."""
    frame = clip.crossing(0)
    assert frame is not None, "it was wanted"
    yield f"The {name_of(clip, 0)} crosses {line_of(clip)} {stretch(clip, frame, frame + 1)}."


def _draft_direction(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the direction of a thing, which is clearly one of four."""
    wanted = pick(rng, tuple(_WAYS))
    axis, sign = _WAYS[wanted]

    def goes(clip: Clip) -> bool:
        along, aside = _step(clip)[axis] * sign, abs(_step(clip)[1 - axis])
        return along >= clip.width / 6 and along >= 2 * aside

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        mover = clip.movers[0]
        text = f"Which way does the {name_of(clip, 0)} move?"
        key = choice(rng, text, wanted, [way for way in _WAYS if way != wanted])
        fact = f"The {name_of(clip, 0)} moves {wanted} {stretch(clip, mover.first, mover.last)}."
        return Question(key, ((0, mover.first), (0, mover.last)), fact)

    return ClipDraft(limits, (goes,), ask)


_WAYS: Mapping[str, tuple[int, int]] = {"to the left": (0, -1), "to the right": (0, 1), "up": (1, -1), "down": (1, 1)}


def _draft_still(rng: Generator, limits: ClipLimits) -> ClipDraft:
    """Drafts a question about the only thing that stands still."""
    limits, number = with_movers(rng, limits, 2)

    def ask(rng: Generator, clip: Clip) -> ClipQuestion:
        text = "Which thing stands still throughout?"
        right, *wrong = all_names(clip)
        facts = [f"The {name_of(clip, 0)} stands still {throughout(clip)}."]
        evidence: list[Seen] = [(0, 1), (0, clip.num_frames)]
        for index, mover in enumerate(clip.movers[1:], start=1):
            facts.append(f"The {name_of(clip, index)} moves {stretch(clip, mover.first, mover.last)}.")
            evidence += [(index, mover.first), (index, mover.last)]
        return Question(choice(rng, text, right, wrong), tuple(evidence), " ".join(facts))

    def goes_far(clip: Clip) -> bool:
        return _distance(clip) >= clip.width / 8

    return ClipDraft(limits, (lambda clip: _distance(clip) == 0, *(goes_far,) * (number - 1)), ask)


_AT_LEAST_SIX = 6
"""Number of frames that gives four intervals in which a thing may start to move, or stop."""

TEMPLATES: Mapping[str, Sequence[ClipTemplate]] = {
    "order": (
        ClipTemplate("first", "choice", partial(_draft_end, last=False), fewest_movers=2),
        ClipTemplate("last", "choice", partial(_draft_end, last=True), fewest_movers=2),
        ClipTemplate("sequence", "choice", _draft_sequence, fewest_movers=3),
    ),
    "count": (ClipTemplate("crossings", "number", _draft_count),),
    "place": (
        ClipTemplate("side", "choice", _draft_side),
        ClipTemplate("quarter", "choice", _draft_quarter),
    ),
    "time": (
        ClipTemplate(
            "crossing",
            "choice",
            partial(
                _draft_when,
                text=lambda clip: f"When does the middle of the {name_of(clip, 0)} pass {line_of(clip)}?",
                befores=lambda num_frames: range(1, num_frames),
                before=lambda clip: clip.crossing(0),
                also=crosses,
                facts=_told_crossing,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
        ClipTemplate(
            "start",
            "choice",
            partial(
                _draft_when,
                text=lambda clip: f"When does the {name_of(clip, 0)} start to move?",
                befores=lambda num_frames: range(1, num_frames - 1),
                before=lambda clip: clip.movers[0].first,
                also=_moves_on,
                facts=_told_move,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
        ClipTemplate(
            "stop",
            "choice",
            partial(
                _draft_when,
                text=lambda clip: f"When does the {name_of(clip, 0)} stop?",
                befores=lambda num_frames: range(2, num_frames),
                before=lambda clip: clip.movers[0].last - 1,
                also=_moves_on,
                facts=_told_move,
            ),
            fewest_frames=_AT_LEAST_SIX,
        ),
    ),
    "motion": (
        ClipTemplate("direction", "choice", _draft_direction),
        ClipTemplate("still", "choice", _draft_still, fewest_movers=2),
    ),
}
"""Question templates, by category."""

CATEGORIES = tuple(TEMPLATES)
"""Question categories."""
