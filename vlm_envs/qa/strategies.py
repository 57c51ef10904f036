"""Strategies for looking at a question: prompt rules, parsing of responses, and an expert's behavior.

The response formats are `vlm_envs.responses.formats.QA_FORMATS`; this module defines their contents. Each
strategy writes boxes and points in one coordinate space: thousandths in calls of the zoom tool (`arm`),
pixels of the image as shown in `<zoom>` and in grounded thoughts (`mags`, `ivgr_grounded`, `ivgr_views`), and
percent with two decimals in `points`, where pixels of a scaled image would be too coarse for the smallest
things. A context's `coordinates` selects thousandths or pixels instead, except in calls of the zoom tool,
which takes thousandths as in the paper.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from vlm_envs.qa.qa_context import Act, Answer, CallTool, QAContext, QAState, Zoom, regions
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.extraction import last_section, unwrap
from vlm_envs.responses.formats import QA_FORMATS, ResponseFormat
from vlm_envs.tools.coordinates import (
    MAX_AREA_FRACTION,
    Percents,
    Point,
    Space,
    SpaceT,
    Thousandths,
    WrittenBox,
    convert,
    convert_point,
    find_boxes,
    read_box_list,
)
from vlm_envs.tools.tool_registry import plain_call

Reader = Callable[[str], Act | None]


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of looking and answering; this base class thinks and answers without a closer look.

    Attributes:
        name: Key of `QA_FORMATS`.
        max_turns: Default number of turns.
        has_tools: Whether tools can be called.
        magnifies: Whether all regions are enlarged, not only small ones.
        expected: Description of a valid response, for the prompt after an invalid one.
    """

    name: str = "direct"
    max_turns: int = 1
    has_tools: bool = False
    magnifies: bool = False
    expected: str = "an answer"

    @property
    def response_format(self) -> ResponseFormat:
        """The response format with its tags."""
        return QA_FORMATS[self.name]

    @property
    def looks_closer(self) -> bool:
        """Whether the agent can call a tool or request a zoom."""
        return self.has_tools or bool(self.readers())

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the prompt's rules for looking."""
        return ("Think about what you see in the pictures, then answer.",)

    def readers(self) -> Mapping[str, Reader]:
        """Returns the parser of each section other than `<answer>`."""
        return {}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns the parsers that replace those of `readers` in worlds with lenient reading."""
        return {}

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns the coordinate space of boxes and points in thoughts; None if there are none."""
        return None

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the regions to show enlarged, given the possibly invalid boxes of a zoom in the same space."""
        return ()

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Returns the text that accompanies enlarged regions."""
        return ""

    def write_zoom(self, action: Zoom) -> str:
        """Returns the text of a zoom within a thought."""
        return " ".join(map(write_box, action.boxes))

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the looks that an expert still takes before it answers."""
        return ()

    def careless_calls(self, state: QAState, context: QAContext) -> tuple[Act, ...]:
        """Returns arbitrary looks, if the response format requires any."""
        return ()

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns an expert's thoughts before an action, by section."""
        return {"think": f"{facts_of(state.sample)} That settles the question."}


def box_space(sample: Sample, context: QAContext) -> Space | None:
    """Returns the pixels of the first image as shown, or thousandths if the context selects them; None without one."""
    shown = context.shown_pixels(sample)
    return Thousandths() if context.coordinates == "thousandths" and shown is not None else shown


def box_unit(context: QAContext) -> str:
    """Returns the unit of boxes, for prompts."""
    if context.coordinates == "thousandths":
        return "in thousandths of the picture's width and height"
    return "in pixels of the picture as shown"


def written_evidence(sample: Sample, space: Space | None) -> tuple[tuple[Evidence, WrittenBox], ...]:
    """Returns the first image's evidence and its boxes in a space, in whole units or in percent; empty for None.

    Evidence with only a point is omitted.
    """
    if space is None:
        return ()
    converted = [(item, convert(item.box, space)) for item in sample.evidence if item.image == 0 and item.has_box]
    whole = not isinstance(space, Percents)
    rounded = [(item, box.outward_whole() if whole else box) for item, box in converted]
    return tuple((item, WrittenBox(box.x1, box.y1, box.x2, box.y2)) for item, box in rounded)


