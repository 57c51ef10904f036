"""The agentic judge of ARM-Thinker: a loop of think, act, and observe around a model, and what its verdict is worth."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from agents.api.failures import Unavailable
from judges.asking import QuestionClient, resolved
from judges.scores import JudgeScore
from vlm_envs.content.judging.judging_cases import judging_key, judging_question, response_name
from vlm_envs.qa.qa_context import CallRecord
from vlm_envs.qa.sample import Sample
from vlm_envs.responses.answers import stated_verdict
from vlm_envs.responses.parsing import MAX_RESPONSE_CHARS
from vlm_envs.tools.pdf_documents import Document
from vlm_envs.tools.pictures import ImageRef
from vlm_envs.trajectory import Observation, observation_images, observation_words
from vlm_envs.validation import require, require_positive
from vlm_envs.worlds.reward_judging import RewardJudgingWorld

MAX_ECHO_CHARS = 20_000
"""Of what the model said, so much stays in its conversation."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgenticConfig:
    """How a judge works.

    Attributes:
        max_turns: Replies of the model; before the last one it is told that no tool can be called any more.
        max_pixels: Budget of a picture as shown; tools cut from the original.
        profile: Definition by which checks of instructions check.
        has_checks: Whether the 19 checks of instructions are among the tools.
    """

    max_turns: int = 5
    max_pixels: int = 1_048_576
    profile: str = "arm"
    has_checks: bool = True

    def __post_init__(self) -> None:
        """Refuses limits under which nothing could be said."""
        require_positive("max_turns", self.max_turns)
        require_positive("max_pixels", self.max_pixels)


@dataclass(frozen=True, kw_only=True)
class JudgingCase:
    """What is to be judged.

    Attributes:
        question: What was asked for.
        responses: One to say whether it is right; two or four to say which one is.
        pictures: What the question is about.
        document: What it is about.
    """

    question: str
    responses: tuple[str, ...]
    pictures: tuple[ImageRef, ...] = ()
    document: Document | None = None

    def __post_init__(self) -> None:
        """Refuses numbers of responses that no world has."""
        require(len(self.responses) in (1, 2, 4), f"responses must be 1, 2 or 4; got {len(self.responses)}.")

    @property
    def track(self) -> str:
        """The track of RewardJudging that it is most like."""
        if self.document is not None:
            return "document"
        return "fine_grained" if self.pictures else "instruction_following"


@dataclass(frozen=True, kw_only=True)
class JudgingOutcome:
    """What a judge did.

    Attributes:
        verdict: For one response whether it is right, for several the index of the right one; None without a verdict.
        reason: One line for logs: what led to the verdict, or why there is none.
        calls: The tools it called, as they were carried out.
        utterances: The whole conversation.
    """

    verdict: bool | int | None
    reason: str
    calls: tuple[CallRecord, ...]
    utterances: tuple[Utterance, ...]


