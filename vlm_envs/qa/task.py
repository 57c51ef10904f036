"""What a question asks for and what an answer earns."""

from __future__ import annotations

import string
from collections.abc import Mapping, Sequence
from types import MappingProxyType

import numpy as np

from vlm_envs.errors import require_finite
from vlm_envs.parts import Task
from vlm_envs.qa.context import QAContext
from vlm_envs.qa.state import Act, Answer, CallTool, QAState, Zoom
from vlm_envs.qa.strategy import Strategy
from vlm_envs.responses.answers import AnswerKey, AnswerKind, score_answer
from vlm_envs.responses.formats import QA_FORMATS, SECTION_MEANING, TOOL_OUTPUT_TAGS, WITHOUT_SYMBOLS
from vlm_envs.responses.parsing import ActionGrammar

SUCCESSFUL_CALLS = "successful_calls"
"""The metric that counts calls of tools, and zooms, that did their work."""

_HOW_TO_ANSWER: Mapping[AnswerKind, str] = MappingProxyType(
    {
        "choice": "Answer with the letter of one option.",
        "number": "Answer with a number.",
        "exact": "Answer with a word or a few.",
        "verdict": "",  # the question itself says which words there are
        "semantic": "Answer in a few words.",
        "anls": "Answer with the words or the number that stand there.",
        "list": "Answer with a list in square brackets.",
    }
)


class QATask(Task[QAState, Act]):
    """One question, one answer.

    Args:
        name: What kind of question.
        goal: One sentence.
        context: What is laid before the agent.
        strategy: How it looks and answers.
        answer_reward: Reward of a right answer.
    """

    opening = "Task"
    representations = WITHOUT_SYMBOLS
    representation_help = MappingProxyType(dict.fromkeys(WITHOUT_SYMBOLS, ""))
    formats = QA_FORMATS
    section_meaning = SECTION_MEANING | {"answer": "your answer"}
    last_turn_note = "This is the last turn: no tool can be called any more, answer now."

    def __init__(
        self, *, name: str, goal: str, context: QAContext, strategy: Strategy, answer_reward: float = 1.0
    ) -> None:
        self.name, self.goal = name, goal
        self.context, self.strategy = context, strategy
        self.answer_reward = require_finite("answer_reward", answer_reward)
        self.rules = strategy.rules(context)
        self.grammar = ActionGrammar[Act](
            parse=Answer,
            parse_in=strategy.readers(),
            lenient_in=strategy.lenient_readers(),
            separator="",
            expected=strategy.expected,
        )

    def write_action(self, action: Act) -> str:
        """Returns a call, a zoom or an answer as it is written."""
        return self.strategy.write_zoom(action) if isinstance(action, Zoom) else action.text

    def action_sections(self, actions: Sequence[Act], thoughts: Mapping[str, str]) -> dict[str, str]:
        """Returns the section in which the one action of a turn stands."""
        (action,) = actions
        if isinstance(action, CallTool):
            return {"tool_call": action.text}
        if isinstance(action, Zoom):
            return {"think": f"{thoughts.get('think', '')}{self.strategy.write_zoom(action)}"}
        return {"answer": action.text}

    def expert_sections(self, state: QAState, actions: Sequence[Act]) -> Mapping[str, str]:
        """Returns the strategy's thoughts."""
        return self.strategy.thoughts(state, self.context, actions[0])

    def reward_terms(self, state: QAState, next_state: QAState, *, success: bool) -> dict[str, float]:
        """Returns what the answer earns; looking is free."""
        if next_state.answer is None:
            return {"answer": 0.0}
        return {"answer": self.answer_reward * score_answer(next_state.answer, next_state.sample.key)}

    def noop_terms(self) -> dict[str, float]:
        """Returns nothing."""
        return {"answer": 0.0}

    def best_return(self, state: QAState, num_actions: int) -> float:
        """Returns what a right answer earns."""
        return self.answer_reward

    def instruction(self, state: QAState) -> str:
        """Returns pictures, texts, question and options."""
        sample = state.sample
        texts = [f"{name}:\n{text}" for name, text in sample.texts]
        parts = (self.context.introduction(sample), *texts, f"Question: {sample.question}", *options(sample.key))
        return "\n".join(filter(None, (*parts, _HOW_TO_ANSWER[sample.key.kind])))

    def brief(self, state: QAState) -> tuple[str, ...]:
        """Returns question, options and texts."""
        sample = state.sample
        texts = (f"{name}: {text}" for name, text in sample.texts)
        parts = (" ".join(part.split()) for part in (*sample.question.splitlines(), *options(sample.key), *texts))
        return tuple(filter(None, parts))

    def solution(self, state: QAState, plan: Sequence[Act]) -> str:
        """Returns the right answer, with the words of the option that it is."""
        key = state.sample.key
        answer = plan[-1].text if isinstance(plan[-1], Answer) else key.answers[0]
        chosen = [text for text in options_of(key) if text.startswith(f"{answer}. ")]
        return chosen[0] if chosen else answer

    def hint(self, state: QAState) -> str:
        """Returns what a tool said last, in its tags; pictures come in the order of the names it gives them."""
        if not state.reply:
            return ""
        opening, closing = TOOL_OUTPUT_TAGS
        return f"{opening}\n{state.reply}\n{closing}"

    def metrics(self, state: QAState) -> dict[str, float]:
        """Returns the score, in all and of its category, and how many calls there were, where there can be any."""
        score = score_answer(state.answer, state.sample.key)
        measured = {"score": score, f"score_{state.sample.category}": score}
        if not self.strategy.looks_closer:
            return measured
        num_successful = sum(call.succeeded for call in state.calls)
        return measured | {"calls": float(len(state.calls)), SUCCESSFUL_CALLS: float(num_successful)}

    def sample_action(self, state: QAState, rng: np.random.Generator) -> Act:
        """Returns a random answer of the right kind."""
        return Answer(random_answer(state.sample.key, rng))


def tool_was_used(metrics: Mapping[str, float]) -> bool | None:
    """Returns whether a tool was called and did its work, from a world's final `metrics`; None where there are none."""
    return metrics[SUCCESSFUL_CALLS] > 0 if SUCCESSFUL_CALLS in metrics else None


def options(key: AnswerKey) -> tuple[str, ...]:
    """Returns the options of a choice in one line, or nothing."""
    return (" ".join(options_of(key)),) if key.options else ()


def options_of(key: AnswerKey) -> tuple[str, ...]:
    """Returns the options of a choice, each behind its letter."""
    return tuple(f"{letter}. {text}" for letter, text in zip(string.ascii_uppercase, key.options, strict=False))


def random_answer(key: AnswerKey, rng: np.random.Generator) -> str:
    """Returns an answer by chance: a letter of a choice, a verdict, a small number, or a word that is hardly right."""
    if key.verdicts:
        return key.verdicts[rng.integers(len(key.verdicts))]
    if key.kind == "choice":
        return string.ascii_uppercase[rng.integers(len(key.options) or 4)]
    return str(rng.integers(10)) if key.kind == "number" else "unknown"
