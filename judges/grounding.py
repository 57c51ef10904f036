"""Reads what an Argos response points at: points in images, moments and segments of videos.

A point is written `<points x1="408" y1="179" alt="jeep">jeep</points>`; the index may be any number or missing,
and one tag may hold several pairs. A moment is what is said of one frame or time ("frame 24 at 18.71 seconds",
"[F17 @ t=19.21s]"), a segment what is said of a stretch ("frames 25 to 27", "from frame 28 at 21.15 seconds to
frame 30 at 23.59 seconds"); how both are written is shown below.

Source: Argos, section 3.1, and appendix C.2, whose prompt has a language model extract these three lists.
Deviations:

- Extraction is by rule, so that the verifier is reproducible and free; a description is the sentence around an anchor,
  or of several anchors each one's clauses, where the prompt asks for the shortest snippet.
- A point takes the single frame and time of its own sentence or of the clause right before it, as in the prompt. Which
  of several, the prompt says by nearness alone; here one that stands with another point is never taken, as the paper's
  Figures 17 and 18 are written. A sentence that holds a point gives no moment, but may give segments.
- A list of frames is a segment from the first to the last, but in a sentence with points, whose frames they are: in
  order, where there are as many.
- An absolute time is one that says no duration or distance; words tell these apart.
- The paper's section 4 also writes `<point …>`; both names are read.
- A point whose coordinates cannot be read is kept with NaN, to score 0: left out, it would hide a wrong guess.

Frames and times that a sentence names:

    In frame 24 at 18.71 seconds …                       one frame, with its time
    [F17 @ t=19.21s]   at 4.47 seconds                   the same, otherwise written
    from frame 28 at 21.15 seconds to frame 30 at 23.59 seconds      a stretch
    from 21.15 seconds (frame 28) to 23.59 seconds (frame 30)   between frame 2 and frame 5   likewise
    frames 25 to 27   [F1-F6 @ t=0.00-4.47s]   from 4.47 to 16.11 seconds   frame 25 onwards
    [F1 @ t=0.00s, F2 @ t=1.66s]   frame 2, frame 3 and frame 4      a list: the stretch that it covers

How long something takes, or how much later it is ("for 3 seconds", "2 seconds later"), is no time, and neither are
seconds behind minutes.

Which mention a point goes with is `own_moment`'s to say: that of its sentence, else of the clause before it,
and never one that stands with another point.
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
"""Points and anchors read from one response; further ones are ignored, which bounds the time spent on them."""

_TAG = re.compile(r"<(points?)\b([^<>]{0,20000})>([^<>]{0,1000})</\1>")
_ATTRIBUTE = re.compile(r"""\b(x|y|alt)([0-9]{0,6})\s{0,4}=\s{0,4}(?:"([^"]{0,1000})"|'([^']{0,1000})')""")
_COORDINATE = re.compile(r"[-+]?(?:[0-9]{1,40}(?:\.[0-9]{0,40})?|\.[0-9]{1,40})(?:e[-+]?[0-9]{1,4})?", re.IGNORECASE)
_OPENS = re.compile(r"</?(?:think|answer)>")
_SENTENCE = re.compile(r"(?:[^.!?\n]|[.!?](?!\s|$)|(?:(?<=\bsec)|(?<=\bsecs))\.(?=[ \t]{1,2}[a-z(]))+[.!?]*")


@dataclass(frozen=True, slots=True)
class WrittenPoint:
    """A place that the model points at.

    Attributes:
        x: Column, in pixels of the image that the model was shown; NaN when it cannot be read.
        y: Row, likewise.
        label: What the model says is there.
        frame: Frame that the point is in; None when none is named.
        time_s: Time that the point is at; None when none is named.
    """

    x: float
    y: float
    label: str
    frame: int | None = None
    time_s: float | None = None


@dataclass(frozen=True, slots=True)
class Moment:
    """What the model says of one frame.

    Attributes:
        frame: The frame; None when only a time is named.
        time_s: The time; None when only a frame is named.
        description: The sentence, as it is written.
    """

    frame: int | None
    time_s: float | None
    description: str


@dataclass(frozen=True, slots=True)
class Segment:
    """What the model says of a stretch of a video.

    Attributes:
        start_frame: First frame; None when not named.
        end_frame: Last frame; None when not named, or open.
        start_s: Start time; None when not named.
        end_s: End time; None when not named.
        description: The sentence, as it is written.
    """

    start_frame: int | None
    end_frame: int | None
    start_s: float | None
    end_s: float | None
    description: str


