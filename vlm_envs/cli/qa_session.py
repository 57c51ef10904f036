"""A person's episode in a question-answering world, and how typed lines are read as looks and answers.

Regions are written in percents of the picture that is looked at, whatever the strategy wants: a person sees no pixels.
What cannot be carried out is a `Problem`, said in the person's words, and costs no turn.
"""

from __future__ import annotations

import difflib
import json
import math
import shlex
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.cli.session import Session
from vlm_envs.qa.qa_context import Act, Answer, CallTool, QAState, Zoom, regions
from vlm_envs.qa.qa_world import QATask, options, options_of
from vlm_envs.qa.strategies import ZoomStrategy
from vlm_envs.responses.answers import AnswerKey, chosen_letter, stated_number, stated_verdict
from vlm_envs.tools.coordinates import Percents, WrittenBox, convert
from vlm_envs.tools.pictures import within_budget
from vlm_envs.tools.tool_memory import ORIGINAL_IMAGE
from vlm_envs.tools.tool_registry import ToolCall, ToolRegistry, parse_tool_call
from vlm_envs.validation import did_you_mean

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


ZOOM_TOOL = "image_zoom_in_tool"
PAGE_TOOL = "doc_page_retrieval_by_index"
SEARCH_TOOL = "doc_page_retrieval_by_query"
NEARLY = 0.7
"""How alike a word has to be to one of the words below to count as a slip of the finger."""


class Problem(Exception):
    """What a person typed cannot be carried out; the message says what was expected, what came and what to do."""


@dataclass(frozen=True)
class Show:
    """Look again at a picture that is there already, which is no turn.

    Attributes:
        name: The picture's name.
    """

    name: str


@dataclass(frozen=True, kw_only=True)
class Situation:
    """Where a person is in an episode.

    Attributes:
        task: The world's task.
        state: Its state.
        sections: Sections of the response that is expected now, of which one holds the action.
        looking_at: Name of the picture on the screen; what a zoom is of unless it says so.
    """

    task: QATask
    state: QAState
    sections: Sequence[str]
    looking_at: str

    @property
    def tools(self) -> ToolRegistry:
        """The tools that can be called now."""
        can_call = "tool_call" in self.sections
        return self.task.context.tools(self.state.sample) if can_call else ToolRegistry()

    @property
    def looks_in_thoughts(self) -> bool:
        """Whether regions are named in this turn's thought, and the answer comes in the next."""
        return "answer" not in self.sections

    @property
    def words(self) -> tuple[str, ...]:
        """What can be asked for now besides answering."""
        by_tool = {ZOOM_TOOL: ("zoom",), PAGE_TOOL: ("page",), SEARCH_TOOL: ("find",)}
        names = self.tools.names
        looks = tuple(word for tool, words in by_tool.items() if tool in names for word in words)
        if self.state.sample.document is None:
            looks = tuple(word for word in looks if word == "zoom")
        pictures = self.state.memory.imgs_map.names
        looks = looks if pictures else ()
        rest = [("call", bool(names)), ("zoom", self.looks_in_thoughts), ("show", bool(pictures)), ("answer", True)]
        return (*looks, *(word for word, is_there in rest if is_there))


def read_typed(typed: str, place: Situation) -> Act | Show:
    """Returns what a line, which is not blank, asks for.

    Raises:
        Problem: If it cannot be carried out.
    """
    word, _, rest = typed.strip().partition(" ")
    rest = rest.strip()
    if word.lower() in ("help", "?") and not rest:
        raise Problem(f"What can be typed stands below. To answer with this very word: answer {word}")
    reader = _READERS.get(word.lower())
    if typed.lstrip().startswith("{"):
        return _checked(CallTool(typed.strip()), place)
    if reader is not None:
        return reader(rest, place)
    meant = difflib.get_close_matches(word.lower(), _READERS, n=1, cutoff=NEARLY)
    if rest and meant:
        raise Problem(f"Did you mean {meant[0]!r}? To answer with these very words: answer {typed.strip()}")
    return _answer(typed.strip(), place)


