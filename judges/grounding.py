"""Reads the references of an Argos response: points in images, and moments and segments of videos.

A point is written `<points x1="408" y1="179" alt="jeep">jeep</points>`; the index may be any number or missing,
and one tag may have several pairs. A moment describes one frame or time ("frame 24 at 18.71 seconds",
"[F17 @ t=19.21s]"), a segment describes a stretch ("frames 25 to 27", "from frame 28 at 21.15 seconds to frame 30
at 23.59 seconds"); all supported forms are listed below.

Source: Argos, section 3.1, and appendix C.2, whose prompt has a language model extract these three lists.
Deviations:

- Extraction is by rule, so that the verifier is reproducible and free; a description is the sentence around an anchor,
  or each anchor's clauses if there are several, instead of the shortest snippet that the prompt asks for.
- A point takes the single frame and time of its own sentence or of the clause right before it, as in the prompt. Among
  several the prompt chooses the nearest; here a mention next to a different point is never chosen, in line with the
  paper's Figures 17 and 18. A sentence with a point gives no moment but may give segments.
- A list of frames is a segment from the first to the last. In a sentence with equally many points, the frames belong to
  the points, in order.
- An absolute time is not a duration or an offset; the words around it distinguish these.
- The paper's section 4 also writes `<point …>`; both names are read.
- A point with unreadable coordinates is kept with NaN and scores 0, because dropping it would hide a wrong guess.

Frames and times that a sentence names:

    In frame 24 at 18.71 seconds …                       one frame, with its time
    [F17 @ t=19.21s]   at 4.47 seconds                   the same in other forms
    from frame 28 at 21.15 seconds to frame 30 at 23.59 seconds      a stretch
    from 21.15 seconds (frame 28) to 23.59 seconds (frame 30)   between frame 2 and frame 5   the same
    frames 25 to 27   [F1-F6 @ t=0.00-4.47s]   from 4.47 to 16.11 seconds   frame 25 onwards
    [F1 @ t=0.00s, F2 @ t=1.66s]   frame 2, frame 3 and frame 4      a list: the stretch that it covers

Durations and offsets ("for 3 seconds", "2 seconds later") are not times, and neither are seconds after minutes.

`own_moment` assigns a mention to a point: one in its sentence, or else in the clause before it, but never one next
to a different point.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import pairwise

from judges.grading import extract_answer, thoughts_of
from vlm_envs.responses.extraction import MAX_TEXT_CHARS, sections

MAX_POINTS = 256
MAX_ANCHORS = 256
"""Maximum number of points and anchors read from one response; further ones are ignored to bound the time."""

_TAG = re.compile(r"<(points?)\b([^<>]{0,20000})>([^<>]{0,1000})</\1>")
_ATTRIBUTE = re.compile(r"""\b(x|y|alt)([0-9]{0,6})\s{0,4}=\s{0,4}(?:"([^"]{0,1000})"|'([^']{0,1000})')""")
_COORDINATE = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:e[-+]?[0-9]{1,4})?", re.IGNORECASE)
_OPENS = re.compile(r"</?(?:think|answer)>")
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?!\s|$)|(?:(?<=\bsec)|(?<=\bsecs))\.(?=[ \t]{1,2}[a-z(]))+[.!?]*")


@dataclass(frozen=True, slots=True)
class WrittenPoint:
    """A position that the model points at.

    Attributes:
        x: Column, in pixels of the image that the model was shown; NaN if unreadable.
        y: Row, in the same units; NaN if unreadable.
        label: The model's label of the object.
        frame: Frame of the point; None if not named.
        time_s: Time of the point; None if not named.
    """

    x: float
    y: float
    label: str
    frame: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """The model's description of one frame.

    Attributes:
        frame: The frame; None if only a time is named.
        time_s: The time; None if only a frame is named.
        description: The sentence, as it is written.
    """

    frame: int | None
    time_s: float | None
    description: str


