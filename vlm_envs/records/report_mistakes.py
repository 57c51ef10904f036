"""Why episodes failed: the first mistake of a recorded episode, wrong parts of descriptions and answers, and counts."""

from __future__ import annotations

import json
import re
import string
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from difflib import SequenceMatcher
from functools import partial
from typing import Any, Literal
from urllib.parse import urlencode

from vlm_envs.records.json_lines import Record
from vlm_envs.responses.extraction import last_section
from vlm_envs.responses.formats import structured_text
from vlm_envs.tools.coordinates import WrittenBox, find_boxes, padded_size, written_extent

Kind = Literal[
    "world failed",
    "no response",
    "cut off",
    "refused",
    "out of format",
    "saw wrongly",
    "not stated",
    "wrong answer",
    "lost",
    "became unsolvable",
    "no effect",
    "detour",
    "ran out of context",
    "ran out of turns",
    "not solved",
]

MEANINGS: dict[Kind, str] = {
    "world failed": "the world raised an error",
    "no response": "the agent returned an error instead of a response",
    "cut off": "the response hit the token limit",
    "refused": "the model or its provider refused to answer",
    "out of format": "no action could be read from the response",
    "saw wrongly": "the stated observation differs from the true state",
    "not stated": "a wrong action without a stated observation",
    "wrong answer": "the final answer is not the correct one",
    "lost": "an action ended the episode unsolved",
    "became unsolvable": "an action made the level unsolvable",
    "no effect": "none of a turn's actions changed anything",
    "detour": "a turn used more actions than an optimal plan",
    "ran out of context": "the prompt no longer fit the model's context",
    "ran out of turns": "the turn limit was reached without another mistake",
    "not solved": "no single turn caused it",
}
"""Kind of mistake to a one-line explanation for readers."""

_OF_ACTING: frozenset[Kind] = frozenset(("lost", "became unsolvable", "no effect", "detour"))
_NOTHING = frozenset(("", "unknown", "none", "null", "nothing", "na", "not stated"))
"""Observations without content, in lower case and without punctuation."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """The first mistake of an episode.

    Attributes:
        kind: A key of `MEANINGS`, which can be used as a filter.
        turn: Index of the turn; None if no single turn is to blame.
        detail: Details, as a sentence; may be empty.
    """

    kind: Kind
    turn: int | None
    detail: str = ""


def first_mistake(episode: Record, *, trusts_judge: bool = True) -> Mistake | None:
    """Returns the first mistake of an unsolved episode, as `episode_record` returns it; None for a solved one.

    Mistakes are searched turn by turn and, within a turn, in the order in which a response arises: the
    response itself, its observation, its actions. A detour is blamed only if there is no other mistake, since
    an episode can be solved despite one. If the format requires an observation and a turn has none, its wrong
    actions are "not stated", since they do not show whether the agent saw wrongly or planned badly. Responses
    that are not in the format have no sections; for them the episode's `expects_observation` indicates
    whether the format has an observation.

    Args:
        episode: The episode.
        trusts_judge: Whether an observation scored below 1 by its judge is wrong. Should be False if not all
            compared episodes were judged; then only words are compared.
    """
    if episode.get("success"):
        return None
    expects_observation = bool(episode.get("expects_observation"))
    turns = [turn if trusts_judge else {**turn, "scores": {}} for turn in episode["turns"]]
    read = partial(_of_response, is_lenient=episode.get("reading") == "lenient")
    mistakes = [
        mistake
        for index, turn in enumerate(turns)
        if (mistake := read(turn, index) or _of_seeing(turn, index) or _of_acting(turn, index)) is not None
    ]
    fatal = [mistake for mistake in mistakes if mistake.kind != "detour"]
    if fatal and fatal[-1].kind == "lost" and is_question(episode):
        tried = [mistake for mistake in fatal[:-1] if mistake.kind != "no effect"]  # rejected tool calls
        answered, correct = answers_of(episode)
        detail = f"It answered {answered}; correct is {correct}." if answered else f"Correct is {correct}."
        return next(iter(tried), replace(fatal[-1], kind="wrong answer", detail=detail))
    if mistakes:
        first = (fatal or mistakes)[0]
        if first.kind in _OF_ACTING and first.turn is not None:
            observation = _observation(turns[first.turn], is_expected=expects_observation)
            if _is_unstated(observation):
                return replace(first, kind="not stated", detail=f"The observation states nothing. {first.detail}")
        return first
    last = turns[-1] if turns else {}
    if last.get("context_full"):
        return Mistake(kind="ran out of context", turn=len(turns) - 1, detail="There was no room for another turn.")
    if last.get("truncated"):
        return Mistake(kind="ran out of turns", turn=len(turns) - 1)
    return Mistake(kind="not solved", turn=None)


def _observation(turn: Record, *, is_expected: bool) -> str | None:
    """Returns a turn's observation, in the format or not; empty if an expected one is missing, else None."""
    said: str | None = (turn.get("sections") or {}).get("observation")
    if said is not None or not is_expected:
        return said
    _, inside = last_section(turn.get("response") or "", "observation") or ("", "")
    return inside