@dataclass(frozen=True, kw_only=True, slots=True)
class GroundedResponse:
    """A response, taken apart.

    Attributes:
        reasoning: What comes before the answer, without the think tags.
        answer: The final answer; None when there is none.
        points: Every different point, in order.
        moments: Every different moment, in order.
        segments: Every different segment, in order.
    """

    reasoning: str = ""
    answer: str | None = None
    points: tuple[WrittenPoint, ...] = ()
    moments: tuple[Moment, ...] = ()
    segments: tuple[Segment, ...] = ()


def read_response(text: str) -> GroundedResponse:
    """Returns a response, taken apart.

    Returns:
        What was read; nothing at all for a text that is too long.
    """
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
        moments=tuple(each for each in said if isinstance(each, Moment))[:MAX_ANCHORS],
        segments=tuple(each for each in said if isinstance(each, Segment))[:MAX_ANCHORS],
    )


@dataclass(frozen=True, slots=True)
class _Sentence:
    """One sentence: as written, and with its tags blanked so that nothing in them is read as an anchor.

    It `opens` a thought or an answer where it is the first one of it.
    """

    raw: str
    blanked: str
    tags: tuple[re.Match[str], ...]
    start: int
    opens: bool


def _sentences(text: str) -> Iterator[_Sentence]:
    tags = list(_TAG.finditer(text))
    # Tags are blanked, length kept, first: a full stop in a label ends no sentence, and places stay comparable.
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
    """Yields what a sentence says of moments and stretches; its single frames are those of its points, if any."""
    for mention, start, end in pieces(anchors):
        description = sentence.raw[start:end].strip()
        is_loose = mention.is_list and sentence.blanked[mention.start] != "["
        if mention.is_span and not (is_loose and sentence.tags):
            yield Segment(mention.frame, mention.last_frame, mention.time_s, mention.last_s, description)
        elif not mention.is_span and not sentence.tags:
            yield Moment(mention.frame, mention.time_s, description)


def _attributes(text: str) -> tuple[dict[str, float], dict[str, float], str]:
    """Returns columns and rows by their index, and the alternative text, of one tag."""
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
"""Before two moments, and then no duration: `over 4.47 to 16.11 seconds`."""
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
"""Frames and times read from one sentence."""


