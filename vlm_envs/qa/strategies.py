"""How a question may be looked into: what the prompt asks for, how a response is read, how an expert would do it.

The response formats are `vlm_envs.responses.formats.QA_FORMATS`; here is what belongs into them. Boxes and points
are written in one coordinate space per strategy: thousandths in calls of the zoom tool (`arm`), pixels of the picture
as shown in `<zoom>` and in grounded thoughts (`mags`, `ivgr_grounded`, `ivgr_views`), percents with two decimals in
`points`, where pixels of a scaled picture would be too coarse for the smallest things. A context's `coordinates` puts
thousandths or pixels in their place, except in calls of the zoom tool, whose boxes are thousandths as in the paper.
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
    """A way of looking and answering; this one thinks and answers, and looks no closer.

    Attributes:
        name: Key of `QA_FORMATS`.
        max_turns: Turns there usually are.
        has_tools: Whether tools can be called.
        magnifies: Whether every region it is shown is enlarged, not only small ones.
        expected: What the agent is told when nothing could be carried out.
    """

    name: str = "direct"
    max_turns: int = 1
    has_tools: bool = False
    magnifies: bool = False
    expected: str = "an answer"

    @property
    def response_format(self) -> ResponseFormat:
        """The tags."""
        return QA_FORMATS[self.name]

    @property
    def looks_closer(self) -> bool:
        """Whether a tool can be called, or a zoom be asked for."""
        return self.has_tools or bool(self.readers())

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns what the prompt says of how to look."""
        return ("Think about what you see in the pictures, then answer.",)

    def readers(self) -> Mapping[str, Reader]:
        """Returns how sections other than `<answer>` are read, by section."""
        return {}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns how worlds with lenient reading read those sections; by default they read them as others do."""
        return {}

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns how boxes and points are written in thoughts; None where they are not."""
        return None

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the regions that are shown enlarged of those a zoom asks for, proper or not, in the same space."""
        return ()

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Returns what is said about a zoom."""
        return ""

    def write_zoom(self, action: Zoom) -> str:
        """Returns a zoom as it stands in a thought."""
        return " ".join(map(write_box, action.boxes))

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the looks that an expert still takes before it answers."""
        return ()

    def careless_calls(self, state: QAState, context: QAContext) -> tuple[Act, ...]:
        """Returns the looks without which a response would not be in the format, wherever they go."""
        return ()

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns what an expert thinks before an action, by section."""
        return {"think": f"{facts_of(state.sample)} That settles the question."}


def box_space(sample: Sample, context: QAContext) -> Space | None:
    """Returns pixels of the first picture as shown, or thousandths if the context says so; None without a picture."""
    shown = context.shown_pixels(sample)
    return Thousandths() if context.coordinates == "thousandths" and shown is not None else shown


def box_unit(context: QAContext) -> str:
    """Returns what boxes are written in, for prompts."""
    if context.coordinates == "thousandths":
        return "in thousandths of the picture's width and height"
    return "in pixels of the picture as shown"


def written_evidence(sample: Sample, space: Space | None) -> tuple[tuple[Evidence, WrittenBox], ...]:
    """Returns the first picture's evidence with its boxes in a space, in whole units or in percents; nothing for None.

    What has no box of its own, only a point, is left out.
    """
    if space is None:
        return ()
    converted = [(item, convert(item.box, space)) for item in sample.evidence if item.image == 0 and item.has_box]
    whole = not isinstance(space, Percents)
    rounded = [(item, box.outward_whole() if whole else box) for item, box in converted]
    return tuple((item, WrittenBox(box.x1, box.y1, box.x2, box.y2)) for item, box in rounded)


def write_box(box: WrittenBox) -> str:
    """Returns a box as it is written, `[x1, y1, x2, y2]`."""
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def from_the_left(evidence: Iterable[Evidence]) -> list[Evidence]:
    """Returns evidence in the order in which experts list it: from the left, of equals from the top."""
    return sorted(evidence, key=lambda each: (each.box.x1, each.box.y1))