@dataclass(frozen=True, slots=True)
class Segment:
    """The model's description of a stretch of a video.

    Attributes:
        start_frame: First frame; None if not named.
        end_frame: Last frame; None if not named, or open.
        start_s: Start time; None if not named.
        end_s: End time; None if not named.
        description: The sentence, as it is written.
    """

    start_frame: int | None
    end_frame: int | None
    start_s: float | None
    end_s: float | None
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundedResponse:
    """A parsed response.

    Attributes:
        reasoning: The text before the answer, without the think tags.
        answer: The final answer; None without one.
        points: The distinct points, in order.
        moments: The distinct moments, in order.
        segments: The distinct segments, in order.
    """

    reasoning: str = ""
    answer: str | None = None
    points: tuple[WrittenPoint, ...] = ()
    moments: tuple[Moment, ...] = ()
    segments: tuple[Segment, ...] = ()


def read_response(text: str) -> GroundedResponse:
    """Parses a response; a text that is too long gives an empty response."""
    if len(text) > MAX_TEXT_CHARS:
        return GroundedResponse()
    thoughts = sections(text, "think")
    points: dict[WrittenPoint, None] = {}
    said: dict[Moment | Segment, None] = {}
    before: Anchors | None = None
    for sentence in _sentences(text):
        anchors = read_anchors(sentence.blanked)
        points.update(dict.fromkeys(_points_of(sentence, anchors, None if sentence.opens else before)))
        said.update(dict.fromkeys(_moments_of(sentence, anchors)))
        before = anchors
    return GroundedResponse(
        reasoning=(thoughts[0] if thoughts else thoughts_of(text)).strip(),
        answer=extract_answer(text),
        points=tuple(points)[:MAX_POINTS],
        moments=tuple(anchor for anchor in said if isinstance(anchor, Moment))[:MAX_ANCHORS],
        segments=tuple(anchor for anchor in said if isinstance(anchor, Segment))[:MAX_ANCHORS],
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """A sentence as written, and with its tags blanked so that nothing in them is read as an anchor.

    The first sentence of a thought or an answer has `opens` set.
    """

    raw: str
    blanked: str
    tags: tuple[re.Match[str], ...]
    start: int
    opens: bool


def _sentences(text: str) -> Iterator[_Sentence]:
    tags = list(_TAG.finditer(text))
    # Blank tags first, keeping their length, so that a period in a label ends no sentence and offsets stay valid.
    blanked = _TAG.sub(lambda match: " " * len(match.group()), text)
    for name in ("think", "answer"):
        blanked = blanked.replace(f"<{name}>", "\n" * (len(name) + 2)).replace(f"</{name}>", "\n" * (len(name) + 3))
    next_tag = last_end = 0
    for match in _SENTENCE.finditer(blanked):
        first = next_tag
        while next_tag < len(tags) and tags[next_tag].start() < match.end():
            next_tag += 1
        own = tuple(tags[first:next_tag])
        opens = _OPENS.search(text, last_end, match.start()) is not None
        last_end = match.end()
        yield _Sentence(text[match.start() : match.end()], match.group(), own, match.start(), opens)


def _points_of(sentence: _Sentence, anchors: Anchors, before: Anchors | None) -> Iterator[WrittenPoint]:
    tags = sentence.tags[:MAX_POINTS]
    places = [(tag.start() - sentence.start, tag.end() - sentence.start) for tag in tags]
    for number, tag in enumerate(tags):
        columns, rows, label = _attributes(tag[2])
        label = tag[3].strip() or label
        frame, time_s = own_moment(anchors, before, places, number)
        for index in dict.fromkeys([*columns, *rows]) or [""]:
            yield WrittenPoint(columns.get(index, math.nan), rows.get(index, math.nan), label, frame, time_s)


def _moments_of(sentence: _Sentence, anchors: Anchors) -> Iterator[Moment | Segment]:
    """Yields a sentence's moments and segments; in a sentence with points, single frames belong to the points."""
    for mention, start, end in pieces(anchors):
        description = sentence.raw[start:end].strip()
        is_loose = mention.is_list and sentence.blanked[mention.start] != "["
        if mention.is_span and not (is_loose and sentence.tags):
            yield Segment(mention.frame, mention.last_frame, mention.time_s, mention.last_s, description)
        elif not mention.is_span and not sentence.tags:
            yield Moment(mention.frame, mention.time_s, description)


def _attributes(text: str) -> tuple[dict[str, float], dict[str, float], str]:
    """Returns the columns and rows by index, and the alt text, of one tag."""
    found: dict[str, dict[str, float]] = {"x": {}, "y": {}}
    label = ""
    for name, index, double, single in _ATTRIBUTE.findall(text):
        value = (double or single).strip()
        if name == "alt":
            label = label or value
        else:
            found[name].setdefault(index, float(value) if _COORDINATE.fullmatch(value) else math.nan)
    return found["x"], found["y"], label


_INT = r"[0-9]{1,9}"
_ITEM = re.compile(
    rf"\b(?P<word>frames?)\s{{1,2}}(?P<frame>{_INT})\b(?!\.[0-9])"
    rf"|\[F(?P<short>{_INT})\b|\bF(?P<item>{_INT})(?=\s?(?:@|[-–—]\s?F?[0-9]))|(?<=[-–—])\s?F(?P<last>{_INT})\b"
    rf"|(?P<clock>\bt\s?=\s?)?(?<![\w.])(?P<number>{_INT}(?:\.[0-9]{{1,9}})?)(?!\.?[0-9])"
    r"(?P<unit>\s{0,2}(?:seconds?|secs?|s)\b\.?)?",
    re.IGNORECASE,
)
_TO = re.compile(
    r"[\s)]{0,3}(?:-|–|—|,?\s{0,2}(?:up\s)?(?:to|through|until|till))\s{0,2}(?:(?:about|around|roughly|the)\s)?",
    re.IGNORECASE,
)
_BETWEEN = re.compile(
    r"(?P<from>\bbetween\s(?:[\s()@=,\[\]]|\b(?:about|around|the|frames?|at|t|seconds?|secs?|s)\b"
    r"|\bF?[0-9]{1,9}(?:\.[0-9]{1,9})?s?\b){1,40}?)and"
    r"(?P<to>\s{1,2}(?:(?:about|around|the)\s)?(?:frames?\s|t\s?=|\[?F?[0-9]))",
    re.IGNORECASE,
)
_WITH = re.compile(r"[\s,]{0,2}[(@]?\s{0,2}(?:(?:at|around|about)\s{1,2})?", re.IGNORECASE)
_IN_FRAME = re.compile(r"\s{0,2}(?:[(\[]\s?|,?\s{1,2}(?:in|at|of)\s{1,2}(?:the\s)?)", re.IGNORECASE)
_ALSO = re.compile(r"[\s)]{0,2}(?:,\s{0,2}(?:and\s{1,2})?|and\s{1,2}|&\s{0,2})", re.IGNORECASE)
_ONWARDS = re.compile(r"\s{1,2}onwards?\b", re.IGNORECASE)
_BREAK = re.compile(r"[,;:()]|\b(?:and|but|while|whereas|where|than|then)\b", re.IGNORECASE)
_ATTACHED = re.compile(r"\s{0,3}\(?(?:(?:in|at|from|of|@)\s{1,2})?", re.IGNORECASE)
_TRAILING = re.compile(r"(?:[\s,;:(]|\b(?:and|but|while|whereas|where|than|then)\b){1,20}\Z", re.IGNORECASE)
_SET_OFF = re.compile(r",\s{1,2}(?:in|at|from|@)\s{1,2}", re.IGNORECASE)
_CLOSED = re.compile(r"[\s)]{0,2}(?:[.!?,;:]|\Z)")
_ENDED = re.compile(r"[\s)\].!?]{0,9}\Z")
_LASTING = re.compile(
    r"\b(?:for|within|over|every|each|another|first|last|next|final|spans?|spanned|spanning|lasts?|lasted"
    r"|lasting|takes?|took|taking|waits?|waited|waiting|min(?:ute)?s?(?:\sand)?"
    r"|(?:clip|video|recording|footage)\s(?:is|was|has|runs)|(?:clip|video|duration|length|interval|period|pause|total)\sof)"
    r"\s(?:(?:about|around|roughly|approximately|only|just|nearly|almost|over|up\sto|at\sleast|the|first|last|next)\s){0,3}\Z",
    re.IGNORECASE,
)
_STRETCHES = re.compile(
    r"\b(?:span(?:s|ned|ning)?|over|within|(?:interval|period|stretch|segment)\sof)\s(?:the\s)?\Z", re.IGNORECASE
)
"""Words before two moments that then form a stretch, not a duration: `over 4.47 to 16.11 seconds`."""
_LONG = re.compile(
    r"\s{0,2}-?(?:long|later|earlier|ago|apart|in\s(?:length|total|duration)"
    r"|(?:clip|video|recording|interval|gap|pause|delay|period|window)s?)\b",
    re.IGNORECASE,
)
_FROM_ELSEWHERE = re.compile(r"\s{0,2}(?:of|before|after|prior\sto)\b", re.IGNORECASE)
_FIXED = re.compile(
    r"(?:@|\b(?:at|from|until|till|to|through|by))\s?(?:(?:about|around|roughly|the)\s)?\Z", re.IGNORECASE
)
_MARK = re.compile(r"[\s-]{1,2}(?:mark|timestamp|point)\b", re.IGNORECASE)
_MOVES_ON = re.compile(
    r"\W{0,9}(?:(?:[\w.]{1,20}\s){1,3}(?:(?:seconds?|secs?\.?|s|minutes?|moments?|frames?|while|time)\s)|[0-9.]{1,9}s\s)?"
    r"(?:later|then|after|afterwards|before|earlier|next|finally|subsequently|previously)\b",
    re.IGNORECASE,
)

MAX_MENTIONS = 256
"""Maximum number of frames and times read from one sentence."""


@dataclass(frozen=True, slots=True)
class TimeMention:
    """A frame, a time, or a stretch that a sentence names.

    Attributes:
        start: Its start offset in the sentence.
        end: Its end offset.
        frame: Its frame, or the first frame of a stretch; None if not named.
        time_s: Its time, or the start time of a stretch; None if not named.
        last_frame: Last frame of a stretch; None if not named.
        last_s: End time of a stretch; None if not named.
        is_span: Whether it is a stretch; one without an end is open.
        is_list: Whether it is a stretch only because it covers a list of frames.
    """

    start: int
    end: int
    frame: int | None = None
    time_s: float | None = None
    last_frame: int | None = None
    last_s: float | None = None
    is_span: bool = False
    is_list: bool = False


@dataclass(frozen=True, slots=True)
class Anchors:
    """The frames and times in one sentence.

    Attributes:
        text: The sentence, with blanked tags and "between … to" for "between … and".
        parts: Single frames and times, including those of lists, and stretches, in order.
        mentions: Single frames and times, and stretches, in order; a list is one stretch.
    """

    text: str
    parts: tuple[TimeMention, ...]
    mentions: tuple[TimeMention, ...]


def read_anchors(sentence: str) -> Anchors:
    """Returns the frames and times of a sentence; no text raises an error."""
    sentence = _BETWEEN.sub(r"\g<from>to \g<to>", sentence)
    found = _joined(_items(sentence), sentence, _TO, _same_kind)
    found = _joined(found, sentence, _WITH, _frame_with_time)
    found = _joined(found, sentence, _IN_FRAME, _time_with_frame)
    found = _joined(found, sentence, _TO, _stretch)
    found = [
        replace(mention, is_span=mention.is_span or bool(_ONWARDS.match(sentence, mention.end))) for mention in found
    ]
    return Anchors(sentence, tuple(found), tuple(_joined(found, sentence, _ALSO, _list)))


def own_moment(
    anchors: Anchors, before: Anchors | None, places: Sequence[tuple[int, int]], index: int
) -> tuple[int | None, float | None]:
    """Returns the frame and the time of a point; None for each that is not named.

    Candidates in order: a mention right after the point ("… in frame 1"), one in its own clause, one set off after that
    clause ("…, in frame 1."), the nearest one before it in the sentence, one after the sentence's last point, and the
    nearest one in the last clause of the previous sentence, unless the point's sentence moves on ("Later …"). If the
    first candidate is a stretch, the point has neither frame nor time. In a list with as many mentions as the sentence
    has points, each point has its own.

    Args:
        anchors: Anchors of the point's sentence.
        before: Anchors of the previous sentence; None for the first.
        places: Start and end of every point in the sentence, in order.
        index: Index of the point.
    """
    text, (start, end) = anchors.text, places[index]
    next_start = places[index + 1][0] if index + 1 < len(places) else len(text)
    clause_start = max((match.end() for match in _BREAK.finditer(text, max(0, start - 400), start)), default=0)
    clause_end = next((match.start() for match in _BREAK.finditer(text, end)), len(text))
    earlier = [mention for mention in anchors.parts if mention.end <= start]
    behind = [mention for mention in anchors.parts if end <= mention.start < next_start]
    attached = [mention for mention in behind[:1] if _ATTACHED.fullmatch(text, end, mention.start)]
    in_clause = [mention for mention in earlier[::-1] if mention.start >= clause_start]
    in_clause += [mention for mention in behind if mention.end <= clause_end]
    set_off = [mention for mention in behind[:1] if _SET_OFF.fullmatch(text, clause_end, mention.start)]
    # "…, in frame 5, …" between two mentions may as well open what follows; at the sentence's end it cannot.
    closed = _CLOSED if not earlier else _ENDED
    set_off = [mention for mention in set_off if closed.match(text, mention.end)]
    after = [mention for mention in anchors.parts if mention.start >= places[-1][1]]
    candidates = (*attached, *in_clause, *set_off, *earlier[-1:], *after[:1], *_inherited(text, before))
    if not candidates or candidates[0].is_span:
        return None, None
    chosen = _own_of_list(candidates[0], anchors, places, index)
    near = [mention for mention in (*attached, *in_clause, *set_off) if not mention.is_span and chosen is candidates[0]]
    # A single mention has no last frame and time, so its second pair is empty.
    named = [
        pair
        for mention in anchors.parts
        for pair in ((mention.frame, mention.time_s), (mention.last_frame, mention.last_s))
    ]
    return _completed(chosen, near, named)


def pieces(anchors: Anchors) -> list[tuple[TimeMention, int, int]]:
    """Returns each mention with the start and end of its description: the sentence, or a part of it."""
    cuts = [0, *(_cut(anchors.text, one.end, other.start) for one, other in pairwise(anchors.mentions))]
    starts: list[int] = []
    for cut in cuts[: len(anchors.mentions)]:
        starts.append(cut if cut is not None else starts[-1])
    found = []
    for number, (mention, start) in enumerate(zip(anchors.mentions, starts, strict=True)):
        end = next((other for other in starts[number + 1 :] if other > start), None)
        if end is not None and (trailing := _TRAILING.search(anchors.text, start, end)):
            end = trailing.start()
        found.append((mention, start, len(anchors.text) if end is None else end))
    return found


def _cut(text: str, start: int, end: int) -> int | None:
    """Returns the offset between two parts of a sentence, preferably at a word; None without a break."""
    breaks = list(_BREAK.finditer(text, start, end))
    words = [match for match in breaks if match.group().isalpha() or match.group() == ";"]
    return (words or breaks)[-1].end() if breaks else None


def _own_of_list(chosen: TimeMention, anchors: Anchors, places: Sequence[tuple[int, int]], index: int) -> TimeMention:
    """Returns a point's mention in `frames 3 and 5 … at <points…> and <points…>`; `chosen` if they do not pair."""
    for several in anchors.mentions:
        own = [
            mention for mention in anchors.parts if not mention.is_span and several.start <= mention.start < several.end
        ]
        is_beside = several.end <= places[0][0] or several.start >= places[-1][1]
        if several.is_list and chosen in own and len(own) == len(places) and is_beside:
            return own[index]
    return chosen


def _inherited(text: str, before: Anchors | None) -> tuple[TimeMention, ...]:
    """Returns the nearest mention in the last clause of the previous sentence; empty if the text moves on from it."""
    if before is None or _MOVES_ON.match(text):
        return ()
    clause_start = max((match.end() for match in _BREAK.finditer(before.text)), default=0)
    return tuple(mention for mention in before.parts if mention.start >= clause_start)[-1:]


def _completed(
    chosen: TimeMention, near: Sequence[TimeMention], named: Sequence[tuple[int | None, float | None]]
) -> tuple[int | None, float | None]:
    """Returns a mention's frame and time, completed from its clause or from another mention of its frame."""
    frame, time_s = chosen.frame, chosen.time_s
    if time_s is None:
        same = [time for other, time in named if other == frame and time is not None]
        alone = [mention.time_s for mention in near if mention.frame is None]
        time_s = next(iter((*same, *alone)), None)
    if frame is None:
        frame = next(
            (mention.frame for mention in near if mention.frame is not None and mention.time_s in (None, time_s)), None
        )
    return frame, time_s


Combine = Callable[[TimeMention, TimeMention], TimeMention | None]


def _joined(found: Sequence[TimeMention], text: str, gap: re.Pattern[str], combine: Combine) -> list[TimeMention]:
    """Combines adjacent mentions from left to right if only a match of `gap` separates them."""
    joined: list[TimeMention] = []
    for mention in found:
        fits = bool(joined) and gap.fullmatch(text, joined[-1].end, mention.start) is not None
        both = combine(joined[-1], mention) if fits else None
        if both is not None:
            joined[-1] = replace(both, start=joined[-1].start, end=mention.end)
        else:
            joined.append(mention)
    return joined


def _same_kind(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns the stretch of `frames 25 to 27`, `4.47 to 16.11 seconds`."""
    if one.is_span or (one.frame is None) != (other.frame is None):
        return None
    return replace(one, last_frame=other.frame, last_s=other.time_s, is_span=True)


def _frame_with_time(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns `frame 24 at 18.71 seconds` as one; after a stretch of frames, a single time is the end time."""
    if one.frame is None or one.time_s is not None or other.frame is not None or (other.is_span and not one.is_span):
        return None
    if one.is_span and not other.is_span:
        return replace(one, last_s=other.time_s)
    return replace(one, time_s=other.time_s, last_s=other.last_s)


def _time_with_frame(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns `21.15 seconds (frame 28)` as one, and a stretch of times with one of frames."""
    if one.frame is not None or other.frame is None or other.time_s is not None or one.is_span != other.is_span:
        return None
    return replace(one, frame=other.frame, last_frame=other.last_frame)


def _stretch(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns the stretch of `frame 28 at 21.15 seconds to frame 30 at 23.59 seconds`."""
    return None if other.is_span else _same_kind(one, other)


def _list(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns the list of `frame 2, frame 3 and frame 4`."""
    if (one.is_span and not one.is_list) or other.is_span or (one.frame is None) != (other.frame is None):
        return None
    return replace(one, last_frame=other.frame, last_s=other.time_s, is_span=True, is_list=True)


def _items(sentence: str) -> list[TimeMention]:
    """Returns single frames and times; bare numbers have their neighbor's kind, as in `frames 25 to 27`, `4 to 9 s`."""
    matches = [match for _, match in zip(range(MAX_MENTIONS), _ITEM.finditer(sentence), strict=False)]
    items: list[TimeMention] = []
    plural = False
    durations = _durations(sentence, matches)
    for number, match in enumerate(matches):
        if number in durations:
            continue
        frame = match["frame"] or match["short"] or match["item"] or match["last"]
        value, is_time = match["number"], bool(match["clock"] or match["unit"])
        if frame is not None:
            plural = (match["word"] or "").casefold() == "frames"
        elif not is_time:
            is_next = bool(items) and items[-1].end == matches[number - 1].end() and items[-1].frame is not None
            gap = sentence[items[-1].end : match.start()] if is_next else ""
            if is_next and value.isdecimal() and (_TO.fullmatch(gap) or (plural and _ALSO.fullmatch(gap))):
                frame = value
            else:
                after = matches[number + 1] if number + 1 < len(matches) else None
                is_time = bool(after and after["unit"] and _TO.fullmatch(sentence, match.end(), after.start()))
        if frame is not None:
            items.append(TimeMention(match.start(), match.end(), frame=int(frame)))
        elif is_time:
            items.append(TimeMention(match.start(), match.end(), time_s=float(value)))
    return items


def _durations(sentence: str, matches: Sequence[re.Match[str]]) -> set[int]:
    """Returns the indices of matches that are durations or offsets: `for 2 to 3 seconds`, `2 s later`."""
    found: set[int] = set()
    first = 0
    for number, match in enumerate(matches):
        is_number = bool(match["number"] and matches[number - 1]["number"])
        if not (number and is_number and _TO.fullmatch(sentence, matches[number - 1].end(), match.start())):
            first = number
        if match["unit"] and not match["clock"] and not _MARK.match(sentence, match.end()):
            ahead = sentence[max(0, matches[first].start() - 60) : matches[first].start()]
            ends = matches[first : first + 2]
            has_two_ends = len(ends) == 2 and all("." in (end["number"] or "") for end in ends)
            is_stretch = has_two_ends and _TO.fullmatch(sentence, ends[0].end(), ends[1].start())
            if is_stretch and _STRETCHES.search(ahead):
                continue
            is_long = _LASTING.search(ahead) or _LONG.match(sentence, match.end())
            if is_long or (_FROM_ELSEWHERE.match(sentence, match.end()) and not _FIXED.search(ahead)):
                found.update(range(first, number + 1))
    return found
