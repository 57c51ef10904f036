"""A person's episode in a question-answering world: looks in plain words, arrows for pages, what was right."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.cli.session import Session
from vlm_envs.cli.typed import ZOOM_TOOL, Problem, Show, Situation, help_line, read_typed
from vlm_envs.qa.qa_context import CallTool, QAState, regions
from vlm_envs.qa.qa_world import QATask, options
from vlm_envs.tools.coordinates import Percents, convert
from vlm_envs.tools.pictures import within_budget
from vlm_envs.tools.tool_memory import ORIGINAL_IMAGE
from vlm_envs.tools.tool_registry import ToolCall, parse_tool_call

PAN = 0.5
"""Part of a region's sides by which an arrow moves it."""


@dataclass(frozen=True)
class Region:
    """A region that was zoomed into.

    Attributes:
        name: Of which picture.
        box: Left, upper, right and lower side, in percents of it.
    """

    name: str
    box: tuple[float, float, float, float]

    def moved(self, right: int, down: int) -> str:
        """Returns the call of a neighbouring region as a person types it; empty where the picture ends."""
        x1, x2 = _shifted(self.box[0], self.box[2], right)
        y1, y2 = _shifted(self.box[1], self.box[3], down)
        if (x1, y1, x2, y2) == self.box:
            return ""
        return f"zoom {x1:g} {y1:g} {x2:g} {y2:g} of {self.name}"


class QASession(Session):
    """One question-answering world, played by a person. See `Session`."""

    def restart(self) -> None:
        """Asks the same question again."""
        super().restart()
        self.looking_at = next(iter(self.place.state.memory.imgs_map.names), "")
        self.looked: Region | int | None = None
        self._showing: str | None = None

    @property
    def place(self) -> Situation:
        """Where the person is."""
        task, state = self.world.task, self.world.state
        assert isinstance(task, QATask) and isinstance(state, QAState)
        sections = self.world.turn_format.action_sections
        looking_at = getattr(self, "looking_at", ORIGINAL_IMAGE)
        return Situation(task=task, state=state, sections=sections, looking_at=looking_at)

    def drawn_in_words(self) -> list[str]:
        """Returns nothing: a question's facts hold its answer."""
        return []

    def read(self, typed: str) -> str | None:
        """Returns the response that a line stands for, or None after `note` was set: no turn is taken."""
        before = self.place.state
        try:
            asked = read_typed(typed, self.place)
        except Problem as problem:
            self.note = str(problem)
            return None
        if isinstance(asked, Show):
            self._showing = self.looking_at = asked.name
            self.note = f"This is {asked.name}."
            return None
        self._asked, self._before = asked, before
        return self.world.write_response([asked])

    def took_turn(self) -> None:
        """Notes what is on the screen after a turn."""
        self._showing = None
        names = self.place.state.memory.imgs_map.names
        new = names[len(self._before.memory.imgs_map.names) :]
        call = parse_tool_call(self._asked.text) if isinstance(self._asked, CallTool) else None
        if isinstance(call, ToolCall) and new:
            self.looked = _looked(call)
            self.looking_at = new[0]
        self.note = ""

    def keys(self) -> Mapping[str, str]:
        """Returns what each arrow stands for now: the next page, or the region beside the last one."""
        if self.over or "tool_call" not in self.place.sections:
            return {}
        document = self.place.state.sample.document
        if isinstance(self.looked, Region):
            moves = {"Left": (-1, 0), "Right": (1, 0), "Up": (0, -1), "Down": (0, 1)}
            typed = {key: self.looked.moved(*move) for key, move in moves.items()}
        elif document is not None and "page" in self.place.words:
            page = self.looked or 0
            typed = {"Left": f"page {page - 1}" if page > 1 else ""}
            typed["Right"] = f"page {page + 1}" if page < document.num_pages else ""
        else:
            return {}
        return {key: words for key, words in typed.items() if words}

    @property
    def picture(self) -> npt.NDArray[np.uint8]:
        """What is on the screen, uint8[H, W, 3]: what came last, or what was asked for with `show`."""
        if self._showing is None:
            return super().picture
        return within_budget(self.place.state.memory.imgs_map[self._showing], self.place.task.context.max_pixels).pixels

    def told(self) -> list[str]:
        """Returns pictures, texts and question, and what a tool said last."""
        task, state = self.place.task, self.place.state
        return [*task.instruction(state).splitlines(), *state.reply.splitlines()]

    def opening(self) -> list[str]:
        """Returns what to show once: the goal and the limits. The rules are of tools as models call them."""
        return [f"{self.world.task.name}. {self.world.task.goal}", self.limits]

    def reminder(self) -> list[str]:
        """Returns the question in a few words, and what a tool said last."""
        state = self.place.state
        question = state.sample.question.partition("\n")[0]
        return [question, *options(state.sample.key), *state.reply.splitlines()]

    def help(self) -> str:
        """Returns what can be typed."""
        if self.over:
            return "r again, n next question, q quit"
        return " | ".join([help_line(self.place), "r again, n next question, q quit"])

    @property
    def can_zoom(self) -> bool:
        """Whether a region can be asked for now."""
        return not self.over and "zoom" in self.place.words

    def key_help(self) -> str:
        """Returns what arrows do now."""
        if not self.keys():
            return ""
        return "arrows move the region" if isinstance(self.looked, Region) else "left and right turn the page"

    def standing(self) -> str:
        """Returns whether the answer was right, and what would have been."""
        if not self.over:
            return ""
        if self.info["success"]:
            return "Right."
        return f"Lost. {self.what_was_right()}".strip()

    def what_was_right(self) -> str:
        """Returns the right answer, why, and where that is to be seen."""
        sample = self.place.state.sample
        pages = " and ".join(f"page {page}" for page in sample.evidence_pages)
        boxes = [evidence.box for evidence in sample.evidence if evidence.image == 0]
        seen = [pages] if pages else [_zoom_on(box) for box in regions(boxes, 1)] if boxes else []
        where = f"Seen with: {seen[0]}." if seen else ""
        return " ".join(filter(None, (super().what_was_right(), sample.facts, where)))


def _looked(call: ToolCall) -> Region | int | None:
    """Returns the region or the page that a call shows; None for anything else."""
    box = call.arguments.get("bbox_2d")
    if call.name == ZOOM_TOOL and isinstance(box, list):
        x1, y1, x2, y2 = (float(side) / 10 for side in box)
        return Region(str(call.arguments["image"]), (x1, y1, x2, y2))
    page = call.arguments.get("image_idx")
    return int(page) if isinstance(page, int | float) else None


def _shifted(start: float, stop: float, direction: int) -> tuple[float, float]:
    """Returns an interval moved by a part of its length, within 0 and 100."""
    length = stop - start
    first = min(max(start + direction * PAN * length, 0.0), 100 - length)
    return round(first, 1), round(first + length, 1)


def _zoom_on(region: Any) -> str:
    """Returns a zoom on a region as a person types it."""
    box = convert(region, Percents())
    sides = (math.floor(box.x1), math.floor(box.y1), math.ceil(box.x2), math.ceil(box.y2))
    return f"zoom {' '.join(map(str, sides))}"