def _is_unstated(observation: str | None) -> bool:
    """Returns whether an observation has no content; False for None, from a format without observations."""
    if observation is None:
        return False
    return "".join(re.findall(r"[\w ]", observation)).strip().casefold() in _NOTHING


def _of_response(turn: Record, index: int, *, is_lenient: bool) -> Mistake | None:
    """Returns what is wrong with a response as such, before its content.

    With lenient reading, a wrong format or a truncated response is a mistake only if no action was read.
    """
    stop, detail, acted = turn.get("stop_reason"), turn.get("stop_detail"), bool(turn.get("actions"))
    is_read = is_lenient and acted
    unread = turn.get("unread") or turn.get("parse_error")
    kinds: dict[Kind, tuple[object, object]] = {
        "world failed": (turn.get("worker_error"), turn.get("worker_error")),
        "no response": (stop == "error", ""),
        "ran out of context": (stop == "context", detail or "The request exceeded a limit of the model."),
        "refused": (stop == "content_filter" and not acted, detail or "The model or its provider refused to answer."),
        "cut off": (stop == "length" and not is_read, "The response hit the token limit."),
        "out of format": (turn.get("parse_error") and not is_read, unread),
    }
    found = next(((kind, why) for kind, (holds, why) in kinds.items() if holds), None)
    return None if found is None else Mistake(kind=found[0], turn=index, detail=_sentence(str(found[1])))


def _of_seeing(turn: Record, index: int) -> Mistake | None:
    """Returns a mistake if an observation is wrong, by its judge's score or, without one, by its words.

    Words are compared only for the structured representation, in which each fact has only one form.
    """
    said = (turn.get("sections") or {}).get("observation")
    if said is None or _is_unstated(said):
        return None
    score = (turn.get("scores") or {}).get("observation")
    if score is not None:
        return Mistake(kind="saw wrongly", turn=index, detail=f"Observation scored {score:.2f}.") if score < 1 else None
    truth = turn.get("state_text")
    if isinstance(truth, str) and truth.startswith("{") and compare(said, truth, None)["verdict"] == "differs":
        return Mistake(kind="saw wrongly", turn=index, detail="The observation differs from the true state.")
    return None


def _of_acting(turn: Record, index: int) -> Mistake | None:
    """Returns what is wrong with the actions of a turn that was read, as far as the world's solver can determine."""
    before, left = turn.get("optimal_actions_before"), turn.get("optimal_actions_left")
    num_actions = len(turn.get("actions") or ())
    if turn.get("terminated"):
        return Mistake(kind="lost", turn=index, detail="The world ended unsolved.")
    if before is not None and left is None:
        return Mistake(kind="became unsolvable", turn=index, detail=f"It could have been solved in {before} more.")
    if num_actions and turn.get("action_effective") is False:
        return Mistake(kind="no effect", turn=index, detail="None of its actions changed anything.")
    if before is not None and left is not None and num_actions + left > before:
        wasted = num_actions + left - before
        return Mistake(kind="detour", turn=index, detail=f"{wasted} more action{'s' * (wasted > 1)} than needed.")
    return None


