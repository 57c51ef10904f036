"""Question-answering episodes for readers: question and answers, tool calls as sentences, marks on images."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence

from vlm_envs.records.json_lines import Record
from vlm_envs.tools.coordinates import WrittenBox, find_boxes, padded_size, written_extent

_MAX_MARKS = 64
"""Marks drawn per episode; a response may name any number of boxes."""

_MAX_TEXT_CHARS = 20_000

_ZOOM, _PAGE_SEARCH, _PAGE = "image_zoom_in_tool", "doc_page_retrieval_by_query", "doc_page_retrieval_by_index"
_STORED = re.compile(r"Stored as (\w+(?:, \w+)*);")
_REFUSED = re.compile(r"Error \(\w+\): (.*)")
_QUOTED = re.compile(r"^(\w+):\n((?:\|.*(?:\n|\Z))+)", re.MULTILINE)
_POINT = re.compile(r'(?:\bframe (\d+)\b[^<>]{0,200})?<points x1="([\d.]+)" y1="([\d.]+)"(?: alt="([^"<>]*)")?')
_LOOKS = frozenset(("mags", "ivgr_views"))
"""Strategies whose unfinished turns zoom into the first image by naming boxes in its pixels."""


def is_question(episode: Record) -> bool:
    """Returns whether an episode asks a question whose answer its states record."""
    state = _first_state(episode)
    return isinstance(state.get("question"), str) and isinstance(state.get("answers"), list)


def answers_of(episode: Record) -> tuple[str | None, str]:
    """Returns the answer that an episode gave, None without one, and the correct one; choices with their text."""
    state = _first_state(episode)
    options = _options(state)
    answered = None
    if episode["turns"][-1].get("terminated") and episode["turns"][-1].get("actions"):
        answered = str(episode["turns"][-1]["actions"][0]).strip()
    correct = str(state["answers"][0]) if state["answers"] else ""
    return None if answered is None else _with_option(answered, options), _with_option(correct, options)


def question_of(episode: Record) -> Record | None:
    """Returns what a page shows of a question-answering episode as a whole; None for other episodes.

    Returns:
        `text`, `options`, `texts` (name and text of those it is about, such as responses to judge), `answered` (None
        without an answer), `correct`, and `pages` with the answer; `marks`: boxes and points with `image` (index among
        the episode's images), `box` or `point` (fractions of its sides), `label`, and `is_truth`.
    """
    if not is_question(episode):
        return None
    state = _first_state(episode)
    answered, correct = answers_of(episode)
    return {
        "text": state["question"],
        "options": _options(state),
        "texts": _texts(episode),
        "answered": answered,
        "correct": correct,
        "pages": state.get("evidence_pages") or [],
        "marks": _marks(episode)[:_MAX_MARKS],
    }


def call_of(episode: Record, index: int) -> Record | None:
    """Returns the tool call or zoom of a turn: `sentence`, and `refused`, why it failed; None for other turns."""
    turn = episode["turns"][index]
    written = _looking(turn)
    if written is None or not is_question(episode):
        return None
    if _first_state(episode).get("strategy") in _LOOKS:
        boxes = ", ".join(_written(box) for box in find_boxes(written))
        sentence = f"Zoomed into {boxes} of image 1" if boxes else "Zoomed into nothing"
    else:
        sentence = _call_sentence(written, _numbers(episode))
    if turn.get("action_effective") is not False:
        return {"sentence": sentence}
    after = [*episode["turns"], episode["final"]][index + 1]
    reason = _REFUSED.search(after.get("text") or "")
    return {"sentence": sentence, "refused": reason[1] if reason else "it had no effect"}


def _call_sentence(call: str, numbers: Mapping[str, int]) -> str:
    """Returns a tool call in words; `numbers` are the images' numbers by name."""
    try:
        value = json.loads(call)
        name, arguments = value["name"], value["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return "Called a tool"
    if not isinstance(arguments, Mapping):
        return f"Called {name}"
    if name == _ZOOM:
        image = str(arguments.get("image"))
        known = f"image {numbers[image]}" if image in numbers else image
        box = arguments.get("bbox_2d")
        return f"Zoomed into {_written(box) if isinstance(box, list) else 'an unreadable region'} of {known}"
    if name == _PAGE_SEARCH:
        return f"Searched {arguments.get('filename')} for “{arguments.get('query')}”"
    if name == _PAGE:
        return f"Opened page {arguments.get('image_idx')} of {arguments.get('filename')}"
    return f"Called {name}({', '.join(f'{key}={_written(each)}' for key, each in arguments.items())})"


def _marks(episode: Record) -> list[Record]:
    state, marks = _first_state(episode), []
    images = _numbers(episode)
    for index, turn in enumerate(episode["turns"]):
        label = f"turn {index + 1}"
        marks += [{**mark, "label": label} for mark in _zoomed(episode, index, images)]
        sections = turn.get("sections") or {}
        for text in map(str, sections.values()):
            marks += _pointed(text, state)
            if state.get("strategy") == "ivgr_grounded":
                marks += [{**mark, "label": label} for mark in _boxed(find_boxes(text[:_MAX_TEXT_CHARS]), state)]
    return [*marks, *_evidence(state)]


def _zoomed(episode: Record, index: int, images: Mapping[str, int]) -> Iterator[Record]:
    """Yields the regions that a turn zoomed into."""
    turn, state = episode["turns"][index], _first_state(episode)
    written = _looking(turn)
    if written is None or turn.get("action_effective") is False:
        return
    if state.get("strategy") in _LOOKS:
        yield from _boxed(find_boxes(written), state)
        return
    try:
        arguments = json.loads(written)["arguments"]
        number, sides = images[arguments["image"]], [float(side) / 1000 for side in arguments["bbox_2d"]]
    except (ValueError, KeyError, TypeError, RecursionError):
        return
    if len(sides) == 4 and (box := _inside(sides)):
        yield {"image": number - 1, "box": box}


def _looking(turn: Record) -> str | None:
    """Returns the one action of a turn that did not answer, as it was written."""
    actions: list[str] = list(turn.get("actions") or ())
    return None if turn.get("terminated") or len(actions) != 1 else str(actions[0])


def _boxed(boxes: Sequence[WrittenBox], state: Record) -> Iterator[Record]:
    """Yields boxes in the space of the first image as marks."""
    if (size := _image_extent(state)) is None:
        return
    for box in boxes:
        if box.is_proper and (inside := _inside([side / size[i % 2] for i, side in enumerate(box)])):
            yield {"image": 0, "box": inside}


def _pointed(text: str, state: Record) -> Iterator[Record]:
    """Yields the points of a text."""
    across, down = _image_extent({**state, "strategy": "points"}) or (100, 100)
    for frame, x, y, label in _POINT.findall(text[:_MAX_TEXT_CHARS]):
        try:
            point = [float(x) / across, float(y) / down]
        except ValueError:
            continue
        if all(0 <= side <= 1 for side in point):
            yield {"image": max(0, int(frame[:6]) - 1) if frame else 0, "point": point, "label": label}


def _evidence(state: Record) -> Iterator[Record]:
    """Yields where the things are that the answer rests on, as far as the state records it."""
    if (size := _image_extent(state)) is None:
        return
    for each in state.get("evidence") or ():
        if box := _inside([side / size[i % 2] for i, side in enumerate(each["box"])]):
            yield {"image": each.get("frame", 1) - 1, "box": box, "label": each["label"], "is_truth": True}


def _image_extent(state: Record) -> tuple[float, float] | None:
    """Returns where the edges of the first image are in the units of its state; images may have a black margin."""
    extent = written_extent(state)
    if extent is None or state.get("coordinates") != "pixels":
        return extent
    return padded_size(*map(int, extent))


def _inside(sides: Sequence[float]) -> list[float] | None:
    """Returns a box in fractions as far as it is inside the image; None if nothing of it is."""
    x1, y1, x2, y2 = (round(min(max(side, 0.0), 1.0), 4) for side in sides)
    return [x1, y1, x2, y2] if x1 < x2 and y1 < y2 else None


def _numbers(episode: Record) -> dict[str, int]:
    """Returns the number of each named image, from 1 in the order in which the episode shows them."""
    numbers: dict[str, int] = {}
    count = 0
    for index, moment in enumerate((*episode["turns"], episode["final"])):
        stored = _STORED.search(moment.get("text") or "")
        names = stored[1].split(", ") if stored else []
        for place in range(len(moment["images"])):
            count += 1
            if index == 0:
                names.append(f"image_{place + 1}" if place else "original_image")
            if place < len(names):
                numbers[names[place]] = count
    return numbers


def _first_state(episode: Record) -> Record:
    state = episode["turns"][0].get("state") if episode.get("turns") else None
    return state if isinstance(state, dict) else {}


def _texts(episode: Record) -> list[tuple[str, str]]:
    """Returns the texts that the first prompt quotes, by name."""
    quoted = _QUOTED.findall(episode["turns"][0].get("text") or "")
    return [(name, re.sub(r"(?m)^\| ?", "", text).strip()) for name, text in quoted]


def _options(state: Record) -> list[str]:
    return [
        f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, state.get("options") or (), strict=False)
    ]


def _with_option(answer: str, options: Sequence[str]) -> str:
    """Returns an answer; a letter alone gets the text of its option."""
    letter = answer.strip(" .()").upper()
    return next((option for option in options if len(letter) == 1 and option.startswith(f"{letter}. ")), answer)


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(f'{side:g}' if isinstance(side, (int, float)) else str(side) for side in value)}]"
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, float) else f"{value:g}"