@dataclass(frozen=True, slots=True)
class TimeMention:
    """A frame, a time or a stretch that a sentence names.

    Attributes:
        start: Where it begins in the sentence.
        end: Where it ends.
        frame: Its frame, the first one of a stretch; None when not named.
        time_s: Its time, likewise.
        last_frame: Last frame of a stretch; None when not named.
        last_s: Last time of a stretch; None when not named.
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
    """What one sentence says of time.

    Attributes:
        text: The sentence; tags in it are blanked, and "between … and" reads "between … to".
        parts: Single frames and times, those of lists too, and stretches, in order.
        mentions: Single ones, and stretches, in order; a list is one stretch.
    """

    text: str
    parts: tuple[TimeMention, ...]
    mentions: tuple[TimeMention, ...]


def read_anchors(sentence: str) -> Anchors:
    """Returns the frames and times of a sentence; no text raises."""
    sentence = _BETWEEN.sub(r"\g<from>to \g<to>", sentence)
    found = _joined(_items(sentence), sentence, _TO, _same_kind)
    found = _joined(found, sentence, _WITH, _frame_with_time)
    found = _joined(found, sentence, _IN_FRAME, _time_with_frame)
    found = _joined(found, sentence, _TO, _stretch)
    found = [replace(each, is_span=each.is_span or bool(_ONWARDS.match(sentence, each.end))) for each in found]
    return Anchors(sentence, tuple(found), tuple(_joined(found, sentence, _ALSO, _list)))


def own_moment(
    anchors: Anchors, before: Anchors | None, places: Sequence[tuple[int, int]], index: int
) -> tuple[int | None, float | None]:
    """Returns the frame and the time that a point is said to be at; None for what is not said.

    Looked for in this order: a mention right behind the point ("… in frame 1"), one in its own clause, one set off
    behind that clause ("…, in frame 1."), the nearest one before it in the sentence, one behind the sentence's last
    point, and the nearest one of the last clause of the sentence before, unless the point's sentence moves on
    ("Later …"). A stretch found so is no frame and no time. Of a list of as many mentions as the sentence has points,
    each point has its own.

    Args:
        anchors: Of the point's sentence.
        before: Of the sentence before it; None for the first.
        places: Start and end of every point in the sentence, in order.
        index: Which of them is asked about.
    """
    text, (start, end) = anchors.text, places[index]
    next_start = places[index + 1][0] if index + 1 < len(places) else len(text)
    clause_start = max((match.end() for match in _BREAK.finditer(text, max(0, start - 400), start)), default=0)
    clause_end = next((match.start() for match in _BREAK.finditer(text, end)), len(text))
    earlier = [each for each in anchors.parts if each.end <= start]
    behind = [each for each in anchors.parts if end <= each.start < next_start]
    attached = [each for each in behind[:1] if _ATTACHED.fullmatch(text, end, each.start)]
    in_clause = [each for each in earlier[::-1] if each.start >= clause_start]
    in_clause += [each for each in behind if each.end <= clause_end]
    set_off = [each for each in behind[:1] if _SET_OFF.fullmatch(text, clause_end, each.start)]
    # "…, in frame 5, …" between two mentions may as well open what follows; at the sentence's end it cannot.
    closed = _CLOSED if not earlier else _ENDED
    set_off = [each for each in set_off if closed.match(text, each.end)]
    after = [each for each in anchors.parts if each.start >= places[-1][1]]
    candidates = (*attached, *in_clause, *set_off, *earlier[-1:], *after[:1], *_inherited(text, before))
    if not candidates or candidates[0].is_span:
        return None, None
    chosen = _own_of_list(candidates[0], anchors, places, index)
    near = [each for each in (*attached, *in_clause, *set_off) if not each.is_span and chosen is candidates[0]]
    # A single mention has no last frame and time, so that its second pair is of nothing.
    named = [pair for each in anchors.parts for pair in ((each.frame, each.time_s), (each.last_frame, each.last_s))]
    return _completed(chosen, near, named)


def pieces(anchors: Anchors) -> list[tuple[TimeMention, int, int]]:
    """Returns each mention with start and end of what is said of it: the sentence, or its part of the sentence."""
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
    """Returns where one part of a sentence ends and the next begins, best at a word; None where nothing parts them."""
    breaks = list(_BREAK.finditer(text, start, end))
    words = [match for match in breaks if match.group().isalpha() or match.group() == ";"]
    return (words or breaks)[-1].end() if breaks else None


def _own_of_list(chosen: TimeMention, anchors: Anchors, places: Sequence[tuple[int, int]], index: int) -> TimeMention:
    """Returns the mention for a point of `frames 3 and 5 … at <points…> and <points…>`; the chosen one if none pair."""
    for several in anchors.mentions:
        own = [each for each in anchors.parts if not each.is_span and several.start <= each.start < several.end]
        is_beside = several.end <= places[0][0] or several.start >= places[-1][1]
        if several.is_list and chosen in own and len(own) == len(places) and is_beside:
            return own[index]
    return chosen


def _inherited(text: str, before: Anchors | None) -> tuple[TimeMention, ...]:
    """Returns the nearest mention of the last clause of the sentence before; empty where the text moves on from it."""
    if before is None or _MOVES_ON.match(text):
        return ()
    clause_start = max((match.end() for match in _BREAK.finditer(before.text)), default=0)
    return tuple(each for each in before.parts if each.start >= clause_start)[-1:]


def _completed(
    chosen: TimeMention, near: Sequence[TimeMention], named: Sequence[tuple[int | None, float | None]]
) -> tuple[int | None, float | None]:
    """Returns a mention's frame and time; what it lacks comes from its clause, or from where its frame comes again."""
    frame, time_s = chosen.frame, chosen.time_s
    if time_s is None:
        same = [time for other, time in named if other == frame and time is not None]
        alone = [each.time_s for each in near if each.frame is None]
        time_s = next(iter((*same, *alone)), None)
    if frame is None:
        frame = next((each.frame for each in near if each.frame is not None and each.time_s in (None, time_s)), None)
    return frame, time_s


Combine = Callable[[TimeMention, TimeMention], TimeMention | None]


def _joined(found: Sequence[TimeMention], text: str, gap: re.Pattern[str], combine: Combine) -> list[TimeMention]:
    """Returns mentions with neighbours combined, from left to right, where nothing but a gap is between them."""
    joined: list[TimeMention] = []
    for each in found:
        fits = bool(joined) and gap.fullmatch(text, joined[-1].end, each.start) is not None
        both = combine(joined[-1], each) if fits else None
        if both is not None:
            joined[-1] = replace(both, start=joined[-1].start, end=each.end)
        else:
            joined.append(each)
    return joined


def _same_kind(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns the stretch of `frames 25 to 27`, `4.47 to 16.11 seconds`."""
    if one.is_span or (one.frame is None) != (other.frame is None):
        return None
    return replace(one, last_frame=other.frame, last_s=other.time_s, is_span=True)


def _frame_with_time(one: TimeMention, other: TimeMention) -> TimeMention | None:
    """Returns `frame 24 at 18.71 seconds` as one; behind a stretch of frames a single time is that of its end."""
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
    """Returns single frames and times; a bare number is what its neighbour in `frames 25 to 27` or `4 to 16 s` is."""
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
    """Returns which matches say how long something takes or how much later it is: `for 2 to 3 seconds`, `2 s later`."""
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
