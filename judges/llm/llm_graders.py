"""Language models that grade answers and consistency, extract answers, and write wrong responses.

Sources of the graders: Mags-RL, appendix A.2 (answers on a five-point scale) and r_ans; Argos, outcome reward
(iii) (same meaning or not); iVGR, section 3.3 (consistency alpha). The prompts are ours and keep the meaning of
the scales.

Mags-RL evaluates with two more models: one extracts the answer from a reply, one rates the need for magnification
(appendix A.2: data extractor, complexity score). Wrong responses, which serve as data for response judges, follow
ARM-Thinker, section 3.2 and figure 8.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from functools import partial

import numpy as np
import numpy.typing as npt

from agents.api.conversation import with_images
from agents.api.failures import Unavailable, UnreadableReplyError
from judges.asking import QuestionClient
from judges.grading import GRADES, AnswerScale
from judges.llm.judge_prompts import answer_of, prompt_template, read_object, read_score, read_yes_no
from judges.scores import JudgeScore
from judges.word_consistency import CONSISTENCY_GRADES
from vlm_envs.validation import require_choice, require_positive

ZOOM_SCORES = tuple(range(1, 11))
"""Ratings of the need for magnification: from not needed to indispensable."""


class LLMAnswerJudge:
    """Grades how closely an answer's meaning matches the right answer's.

    Args:
        client: The judge model.
        scale: `graded` for one of `GRADES`, `binary` for 0 or 1.
    """

    def __init__(self, client: QuestionClient, scale: AnswerScale = "graded") -> None:
        require_choice("scale", scale, ("graded", "binary"))
        self._client = client
        self._read: Callable[[str], float] = partial(read_score, allowed=GRADES) if scale == "graded" else read_yes_no
        self._template = prompt_template(f"answer_{scale}")

    async def __call__(
        self, question: str, truth: str, answer: str, *, images: Sequence[npt.NDArray[np.uint8]] = ()
    ) -> JudgeScore:
        """Returns the grade of one answer.

        Args:
            question: The question.
            truth: The right answer.
            answer: The policy's answer; a blank one scores 0 without asking the model.
            images: Images that the question is about, each uint8 [height, width, 3]; often not needed.

        Returns:
            The grade, or unavailable.
        """
        if not answer.strip():
            return JudgeScore(value=0.0, reason="no answer")
        messages = self._template.fill(question=question, reference=truth, answer=answer)
        return _score_of(await self._client.ask(with_images(messages, images), self._read))


class LLMConsistencyJudge:
    """Grades whether a text describes the same image content as a reference: iVGR's alpha.

    Source: iVGR, section 3.3: 1 for the same content, 0.7 for one kind of deviation, 0.3 for both, 0 for a
    contradiction. The paper asks once at temperature 0.01, or takes the mean of four judgments at 0.5; for the mean,
    call this judge repeatedly.

    Args:
        client: The judge model.
        num_samples: Number of distinct replies per question. Repeated calls cycle through them, so that a mean over
            cached replies uses different ones.

    Raises:
        ConfigError: `num_samples` is less than 1.
    """

    def __init__(self, client: QuestionClient, *, num_samples: int = 1) -> None:
        require_positive("num_samples", num_samples)
        self._client, self._num_samples = client, num_samples
        self._template = prompt_template("consistency")
        self._next_sample: dict[Hashable, int] = {}

    async def __call__(self, question: str, reference: str, text: str, temperature: float = 0.01) -> JudgeScore:
        """Returns the grade of one text.

        Args:
            question: The question that both texts reason about.
            reference: The grounded reasoning from the archive.
            text: The textual reasoning; a blank one scores 0 without asking the model.
            temperature: Sampling temperature.

        Returns:
            One of `CONSISTENCY_GRADES`, or unavailable.
        """
        if not text.strip():
            return JudgeScore(value=0.0, reason="no text")
        messages = self._template.fill(question=question, reference=reference, text=text)
        sample = self._take_sample((messages, temperature))
        read = partial(read_score, allowed=CONSISTENCY_GRADES)
        return _score_of(await self._client.ask(messages, read, temperature=temperature, sample=sample))

    def _take_sample(self, question: Hashable) -> int:
        sample = self._next_sample.pop(question, 0)
        if sample + 1 < self._num_samples:
            self._next_sample[question] = sample + 1
        return sample


def _score_of(grade: float | Unavailable) -> JudgeScore:
    if isinstance(grade, Unavailable):
        return JudgeScore.unavailable(grade.reason)
    return JudgeScore(value=float(grade), reason=f"graded {grade:g}")


class LLMAnswerExtractor:
    """Extracts the final answer from a reply without a fixed answer format.

    Args:
        client: The model that extracts.
    """

    def __init__(self, client: QuestionClient) -> None:
        self._client = client
        self._template = prompt_template("answer_extraction")

    async def __call__(self, question: str, reply: str) -> str | None:
        """Returns the answer, or `Refusal` without one; None if the model is unavailable.

        Args:
            question: The question, with its options.
            reply: The policy's reply; a blank one is a refusal without asking the model.
        """
        if not reply.strip():
            return "Refusal"
        found = await self._client.ask(self._template.fill(question=question, reply=reply), answer_of)
        return None if isinstance(found, Unavailable) else found


class LLMZoomJudge:
    """Rates how much of an image must be magnified to answer a question about it.

    Args:
        client: A vision-language model.
    """

    def __init__(self, client: QuestionClient) -> None:
        self._client = client
        self._template = prompt_template("zoom_need")

    async def __call__(self, question: str, images: Sequence[npt.NDArray[np.uint8]]) -> int | None:
        """Returns a whole number from 1 to 10; None if the model is unavailable.

        Args:
            question: The question.
            images: Images that the question is about, as shown, each uint8 [height, width, 3].
        """
        messages = with_images(self._template.fill(question=question), images)
        found = await self._client.ask(messages, _read_zoom_score)
        return None if isinstance(found, Unavailable) else found


def _read_zoom_score(reply: str) -> int:
    text = answer_of(reply)
    if text not in map(str, ZOOM_SCORES):
        raise UnreadableReplyError(f"expected a whole number from 1 to 10, got {text[:40]!r}")
    return int(text)


async def write_wrong_responses(
    client: QuestionClient, request: str, right: str, number: int, *, images: Sequence[npt.NDArray[np.uint8]] = ()
) -> tuple[str, ...] | Unavailable:
    """Returns wrong responses to a request, or why there are none.

    Args:
        client: The model.
        request: The request to respond to.
        right: A right response.
        number: Number of responses to ask for, at least 1.
        images: Images that the request is about, each uint8 [height, width, 3].

    Returns:
        At least that many texts; the caller must check that they are wrong and distinct.
    """

    def read(reply: str) -> tuple[str, ...]:
        wrong = read_object(reply).get("wrong")
        texts = [text.strip() for text in wrong if isinstance(text, str)] if isinstance(wrong, list) else []
        given = tuple(filter(None, texts))
        if len(given) < number:
            raise UnreadableReplyError(f'expected {{"wrong": [...]}} with {number} texts')
        return given

    messages = prompt_template("wrong_responses").fill(request=request, right=right, number=number)
    written: tuple[str, ...] | Unavailable = await client.ask(with_images(messages, images), read)
    return written
