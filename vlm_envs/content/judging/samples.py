"""From a case to a sample: what a judge is asked, which answers are accepted, what decides it."""

from __future__ import annotations

from vlm_envs.content.judging.cases import TRACKS, Candidate, Case
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import AnswerKey

TRUE, FALSE = "True", "False"
"""What a judge of a single response answers; ARM-Thinker, section 4.2."""

_ABOUT = {
    "fine_grained": "The request is about the picture.",
    "document": "The request is about the document.",
    "instruction_following": "The request sets requirements that can be checked.",
}

_BEFORE_REQUEST = "\nThe request:\n"


def response_name(index: int) -> str:
    """Returns what tools and questions call a candidate: `resp_1` for the first."""
    return f"resp_{index + 1}"


def judging_question(track: str, request: str, num_candidates: int, *, is_shown: bool = True) -> str:
    """Returns what a judge is asked; the candidates themselves are not in it.

    Args:
        track: One of `TRACKS`.
        request: What the candidates respond to.
        num_candidates: 1, 2 or 4.
        is_shown: Whether there is a picture or a document; without either nothing is said of one.
    """
    about = f" {_ABOUT[track]}" if is_shown or track == "instruction_following" else ""
    return f"{_task(num_candidates)}{about}{_BEFORE_REQUEST}{request}"


def request_of(question: str) -> str:
    """Returns the request that a judging question is about."""
    return question.partition(_BEFORE_REQUEST)[2]


def _task(num_candidates: int) -> str:
    if num_candidates == 1:
        return (
            f"Judge the response {response_name(0)} to a request. Answer {TRUE} if everything in it is right and every "
            f"requirement is met, and {FALSE} if anything is wrong."
        )
    names = [response_name(index) for index in range(num_candidates)]
    numbers = [str(index + 1) for index in range(num_candidates)]
    return (
        f"Judge the responses {', '.join(names[:-1])} and {names[-1]} to a request. Exactly one of them is right; "
        f"every other one has a mistake. Answer with the number of the right one: {', '.join(numbers[:-1])} or "
        f"{numbers[-1]}."
    )


def judging_key(question: str, right: int | None, num_candidates: int) -> AnswerKey:
    """Returns which answers are accepted.

    Args:
        question: What the judge is asked.
        right: Index of the right candidate; None for a single flawed one.
        num_candidates: 1, 2 or 4.
    """
    if num_candidates == 1:
        answer = FALSE if right is None else TRUE
        return AnswerKey(kind="verdict", answers=(answer,), question=question, verdicts=(TRUE, FALSE))
    assert right is not None, "one of several candidates is right"
    numbers = tuple(str(number + 1) for number in range(num_candidates))
    return AnswerKey(kind="verdict", answers=(numbers[right],), question=question, verdicts=numbers)


def judging_sample(case: Case, sample_id: str) -> Sample:
    """Returns a case as a question.

    Args:
        case: The case.
        sample_id: By which its source finds it again.
    """
    num_candidates = len(case.candidates)
    question = judging_question(case.track, case.request, num_candidates)
    findings = (_finding(response_name(index), each) for index, each in enumerate(case.candidates))
    return Sample(
        sample_id=sample_id,
        question=question,
        key=judging_key(question, case.right, num_candidates),
        category=category_of(case),
        digest=case.digest,
        images=case.images,
        document=case.document,
        texts=tuple((response_name(index), each.text) for index, each in enumerate(case.candidates)),
        evidence=case.evidence,
        evidence_pages=case.evidence_pages,
        facts=" ".join(filter(None, (case.facts, *findings))),
    )


def category_of(case: Case) -> str:
    """Returns track and kind of flaw, such as `fine_grained_wrong_color`; `…_right` for a single right response."""
    kind = "right" if case.flaw is None else case.flaw.kind.replace(":", "_")
    return f"{case.track}_{kind}"


def track_of(category: str) -> str:
    """Returns the track of a category; the category itself where it is of none, as in users' data."""
    return next((track for track in TRACKS if category.startswith(f"{track}_")), category)


def _finding(name: str, candidate: Candidate) -> str:
    """Returns what an examination of a candidate comes to, in one sentence."""
    if candidate.flaw is None:
        return f"{name} is right."
    return f"{name} is wrong about “{candidate.flaw.place.rstrip('.')}”: {candidate.flaw.truth}"