def help_line(place: Situation) -> str:
    """Returns what can be typed now, in one line."""
    how = {
        "zoom": "zoom x1 y1 x2 y2 (percents of the picture)",
        "page": "page 7",
        "find": "find WORDS",
        "call": "call TOOL NAME=VALUE ... (call alone lists them)",
        "show": "show PICTURE",
    }
    if place.looks_in_thoughts:
        how["zoom"] += "; several: zoom ...; ..."
    words = [how[word] for word in place.words if word in how]
    if not set(place.tools.names) - {ZOOM_TOOL, PAGE_TOOL, SEARCH_TOOL}:
        words = [word for word in words if word != how["call"]]  # Every tool has a word of its own.
    return " | ".join([*words, "your answer comes after the look" if place.looks_in_thoughts else "or your answer"])


def _zoom(rest: str, place: Situation) -> Act:
    if "zoom" not in place.words:
        raise Problem(_no_look(place, "zoom"))
    if place.looks_in_thoughts:
        return _named_regions(rest, place)
    numbers, of, name = rest.partition(" of ")
    name = name.strip() if of else place.looking_at
    box = _percents(numbers)
    bbox = [*(math.floor(10 * side) for side in box[:2]), *(math.ceil(10 * side) for side in box[2:])]
    return _checked(_call(ZOOM_TOOL, image=_known_picture(name, place), bbox_2d=bbox), place)


def _named_regions(rest: str, place: Situation) -> Act:
    """Returns regions as a thought names them, in the space of the strategy."""
    strategy = place.task.strategy
    space = strategy.space(place.state.sample, place.task.context)
    if space is None:
        raise Problem("There is no picture to zoom into.")
    scale = (space.width / 100, space.height / 100) * 2
    boxes = tuple(
        WrittenBox(*(round(side * factor, 2) for side, factor in zip(_percents(part), scale, strict=True)))
        for part in rest.split(";")
    )
    if isinstance(strategy, ZoomStrategy) and len(strategy.regions(boxes, space)) < len(set(boxes)):
        raise Problem("Here every region is under 40 % of the picture's area, and there are at most 8. Choose smaller.")
    return Zoom(boxes)


def _percents(numbers: str) -> tuple[float, float, float, float]:
    """Returns the sides of a region.

    Raises:
        Problem: If it is none, or not inside the picture.
    """
    numbers = numbers.strip()
    expected = "zoom takes the left, upper, right and lower side in percents, such as: zoom 40 40 60 60"
    try:
        x1, y1, x2, y2 = (float(side) for side in numbers.replace(",", " ").replace("%", " ").split())
    except ValueError:
        raise Problem(f"{expected}; got {numbers!r}.") from None
    if not (0 <= x1 < x2 <= 100 and 0 <= y1 < y2 <= 100):
        raise Problem(f"{expected}; got {numbers!r}. They are 0 to 100, left before right and upper before lower.")
    return x1, y1, x2, y2


def _page(rest: str, place: Situation) -> Act:
    document = place.state.sample.document
    if "page" not in place.words or document is None:
        raise Problem(_no_look(place, "page"))
    if not rest.isascii() or not rest.isdigit() or not 1 <= int(rest) <= document.num_pages:
        raise Problem(
            f"page takes a number from 1 to {document.num_pages}, the position in the file, such as: page 7; "
            f"got {rest!r}."
        )
    return _checked(_call(PAGE_TOOL, filename=document.name, image_idx=int(rest)), place)


def _find(rest: str, place: Situation) -> Act:
    document = place.state.sample.document
    if "find" not in place.words or document is None:
        raise Problem(_no_look(place, "find"))
    if not rest:
        raise Problem("find takes the words to look for, such as: find annual budget.")
    return _checked(_call(SEARCH_TOOL, filename=document.name, query=rest), place)