class AgenticJudge:
    """Judges responses by a model that may look closer, turn pages and check constraints. Judges many at a time.

    Args:
        generate: The model.
        config: Limits.
    """

    def __init__(self, generate: Generate, config: AgenticConfig | None = None) -> None:
        self._generate = generate
        self.config = config or AgenticConfig()

    async def __call__(self, question: str, truth: str, answer: str) -> JudgeScore:
        """Returns 1 or 0 for an answer against a known truth, or unavailable; an `AnswerJudge`."""
        return await self.score(f"{question}\nIt is known that the right answer is: {truth}", answer)

    async def score(
        self, question: str, response: str, *, pictures: Sequence[ImageRef] = (), document: Document | None = None
    ) -> JudgeScore:
        """Returns the score of one response.

        Args:
            question: What was asked for.
            response: Any string; a blank one, and one longer than any world reads, scores 0 without a question to the
                model.
            pictures: What the question is about.
            document: What it is about.

        Returns:
            1 if the verdict is True, 0 if it is False; unavailable if there is none, for whatever reason.
        """
        if not response.strip() or len(response) > MAX_RESPONSE_CHARS:
            return JudgeScore(value=0.0, reason="no response, or one that is too long to be read")
        case = JudgingCase(question=question, responses=(response,), pictures=tuple(pictures), document=document)
        found = await self.decide(case)
        if found.verdict is None:
            return JudgeScore.unavailable(found.reason)
        return JudgeScore(value=float(found.verdict), reason=found.reason)

    async def decide(self, case: JudgingCase) -> JudgingOutcome:
        """Returns what the model decides on a case, and how it came to it. Nothing that the model says raises."""
        world = self._world(case)
        observation, _ = await asyncio.to_thread(world.reset)
        utterances = [_said_by_world(observation)]

        def outcome(verdict: bool | int | None, reason: str) -> JudgingOutcome:
            calls = world.state.calls
            return JudgingOutcome(verdict=verdict, reason=reason, calls=calls, utterances=tuple(utterances))

        is_over = False
        while not is_over:
            reply: str | Unavailable = await resolved(self._generate(tuple(utterances)))
            if isinstance(reply, Unavailable):
                return outcome(None, reply.reason)
            said = world.turn_format.cut(reply)[:MAX_ECHO_CHARS]
            # Its tools take longer than other requests on this event loop can wait
            observation, _, terminated, truncated, _ = await asyncio.to_thread(world.step, reply)
            utterances += [Utterance(role="assistant", text=said), _said_by_world(observation)]
            is_over = terminated or truncated
        answer, calls = world.state.answer, world.state.calls
        shown = "no verdict" if answer is None else f"verdict {answer[:40]!r}"
        num_worked = sum(call.succeeded for call in calls)
        reason = f"{shown} after {len(calls)} calls, {num_worked} of which worked"
        return outcome(read_verdict(answer, len(case.responses)), reason)

    def _world(self, case: JudgingCase) -> RewardJudgingWorld:
        """Returns the world in which there is no other case."""
        has_images = case.track != "instruction_following"
        checks = ("instruction_following",) if self.config.has_checks else ()
        return RewardJudgingWorld(
            source=_Sole(_sample(case)),
            tracks=tuple(dict.fromkeys((case.track, *checks))),
            tools=has_images or self.config.has_checks,
            profile=self.config.profile,
            max_turns=self.config.max_turns,
            max_pixels=self.config.max_pixels,
        )


def read_verdict(answer: str | None, num_responses: int) -> bool | int | None:
    """Returns the verdict that a judge's answer gives: of one response True or False, of several the right one's index.

    None stands for anything else.
    """
    said = stated_verdict(answer)
    if num_responses == 1:
        return {"true": True, "false": False}.get(said or "")
    number = int(said) if said is not None and said.isdecimal() else 0
    return number - 1 if 1 <= number <= num_responses else None


class _Sole:
    """A source with one sample, whose right answer is not known."""

    name = "submission"

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        return self._sample

    def find(self, sample_id: str) -> Sample:
        return self._sample


def _sample(case: JudgingCase) -> Sample:
    """Returns the case as a question; the key says what an answer looks like, not which is right."""
    # The question of another world may show tags that are its own response format.
    request = case.question.replace("<", "‹").replace(">", "›")
    count = len(case.responses)
    is_shown = bool(case.pictures) or case.document is not None
    question = judging_question(case.track, request, count, is_shown=is_shown)
    return Sample(
        sample_id="submission",
        question=question,
        key=judging_key(question, 0, count),
        category=case.track,
        digest="submission",
        images=case.pictures,
        document=case.document,
        texts=tuple((response_name(index), text) for index, text in enumerate(case.responses)),
    )


def _said_by_world(observation: Observation) -> Utterance:
    return Utterance(role="user", text=observation_words(observation), images=observation_images(observation))


@dataclass(frozen=True, kw_only=True, slots=True)
class Utterance:
    """One side's turn.

    Attributes:
        role: `user` for the world, `assistant` for the model.
        text: What it says.
        images: Pictures that come before the text, each uint8 [height, width, 3].
    """

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Pixels, ...] = ()


Generate = Callable[[Sequence[Utterance]], str | Unavailable | Awaitable[str | Unavailable]]
"""Continues a conversation, which the world began and spoke in last. May be `async`."""


def chat_generate(client: QuestionClient) -> Generate:
    """Returns what has a model behind an endpoint generate; its failures are `Unavailable`. Needs the extra `judge`."""
    from agents.api.conversation import Message, with_images

    async def generate(utterances: Sequence[Utterance]) -> str | Unavailable:
        messages = [with_images([Message(role=each.role, parts=(each.text,))], each.images)[0] for each in utterances]
        reply: str | Unavailable = await client.ask(messages, str)
        return reply

    return generate
