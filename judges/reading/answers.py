r"""Finds the model's final answer, and asks a judge where no rule can compare it with the truth.

Source: Argos, section 3.1, equations 6-8 (exact match, relative error, binary semantic judge, chosen by the answer's
type); Mags-RL, appendix A.2 (refusals, graded judge). What rules can compare is `vlm_envs.responses.answers`' part.
"""

from __future__ import annotations

import string
from typing import Literal, Protocol

from judges.scores import JudgeScore, on_rubric
from vlm_envs.errors import ConfigError
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey, normalise, read_answer, score_answer
from vlm_envs.responses.extraction import MAX_TEXT_CHARS, last_boxed, last_section, readings, without_thoughts

GRADES = (0.0, 0.25, 0.5, 0.75, 1.0)
"""What a graded answer judge may say; Mags-RL, appendix A.2."""

AnswerScale = Literal["graded", "binary"]
"""Of a judge of answers: quarters from 0 to 1, or right and wrong."""


class AnswerJudge(Protocol):
    """Says how far an answer means the same as the truth; a model behind it, which may be unavailable."""

    def __call__(self, question: str, truth: str, answer: str) -> JudgeScore:
        """Returns the grade of one answer, 0 for wrong to 1 for right."""
        ...


def extract_answer(text: str) -> str | None:
    r"""Returns the final answer in one piece of the model's own text, as a world that reads leniently takes it.

    That is the last complete `<answer>` outside of thoughts, and in it the last `\boxed{…}` or
    `<|begin_of_box|>…<|end_of_box|>` where there is one.

    Returns:
        The answer, stripped; None when there is none.
    """
    if len(text) > MAX_TEXT_CHARS:
        return None
    found = last_section(without_thoughts(text), "answer")
    if found is None:
        return None
    boxed = last_boxed(found[1])
    return (found[1] if boxed is None else boxed).strip()


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
        relative_tolerance: As `score_answer` takes it.

    Returns:
        1 or 0, for kind `anls` the similarity; unavailable when the judge was.

    Raises:
        ConfigError: The key is semantic and there is no judge. No answer raises.
    """
    said = read_answer(answer)
    if answer is None or said in ("", "refusal"):
        return _unasked(said)
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
    said = read_answer(answer)
    if answer is None or said in ("", "refusal"):
        return _unasked(said)
    return _best_of([on_rubric(judge(key.question, truth, readings(answer)[-1]), GRADES) for truth in key.answers])


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


def _unasked(said: str) -> JudgeScore:
    return JudgeScore(value=0.0, reason="refused" if said else "no answer, or one that is too long")


def _ask(answer: str, key: AnswerKey, judge: AnswerJudge | None) -> JudgeScore:
    if judge is None:
        raise ConfigError("A semantic answer key needs a judge; got None. Pass one, or use kind 'exact'.")
    return _best_of([on_rubric(judge(key.question, truth, readings(answer)[-1]), (0.0, 1.0)) for truth in key.answers])


def _best_of(scores: list[JudgeScore]) -> JudgeScore:
    """Returns the best score that is there; unavailable only when all are, or when a missing one could be better."""
    there = [score for score in scores if score.available]
    best = max(there, key=lambda score: score.value, default=scores[0])
    if len(there) < len(scores) and best.value != 1.0:
        return next(score for score in scores if not score.available)
    return best
