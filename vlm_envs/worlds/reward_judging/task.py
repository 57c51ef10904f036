"""What RewardJudging shows of the responses, and what it reports."""

from __future__ import annotations

from dataclasses import replace

from vlm_envs.content.judging.samples import track_of
from vlm_envs.qa.state import QAState
from vlm_envs.qa.task import QATask
from vlm_envs.responses.answers import score_answer


class JudgingTask(QATask):
    """Judge responses. They are shown as quotations, and accuracy is reported for each track."""

    def instruction(self, state: QAState) -> str:
        """Returns pictures, responses, question."""
        texts = tuple((name, quotation(text)) for name, text in state.sample.texts)
        return super().instruction(replace(state, sample=replace(state.sample, texts=texts)))

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns what every question-answering world reports, and the score under the name of its track."""
        score = score_answer(state.answer, state.sample.key)
        return super().metrics(state) | {f"score_{track_of(state.sample.category)}": score}


def quotation(text: str) -> str:
    """Returns a text behind a bar on every line, angle brackets replaced by look-alikes.

    Whatever it says, no line of it passes for one of the prompt's, and none of its tags for one of the model's. Half of
    a surrogate pair, which no message could hold, becomes a question mark.
    """
    inert = text.encode("utf-8", "replace").decode("utf-8").replace("<", "‹").replace(">", "›")
    return "\n".join(f"| {line}".rstrip() for line in inert.splitlines())
