"""Language models as judges of state texts: one verdict on a text, or its claims extracted and then scored by rule.

    direct       text + true state ── model ──> YES / NO ──> 1 / 0
    extraction   text              ── model ──> claims ── exact judge (+ true state) ──> F1

With extraction, the model never sees the truth, so a text cannot talk it into a verdict.

Source: VAGEN, appendix D.1.1 (direct) and D.1.2 (extraction, then F1). The prompts are ours and keep the rubrics'
meaning.

`llm_judges` substitutes them for the exact judge in `judges.turn_rewards.shape`, and thus in a trainer:

    with ChatClient(config) as client:
        shaped = shape(turns, terms, judge_for=llm_judges(client, "extraction"))
"""

from __future__ import annotations

import functools
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, ClassVar, Generic, Literal, TypeVar, get_args

from agents.api.conversation import Message
from agents.api.failures import Unavailable
from judges.asking import QuestionClient, TextAndState, gather
from judges.llm.claim_extraction import Extraction, family_of
from judges.llm.judge_prompts import prompt_template, read_yes_no
from judges.scores import JudgeScore
from judges.state_text.exact_judge import ExactJudge
from judges.turn_rewards import JudgeFor, Section
from vlm_envs.responses.formats import Representation
from vlm_envs.validation import require_choice

Skill = Literal["grounding", "worldmodeling"]
"""The skill that a text demonstrates: seeing the current state, or predicting the next one."""

_Verdict = TypeVar("_Verdict")

Method = Literal["direct", "extraction"]

SKILL_OF: dict[Section, Skill] = {"observation": "grounding", "prediction": "worldmodeling"}
"""The skill that each section of a response demonstrates."""


class ReplyJudge(ABC, Generic[_Verdict]):
    """A judge that asks one question per text; a subclass defines the question and the score of a reply.

    Args:
        client: The judge model.
        world: A world's name or an env id.
        skill: Whether texts describe the current state or predict the next one.
        representation: Of the texts.

    Raises:
        ConfigError: Language models do not judge this world, or not in this representation.
    """

    prompts: ClassVar[str]
    """Prefix of its prompt names."""

    def __init__(
        self,
        client: QuestionClient,
        world: str,
        skill: Skill = "grounding",
        representation: Representation = "natural_language",
    ) -> None:
        self._client = client
        self._world, self._family = world, family_of(world, representation)
        self._template = prompt_template(f"{self._family.prompts}/{self.prompts}_{skill}")

    async def score(self, text: str, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the score of a text against a state, or unavailable; a blank text scores 0 without asking the model.

        Raises:
            ConfigError: The state is from another world. Neither texts nor endpoint failures raise errors.
        """
        (score,) = await self.score_many([(text, state)])
        return score

    async def score_many(self, claims: Sequence[TextAndState]) -> list[JudgeScore]:
        """Returns the scores of many texts, in order; each distinct question is asked once.

        Raises:
            ConfigError: A state is from another world.
        """
        answers = await self.ask(claims)
        return [
            self._score(answers[self._messages(text, state)], state)
            if text.strip()
            else JudgeScore(value=0.0, reason="nothing was said")
            for text, state in claims
        ]

    async def ask(self, claims: Sequence[TextAndState]) -> dict[tuple[Message, ...], _Verdict | Unavailable]:
        """Returns the model's answer to each distinct question about some claims; blank texts pose none."""
        questions = dict.fromkeys(self._messages(text, state) for text, state in claims if text.strip())
        answers = await gather(self._client.ask(question, self._read) for question in questions)
        return dict(zip(questions, answers, strict=True))

    def _score(self, answer: _Verdict | Unavailable, state: Mapping[str, Any]) -> JudgeScore:
        return JudgeScore.unavailable(answer.reason) if isinstance(answer, Unavailable) else self._worth(answer, state)

    @abstractmethod
    def _read(self, reply: str) -> _Verdict:
        """Parses a reply; raises `UnreadableReplyError` if it is not in the requested form."""

    @abstractmethod
    def _messages(self, text: str, state: Mapping[str, Any]) -> tuple[Message, ...]:
        """Returns the question about a text."""

    @abstractmethod
    def _worth(self, verdict: _Verdict, state: Mapping[str, Any]) -> JudgeScore:
        """Returns the score for a verdict."""


class DirectJudge(ReplyJudge[bool]):
    """Asks whether a text agrees with the true state: YES is 1, NO is 0."""

    prompts = "direct"

    def _read(self, reply: str) -> bool:
        return read_yes_no(reply)

    def _messages(self, text: str, state: Mapping[str, Any]) -> tuple[Message, ...]:
        return self._template.fill(truth=self._family.truth(state), text=text)

    def _worth(self, verdict: bool, state: Mapping[str, Any]) -> JudgeScore:
        return JudgeScore(value=float(verdict), reason="the model says yes" if verdict else "the model says no")


class ExtractionJudge(ReplyJudge[Extraction]):
    """Extracts a text's claims with a model that does not know the truth, and scores them with the exact judge."""

    prompts = "extract"

    def _read(self, reply: str) -> Extraction:
        return self._family.extraction.read(reply)

    def _messages(self, text: str, state: Mapping[str, Any]) -> tuple[Message, ...]:
        return self._template.fill(text=text, **self._family.context(state))

    def _worth(self, verdict: Extraction, state: Mapping[str, Any]) -> JudgeScore:
        return self._exact.score(verdict.exact_text(), state)

    @cached_property
    def _exact(self) -> ExactJudge:
        return ExactJudge(self._world, self._family.extraction.representation)


def llm_judges(client: QuestionClient, method: Method) -> dict[Section, JudgeFor]:
    """Returns the `judge_for` argument of `shape`, which uses different prompts for observations and predictions.

    Args:
        client: The judge model.
        method: `direct` for a verdict, `extraction` for claims that the exact judge scores.
    """
    judge_type = DirectJudge if require_choice("method", method, get_args(Method)) == "direct" else ExtractionJudge

    def judge_for(skill: Skill) -> JudgeFor:
        return functools.cache(lambda env_id, representation: judge_type(client, env_id, skill, representation))

    return {section: judge_for(skill) for section, skill in SKILL_OF.items()}