def _sentence(error: str) -> str:
    """Returns an error, which is written to follow a colon, as a separate sentence."""
    error = error.strip()
    return error[:1].upper() + error[1:] + ("" if error.endswith((".", "!", "?")) or not error else ".")


_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_CHARS = 4_000
"""Longer claims are shown unmarked, since the comparison takes time quadratic in their length."""

Segments = list[tuple[str, bool]]


def compare(claim: str, truth: str | None, state: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns the data for showing a claim next to the truth.

    Args:
        claim: The model's text.
        truth: The true state in the representation the model was asked for; None if it is not known.
        state: The typed true state, shown unmarked if `truth` is None.

    Returns:
        `segments`, `truth` (text or None), and `verdict`: `"same"`, `"differs"`, or `"unknown"`.
    """
    if truth is None:
        return {
            "segments": [(claim, False)],
            "truth": structured_text(state) if state else None,
            "verdict": "unknown",
        }
    if claim.split() == truth.split():
        return {"segments": [(claim, False)], "truth": truth, "verdict": "same"}
    return {"segments": mark_differences(claim, truth), "truth": truth, "verdict": "differs"}


def mark_differences(claim: str, truth: str) -> Segments:
    """Splits a claim into pieces that occur in the truth, in this order, and pieces that do not.

    Args:
        claim: The model's text.
        truth: The correct text.

    Returns:
        Pieces that together form the claim, each with whether it differs. White space alone never counts as a
        difference. The marks are only a reading aid; scores are the judge's decision.
    """
    if len(claim) > _MAX_CHARS or len(truth) > _MAX_CHARS:
        return [(claim, False)]
    said, true = _TOKENS.findall(claim), _TOKENS.findall(truth)
    segments: Segments = []
    for kind, start, end, _, _ in SequenceMatcher(None, said, true, autojunk=False).get_opcodes():
        piece = "".join(said[start:end])
        if not piece:
            continue
        differs = kind != "equal" and not piece.isspace()
        if segments and segments[-1][1] == differs:
            piece = segments.pop()[0] + piece
        segments.append((piece, differs))
    return segments


_MAX_MARKS = 64
"""Maximum number of marks drawn per episode; a response may name any number of boxes."""

_MAX_TEXT_CHARS = 20_000

_ZOOM, _PAGE_SEARCH, _PAGE = "image_zoom_in_tool", "doc_page_retrieval_by_query", "doc_page_retrieval_by_index"
_STORED = re.compile(r"Stored as (\w+(?:, \w+)*);")
_REFUSED = re.compile(r"Error \(\w+\): (.*)")
_QUOTED = re.compile(r"^(\w+):\n((?:\|.*(?:\n|\Z))+)", re.MULTILINE)
_POINT = re.compile(r'(?:\bframe (\d+)\b[^<>]{0,200})?<points x1="([\d.]+)" y1="([\d.]+)"(?: alt="([^"<>]*)")?')
_LOOKS = frozenset(("mags", "ivgr_views"))
"""Strategies whose intermediate turns zoom into the first image by naming boxes in its pixels."""


def is_question(episode: Record) -> bool:
    """Returns whether an episode asks a question whose answer is recorded in its states."""
    state = _first_state(episode)
    return isinstance(state.get("question"), str) and isinstance(state.get("answers"), list)


def answers_of(episode: Record) -> tuple[str | None, str]:
    """Returns the answer given in an episode, None without one, and the correct one; choices with their text."""
    state = _first_state(episode)
    options = options_of(state)
    answered = None
    if episode["turns"][-1].get("terminated") and episode["turns"][-1].get("actions"):
        answered = str(episode["turns"][-1]["actions"][0]).strip()
    correct = str(state["answers"][0]) if state["answers"] else ""
    return None if answered is None else _with_option(answered, options), _with_option(correct, options)


def question_of(episode: Record) -> Record | None:
    """Returns the data that a page shows about a question-answering episode as a whole; None for other episodes.

    Returns:
        `text`, `options`, `texts` (name and text of the question's texts, such as responses to judge),
        `answered` (None without an answer), `correct`, and `pages` with the answer; `marks`: boxes and points
        with `image` (index among the episode's images), `box` or `point` (fractions of its sides), `label`,
        and `is_truth`.
    """
    if not is_question(episode):
        return None
    state = _first_state(episode)
    answered, correct = answers_of(episode)
    return {
        "text": state["question"],
        "options": options_of(state),
        "texts": _texts(episode),
        "answered": answered,
        "correct": correct,
        "pages": state.get("evidence_pages") or [],
        "marks": _marks(episode)[:_MAX_MARKS],
    }


def call_of(episode: Record, index: int) -> Record | None:
    """Returns the tool call or zoom of a turn: `sentence`, and `refused`, the reason if it failed; None otherwise."""
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
    name, arguments = _call(call)
    if name == _ZOOM and arguments:
        image, box = str(arguments.get("image")), arguments.get("bbox_2d")
        known = f"image {numbers[image]}" if image in numbers else image
        return f"Zoomed into {_written(box) if isinstance(box, list) else 'an unreadable region'} of {known}"
    if name == _PAGE_SEARCH and arguments:
        return f"Searched {arguments.get('filename')} for “{arguments.get('query')}”"
    if name == _PAGE and arguments:
        return f"Opened page {arguments.get('image_idx')} of {arguments.get('filename')}"
    listed = ", ".join(f"{key}={_written(value)}" for key, value in arguments.items())
    return "Called a tool" if name is None else f"Called {name}{f'({listed})' if arguments else ''}"


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
    _, arguments = _call(written)
    number, sides = images.get(str(arguments.get("image"))), arguments.get("bbox_2d")
    if number is None or not isinstance(sides, list) or len(sides) != 4:
        return
    if all(isinstance(side, (int, float)) for side in sides) and (box := _inside([side / 1000 for side in sides])):
        yield {"image": number - 1, "box": box}


def _call(written: str) -> tuple[str | None, Mapping[str, Any]]:
    """Returns the name and the arguments of a tool call; None and an empty dict if it cannot be read."""
    try:
        value = json.loads(written)
        name, arguments = value["name"], value["arguments"]
    except (ValueError, KeyError, TypeError, RecursionError):
        return None, {}
    return name, arguments if isinstance(arguments, Mapping) else {}


def _looking(turn: Record) -> str | None:
    """Returns the only action of a turn without an answer, as it was written."""
    actions: list[str] = list(turn.get("actions") or ())
    return None if turn.get("terminated") or len(actions) != 1 else str(actions[0])


def _boxed(boxes: Sequence[WrittenBox], state: Record) -> Iterator[Record]:
    """Yields boxes in the coordinates of the first image as marks."""
    for box in boxes:
        if box.is_proper and (inside := _fractions(box, state)):
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
    """Yields the regions on which the correct answer is based, as far as the state records them."""
    for item in state.get("evidence") or ():
        if box := _fractions(item["box"], state):
            yield {"image": item.get("frame", 1) - 1, "box": box, "label": item["label"], "is_truth": True}


def _fractions(box: Sequence[float], state: Record) -> list[float] | None:
    """Returns a box in the first image's coordinates as fractions of its sides; None if outside or unknown."""
    size = _image_extent(state)
    return None if size is None else _inside([side / size[i % 2] for i, side in enumerate(box)])


def _image_extent(state: Record) -> tuple[float, float] | None:
    """Returns the extent of the first image in the units of its state; images may have a black margin."""
    extent = written_extent(state)
    if extent is None or state.get("coordinates") != "pixels":
        return extent
    return padded_size(*map(int, extent))


def _inside(sides: Sequence[float]) -> list[float] | None:
    """Returns the part of a box inside the image, in fractions; None if no part is inside."""
    x1, y1, x2, y2 = (round(min(max(side, 0.0), 1.0), 4) for side in sides)
    return [x1, y1, x2, y2] if x1 < x2 and y1 < y2 else None


def _numbers(episode: Record) -> dict[str, int]:
    """Returns the number of each named image, from 1 in the order in which the episode shows them."""
    numbers: dict[str, int] = {}
    count = 0
    for index, moment in enumerate((*episode["turns"], episode["final"])):
        stored = _STORED.search(moment.get("text") or "")
        names = stored[1].split(", ") if stored else []
        for image_index in range(len(moment["images"])):
            count += 1
            if index == 0:
                names.append(f"image_{image_index + 1}" if image_index else "original_image")
            if image_index < len(names):
                numbers[names[image_index]] = count
    return numbers


def _first_state(episode: Record) -> Record:
    state = episode["turns"][0].get("state") if episode.get("turns") else None
    return state if isinstance(state, dict) else {}


def _texts(episode: Record) -> list[tuple[str, str]]:
    """Returns the texts that the first prompt quotes, by name."""
    quoted = _QUOTED.findall(episode["turns"][0].get("text") or "")
    return [(name, re.sub(r"(?m)^\| ?", "", text).strip()) for name, text in quoted]


def options_of(state: Record) -> list[str]:
    """Returns the options of a state's question, with their letters."""
    return [
        f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, state.get("options") or (), strict=False)
    ]


def _with_option(answer: str, options: Sequence[str]) -> str:
    """Returns an answer; a single letter is replaced by its option with text."""
    letter = answer.strip(" .()").upper()
    return next((option for option in options if len(letter) == 1 and option.startswith(f"{letter}. ")), answer)


def _written(value: object) -> str:
    if isinstance(value, (list, tuple)):
        return f"[{', '.join(f'{side:g}' if isinstance(side, (int, float)) else str(side) for side in value)}]"
    return json.dumps(value, ensure_ascii=False) if not isinstance(value, float) else f"{value:g}"


def failures(labels: Sequence[Mapping[str, Any]]) -> Record | None:
    """Returns counts of the first mistakes in the last evaluation and the one it is compared with, if any.

    Args:
        labels: As `episode_browser` returns them.

    Returns:
        `columns`: `label`, `num_failed`, `num_recorded`, and `address`, a link to its failures in the episode
            browser. `rows`, the most frequent in the last evaluation first: `kind`, `meaning`, `counts` by
            column, and `address`, a link to the episodes of the last column. Addresses are empty if there are
            no episodes. None if no evaluation has recorded episodes.
    """
    evaluations = {label["label"]: label for label in labels if label["episodes"] and not label["is_training"]}
    if not evaluations:
        return None
    last = list(evaluations.values())[-1]
    compared = [evaluations[last["beside"]], last] if last["beside"] in evaluations else [last]
    columns = [
        {name: label[name] for name in ("label", "num_failed", "num_recorded")}
        | {"address": _address(label) if label["num_failed"] else ""}
        for label in compared
    ]
    rows = [
        {
            "kind": kind,
            "meaning": MEANINGS.get(kind, ""),
            "counts": [label["mistakes"].get(kind, 0) for label in compared],
            "address": _address(last, mistake=kind) if kind in last["mistakes"] else "",
        }
        for kind in dict.fromkeys(kind for label in reversed(compared) for kind in label["mistakes"])
    ]
    return {"columns": columns, "rows": rows}


def _address(label: Mapping[str, Any], **more: str) -> str:
    """Returns an address that the page's script interprets (`Browsing.follow`)."""
    return "#" + urlencode({"label": label["label"], "filter": "failed", **more}, errors="replace")
