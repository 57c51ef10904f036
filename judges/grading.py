"""Compares final answers and boxes with the true ones.

Answers that no rule can compare are left to a judge. Source: Argos, section 3.1, equations 6-8 (exact match,
relative error, binary semantic judge, chosen by the answer's type); Mags-RL, appendix A.2 (refusals, graded
judge). `vlm_envs.responses.answers` contains the comparison by rule.

The box functions implement the box reward of iVGR and the box count of Mags-RL. All boxes of a call share one
coordinate space; convert them beforehand with `vlm_envs.tools.coordinates`. An improper box stays a prediction
that overlaps nothing. Otherwise a model could withdraw a prediction for free by writing nonsense.

Source: iVGR, section 3.2, equation 2 (R_box); Mags-RL, appendix A.1 and B (validity of zoom boxes).

Reading tags from the model's own text never raises. Tags are matched byte for byte: look-alikes (`＜answer＞`),
upper case, and tags with attributes are plain text. A text of more than `MAX_TEXT_CHARS` characters is not read.
"""

from __future__ import annotations

import math
import string
from collections.abc import Awaitable, Callable, Collection, Sequence
from typing import Literal

from judges.asking import gather, resolved
from judges.scores import JudgeScore, on_rubric
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, normalise, read_answer, score_answer
from vlm_envs.responses.extraction import MAX_TEXT_CHARS, last_boxed, last_section, readings, sections, without_thoughts
from vlm_envs.responses.formats import FORMATS
from vlm_envs.responses.parsing import ActionGrammar, parse_response
from vlm_envs.tools.coordinates import MAX_AREA_FRACTION, MAX_BOXES, WrittenBox

GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""Grades that a graded answer judge may give; Mags-RL, appendix A.2."""

AnswerScale = Literal["graded", "binary"]
"""Scale of an answer judge: quarters from 0 to 1, or right and wrong."""

_ANY_ANSWER = ActionGrammar[str](parse=lambda text: text or None, separator="", expected="an answer")


AnswerJudge = Callable[[str, str, str], JudgeScore | Awaitable[JudgeScore]]
"""Maps question, truth, and answer to the similarity of their meanings, in [0, 1], or unavailable. May be `async`."""


def extract_answer(text: str) -> str | None:
    r"""Returns the final answer in one piece of the model's own text, read leniently.

    The answer is the last complete `<answer>` outside of thoughts, or the last `\boxed{…}` or
    `<|begin_of_box|>…<|end_of_box|>` inside it, if any.

    Returns:
        The answer, stripped; None without one.
    """
    if len(text) > MAX_TEXT_CHARS:
        return None
    found = last_section(without_thoughts(text), "answer")
    if found is None:
        return None
    boxed = last_boxed(found[1])
    return (found[1] if boxed is None else boxed).strip()


async def match_answer(
    answer: str | None,
    key: AnswerKey,
    judge: AnswerJudge | None = None,
    *,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> JudgeScore:
    """Scores an answer against its key: R_acc of Argos, iVGR, and ARM-Thinker.

    Args:
        answer: The model's answer; None if it gave none.
        key: The truth and the kind of comparison.
        judge: Grades 0 or 1; asked only for kind `semantic` and only if the texts differ.
        relative_tolerance: See `score_answer`.

    Returns:
        1 or 0, or the similarity for kind `anls`; unavailable if the judge was.

    Raises:
        ConfigError: The key is semantic and there is no judge. No answer raises.
    """
    score = match_by_rule(answer, key, relative_tolerance=relative_tolerance)
    if answer is None or score is not None:
        return score or _unasked("")
    if judge is None:
        raise ConfigError("A semantic answer key needs a judge; got None. Pass one, or use kind 'exact'.")
    return await _asked(answer, key, judge, (0.0, 1.0))


def match_by_rule(
    answer: str | None, key: AnswerKey, *, relative_tolerance: float = RELATIVE_TOLERANCE
) -> JudgeScore | None:
    """Returns the result of `match_answer` without a judge; None if only a judge can compare."""
    said = read_answer(answer)
    if answer is None or said in ("", "refusal"):
        return _unasked(said)
    score = score_answer(answer, key, relative_tolerance=relative_tolerance)
    if key.kind == "semantic" and score == 0.0:
        return None
    return JudgeScore(value=score, reason={1.0: "right", 0.0: "wrong"}.get(score, f"similar by {score:.2f}"))


async def grade_answer(answer: str | None, key: AnswerKey, judge: AnswerJudge) -> JudgeScore:
    """Returns a judge's grade of an answer, in quarters: the GPT score of Mags-RL, appendix A.2.

    Args:
        answer: The model's answer; None if it gave none.
        key: The truth; the best grade over its accepted answers counts.
        judge: Grades 0, 0.25, 0.5, 0.75, or 1.

    Returns:
        The grade; 0 without asking the judge for a refusal or no answer; unavailable if a missing grade might be the
        best.
    """
    said = read_answer(answer)
    if answer is None or said in ("", "refusal"):
        return _unasked(said)
    return await _asked(answer, key, judge, GRADES)


def question_with_options(key: AnswerKey) -> str:
    """Returns the question followed by its options, if any, one per line."""
    return "\n".join((key.question, *lettered_options(key)))


def in_words(key: AnswerKey) -> AnswerKey:
    """Returns a key that a judge can read: a choice lists its options and adds the text to the right letter."""
    options = {text[0].casefold(): text for text in lettered_options(key)}
    answers = tuple(options.get(normalise(answer), answer) for answer in key.answers)
    return AnswerKey(kind="exact", answers=answers, question=question_with_options(key))


def lettered_options(key: AnswerKey) -> tuple[str, ...]:
    """Returns `A. red`, `B. blue`, and so on; empty if the options are unknown."""
    return tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, key.options, strict=False))


def _unasked(said: str) -> JudgeScore:
    return JudgeScore(value=0.0, reason="refused" if said else "no answer, or one that is too long")


async def _asked(answer: str, key: AnswerKey, judge: AnswerJudge, grades: Collection[float]) -> JudgeScore:
    """Returns the best score over the accepted answers; unavailable if a missing one could be better."""
    said = readings(answer)[-1]
    graded = await gather(resolved(judge(key.question, truth, said)) for truth in key.answers)
    scores = [on_rubric(score, grades) for score in graded]
    there = [score for score in scores if score.available]
    best = max(there, key=lambda score: score.value, default=scores[0])
    if len(there) < len(scores) and best.value != 1.0:
        return next(score for score in scores if not score.available)
    return best


def intersection_over_union(first: WrittenBox, second: WrittenBox) -> float:
    """Returns the intersection over union of two boxes, in [0, 1]; 0 if one is improper."""
    if not (first.is_proper and second.is_proper):
        return 0.0
    width = min(first.x2, second.x2) - max(first.x1, second.x1)
    height = min(first.y2, second.y2) - max(first.y1, second.y1)
    if width <= 0.0 or height <= 0.0:
        return 0.0
    # Tiny differences between large coordinates can make the quotient exceed 1 by a rounding error.
    return min(1.0, width * height / (first.area + second.area - width * height))


def box_reward(predicted: Sequence[WrittenBox], true: Sequence[WrittenBox]) -> float | None:
    """Returns the mutual coverage of predicted and true boxes: R_box.

    Args:
        predicted: The model's boxes, proper or not; those beyond `MAX_BOXES` are ignored.
        true: The true boxes, in the same coordinate space.

    Returns:
        ½ (mean over true boxes of their best IoU + mean over predicted boxes of theirs), in [0, 1]; 0 without
        predictions; None without true boxes, which leaves the term out.

    Raises:
        ConfigError: A true box is improper.

    Source: iVGR, equation 2. Choice: the two empty cases, which the equation leaves undefined.
    """
    if improper := [box for box in true if not box.is_proper]:
        raise ConfigError(f"True boxes need x1 < x2, y1 < y2 and finite coordinates; got {improper[0]}.")
    predicted = predicted[:MAX_BOXES]
    if not true:
        return None
    if not predicted:
        return 0.0
    table = [[intersection_over_union(box, truth) for truth in true] for box in predicted]
    precision = math.fsum(max(row) for row in table) / len(predicted)
    recall = math.fsum(max(column) for column in zip(*table, strict=True)) / len(true)
    return 0.5 * (recall + precision)


def count_zoomable(
    boxes: Sequence[WrittenBox], width_px: int, height_px: int, *, max_area: float = MAX_AREA_FRACTION
) -> int:
    """Returns the number of boxes that can be zoomed into: k of Mags-RL.

    A box is valid if its corners are in order, it lies inside the image, and it covers less than 40 % of it. Choice:
    exact duplicates count once; otherwise one box written ten times would count as ten objects found.

    Args:
        boxes: The model's boxes, in pixels of the image that it was shown.
        width_px: Width of that image.
        height_px: Height of that image.
        max_area: Share of the image that a box must stay below, in (0, 1].

    Source: Mags-RL, appendix A.1 (order, 40 %) and B ("validation of coordinates and size limitation").
    """
    return sum(box.is_zoomable(width_px, height_px, max_area=max_area) for box in set(boxes))


def sole_section(text: str, tag: str) -> str | None:
    """Returns the content of a text's only `<tag>…</tag>`; None without one or with several."""
    if text.count(f"<{tag}>") != 1 or text.count(f"</{tag}>") != 1:
        return None
    found = sections(text, tag)
    return found[0] if found else None


def think_then_answer(text: str) -> tuple[str, str] | None:
    """Returns the thought and the answer of a text that is exactly `<think>…</think><answer>…</answer>`.

    Whitespace between the two is allowed. Returns None if the text holds anything else or the answer is empty.
    """
    parsed = parse_response(text, FORMATS["free_think"], _ANY_ANSWER, 1)
    return (parsed.sections["think"], parsed.sections["answer"]) if parsed.format_correct else None


def thoughts_of(text: str) -> str:
    """Returns the text before the answer, including tags, from which boxes and reasoning are read.

    It ends at the first `<answer>` after the last `</think>`; empty for a text that is too long.
    """
    if len(text) > MAX_TEXT_CHARS:
        return ""
    after_think = text.rfind("</think>") + 1
    answer = text.find("<answer>", after_think)
    return text if answer < 0 else text[:answer]
