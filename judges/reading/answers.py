r"""Finds the model's final answer, and asks a judge where no rule can compare it with the truth.

Source: Argos, section 3.1, equations 6-8 (exact match, relative error, binary semantic judge, chosen by the answer's
type); Mags-RL, appendix A.2 (refusals, graded judge). What rules can compare is `vlm_envs.responses.answers`' part.
"""

from __future__ import annotations

import re
import string
from typing import Literal, Protocol

from judges.reading.sections import MAX_TEXT_CHARS, sections
from judges.scores import JudgeScore, on_rubric
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, normalise, score_answer

GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What a graded answer judge may say; Mags-RL, appendix A.2."""

_BEGIN_BOX, _END_BOX = "<|begin_of_box|>", "<|end_of_box|>"
_BOXED = r"\boxed{"

AnswerScale = Literal["graded", "binary"]
"""Of a judge of answers: quarters from 0 to 1, or right and wrong."""


class AnswerJudge(Protocol):
    """Says how far an answer means the same as the truth; a model behind it, which may be unavailable."""

    def __call__(self, question: str, truth: str, answer: str) -> JudgeScore:
        """Returns the grade of one answer, 0 for wrong to 1 for right."""
        ...


def extract_answer(text: str) -> str | None:
    r"""Returns the final answer in one piece of the model's own text.

    Read after the last `</think>`: the last `<answer>`, and in it the last `\boxed{…}` or
    `<|begin_of_box|>…<|end_of_box|>` where there is one. Without `<answer>` a box alone is an answer.

    Returns:
        The answer, stripped; None when there is none.
    """
    if len(text) > MAX_TEXT_CHARS:
        return None
    text = text.rpartition("</think>")[2]
    answers = sections(text, "answer")
    scope = answers[-1] if answers else text
    boxed = _last_boxed(scope)
    if boxed is not None:
        return boxed.strip()
    return scope.strip() if answers else None


def match_answer(
    answer: str | None,
    key: AnswerKey,
    judge: AnswerJudge | None = None,
    *,
    relative_tolerance: float = RELATIVE_TOLERANCE,
) -> JudgeScore:
    """Returns how far an answer agrees with its key: R_acc of Argos, iVGR and ARM-Thinker.

    Args:
        answer: The model's answer; None when it gave none.
        key: The truth and how to compare.
        judge: Asked only for kind `semantic`, only where the texts differ, with grades 0 and 1.
        relative_tolerance: The largest relative error of a right number, at least 0.

    Returns:
        1 or 0, for kind `anls` the similarity; unavailable when the judge was.

    Raises:
        ConfigError: The key is semantic and there is no judge. No answer raises.
    """
    if answer is None or not (said := normalise(answer)):
        return JudgeScore(value=0.0, reason="no answer, or one that is too long")
    if said == "refusal":
        return JudgeScore(value=0.0, reason="refused")
    score = score_answer(answer, key, relative_tolerance=relative_tolerance)
    if key.kind == "semantic" and score == 0.0:
        return _ask(answer, key, judge)
    return JudgeScore(value=score, reason={1.0: "right", 0.0: "wrong"}.get(score, f"similar by {score:.2f}"))


def grade_answer(answer: str | None, key: AnswerKey, judge: AnswerJudge) -> JudgeScore:
    """Returns a judge's grade of an answer, in quarters: the GPT score of Mags-RL, appendix A.2.

    Args:
        answer: The model's answer; None when it gave none.
        key: The truth; the best grade over its accepted answers counts.
        judge: Says 0, 0.25, 0.5, 0.75 or 1.

    Returns:
        The grade; 0 for a refusal or no answer, unasked; unavailable when a grade is missing that might be the best.
    """
    said = normalise(answer or "")
    if said in ("", "refusal"):
        return JudgeScore(value=0.0, reason="refused" if said else "no answer, or one that is too long")
    return _best_of([on_rubric(judge(key.question, truth, answer or ""), GRADES) for truth in key.answers])


def question_with_options(key: AnswerKey) -> str:
    """Returns the question and, without which a letter means nothing, its options, one a line."""
    return "\n".join((key.question, *lettered_options(key)))


def in_words(key: AnswerKey) -> AnswerKey:
    """Returns a key as a judge can read it: a choice with its options, and the right one's text beside its letter."""
    options = {text[0].casefold(): text for text in lettered_options(key)}
    answers = tuple(options.get(normalise(answer), answer) for answer in key.answers)
    return AnswerKey(kind="exact", answers=answers, question=question_with_options(key))


def lettered_options(key: AnswerKey) -> tuple[str, ...]:
    """Returns `A. red`, `B. blue` and so on; nothing where the options are unknown."""
    return tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, key.options, strict=False))


def _ask(answer: str, key: AnswerKey, judge: AnswerJudge | None) -> JudgeScore:
    if judge is None:
        raise ConfigError("A semantic answer key needs a judge; got None. Pass one, or use kind 'exact'.")
    return _best_of([on_rubric(judge(key.question, truth, answer), (0.0, 1.0)) for truth in key.answers])


def _best_of(scores: list[JudgeScore]) -> JudgeScore:
    """Returns the best score that is there; unavailable only when all are, or when a missing one could be better."""
    there = [score for score in scores if score.available]
    best = max(there, key=lambda score: score.value, default=scores[0])
    if len(there) < len(scores) and best.value != 1.0:
        return next(score for score in scores if not score.available)
    return best


def _last_boxed(text: str) -> str | None:
    end = text.rfind(_END_BOX)
    begin = text.rfind(_BEGIN_BOX, 0, max(end, 0))
    command = text.rfind(_BOXED)
    if command > begin:
        inside = _balanced(text, command + len(_BOXED))
        if inside is not None:
            return inside
    return text[begin + len(_BEGIN_BOX) : end] if begin >= 0 else None


def _balanced(text: str, start: int) -> str | None:
    depth = 1
    for match in re.compile(r"[{}]").finditer(text, start):
        depth += 1 if match.group() == "{" else -1
        if depth == 0:
            return text[start : match.start()]
    return None
