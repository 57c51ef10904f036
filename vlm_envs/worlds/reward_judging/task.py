"""What RewardJudging shows of the responses, and what it reports."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from vlm_envs.content.judging.samples import response_name, track_of
from vlm_envs.qa.qa_context import Act, Answer, QAState
from vlm_envs.qa.qa_world import QATask
from vlm_envs.responses.answers import score_answer
from vlm_envs.responses.formats import encodable


class JudgingTask(QATask):
    """Judge responses. They are shown as quotations, and accuracy is reported for each track."""

    def instruction(self, state: QAState) -> str:
        """Returns pictures, responses, question."""
        texts = tuple((name, quotation(text)) for name, text in state.sample.texts)
        return super().instruction(replace(state, sample=replace(state.sample, texts=texts)))

    def expert_sections(self, state: QAState, actions: Sequence[Act]) -> Mapping[str, str]:
        """Returns the strategy's thoughts; of a pair whose first response was checked, what the last check says."""
        is_pair_of_texts = track_of(state.sample.category) == "instruction_following" and len(state.sample.texts) == 2
        if not (is_pair_of_texts and self.strategy.has_tools and isinstance(actions[0], Answer)):
            return super().expert_sections(state, actions)
        first, second = map(response_name, range(2))
        if not state.calls:
            return {"think": f"{response_name(int(actions[0].text) - 1)} looks right at a glance."}
        if actions[0].text == "1":
            return {"think": f"{first} meets every requirement, so {first} is right."}
        return {"think": f"{first} fails this requirement, so {second} is right."}

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns what every question-answering world reports, and the score under the name of its track."""
        score = score_answer(state.answer, state.sample.key)
        return super().metrics(state) | {f"score_{track_of(state.sample.category)}": score}


def quotation(text: str) -> str:
    """Returns a text behind a bar on every line, angle brackets replaced by look-alikes.

    Whatever it says, no line of it passes for one of the prompt's, and none of its tags for one of the model's. Half of
    a surrogate pair, which no message could hold, becomes a question mark.
    """
    inert = encodable(text).replace("<", "‹").replace(">", "›")
    return "\n".join(f"| {line}".rstrip() for line in inert.splitlines())
