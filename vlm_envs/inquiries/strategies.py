"""How a question may be looked into: what the prompt asks for, how a response is read, how a teacher would do it.

The response formats are `vlm_envs.formats.INQUIRY_FORMATS`; here is what belongs into them. Boxes and points are
written in one coordinate space per strategy: thousandths in calls of the zoom tool (`arm`), pixels of the picture as
shown in `<zoom>` and in grounded thoughts (`mags`, `ivgr_grounded`, `ivgr_views`), percents with two decimals in
`points`, where pixels of a scaled picture would be too coarse for the smallest things.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from vlm_envs.formats import INQUIRY_FORMATS, ResponseFormat
from vlm_envs.inquiries.desk import Desk, regions
from vlm_envs.inquiries.sample import Evidence, Sample
from vlm_envs.inquiries.state import Act, Answer, CallTool, Inquiry, Zoom
from vlm_envs.tools.coordinates import Percents, Point, ShownPixels, Space, convert, convert_point
from vlm_envs.tools.written_boxes import MAX_AREA_FRACTION, WrittenBox, find_boxes, read_box_list

Reader = Callable[[str], Act | None]

Views = Literal["both", "crops", "union", "none"]
"""What iVGR's second pass is shown: every boxed region, the one region around all of them, both, or nothing."""

VIEWS: tuple[str, ...] = get_args(Views)

MAX_CROPS = 8
"""Most regions enlarged in one turn; further boxes count but are not shown."""


