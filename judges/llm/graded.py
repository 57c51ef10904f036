"""Language models that grade: the meaning of an answer, and whether two texts speak of the same picture.

Sources: Mags-RL, appendix A.2 (answers on a scale of five) and r_ans; Argos, outcome reward (iii) (same meaning or
not); iVGR, section 3.3 (consistency alpha). Prompts are ours and keep the scales' meaning.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Hashable, Sequence

import numpy as np
import numpy.typing as npt

from agents.api.client import ChatClient
from agents.api.conversation import with_images
from agents.api.failures import Unavailable
from judges.consistency.words import CONSISTENCY_GRADES
from judges.llm.templates import prompt_template
from judges.llm.verdict import read_score, read_yes_no
from judges.reading.answers import GRADES, AnswerScale
from judges.scores import JudgeScore
from vlm_envs.validation import require_choice, require_positive


class LLMAnswerJudge:
    """Grades how much an answer means what the right answer means.

    Args:
        client: The judge model.
        scale: `graded` for one of `GRADES`, `binary` for 0 or 1.
    """

    def __init__(self, client: ChatClient, scale: AnswerScale = "graded") -> None:
        require_choice("scale", scale, ("graded", "binary"))
        self._client, self._is_graded = client, scale == "graded"
        self._template = prompt_template(f"answer_{scale}")

    def __call__(
        self, question: str, truth: str, answer: str, *, images: Sequence[npt.NDArray[np.uint8]] = ()
    ) -> JudgeScore:
        """Returns the grade of one answer.

        Args:
            question: What was asked.
            truth: The right answer.
            answer: The policy's; a blank one scores 0 without a question to the model.
            images: What the question is about, each uint8 [height, width, 3]; often not needed.

        Returns:
            The grade, or unavailable.
        """
        if not answer.strip():
            return JudgeScore(value=0.0, reason="no answer")
        messages = self._template.fill(question=question, reference=truth, answer=answer)
        return _score_of(self._client.ask(with_images(messages, images), self._read))

    def _read(self, reply: str) -> float:
        return read_score(reply, GRADES) if self._is_graded else float(read_yes_no(reply))


class LLMConsistencyJudge:
    """Grades whether a text speaks of the same content of a picture as a reference: iVGR's alpha.

    Source: iVGR, section 3.3: 1 for the same content, 0.7 for one kind of deviation, 0.3 for both, 0 for a
    contradiction. The paper asks once at temperature 0.01, or takes the mean of four at 0.5; who takes the mean asks
    this judge as often.

    Args:
        client: The judge model.
        num_samples: Asking the same again gives the next of so many replies, and then the first again, so that a
            mean of cached replies is a mean of different ones.

    Raises:
        ConfigError: Fewer than one sample.
    """

    def __init__(self, client: ChatClient, *, num_samples: int = 1) -> None:
        require_positive("num_samples", num_samples)
        self._client, self._num_samples = client, num_samples
        self._template = prompt_template("consistency")
        self._lock = threading.Lock()
        self._next_sample: dict[Hashable, int] = {}

    def __call__(self, question: str, reference: str, text: str, temperature: float = 0.01) -> JudgeScore:
        """Returns the grade of one text.

        Args:
            question: What both reason about.
            reference: The grounded reasoning from the archive.
            text: The textual reasoning; a blank one scores 0 without a question to the model.
            temperature: Of the sampling.

        Returns:
            One of `CONSISTENCY_GRADES`, or unavailable.
        """
        return self.begin(question, reference, text, temperature)[1]()

    def begin(
        self, question: str, reference: str, text: str, temperature: float = 0.01
    ) -> tuple[Hashable, Callable[[], JudgeScore]]:
        """Returns what tells the next reply to a question from others, and what asks for it; see `__call__`."""
        if not text.strip():
            return (question, reference, text), lambda: JudgeScore(value=0.0, reason="no text")
        messages = self._template.fill(question=question, reference=reference, text=text)
        asked = (messages, temperature)
        sample = self._take_sample(asked)

        def ask() -> JudgeScore:
            return _score_of(self._client.ask(messages, _read_consistency, temperature=temperature, sample=sample))

        return (asked, sample), ask

    def _take_sample(self, question: Hashable) -> int:
        with self._lock:
            sample = self._next_sample.pop(question, 0)
            if sample + 1 < self._num_samples:
                self._next_sample[question] = sample + 1
            return sample


def _read_consistency(reply: str) -> float:
    return read_score(reply, CONSISTENCY_GRADES)


def _score_of(grade: float | Unavailable) -> JudgeScore:
    if isinstance(grade, Unavailable):
        return JudgeScore.unavailable(grade.reason)
    return JudgeScore(value=grade, reason=f"graded {grade:g}")