def seen_in(sample: Sample) -> str:
    """Returns everything in the first picture that the answer rests on, from the left, and the facts, in words."""
    listed = from_the_left(sample.evidence)
    labels = " ".join(f"{evidence.label}." for evidence in listed if evidence.image == 0)
    return f"{labels} {facts_of(sample)}".strip()


def facts_of(sample: Sample) -> str:
    """Returns the facts that settle a question, or that nothing is left out where a sample tells none."""
    return sample.facts or "I have looked at everything that bears on it."


Views = Literal["both", "crops", "union", "none"]
"""What iVGR's second pass is shown: every boxed region, the one region around all of them, both, or nothing."""

VIEWS: tuple[str, ...] = get_args(Views)

MagsStage = Literal[1, 2]
"""Stage of Mags-RL's curriculum."""

MAX_CROPS = 8
"""Most regions enlarged in one turn; further boxes count but are not shown."""


@dataclass(frozen=True, kw_only=True)
class TwoPassStrategy(Strategy):
    """A first turn that names regions of the first picture, and a second one that answers."""

    max_turns: int = 2

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns pixels of the picture as shown, or thousandths."""
        return box_space(sample, context)

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns one look at everything that the answer rests on, or at the middle where nothing can be named."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom(zoom_boxes(state.sample, context)),)


@dataclass(frozen=True, kw_only=True)
class ZoomStrategy(TwoPassStrategy):
    """Mags-RL: regions are named in the first thought, and come back enlarged for a second one.

    Source: Mags-RL, section 3.2 (every region is magnified, not only small ones) and appendix A.1 (a prompt a stage of
    the curriculum, the second one for evaluation too); the words are ours.

    Attributes:
        stage: Of the curriculum: 1 asks for a zoom where something is unclear, 2 for one into every target.
    """

    name: str = "mags"
    expected: str = "one list of boxes within <zoom> and </zoom>"
    magnifies: bool = True
    stage: MagsStage = 2

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how regions are named."""
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
        """Returns the reader of the first thought."""
        return {"think": read_zoom}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns the reader of the last `<zoom>`, in which boxes may be written in any way."""
        return {"think": read_last_zoom}

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns the valid boxes: ordered, inside, and under 40 % of the picture's area."""
        valid = (box for box in dict.fromkeys(boxes) if box.is_zoomable(space.width, space.height))
        return tuple(valid)[:MAX_CROPS]

    def reply(self, num_shown: int, num_asked: int, context: QAContext) -> str:
        """Returns how many regions are shown, or how they should be asked for."""
        if num_shown:
            return f"{num_shown} of {num_asked} regions, enlarged, in the order they were asked for."
        return (
            f"No region could be enlarged. A box is [x1, y1, x2, y2] {box_unit(context)}, with x1 < x2 "
            "and y1 < y2, inside the picture and under 40 % of its area. Answer from the picture as it is."
        )

    def careless_calls(self, state: QAState, context: QAContext) -> tuple[Act, ...]:
        """Returns one look at the middle, for a first thought has a zoom in it."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom((_middle_box(self.space(state.sample, context)),)),)

    def write_zoom(self, action: Zoom) -> str:
        """Returns one list of boxes in its tags."""
        return f"<zoom>[{', '.join(map(write_box, action.boxes))}]</zoom>"

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a first thought that says what to look for, or a second one that says what was seen.

        They are as long as the paper's volume rewards want them: 19 different words first, then 25.
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
    """iVGR at test time: what was boxed in a first thought comes back as views, and a second one is in words.

    Source: iVGR, section 3.4 and Table 4. The paper's second pass starts anew with the picture, the crops and the crop
    around all of them; here it is the second turn, so that the picture and the first thought stand before it.

    Attributes:
        views: Which views are shown; the paper's ablations.
    """

    name: str = "ivgr_views"
    expected: str = "boxes [x1, y1, x2, y2] in the thought"
    views: Views = "both"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how boxes are written and what becomes of them."""
        return (
            "First think about what matters, and write the box [x1, y1, x2, y2] of everything that does, "
            f"{box_unit(context)}.",
            "You may get closer views of it. Then think again, in words and without coordinates, and answer.",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of the first thought; boxes in the second one are nothing but words."""
        return {"think": read_boxes}

    def regions(self, boxes: tuple[WrittenBox, ...], space: Space) -> tuple[WrittenBox, ...]:
        """Returns every box as far as it is in the picture, and last the smallest one around them all.

        One box is its own surroundings and is shown once.
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
        """Returns what the views are."""
        if not num_shown:
            return "There are no closer views. Look at the picture again."
        order = {
            "both": "the regions you boxed in your order, then the region around all of them",
            "crops": "the regions you boxed, in your order",
            "union": "the region around everything you boxed",
        }
        return f"Closer views: {order[self.views]}."

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns a first thought that leads up to the boxes, or a second one of what was seen."""
        if isinstance(action, Zoom):
            return {"think": "The answer depends on what is here: "}
        return {"think": seen_in(state.sample)}


def read_zoom(text: str) -> Zoom | None:
    """Reads the one `<zoom>` of a thought; None when there is none, several, or no list of boxes in it."""
    before, _, rest = text.partition("<zoom>")
    inside, closing, after = rest.partition("</zoom>")
    if not closing or "</zoom>" in before or "<zoom>" in rest or "</zoom>" in after:
        return None
    boxes = read_box_list(inside)
    return Zoom(boxes) if boxes else None


def read_last_zoom(text: str) -> Zoom | None:
    """Reads the last complete `<zoom>` of a text, however its boxes are written; None when there is no box in it."""
    if zoom := read_zoom(text):
        return zoom
    _, inside = last_section(text, "zoom") or ("", "")
    boxes = read_box_list(unwrap(inside)) or find_boxes(inside)
    return Zoom(boxes) if boxes else None


def read_boxes(text: str) -> Zoom | None:
    """Reads every box of a thought, however it is written; None when there is none."""
    boxes = find_boxes(text)
    return Zoom(boxes) if boxes else None


def zoom_boxes(sample: Sample, context: QAContext) -> tuple[WrittenBox, ...]:
    """Returns the regions an expert enlarges: one for everything that the answer rests on, in whole units."""
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
    """Returns the middle one of three by three parts of a picture."""
    assert space is not None, "a strategy that zooms needs a picture"
    width, height = space.width // 3, space.height // 3
    return WrittenBox(width, height, 2 * width, 2 * height)


def _inside(box: WrittenBox, space: Space) -> WrittenBox | None:
    """Returns the part of a box that is inside the picture; None if there is none."""
    if not box.is_proper:
        return None
    part = WrittenBox(max(box.x1, 0), max(box.y1, 0), min(box.x2, space.width), min(box.y2, space.height))
    return part if part.is_proper else None


POINT_EXAMPLE = '<points x1="12.34" y1="56.78" alt="what it is">what it is</points>'


@dataclass(frozen=True, kw_only=True)
class ToolStrategy(Strategy):
    """ARM-Thinker: a thought, then one call of a tool or the answer."""

    name: str = "arm"
    max_turns: int = 5
    has_tools: bool = True

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns the tools and how they are called."""
        return (
            "What matters may be too small to see, or on another page. Call tools to look before you answer.",
            'One call a turn: {"name": ..., "arguments": {...}} as JSON. Its result comes in <tool_response>.',
            f"Tools:\n{context.tools(None).prompt()}",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of calls; what is wrong with a call, the tool's response says."""
        return {"tool_call": CallTool}

    def lenient_readers(self) -> Mapping[str, Reader]:
        """Returns a reader of calls in a code fence, and of calls whose arguments are JSON text."""
        return {"tool_call": read_call}

    def expert_calls(self, state: QAState, context: QAContext, max_calls: int) -> tuple[Act, ...]:
        """Returns the planned calls that were not made yet."""
        made = {call.text for call in state.calls}
        return tuple(CallTool(text) for text in context.planned_calls(state.sample, max_calls) if text not in made)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns why a tool is called, or what was found."""
        if isinstance(action, Answer):
            return {"think": f"{facts_of(state.sample)} That settles the question."}
        again = "I have not seen everything yet." if state.calls else "This cannot be settled at a glance."
        return {"think": f"{again} A closer look at the place that matters will help."}


def read_call(text: str) -> CallTool:
    """Reads a call in a code fence, or with arguments as JSON text, as the call that it is."""
    return CallTool(plain_call(text))


@dataclass(frozen=True, kw_only=True)
class GroundedStrategy(Strategy):
    """iVGR's streams: boxes of what matters stand in the thought, or (textual) the same thought is in words alone.

    Attributes:
        writes_boxes: Whether boxes are written; their space is told in `info` either way.
    """

    name: str = "ivgr_grounded"
    writes_boxes: bool = True

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how boxes are written, or that places are said in words."""
        if not self.writes_boxes:
            return ("Think about what you see and where it is, in words and without coordinates. Then answer.",)
        return (
            "Think about what you see. Behind everything that matters write its box [x1, y1, x2, y2], "
            f"{box_unit(context)}. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns pixels of the picture as shown, or thousandths."""
        return box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the facts, and everything that they rest on from the left, with its box if boxes are written."""
        if not self.writes_boxes:
            return {"think": seen_in(state.sample)}
        boxes = dict(written_evidence(state.sample, self.space(state.sample, context)))
        seen = " ".join(f"{evidence.label} {write_box(boxes[evidence])}." for evidence in from_the_left(boxes))
        return {"think": f"{seen} {facts_of(state.sample)}".strip()}


@dataclass(frozen=True, kw_only=True)
class PointsStrategy(Strategy):
    """Argos: everything that the thought mentions is pointed at."""

    name: str = "points"

    def rules(self, context: QAContext) -> tuple[str, ...]:
        """Returns how points are written."""
        return (
            f"Think about what you see, and point at every thing you mention: {POINT_EXAMPLE}, "
            f"{point_unit(context, 'picture')}, one pair a thing. Then answer.",
        )

    def space(self, sample: Sample, context: QAContext) -> Space | None:
        """Returns percents, unless the context asks for thousandths or pixels."""
        return Percents() if context.coordinates is None else box_space(sample, context)

    def thoughts(self, state: QAState, context: QAContext, action: Act) -> Mapping[str, str]:
        """Returns the facts, and a point on everything that they rest on."""
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
"""Every strategy by name."""


def strategies(*names: str) -> dict[str, Strategy]:
    """Returns some of the strategies by name."""
    return {name: STRATEGIES[name] for name in names}


def point_unit(context: QAContext, thing: str) -> str:
    """Returns what points in a picture or a frame are written in, for prompts."""
    if context.coordinates == "pixels":
        return f"in pixels of the {thing} as shown"
    return f"in {context.coordinates or 'percents'} of the {thing}'s width and height"


def point_tag(evidence: Evidence, space: Space) -> str:
    """Returns a tag that points at a thing."""
    at = _middle(evidence, space)
    return f'<points x1="{at.x:.2f}" y1="{at.y:.2f}" alt="{evidence.label}">{evidence.label}</points>'


def point_in_percents(evidence: Evidence) -> Point[Percents]:
    """Returns where a thing is: the pixel that surely belongs to it, else its middle."""
    return _middle(evidence, Percents())


def _middle(evidence: Evidence, space: SpaceT) -> Point[SpaceT]:
    box = evidence.box
    pixel = evidence.point or Point((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.space)
    middle = Point(int(pixel.x) + 0.5, int(pixel.y) + 0.5, pixel.space) if evidence.point else pixel
    return convert_point(middle, space)
