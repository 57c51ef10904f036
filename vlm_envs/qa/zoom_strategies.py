"""Strategies that look twice: regions named in a first thought come back enlarged for a second one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

from vlm_envs.qa.context import QAContext, regions
from vlm_envs.qa.sample import Sample
from vlm_envs.qa.state import Act, QAState, Zoom
from vlm_envs.qa.strategy import Reader, Strategy, box_space, box_unit, facts_of, seen_in, write_box
from vlm_envs.responses.extraction import last_section, unwrap
from vlm_envs.tools.coordinates import Space, convert
from vlm_envs.tools.written_boxes import MAX_AREA_FRACTION, WrittenBox, find_boxes, read_box_list

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
