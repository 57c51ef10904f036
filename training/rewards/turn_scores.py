"""Scoring of turns: the world's raw reward is unchanged, and judges add named terms to it."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from agents.api.client import ChatClient
from agents.event_loop import run_blocking
from judges.agentic_judge import AgenticJudge, chat_generate
from judges.asking import QuestionCache, QuestionClient
from judges.episode_rewards.episode_reward import AskingEpisodeJudge, EpisodeJudge, EpisodeReward, rewards_by
from judges.episode_rewards.judge_models import JudgeModels, Model
from judges.llm.llm_graders import LLMAnswerJudge, LLMConsistencyJudge
from judges.llm.llm_judge import ReplyJudge, llm_judges
from judges.repetition_penalty import RepetitionConfig
from judges.scores import Reward
from judges.turn_rewards import (
    JudgeFor,
    RepetitionTerm,
    RewardTerm,
    ScoredTurn,
    Section,
    claims_by_judge,
    exact_judge,
    grounding_reward,
    sections_of,
    shape,
    worldmodeling_reward,
)
from training.config.judge_config import JudgeConfig
from training.rewards.verifier import Verifier
from vlm_envs.trajectory import PaidTerm, Trajectory, Turn


@dataclass(frozen=True, kw_only=True)
class ScoredTrajectory:
    """A trajectory with its judge rewards.

    Attributes:
        trajectory: The trajectory.
        turns: Its turns with scores and rewards; without any for lost episodes, which are not judged.
        episode_available: False if the episode reward is unknown because its judge was unavailable.
    """

    trajectory: Trajectory
    turns: tuple[ScoredTurn, ...]
    episode_available: bool = True

    @property
    def turn_rewards(self) -> list[float]:
        """Raw reward plus shaping, per turn; only the raw reward for turns that no judge could score."""
        return [turn.total for turn in self.turns]

    @property
    def trainable_turns(self) -> list[bool]:
        """Whether each turn can be trained on, which requires scores from all of its judges.

        All False if the episode was lost to a failed worker or unavailable API, or its episode judge was unavailable.
        """
        usable = self.episode_available and not self.is_lost
        return [turn.available and usable for turn in self.turns]

    @property
    def is_lost(self) -> bool:
        """Whether the episode was lost because its worker failed or its API was unavailable."""
        return any(map(_is_lost, self.trajectory.turns))


def _is_lost(turn: Turn) -> bool:
    return "worker_error" in turn.info or turn.stop_reason == "error"


def reward_terms(config: JudgeConfig) -> list[RewardTerm]:
    """Returns the shaping terms of a configuration."""
    terms: list[RewardTerm] = []
    if config.grounding_weight > 0:
        terms.append(grounding_reward(weight=config.grounding_weight))
    if config.worldmodeling_weight > 0:
        terms.append(worldmodeling_reward(weight=config.worldmodeling_weight))
    if config.repetition_penalty > 0:
        terms.append(RepetitionTerm(RepetitionConfig(penalty=-config.repetition_penalty)))
    return terms


class TurnScorer:
    """Scores turns with the judges of a configuration.

    Args:
        config: Settings of the judges.
        device: Device of a verifier's models.
        verifier: An existing verifier to use, which the caller closes.
    """

    def __init__(self, config: JudgeConfig, *, device: str = "cpu", verifier: Verifier | None = None) -> None:
        self._config = config
        self.terms = reward_terms(config)
        self._episode_judge: EpisodeJudge | None = None
        self._verifier, self._own_verifier = verifier, None
        self._asks_ahead = False
        self._ahead: list[Future[Any]] = []
        self._client = ChatClient(config.endpoint) if config.endpoint else None
        self._questions = QuestionCache(self._client, self._client.begin) if self._client is not None else None
        self._judge_for: JudgeFor | Mapping[Section, JudgeFor] = exact_judge
        if self._questions is not None and config.method != "exact":
            self._judge_for = llm_judges(self._questions, config.method)
        reward = config.reward
        if reward is not None:
            if self._verifier is None:
                self._verifier = self._own_verifier = Verifier(config.verifier, device)
            asked = model_judges(self._client, self._questions, reward)
            self._episode_judge = reward.make_judge(JudgeModels(**self._verifier.models, **asked))
            self._episode_name = reward.name

    def for_evaluation(self) -> TurnScorer:
        """Returns a scorer for evaluations, to be closed after use; it shares no mutable state with this one."""
        return TurnScorer(self._config.of_evaluations, verifier=self._verifier)

    @contextmanager
    def asking_ahead(self) -> Iterator[None]:
        """Lets `saw_turn` and `saw_episode` start judge requests; episodes must be scored within the block."""
        self._asks_ahead = self._client is not None
        try:
            yield
        finally:
            self._asks_ahead = False
            self._forget_questions()

    def saw_turn(self, env_id: str, turn: Turn) -> None:
        """Starts judge requests for a turn; they are wasted if its episode is lost later."""
        if not self._asks_ahead or _is_lost(turn):
            return
        scored = ScoredTurn(turn=turn, env_id=env_id)
        for judge, claims in claims_by_judge([scored], sections_of(self.terms), self._judge_for):
            if isinstance(judge, ReplyJudge):
                self._begin(judge.ask([claim for _, _, claim in claims]))

    def saw_episode(self, trajectory: Trajectory) -> None:
        """Starts judge requests for a finished episode."""
        judge = self._episode_judge
        if self._asks_ahead and isinstance(judge, AskingEpisodeJudge) and not any(map(_is_lost, trajectory.turns)):
            self._begin(judge.ask_ahead(trajectory))

    def _begin(self, asking: Any) -> None:
        assert self._client is not None, "only a model is asked ahead"
        if inspect.iscoroutine(asking):  # a user's judge may have asked at once
            self._ahead.append(self._client.begin(asking))

    def _forget_questions(self) -> None:
        if self._client is None or self._questions is None:
            return
        for asking in self._ahead:
            asking.cancel()
        if self._ahead and not self._client.is_closed:
            self._client.begin(asyncio.sleep(0)).result()  # after it, what was canceled asks nothing any more
        self._ahead.clear()
        self._questions.clear()

    def score(self, trajectories: Sequence[Trajectory]) -> list[ScoredTrajectory]:
        """Scores every turn of a batch of trajectories.

        Returns:
            One scored trajectory each, in order; lost ones are not judged, and their turns are unavailable. If a judge
            raises, or Ctrl-C interrupts, the judges' state is restored, so that the batch can be scored again.
        """
        before = self.state_dict()
        try:
            return run_blocking(self._score(trajectories))
        except BaseException:
            self.load_state_dict(before)
            raise
        finally:
            self._forget_questions()

    async def _score(self, trajectories: Sequence[Trajectory]) -> list[ScoredTrajectory]:
        scored = [
            ScoredTrajectory(trajectory=t, turns=tuple(ScoredTurn(turn=turn, env_id=t.env_id) for turn in t.turns))
            for t in trajectories
        ]
        kept = [episode for episode in scored if not episode.is_lost]
        judged = [episode.trajectory for episode in kept]
        shaped = iter(await shape(judged, self.terms, judge_for=self._judge_for, judge_name=self._config.method))
        scored = [episode if episode.is_lost else replace(episode, turns=next(shaped)) for episode in scored]
        if self._episode_judge is None:
            return scored
        # Episodes with some unjudged turns also get their episode reward, as their other turns are trained on
        rewards = iter(await rewards_by(self._episode_name, self._episode_judge, judged))
        return [
            episode if episode.is_lost else _with_reward(episode, next(rewards), self._episode_name)
            for episode in scored
        ]

    def metrics(self) -> dict[str, float]:
        """Returns the usage of the judges' models since the start; empty for the exact judge."""
        metrics = {} if self._episode_judge is None else self._episode_judge.metrics()
        metrics |= {} if self._own_verifier is None else self._own_verifier.metrics()
        if self._client is None:
            return metrics
        usage = self._client.usage
        used = {
            "llm_judge/questions": usage.num_questions,
            "llm_judge/unavailable": usage.num_unavailable,
            "llm_judge/cached": usage.num_cached,
        }
        return metrics | used | ({} if usage.usd is None else {"llm_judge/usd": usage.usd})

    def state_dict(self) -> dict[str, Any]:
        """Returns the terms' state across turns, by name."""
        return {name: part.state_dict() for name, part in self._with_memory().items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores the state returned by `state_dict`."""
        for name, part in self._with_memory().items():
            part.load_state_dict(state[name])

    def _with_memory(self) -> dict[str, Any]:
        parts: dict[str, Any] = {term.name: term for term in self.terms if hasattr(term, "state_dict")}
        return parts | ({"episode": self._episode_judge} if hasattr(self._episode_judge, "state_dict") else {})

    def close(self) -> None:
        """Closes the connection to the judge model, and the scorer's own verifier."""
        if self._client is not None:
            self._client.close()
        if self._own_verifier is not None:
            self._own_verifier.close()


def _with_reward(scored: ScoredTrajectory, reward: Reward, name: str) -> ScoredTrajectory:
    """Returns an episode with the reward's terms on its last turn, or masked if the reward is unavailable."""
    if not reward.available:
        return replace(scored, episode_available=False)
    terms = [
        PaidTerm(name=f"{name}/{term}", value=float(value), source=f"episode:{name}", weight=_weight(reward, term))
        for term, value in reward.terms.items()
    ]
    last = replace(scored.turns[-1], judge_terms=(*scored.turns[-1].judge_terms, *terms))
    return replace(scored, turns=(*scored.turns[:-1], last))


def _weight(reward: Reward, term: str) -> float | None:
    """Returns the value that a raw value of 1 pays; None if the raw value is 0, which hides the weight."""
    raw = reward.raw.get(term, reward.terms[term])
    return reward.terms[term] / raw if raw else None


def model_judges(
    client: QuestionClient | None, questions: QuestionCache | None, reward: EpisodeReward
) -> dict[str, Any]:
    """Returns the fields of `JudgeModels` that a model behind an endpoint provides for a reward; empty without one."""
    if client is None or questions is None:
        return {}
    makers: dict[Model, Callable[[], Any]] = {
        "agentic_judge": lambda: AgenticJudge(chat_generate(client)),
        "answer_judge": lambda: LLMAnswerJudge(questions, reward.answer_scale),
        # Not cached, as each sample is a separate reply
        "consistency_judge": lambda: LLMConsistencyJudge(client, num_samples=reward.num_judgements),
    }
    return {name: make() for name, make in makers.items() if name in reward.models} | {"questions": questions}
