"""Cases: a request, candidate responses, and the flaw of each. Also converts cases to samples."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from vlm_envs.content.random_choice import pick_several
from vlm_envs.errors import ConfigError
from vlm_envs.qa.sample import Evidence, Sample
from vlm_envs.responses.answers import AnswerKey
from vlm_envs.tools.instruction_checkers import Constraint
from vlm_envs.tools.pdf_documents import Document
from vlm_envs.tools.pictures import ImageRef
from vlm_envs.validation import require_choice

TRACKS = ("fine_grained", "document", "instruction_following")
"""Source: ARM-Thinker, section 4.1."""

NUM_CANDIDATES = (1, 2, 4)
"""Single, pairwise, and four-way judging; ARM-Thinker, table 1."""

MAX_EXCESS_PERCENT = 10
"""Upper bound, exclusive, on how much longer than the shortest candidate the longest one is, in percent."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Flaw:
    """The flaw of a response.

    Attributes:
        kind: Such as `wrong_color`; lower case with underscores. For a constraint
            `constraint_violated:<check>`.
        place: The false part of the response, or the violated requirement.
        truth: The corresponding truth, in one sentence.
    """

    kind: str
    place: str
    truth: str


@dataclass(frozen=True, kw_only=True, slots=True)
class Candidate:
    """A response to judge.

    Attributes:
        text: The response.
        flaw: Its only flaw; None if it is right.
    """

    text: str
    flaw: Flaw | None = None


@dataclass(frozen=True, kw_only=True)
class Case:
    """A request with candidate responses, in the order they are shown.

    Attributes:
        track: One of `TRACKS`.
        request: The request that the candidates answer.
        candidates: 1, 2 or 4; exactly one of several is right.
        images: The images of the request.
        document: The document of the request.
        evidence: Evidence for the right response in the images.
        evidence_pages: Pages of the document with evidence for the right response, counted from 1.
        facts: True sentences about the image or document that decide the case.
        constraints: Constraints that the request puts on a text, if any.

    Raises:
        ConfigError: If the number of candidates, or of right ones, is not allowed.
    """

    track: str
    request: str
    candidates: tuple[Candidate, ...]
    images: tuple[ImageRef, ...] = ()
    document: Document | None = None
    evidence: tuple[Evidence, ...] = ()
    evidence_pages: tuple[int, ...] = ()
    facts: str = ""
    constraints: tuple[Constraint, ...] = ()

    def __post_init__(self) -> None:
        require_choice("track", self.track, TRACKS)
        if len(self.candidates) not in NUM_CANDIDATES:
            raise ConfigError(f"candidates must be 1, 2 or 4; got {len(self.candidates)}.")
        num_right = sum(candidate.flaw is None for candidate in self.candidates)
        if len(self.candidates) > 1 and num_right != 1:
            raise ConfigError(f"Exactly one of several candidates must be right; got {num_right}.")

    @property
    def right(self) -> int | None:
        """Index of the right candidate; None for a single flawed one."""
        return next((index for index, candidate in enumerate(self.candidates) if candidate.flaw is None), None)

    @property
    def flaw(self) -> Flaw | None:
        """The first flaw, which evaluations group cases by; None for a single right candidate."""
        return next((candidate.flaw for candidate in self.candidates if candidate.flaw is not None), None)

    @property
    def digest(self) -> str:
        """Hash of the request, the candidates regardless of order, and the images and document."""
        texts = sorted(candidate.text for candidate in self.candidates)
        about = [image.digest for image in self.images]
        about += [self.document.digest] if self.document is not None else []
        return hash_of(self.track, self.request, *texts, *about)

    def reordered(self, order: Sequence[int]) -> Case:
        """Returns the case with its candidates reordered.

        Args:
            order: Current index of each candidate in the new order.
        """
        return replace(self, candidates=tuple(self.candidates[index] for index in order))


def hash_of(*parts: str) -> str:
    """Returns a machine-independent hash of texts, 32 hexadecimal digits."""
    content = hashlib.blake2b(digest_size=16)
    for part in parts:
        content.update(hashlib.blake2b(part.encode("utf-8", "surrogatepass"), digest_size=16).digest())
    return content.hexdigest()


def is_length_matched(texts: Sequence[str]) -> bool:
    """Returns whether the longest text exceeds the shortest by less than `MAX_EXCESS_PERCENT`."""
    lengths = [len(text) for text in texts]
    return 100 * max(lengths) < (100 + MAX_EXCESS_PERCENT) * min(lengths)


def shown_candidates(
    rng: np.random.Generator, candidates: Sequence[Candidate], num_candidates: int
) -> tuple[Candidate, ...]:
    """Returns the candidates in random order, or a random one of a pair if only one is requested."""
    return tuple(pick_several(rng, candidates, num_candidates))


TRUE, FALSE = "True", "False"
"""Answers of a judge to a single response; ARM-Thinker, section 4.2."""

_ABOUT = {
    "fine_grained": "The request is about the picture.",
    "document": "The request is about the document.",
    "instruction_following": "The request sets requirements that can be checked.",
}

_BEFORE_REQUEST = "\nThe request:\n"


def response_name(index: int) -> str:
    """Returns the name of a candidate in tools and questions: `resp_1` for the first."""
    return f"resp_{index + 1}"


def judging_question(track: str, request: str, num_candidates: int, *, is_shown: bool = True) -> str:
    """Returns the question for a judge, without the candidates.

    Args:
        track: One of `TRACKS`.
        request: The request that the candidates answer.
        num_candidates: 1, 2 or 4.
        is_shown: Whether there is an image or a document; otherwise the question mentions neither.
    """
    about = f" {_ABOUT[track]}" if is_shown or track == "instruction_following" else ""
    return f"{_task(num_candidates)}{about}{_BEFORE_REQUEST}{request}"


def request_of(question: str) -> str:
    """Extracts the request from a judging question."""
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
    """Returns the answer key of a judging question.

    Args:
        question: The question for the judge.
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
    """Returns a case as a sample.

    Args:
        case: The case.
        sample_id: The id by which its source finds it again.
    """
    num_candidates = len(case.candidates)
    question = judging_question(case.track, case.request, num_candidates)
    findings = (_finding(response_name(index), candidate) for index, candidate in enumerate(case.candidates))
    return Sample(
        sample_id=sample_id,
        question=question,
        key=judging_key(question, case.right, num_candidates),
        category=category_of(case),
        digest=case.digest,
        images=case.images,
        document=case.document,
        texts=tuple((response_name(index), candidate.text) for index, candidate in enumerate(case.candidates)),
        evidence=case.evidence,
        evidence_pages=case.evidence_pages,
        facts=" ".join(filter(None, (case.facts, *findings))),
    )


def category_of(case: Case) -> str:
    """Returns the track and kind of flaw, such as `fine_grained_wrong_color`; `…_right` for a single right response."""
    kind = "right" if case.flaw is None else case.flaw.kind.replace(":", "_")
    return f"{case.track}_{kind}"


def track_of(category: str) -> str:
    """Returns the track of a category; the category itself if it has none, as in users' data."""
    return next((track for track in TRACKS if category.startswith(f"{track}_")), category)


def _finding(name: str, candidate: Candidate) -> str:
    """Returns the finding about a candidate, in one sentence."""
    if candidate.flaw is None:
        return f"{name} is right."
    return f"{name} is wrong about “{candidate.flaw.place.rstrip('.')}”: {candidate.flaw.truth}"