def write_box(box: WrittenBox) -> str:
    """Formats a box as `[x1, y1, x2, y2]`."""
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def from_the_left(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Sorts evidence as experts list it: from left to right, ties from top to bottom."""
    return sorted(evidence, key=lambda item: (item.box.x1, item.box.y1))


def seen_in(sample: Sample) -> str:
    """Returns the labels of the first image's evidence, from left to right, and the facts."""
    listed = from_the_left(sample.evidence)
    labels = " ".join(f"{evidence.label}." for evidence in listed if evidence.image == 0)
    return f"{labels} {facts_of(sample)}".strip()


def facts_of(sample: Sample) -> str:
    """Returns the facts that settle a question, or a general statement for a sample without facts."""
    return sample.facts or "I have looked at everything that bears on it."


Views = Literal["both", "crops", "union", "none"]
"""Views in iVGR's second pass: each boxed region, the region around all of them, both, or none."""

VIEWS: tuple[str, ...] = get_args(Views)

MagsStage = Literal[1, 2]
"""Stage of Mags-RL's curriculum."""

MAX_CROPS = 8
"""Maximum number of regions enlarged in one turn; further boxes count but are not shown."""


@dataclass(frozen=True, kw_only=True)
class TwoPassStrategy(Strategy):
    """A first turn that names regions of the first image, and a second one that answers."""

    max_turns: int = 2

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns pixels of the image as shown, or thousandths."""
        return box_space(sample, context)

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns a zoom into all evidence, or into the middle if there is none."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom(zoom_boxes(state.sample, context)),)


@dataclass(frozen=True, kw_only=True)
class ZoomStrategy(TwoPassStrategy):
    """Mags-RL: the first thought names regions, and a second thought follows with the regions enlarged.

    Source: Mags-RL, section 3.2 (every region is magnified, not only small ones) and appendix A.1 (a prompt
        per stage of the curriculum; evaluation uses the second). The wording is ours.

    Attributes:
        stage: Stage of the curriculum: 1 asks for a zoom where something is unclear, 2 for a zoom into every
            target.
    """

    name: str = "mags"
    expected: str = "one list of boxes within <zoom> and </zoom>"
    magnifies: bool = True
    stage: MagsStage = 2

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the rules for naming regions."""
        unit = box_unit(context)
        how = {
            1: "First think. Where something that matters is too small or unclear, name the region to look at again "
            f"within your thoughts: <zoom>[[x1, y1, x2, y2]]</zoom>, {unit}, around the "
            "thing itself and under 40 % of the picture's area.",
            2: "First think, and look again at everything that the answer depends on: name each thing to check or to "
            f"count in one list within your thoughts, <zoom>[[x1, y1, x2, y2], [x3, y3, x4, y4], ...]</zoom>, {unit}, "
            "one box a thing, each under 40 % of the picture's area.",
        }
        return (how[self.stage], "They come back enlarged, or you are told why not. Then think again, and answer.")

    def readers(self) -> Mapping[str, Reader]:
        """Returns the parser of the first thought."""
        return {"think": read_zoom}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns a parser of the last `<zoom>` that accepts boxes in any notation."""
        return {"think": read_last_zoom}

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the valid boxes: ordered, inside the image, and under 40% of its area."""
        valid = (box for box in dict.fromkeys(boxes) if box.is_zoomable(space.width, space.height))
        return tuple(valid)[:MAX_CROPS]

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Returns the number of regions shown, or how to request them correctly."""
        if num_shown:
            return f"{num_shown} of {num_asked} regions, enlarged, in the order they were asked for."
        return (
            f"No region could be enlarged. A box is [x1, y1, x2, y2] {box_unit(context)}, with x1 < x2 "
            "and y1 < y2, inside the picture and under 40 % of its area. Answer from the picture as it is."
        )

    def careless_calls(self, state: QAState, context: QAContext) -> tuple[Act, ...]:
        """Returns a zoom into the middle, because the first thought must contain a zoom."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom((_middle_box(self.space(state.sample, context)),)),)

    def write_zoom(self, action: Zoom) -> str:
        """Returns a list of boxes in its tags."""
        return f"<zoom>[{', '.join(map(write_box, action.boxes))}]</zoom>"

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a first thought about what to look for, or a second one about what was seen.

        Their lengths, 19 and 25 different words, satisfy the paper's volume rewards.
        """
        if isinstance(action, Zoom):
            return {
                "think": "The question depends on details that are tiny at this scale. Before answering I should "
                "examine these places again, enlarged, because colours and shapes blur here."
            }
        return {
            "rethink": f"{facts_of(state.sample)} With every region enlarged, edges, colours and letters became clear "
            "enough to read; nothing else nearby changes my mind, so this observation decides what was asked."
        }


@dataclass(frozen=True, kw_only=True)
class ViewsStrategy(TwoPassStrategy):
    """iVGR at test time: regions boxed in a first thought are shown as views, and a second thought uses words only.

    Source: iVGR, section 3.4 and Table 4. The paper's second pass is a new conversation with the image, the
        crops, and the crop around all of them; here it is the second turn, which also sees the image and the
        first thought.

    Attributes:
        views: The views to show, as in the paper's ablations.
    """

    name: str = "ivgr_views"
    expected: str = "boxes [x1, y1, x2, y2] in the thought"
    views: Views = "both"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the rules for writing boxes, and what happens with them."""
        return (
            "First think about what matters, and write the box [x1, y1, x2, y2] of everything that does, "
            f"{box_unit(context)}.",
            "You may get closer views of it. Then think again, in words and without coordinates, and answer.",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the parser of the first thought; boxes in the second one have no effect."""
        return {"think": read_boxes}

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the part of each box inside the image, followed by the smallest box around all of them.

        If there is only one box, it is shown once.
        """
        inside = tuple(dict.fromkeys(part for box in boxes if (part := _inside(box, space)) is not None))
        if not inside or self.views == "none":
            return ()
        union = WrittenBox(
            min(box.x1 for box in inside),
            min(box.y1 for box in inside),
            max(box.x2 for box in inside),
            max(box.y2 for box in inside),
        )
        crops = inside[: MAX_CROPS - 1] if self.views != "union" else ()
        return tuple(dict.fromkeys((*crops, union))) if self.views != "crops" else crops

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Describes the views."""
        if not num_shown:
            return "There are no closer views. Look at the picture again."
        order = {
            "both": "the regions you boxed in your order, then the region around all of them",
            "crops": "the regions you boxed, in your order",
            "union": "the region around everything you boxed",
        }
        return f"Closer views: {order[self.views]}."

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a first thought that leads up to the boxes, or a second one about what was seen."""
        if isinstance(action, Zoom):
            return {"think": "The answer depends on what is here: "}
        return {"think": seen_in(state.sample)}


def read_zoom(text: str) -> Zoom | None:
    """Parses the only `<zoom>` of a thought; None if there is not exactly one, or if it has no list of boxes."""
    before, _, rest = text.partition("<zoom>")
    inside, closing, after = rest.partition("</zoom>")
    if not closing or "</zoom>" in before or "<zoom>" in rest or "</zoom>" in after:
        return None
    boxes = read_box_list(inside)
    return Zoom(boxes) if boxes else None


def read_last_zoom(text: str) -> Zoom | None:
    """Parses the last complete `<zoom>` of a text, with boxes in any notation; None if it has none."""
    if zoom := read_zoom(text):
        return zoom
    _, inside = last_section(text, "zoom") or ("", "")
    boxes = read_box_list(unwrap(inside)) or find_boxes(inside)
    return Zoom(boxes) if boxes else None


def read_boxes(text: str) -> Zoom | None:
    """Parses all boxes of a thought, in any notation; None if there are no boxes."""
    boxes = find_boxes(text)
    return Zoom(boxes) if boxes else None


def zoom_boxes(sample: Sample, context: QAContext) -> tuple[WrittenBox, ...]:
    """Returns the regions an expert enlarges: one for each piece of evidence, in whole units."""
    space = box_space(sample, context)
    assert space is not None, "a strategy that zooms needs a picture"
    boxes = [evidence.box for evidence in sample.evidence if evidence.image == 0]
    tight = [convert(box, space).outward_whole() for region in boxes for box in regions([region], 1)]
    limit = MAX_AREA_FRACTION * space.width * space.height
    written = [WrittenBox(box.x1, box.y1, box.x2, box.y2) for box in tight]
    if not written or any(box.area >= limit for box in written):
        return (_middle_box(space),)
    return tuple(dict.fromkeys(written))


def _middle_box(space: Space | None) -> WrittenBox:
    """Returns the middle cell of a three-by-three grid over the image."""
    assert space is not None, "a strategy that zooms needs a picture"
    width, height = space.width // 3, space.height // 3
    return WrittenBox(width, height, 2 * width, 2 * height)


def _inside(box: WrittenBox, space: Space) -> WrittenBox | None:
    """Returns the part of a box inside the image, or None."""
    if not box.is_proper:
        return None
    part = WrittenBox(max(box.x1, 0), max(box.y1, 0), min(box.x2, space.width), min(box.y2, space.height))
    return part if part.is_proper else None


POINT_EXAMPLE = '<points x1="12.34" y1="56.78" alt="what it is">what it is</points>'


@dataclass(frozen=True, kw_only=True)
class ToolStrategy(Strategy):
    """ARM-Thinker: a thought, then one tool call or the answer."""

    name: str = "arm"
    max_turns: int = 5
    has_tools: bool = True

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the tools and the syntax of calls."""
        return (
            "What matters may be too small to see, or on another page. Call tools to look before you answer.",
            'One call a turn: {"name": ..., "arguments": {...}} as JSON. Its result comes in <tool_response>.',
            f"Tools:\n{context.tools(None).prompt()}",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the parser of calls; the tool's response reports errors in a call."""
        return {"tool_call": CallTool}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns a parser that also accepts calls in a code fence, or with arguments as JSON text."""
        return {"tool_call": read_call}

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the planned calls that have not been made yet."""
        made = {call.text for call in state.calls}
        return tuple(CallTool(text) for text in context.planned_calls(state.sample, max_calls) if text not in made)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the reason for a tool call, or the findings."""
        if isinstance(action, Answer):
            return {"think": f"{facts_of(state.sample)} That settles the question."}
        again = "I have not seen everything yet." if state.calls else "This cannot be settled at a glance."
        return {"think": f"{again} A closer look at the place that matters will help."}


def read_call(text: str) -> CallTool:
    """Parses a call, removing a code fence and decoding arguments given as JSON text."""
    return CallTool(plain_call(text))


@dataclass(frozen=True, kw_only=True)
class GroundedStrategy(Strategy):
    """iVGR's streams: thoughts contain boxes of the evidence, or (textual) describe it in words only.

    Attributes:
        writes_boxes: Whether thoughts contain boxes; `info` contains their space either way.
    """

    name: str = "ivgr_grounded"
    writes_boxes: bool = True

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the rules for writing boxes, or for describing locations in words."""
        if not self.writes_boxes:
            return ("Think about what you see and where it is, in words and without coordinates. Then answer.",)
        return (
            "Think about what you see. Behind everything that matters write its box [x1, y1, x2, y2], "
            f"{box_unit(context)}. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns pixels of the image as shown, or thousandths."""
        return box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the evidence from left to right, with boxes if they are written, and the facts."""
        if not self.writes_boxes:
            return {"think": seen_in(state.sample)}
        boxes = dict(written_evidence(state.sample, self.space(state.sample, context)))
        seen = " ".join(f"{evidence.label} {write_box(boxes[evidence])}." for evidence in from_the_left(boxes))
        return {"think": f"{seen} {facts_of(state.sample)}".strip()}


@dataclass(frozen=True, kw_only=True)
class PointsStrategy(Strategy):
    """Argos: thoughts point at everything they mention."""

    name: str = "points"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the rules for writing points."""
        return (
            f"Think about what you see, and point at every thing you mention: {POINT_EXAMPLE}, "
            f"{point_unit(context, 'picture')}, one pair a thing. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns percent, unless the context selects thousandths or pixels."""
        return Percents() if context.coordinates is None else box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a point on each piece of evidence, and the facts."""
        sample = state.sample
        space = self.space(sample, context)
        seen = [point_tag(evidence, space) for evidence in sample.evidence if evidence.image == 0 and space is not None]
        return {"think": f"{' '.join(seen)} {facts_of(sample)}".strip()}


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(),
        ToolStrategy(),
        ZoomStrategy(),
        GroundedStrategy(),
        GroundedStrategy(name="ivgr_textual", writes_boxes=False),
        ViewsStrategy(),
        PointsStrategy(),
    )
}
"""All strategies, by name."""


def strategies(*names: str) -> dict[str, Strategy]:
    """Selects strategies by name."""
    return {name: STRATEGIES[name] for name in names}


def point_unit(context: QAContext, thing: str) -> str:
    """Returns the unit of points in an image or a frame, for prompts."""
    if context.coordinates == "pixels":
        return f"in pixels of the {thing} as shown"
    return f"in {context.coordinates or 'percents'} of the {thing}'s width and height"


def point_tag(evidence: Evidence, space: Space) -> str:
    """Returns a `<points>` tag for a thing."""
    at = _middle(evidence, space)
    return f'<points x1="{at.x:.2f}" y1="{at.y:.2f}" alt="{evidence.label}">{evidence.label}</points>'


def point_in_percents(evidence: Evidence) -> Point[Percents]:
    """Returns the position of a thing: its annotated point, or else its center."""
    return _middle(evidence, Percents())


def _middle(evidence: Evidence, space: SpaceT) -> Point[SpaceT]:
    box = evidence.box
    pixel = evidence.point or Point((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.space)
    middle = Point(int(pixel.x) + 0.5, int(pixel.y) + 0.5, pixel.space) if evidence.point else pixel
    return convert_point(middle, space)