@dataclass(frozen=True, kw_only=True)
class Strategy:
    """A way of looking and answering; this one thinks and answers, and looks no closer.

    Attributes:
        name: Key of `INQUIRY_FORMATS`.
        max_turns: Turns there usually are.
        has_tools: Whether tools can be called.
        expected: What the agent is told when nothing could be carried out.
    """

    name: str = "direct"
    max_turns: int = 1
    has_tools: bool = False
    expected: str = "an answer"

    @property
    def response_format(self) -> ResponseFormat:
        """The tags."""
        return INQUIRY_FORMATS[self.name]

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns what the prompt says of how to look."""
        return ("Think about what you see in the pictures, then answer.",)

    def readers(self) -> Mapping[str, Reader]:
        """Returns how sections other than `<answer>` are read, by section."""
        return {}

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns how boxes and points are written in thoughts; None where they are not."""
        return None

    def regions(self, boxes: tuple[WrittenBox, ...], shown: ShownPixels) -> tuple[WrittenBox, ...]:
        """Returns the regions that are shown enlarged, of those a zoom asks for.

        Args:
            boxes: As the model wrote them, proper or not.
            shown: The picture as shown.
        """
        return ()

    def reply(self, num_shown: int, num_asked: int) -> str:
        """Returns what is said about a zoom."""
        return ""

    def write_zoom(self, action: Zoom) -> str:
        """Returns a zoom as it stands in a thought."""
        return " ".join(map(_write_box, action.boxes))

    def looks(self, state: Inquiry, desk: Desk, max_calls: int) -> tuple[Act, ...]:
        """Returns the looks that a teacher still takes before it answers."""
        return ()

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns what a teacher thinks before an action, by section."""
        return {"think": f"{_facts(state.sample)} That settles the question."}


@dataclass(frozen=True, kw_only=True)
class ToolStrategy(Strategy):
    """ARM-Thinker: a thought, then one call of a tool or the answer."""

    name: str = "arm"
    max_turns: int = 5
    has_tools: bool = True

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns the tools and how they are called."""
        return (
            "What matters may be too small to see, or on another page. Call tools to look before you answer.",
            'One call a turn: {"name": ..., "arguments": {...}} as JSON. Its result comes in <tool_response>.',
            f"Tools:\n{desk.tools(None).prompt()}",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of calls; what is wrong with a call, the tool's response says."""
        return {"tool_call": CallTool}

    def looks(self, state: Inquiry, desk: Desk, max_calls: int) -> tuple[Act, ...]:
        """Returns the planned calls that were not made yet."""
        made = {call.text for call in state.calls}
        return tuple(CallTool(text) for text in desk.planned_calls(state.sample, max_calls) if text not in made)

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns why a tool is called, or what was found."""
        if isinstance(action, Answer):
            return {"think": f"{_facts(state.sample)} That settles the question."}
        again = "I have not seen everything yet." if state.calls else "This cannot be settled at a glance."
        return {"think": f"{again} A closer look at the place that matters will help."}


@dataclass(frozen=True, kw_only=True)
class ZoomStrategy(Strategy):
    """Mags-RL: regions are named in the first thought, and come back enlarged for a second one."""

    name: str = "mags"
    max_turns: int = 2
    expected: str = "one list of boxes within <zoom> and </zoom>"

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns how regions are named."""
        return (
            "First think, and name the regions to look at again in one list within your thoughts: "
            "<zoom>[[x1, y1, x2, y2], ...]</zoom>, in pixels of the picture as shown; each under 40 % of its area.",
            "They come back enlarged. Then think again, and answer.",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of the first thought."""
        return {"think": read_zoom}

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns pixels of the picture as shown."""
        return desk.shown_pixels(sample)

    def regions(self, boxes: tuple[WrittenBox, ...], shown: ShownPixels) -> tuple[WrittenBox, ...]:
        """Returns the valid boxes: ordered, inside, and under 40 % of the picture's area."""
        valid = (box for box in dict.fromkeys(boxes) if box.is_zoomable(shown.width, shown.height))
        return tuple(valid)[:MAX_CROPS]

    def reply(self, num_shown: int, num_asked: int) -> str:
        """Returns how many regions are shown, or how they should be asked for."""
        if num_shown:
            return f"{num_shown} of {num_asked} regions, enlarged, in the order they were asked for."
        return (
            "No region could be enlarged. A box is [x1, y1, x2, y2] in pixels of the picture as shown, with x1 < x2 "
            "and y1 < y2, inside the picture and under 40 % of its area. Answer from the picture as it is."
        )

    def write_zoom(self, action: Zoom) -> str:
        """Returns one list of boxes in its tags."""
        return f"<zoom>[{', '.join(map(_write_box, action.boxes))}]</zoom>"

    def looks(self, state: Inquiry, desk: Desk, max_calls: int) -> tuple[Act, ...]:
        """Returns one zoom into the regions of the evidence, or into the middle of the picture where there is none."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom(zoom_boxes(state.sample, desk)),)

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns a first thought that says what to look for, or a second one that says what was seen.

        They are as long as the paper's volume rewards want them: 19 different words first, then 25.
        """
        if isinstance(action, Zoom):
            return {
                "think": "The question depends on details that are tiny at this scale. Before answering I should "
                "examine these places again, enlarged, because colours and shapes blur here."
            }
        return {
            "rethink": f"{_facts(state.sample)} With every region enlarged, edges, colours and letters became clear "
            "enough to read; nothing else nearby changes my mind, so this observation decides what was asked."
        }


@dataclass(frozen=True, kw_only=True)
class GroundedStrategy(Strategy):
    """iVGR's grounded stream: boxes of what matters stand in the thought."""

    name: str = "ivgr_grounded"

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns how boxes are written."""
        return (
            "Think about what you see. Behind everything that matters write its box [x1, y1, x2, y2], in pixels of "
            "the picture as shown. Then answer.",
        )

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns pixels of the picture as shown."""
        return desk.shown_pixels(sample)

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns the facts, and everything that they rest on with its box."""
        boxes = written_evidence(state.sample, self.space(state.sample, desk))
        seen = " ".join(f"{evidence.label} {_write_box(box)}." for evidence, box in boxes)
        return {"think": f"{seen} {_facts(state.sample)}".strip()}


@dataclass(frozen=True, kw_only=True)
class TextualStrategy(Strategy):
    """iVGR's textual stream: the same thought in words alone."""

    name: str = "ivgr_textual"

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns that places are said in words."""
        return ("Think about what you see and where it is, in words and without coordinates. Then answer.",)

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns pixels of the picture as shown: for the truth in `info`, nothing of it is written here."""
        return desk.shown_pixels(sample)

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns the grounded thought without its boxes."""
        return {"think": _seen(state.sample)}


@dataclass(frozen=True, kw_only=True)
class ViewsStrategy(Strategy):
    """iVGR at test time: what was boxed in a first thought comes back as views, and a second one is in words.

    Source: iVGR, section 3.4 and Table 4. The paper's second pass starts anew with the picture, the crops and the crop
    around all of them; here it is the second turn, so that the picture and the first thought stand before it.

    Attributes:
        views: Which views are shown; the paper's ablations.
    """

    name: str = "ivgr_views"
    max_turns: int = 2
    expected: str = "boxes [x1, y1, x2, y2] in the thought"
    views: Views = "both"

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns how boxes are written and what becomes of them."""
        return (
            "First think about what matters, and write the box [x1, y1, x2, y2] of everything that does, in pixels of "
            "the picture as shown.",
            "You may get closer views of it. Then think again, in words and without coordinates, and answer.",
        )

    def readers(self) -> Mapping[str, Reader]:
        """Returns the reader of the first thought; boxes in the second one are nothing but words."""
        return {"think": read_boxes}

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns pixels of the picture as shown."""
        return desk.shown_pixels(sample)

    def regions(self, boxes: tuple[WrittenBox, ...], shown: ShownPixels) -> tuple[WrittenBox, ...]:
        """Returns every box as far as it is in the picture, and last the smallest one around them all.

        One box is its own surroundings and is shown once.
        """
        inside = tuple(dict.fromkeys(part for box in boxes if (part := _inside(box, shown)) is not None))
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

    def reply(self, num_shown: int, num_asked: int) -> str:
        """Returns what the views are."""
        if not num_shown:
            return "There are no closer views. Look at the picture again."
        order = {
            "both": "the regions you boxed in your order, then the region around all of them",
            "crops": "the regions you boxed, in your order",
            "union": "the region around everything you boxed",
        }
        return f"Closer views: {order[self.views]}."

    def looks(self, state: Inquiry, desk: Desk, max_calls: int) -> tuple[Act, ...]:
        """Returns one look at everything that the answer rests on, or at the middle of the picture."""
        if state.calls or state.num_passed:
            return ()
        return (Zoom(zoom_boxes(state.sample, desk)),)

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns a first thought that leads up to the boxes, or a second one of what was seen."""
        if isinstance(action, Zoom):
            return {"think": "The answer depends on what is here: "}
        return {"think": _seen(state.sample)}


@dataclass(frozen=True, kw_only=True)
class PointsStrategy(Strategy):
    """Argos: everything that the thought mentions is pointed at."""

    name: str = "points"

    def rules(self, desk: Desk) -> tuple[str, ...]:
        """Returns how points are written."""
        return (
            'Think about what you see, and point at every thing you mention: <points x1="12.34" y1="56.78" '
            'alt="what it is">what it is</points>, in percents of the picture\'s width and height, one pair a thing. '
            "Then answer.",
        )

    def space(self, sample: Sample, desk: Desk) -> Space | None:
        """Returns percents."""
        return Percents()

    def thoughts(self, state: Inquiry, desk: Desk, action: Act) -> Mapping[str, str]:
        """Returns the facts, and a point on everything that they rest on."""
        seen = " ".join(_point_tag(evidence) for evidence in state.sample.evidence if evidence.exhibit == 0)
        return {"think": f"{seen} {_facts(state.sample)}".strip()}


STRATEGIES: dict[str, Strategy] = {
    strategy.name: strategy
    for strategy in (
        Strategy(),
        ToolStrategy(),
        ZoomStrategy(),
        GroundedStrategy(),
        TextualStrategy(),
        ViewsStrategy(),
        PointsStrategy(),
    )
}
"""Every strategy by name."""


def strategies(*names: str) -> dict[str, Strategy]:
    """Returns some of the strategies by name."""
    return {name: STRATEGIES[name] for name in names}


def read_zoom(text: str) -> Zoom | None:
    """Reads the one `<zoom>` of a thought; None when there is none, several, or no list of boxes in it."""
    before, _, rest = text.partition("<zoom>")
    inside, closing, after = rest.partition("</zoom>")
    if not closing or "</zoom>" in before or "<zoom>" in rest or "</zoom>" in after:
        return None
    boxes = read_box_list(inside)
    return Zoom(boxes) if boxes else None


def read_boxes(text: str) -> Zoom | None:
    """Reads every box of a thought, however it is written; None when there is none."""
    boxes = find_boxes(text)
    return Zoom(boxes) if boxes else None


def zoom_boxes(sample: Sample, desk: Desk) -> tuple[WrittenBox, ...]:
    """Returns the regions a teacher enlarges: one for everything that the answer rests on, in whole shown pixels."""
    space = desk.shown_pixels(sample)
    assert space is not None, "a strategy that zooms needs a picture"
    boxes = [evidence.box for evidence in sample.evidence if evidence.exhibit == 0]
    tight = [convert(box, space).outward_whole() for region in boxes for box in regions([region], 1)]
    limit = MAX_AREA_FRACTION * space.width * space.height
    written = [WrittenBox(box.x1, box.y1, box.x2, box.y2) for box in tight]
    if not written or any(box.area >= limit for box in written):
        third = space.width // 3, space.height // 3
        return (WrittenBox(third[0], third[1], 2 * third[0], 2 * third[1]),)
    return tuple(dict.fromkeys(written))


def written_evidence(sample: Sample, space: Space | None) -> tuple[tuple[Evidence, WrittenBox], ...]:
    """Returns the evidence of the first picture with its boxes in a space, in whole numbers where it is of pixels.

    Args:
        sample: The question.
        space: How boxes are written; None for nothing.
    """
    if space is None:
        return ()
    converted = [(each, convert(each.box, space)) for each in sample.evidence if each.exhibit == 0]
    whole = not isinstance(space, Percents)
    rounded = [(each, box.outward_whole() if whole else box) for each, box in converted]
    return tuple((each, WrittenBox(box.x1, box.y1, box.x2, box.y2)) for each, box in rounded)


def _inside(box: WrittenBox, shown: ShownPixels) -> WrittenBox | None:
    """Returns the part of a box that is inside the picture; None if there is none."""
    if not box.is_proper:
        return None
    part = WrittenBox(max(box.x1, 0), max(box.y1, 0), min(box.x2, shown.width), min(box.y2, shown.height))
    return part if part.is_proper else None


def _write_box(box: WrittenBox) -> str:
    return f"[{', '.join(f'{side:g}' for side in box)}]"


def _seen(sample: Sample) -> str:
    """Returns everything in the first picture that the answer rests on, and the facts, in words."""
    labels = " ".join(f"{evidence.label}." for evidence in sample.evidence if evidence.exhibit == 0)
    return f"{labels} {_facts(sample)}".strip()


def _facts(sample: Sample) -> str:
    return sample.facts or "I have looked at everything that bears on it."


def _point_tag(evidence: Evidence) -> str:
    """Returns a tag that points at a thing: at the pixel that surely belongs to it, else at its middle."""
    box = evidence.box
    pixel = evidence.point or Point((box.x1 + box.x2) / 2, (box.y1 + box.y2) / 2, box.space)
    middle = Point(int(pixel.x) + 0.5, int(pixel.y) + 0.5, pixel.space) if evidence.point else pixel
    at = convert_point(middle, Percents())
    return f'<points x1="{at.x:.2f}" y1="{at.y:.2f}" alt="{evidence.label}">{evidence.label}</points>'
