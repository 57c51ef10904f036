"""Reads what an Argos response points at: points in images, moments and segments of videos.

A point is written `<points x1="408" y1="179" alt="jeep">jeep</points>`; the index may be any number or missing, and
one tag may hold several pairs. A moment is what is said of one frame or time ("frame 24 at 18.71 seconds",
"[F17 @ t=19.21s]"), a segment what is said of a stretch ("frames 25 to 27", "from frame 28 at 21.15 seconds to frame 30
at 23.59 seconds"); how both are written is in `judges.reading.anchors`.

Source: Argos, section 3.1, and appendix C.2, whose prompt has a language model extract these three lists. Deviations:

- Extraction is by rule, so that the verifier is reproducible and free; a description is the sentence around an anchor,
  or of several anchors each one's clauses, where the prompt asks for the shortest snippet.
- A point takes the single frame and time of its own sentence or of the clause right before it, as in the prompt. Which
  of several, the prompt says by nearness alone; here one that stands with another point is never taken, as the paper's
  Figures 17 and 18 are written. A sentence that holds a point gives no moment, but may give segments.
- A list of frames is a segment from the first to the last, but in a sentence with points, whose frames they are: in
  order, where there are as many.
- An absolute time is one that says no duration or distance; `judges.reading.anchors` tells these apart, by words.
- The paper's section 4 also writes `<point …>`; both names are read.
- A point whose coordinates cannot be read is kept with NaN, to score 0: left out, it would hide a wrong guess.
"""

from __future__ import annotations

import math
import re
from collections.abc import Iterator
from dataclasses import dataclass

from judges.reading.anchors import Anchors, own_moment, pieces, read_anchors
from judges.reading.answers import extract_answer
from judges.reading.sections import thoughts_of
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

    reasoning: str
    answer: str | None
    points: tuple[WrittenPoint, ...]
    moments: tuple[Moment, ...]
    segments: tuple[Segment, ...]


def read_response(text: str) -> GroundedResponse:
    """Returns a response, taken apart.

    Returns:
        What was read; nothing at all for a text that is too long.
    """
    if len(text) > MAX_TEXT_CHARS:
        return GroundedResponse(reasoning="", answer=None, points=(), moments=(), segments=())
    thoughts = sections(text, "think")
    points: dict[WrittenPoint, None] = {}
    moments: dict[Moment, None] = {}
    segments: dict[Segment, None] = {}
    before: Anchors | None = None
    for sentence in _sentences(text):
        anchors = read_anchors(sentence.blanked)
        points.update(dict.fromkeys(_points_of(sentence, anchors, None if sentence.opens else before)))
        for said in _moments_of(sentence, anchors):
            if isinstance(said, Moment):
                moments[said] = None
            else:
                segments[said] = None
        before = anchors
    return GroundedResponse(
        reasoning=(thoughts[0] if thoughts else thoughts_of(text)).strip(),
        answer=extract_answer(text),
        points=tuple(points)[:MAX_POINTS],
        moments=tuple(moments)[:MAX_ANCHORS],
        segments=tuple(segments)[:MAX_ANCHORS],
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
    columns: dict[str, float] = {}
    rows: dict[str, float] = {}
    label = ""
    for name, index, double, single in _ATTRIBUTE.findall(text):
        value = double or single
        if name == "alt":
            label = label or value.strip()
        else:
            (columns if name == "x" else rows).setdefault(index, _coordinate(value))
    return columns, rows, label


def _coordinate(text: str) -> float:
    """Returns the number that a text is; NaN when it is none."""
    text = text.strip()
    return float(text) if _COORDINATE.fullmatch(text) else math.nan