def _call_tool(rest: str, place: Situation) -> Act:
    tools = place.tools
    if not tools:
        raise Problem(_no_look(place, "call"))
    try:
        name, *pairs = shlex.split(rest)
    except ValueError as error:
        listed = "; ".join(f"{tool.name} {' '.join(tool.arguments.model_fields)}".strip() for tool in tools)
        reason = f"{error}. " if rest.strip() else ""
        raise Problem(f"{reason}call takes a tool and its arguments as NAME=VALUE. Tools: {listed}.") from None
    if name not in tools.names:
        raise Problem(f"There is no tool {name!r}.{did_you_mean(name, tools.names)} Tools: {', '.join(tools.names)}.")
    if unequal := [pair for pair in pairs if "=" not in pair]:
        raise Problem(f"Arguments of a call are written NAME=VALUE; got {unequal[0]!r}.")
    return _checked(
        _call(name, **{key: _value(text) for key, _, text in (pair.partition("=") for pair in pairs)}), place
    )


def _value(text: str) -> Any:
    """Returns JSON where a text is some, else the text."""
    try:
        return json.loads(text)
    except ValueError:
        return text


def _show(rest: str, place: Situation) -> Show:
    return Show(_known_picture(rest or ORIGINAL_IMAGE, place))


def _known_picture(name: str, place: Situation) -> str:
    known = place.state.memory.imgs_map.names
    if name in known:
        return name
    if not known:
        raise Problem("There is no picture here.")
    raise Problem(f"There is no picture {name!r}.{did_you_mean(name, known)} Pictures: {', '.join(known)}.")


def _answer(text: str, place: Situation) -> Act:
    if not text:
        raise Problem("answer takes the answer, such as: answer B.")
    if place.looks_in_thoughts:
        raise Problem("This strategy looks before it answers. First: zoom x1 y1 x2 y2, in percents of the picture.")
    if fault := _fault(text, place.state.sample.key):
        raise Problem(fault)
    return Answer(text)


def _fault(text: str, key: AnswerKey) -> str:
    """Returns why a text cannot be an answer of its kind; empty if it can."""
    if key.kind == "choice" and chosen_letter(text, key) is None:
        return f"The answer is one of {' '.join(options_of(key)) or 'the letters'}; got {text!r}."
    if (
        key.kind == "number"
        and stated_number(text) is None
        and all(stated_number(truth) is not None for truth in key.answers)
    ):
        return f"The answer is a number, such as 3; got {text!r}."
    if key.kind == "verdict" and stated_verdict(text) is None:
        return f"The answer is a verdict, as the question offers them; got {text!r}."
    return ""


def _checked(action: CallTool, place: Situation) -> CallTool:
    """Returns a call that will succeed, so that a slip costs no turn.

    Raises:
        Problem: If the tool refuses it.
    """
    if not place.tools:
        raise Problem(_no_look(place, "call"))
    result = place.tools.call_text(action.text, place.state.memory)
    if not result.ok:
        raise Problem(result.text.partition("): ")[2] or result.text)
    return action


def _call(tool: str, /, **arguments: object) -> CallTool:
    return CallTool(json.dumps({"name": tool, "arguments": arguments}, ensure_ascii=False))


def _no_look(place: Situation, word: str) -> str:
    """Returns why a kind of look is not to be had, and what is."""
    others = [each for each in place.words if each not in ("show", "answer")]
    what = f"There is: {', '.join(others)}." if others else "Answer from what you see."
    return f"There is no {word!r} here (prompt_format {place.task.strategy.name!r}). {what}"


_READERS: dict[str, Callable[[str, Situation], Act | Show]] = {
    "zoom": _zoom,
    "page": _page,
    "find": _find,
    "call": _call_tool,
    "show": _show,
    "answer": _answer,
}
