"""The agentic judge of ARM-Thinker: a think-act-observe loop around a model, whose verdict becomes a score."""

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
"""Characters of each reply that are kept in the conversation."""

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True, slots=True)
class AgenticConfig:
    """Limits and tools of an agentic judge.

    Attributes:
        max_turns: Replies of the model; before the last one it learns that tools are no longer available.
        max_pixels: Budget of an image as shown; tools crop the original.
        profile: Definitions that the instruction checks follow.
        has_checks: Whether the 19 instruction checks are among the tools.
    """

    max_turns: int = 5
    max_pixels: int = 1_048_576
    profile: str = "arm"
    has_checks: bool = True

    def __post_init__(self) -> None:
        """Raises `ConfigError` for limits that leave no room for a reply."""
        require_positive("max_turns", self.max_turns)
        require_positive("max_pixels", self.max_pixels)


@dataclass(frozen=True, kw_only=True)
class JudgingCase:
    """A case to judge.

    Attributes:
        question: The request that was responded to.
        responses: One, to decide whether it is right; or two or four, to decide which one is.
        pictures: Images that the question is about.
        document: Document that the question is about.
    """

    question: str
    responses: tuple[str, ...]
    pictures: tuple[ImageRef, ...] = ()
    document: Document | None = None

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a number of responses that no world has."""
        require(len(self.responses) in (1, 2, 4), f"responses must be 1, 2 or 4; got {len(self.responses)}.")

    @property
    def track(self) -> str:
        """The track of RewardJudging that the case most resembles."""
        if self.document is not None:
            return "document"
        return "fine_grained" if self.pictures else "instruction_following"


@dataclass(frozen=True, kw_only=True)
class JudgingOutcome:
    """A judge's verdict and the conversation that led to it.

    Attributes:
        verdict: For one response whether it is right, for several the index of the right one; None without a verdict.
        reason: One line for logs: the basis of the verdict, or why there is none.
        calls: The tool calls, as the world executed them.
        utterances: The whole conversation.
    """

    verdict: bool | int | None
    reason: str
    calls: tuple[CallRecord, ...]
    utterances: tuple[Utterance, ...]


class AgenticJudge:
    """Judges responses with a model that may zoom in, turn pages, and check constraints. Can judge many at a time.

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
            question: The request that was responded to.
            response: Any string; a blank one, or one longer than `MAX_RESPONSE_CHARS`, scores 0 without asking the
                model.
            pictures: Images that the question is about.
            document: Document that the question is about.

        Returns:
            1 if the verdict is True, 0 if it is False; unavailable without a verdict.
        """
        if not response.strip() or len(response) > MAX_RESPONSE_CHARS:
            return JudgeScore(value=0.0, reason="no response, or one that is too long to be read")
        case = JudgingCase(question=question, responses=(response,), pictures=tuple(pictures), document=document)
        found = await self.decide(case)
        if found.verdict is None:
            return JudgeScore.unavailable(found.reason)
        return JudgeScore(value=float(found.verdict), reason=found.reason)

    async def decide(self, case: JudgingCase) -> JudgingOutcome:
        """Returns the model's decision on a case and the conversation behind it. No model output raises an error."""
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
            # In a thread, because tools are too slow for the event loop that other requests share
            observation, _, terminated, truncated, _ = await asyncio.to_thread(world.step, reply)
            utterances += [Utterance(role="assistant", text=said), _said_by_world(observation)]
            is_over = terminated or truncated
        answer, calls = world.state.answer, world.state.calls
        shown = "no verdict" if answer is None else f"verdict {answer[:40]!r}"
        num_worked = sum(call.succeeded for call in calls)
        reason = f"{shown} after {len(calls)} calls, {num_worked} of which worked"
        return outcome(read_verdict(answer, len(case.responses)), reason)

    def _world(self, case: JudgingCase) -> RewardJudgingWorld:
        """Returns a world that contains only this case."""
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
    """Returns the verdict in a judge's answer: True or False for one response, the index of the right one for several.

    An answer in any other form gives None.
    """
    said = stated_verdict(answer)
    if num_responses == 1:
        return {"true": True, "false": False}.get(said or "")
    number = int(said) if said is not None and said.isdecimal() else 0
    return number - 1 if 1 <= number <= num_responses else None


class _Sole:
    """A source with one sample, whose right answer is unknown."""

    name = "submission"

    def __init__(self, sample: Sample) -> None:
        self._sample = sample

    def draw(self, rng: np.random.Generator, split: str) -> Sample:
        return self._sample

    def find(self, sample_id: str) -> Sample:
        return self._sample


def _sample(case: JudgingCase) -> Sample:
    """Returns the case as a sample; its key gives the form of an answer, not the right one."""
    # A question from another world may contain tags of that world's response format.
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
    """One message of a conversation.

    Attributes:
        role: `user` for the world, `assistant` for the model.
        text: Its text.
        images: Images that precede the text, each uint8 [height, width, 3].
    """

    role: Literal["user", "assistant"]
    text: str
    images: tuple[Pixels, ...] = ()


Generate = Callable[[Sequence[Utterance]], str | Unavailable | Awaitable[str | Unavailable]]
"""Returns the model's next message of a conversation, whose first and last message are the world's. May be `async`."""


def chat_generate(client: QuestionClient) -> Generate:
    """Returns a `Generate` that asks an endpoint's model; its failures are `Unavailable`. Needs the `judge` extra."""
    from agents.api.conversation import Message, with_images

    async def generate(utterances: Sequence[Utterance]) -> str | Unavailable:
        messages = [with_images([Message(role=said.role, parts=(said.text,))], said.images)[0] for said in utterances]
        reply: str | Unavailable = await client.ask(messages, str)
        return reply

    return generate
