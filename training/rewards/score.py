"""Score: what each turn earns in all. The world's raw reward is not touched; judges add named parts to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from agents.api.client import ChatClient
from agents.hf.chat import observation_images
from judges.agentic.generate import chat_generate
from judges.agentic.judge import AgenticJudge
from judges.episode_rewards.episodes import EpisodeJudge, answer_scale, episode_judge
from judges.episode_rewards.judged_episode import JudgedEpisode
from judges.llm.graded import AnswerJudge, ConsistencyJudge
from judges.llm.shaping import LLMJudges
from judges.scores import Reward
from judges.state_text.rules import has_rules
from judges.turn_rewards.repetition import RepetitionConfig
from judges.turn_rewards.shaping import (
    GroundingReward,
    JudgedTurn,
    JudgeFor,
    RepetitionTerm,
    RewardTerm,
    Section,
    ShapedTurn,
    WorldModelingReward,
    exact_judge,
    shape,
)
from training.config.judges import JudgeConfig
from training.rewards.verifier import verifier_models
from vlm_envs.trajectory import Trajectory, Turn

_UNJUDGED = ShapedTurn(rewards={}, available=False, reasons={})
"""A turn of a lost episode, which tells nothing of the policy: no judge is asked, and no history remembers it."""


@dataclass(frozen=True, kw_only=True)
class ScoredTrajectory:
    """A trajectory with its judges' rewards.

    Attributes:
        trajectory: What was played.
        shaped: One per turn.
        episode_available: False where the reward of the whole episode is not known, as its judge could not answer.
    """

    trajectory: Trajectory
    shaped: tuple[ShapedTurn, ...]
    episode_available: bool = True

    @property
    def turn_rewards(self) -> list[float]:
        """Raw reward plus shaping, per turn; of a turn that no judge could score the raw reward alone."""
        return [turn.reward + shaped.total for turn, shaped in zip(self.trajectory.turns, self.shaped, strict=True)]

    @property
    def trainable_turns(self) -> list[bool]:
        """Whether each turn can be learnt from.

        Nothing of an episode whose worker failed, whose API was out or whose own judge was; otherwise all but what no
        judge could score.
        """
        usable = self.episode_available and not self.is_lost
        return [shaped.available and usable for shaped in self.shaped]

    @property
    def judged_turns(self) -> list[bool]:
        """Whether the judges said all they were asked of each turn, the episode's own included; none of a lost one."""
        return [shaped.available and self.episode_available for shaped in self.shaped]

    @property
    def is_lost(self) -> bool:
        """Whether the episode did not end by itself: its worker failed or its API was out."""
        return any("worker_error" in turn.info or turn.stop_reason == "error" for turn in self.trajectory.turns)


def reward_terms(config: JudgeConfig) -> list[RewardTerm]:
    """Returns the shaping terms a configuration asks for."""
    terms: list[RewardTerm] = []
    if config.grounding_weight > 0:
        terms.append(GroundingReward(weight=config.grounding_weight))
    if config.worldmodeling_weight > 0:
        terms.append(WorldModelingReward(weight=config.worldmodeling_weight))
    if config.repetition_penalty > 0:
        terms.append(RepetitionTerm(RepetitionConfig(penalty=-config.repetition_penalty)))
    return terms


class TurnScorer:
    """Judges turns as a configuration asks for.

    Args:
        config: Which terms, and who judges.
        device: Where a verifier's models run.
        models: A verifier's models, if they are loaded already.
    """

    def __init__(self, config: JudgeConfig, *, device: str = "cpu", models: Mapping[str, Any] | None = None) -> None:
        self._config = config
        self.terms = reward_terms(config)
        self._episode_judge: EpisodeJudge | None = None
        self._models: Mapping[str, Any] = {}
        self._client = ChatClient(config.endpoint) if config.endpoint else None
        self._judge_for: JudgeFor | Mapping[Section, JudgeFor] = exact_judge
        if self._client is not None and config.method != "exact":
            self._judge_for = LLMJudges(self._client, config.method).by_section
        if config.episode is not None:
            self._models = verifier_models(config.verifier, device) if models is None else models
            self._episode_judge = episode_judge(
                config.episode, **_model_judges(self._client, config.episode), **self._models
            )
            self._episode_name = config.episode

    def for_evaluation(self) -> TurnScorer:
        """Returns a scorer of evaluations, to be closed after use; it shares nothing with this one that can change."""
        return TurnScorer(self._config.of_evaluations, models=self._models)

    def score(self, trajectories: Sequence[Trajectory]) -> list[ScoredTrajectory]:
        """Judges every turn of a batch of trajectories.

        Args:
            trajectories: What was played.

        Returns:
            One scored trajectory each, in order; nobody is asked about lost ones, whose turns are unavailable. Where a
            judge raises, or Ctrl-C does, nothing of the batch is remembered, so that it may be scored anew.
        """
        before = self._terms_state()
        try:
            return self._score(trajectories)
        except BaseException:
            self._load_terms_state(before)  # An episode judge that raises puts back its own.
            raise

    def _score(self, trajectories: Sequence[Trajectory]) -> list[ScoredTrajectory]:
        scored = [ScoredTrajectory(trajectory=each, shaped=(_UNJUDGED,) * len(each.turns)) for each in trajectories]
        shaped = iter(self._shaped([each.trajectory for each in scored if not each.is_lost]))
        scored = [each if each.is_lost else replace(each, shaped=next(shaped)) for each in scored]
        return scored if self._episode_judge is None else self._with_episode_rewards(scored, self._episode_judge)

    def _shaped(self, trajectories: Sequence[Trajectory]) -> list[tuple[ShapedTurn, ...]]:
        """Returns what the turn judges add to each turn of each episode."""
        turns = [
            JudgedTurn(
                env_id=trajectory.env_id,
                representation=turn.info["representation"],
                observation_text=_section(trajectory, turn, "observation"),
                prediction_text=_section(trajectory, turn, "prediction"),
                format_correct=bool(turn.info.get("format_correct", False)),
                state=turn.state,
                next_state=turn.info["state"],
            )
            for trajectory in trajectories
            for turn in trajectory.turns
        ]
        shaped = iter(shape(turns, self.terms, judge_for=self._judge_for))
        return [tuple(next(shaped) for _ in trajectory.turns) for trajectory in trajectories]

    def _with_episode_rewards(self, scored: Sequence[ScoredTrajectory], judge: EpisodeJudge) -> list[ScoredTrajectory]:
        """Adds a paper's reward to each episode's last turn; an episode that could not be judged is masked whole.

        One of whose turns some could not be judged is asked about all the same, for its other turns are learnt from.
        """
        usable = [each for each in scored if not each.is_lost]
        rewards = iter(judge([judged_episode(each.trajectory) for each in usable]))
        by_id = {id(each): next(rewards) for each in usable}
        return [
            each if id(each) not in by_id else _with_reward(each, by_id[id(each)], self._episode_name)
            for each in scored
        ]

    def metrics(self) -> dict[str, float]:
        """Returns what the judge model has used up since the start; nothing for the exact judge."""
        metrics = {} if self._episode_judge is None else self._episode_judge.metrics()
        if self._client is None:
            return metrics
        usage = self._client.usage
        return (
            metrics
            | {"llm_judge/questions": usage.num_questions, "llm_judge/unavailable": usage.num_unavailable}
            | {
                "llm_judge/cached": usage.num_cached,
                "llm_judge/usd": usage.usd,
            }
        )

    def state_dict(self) -> dict[str, Any]:
        """Returns what the terms remember from turn to turn, by their names."""
        terms = self._terms_state()
        return terms if self._episode_judge is None else terms | {EPISODE: self._episode_judge.state_dict()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Takes over what `state_dict` returned."""
        self._load_terms_state(state)
        if self._episode_judge is not None:
            self._episode_judge.load_state_dict(state[EPISODE])

    def _terms_state(self) -> dict[str, Any]:
        return {term.name: term.state_dict() for term in self.terms if hasattr(term, "state_dict")}

    def _load_terms_state(self, state: Mapping[str, Any]) -> None:
        for term in self.terms:
            if hasattr(term, "load_state_dict"):
                term.load_state_dict(state[term.name])

    def close(self) -> None:
        """Lets go of the connection to the judge model."""
        if self._client is not None:
            self._client.close()


def _section(trajectory: Trajectory, turn: Turn, name: str) -> str | None:
    """Returns the text of a section that is to be judged; None where there is none, or no rules to judge it by."""
    return turn.info.get("sections", {}).get(name) if has_rules(trajectory.env_id) else None


EPISODE = "episode"
"""Where the state of an episode judge is kept."""


def judged_episode(trajectory: Trajectory) -> JudgedEpisode:
    """Returns what an episode judge sees of a trajectory."""
    return JudgedEpisode(
        responses=tuple(turn.response_text for turn in trajectory.turns),
        formats_correct=tuple(bool(turn.info.get("format_correct", False)) for turn in trajectory.turns),
        state=trajectory.turns[-1].info["state"],
        images=observation_images(trajectory.turns[0].observation),
        prompt=trajectory.turns[0].observation.get("text", ""),
    )


def _with_reward(scored: ScoredTrajectory, reward: Reward, name: str) -> ScoredTrajectory:
    """Returns an episode with a reward's terms on its last turn, or masked if there is no reward."""
    if not reward.available:
        return replace(scored, episode_available=False)
    terms = {f"{name}/{term}": value for term, value in reward.terms.items()}
    last = replace(scored.shaped[-1], rewards={**scored.shaped[-1].rewards, **terms})
    return replace(scored, shaped=(*scored.shaped[:-1], last))


def _model_judges(client: ChatClient | None, method: str) -> dict[str, Any]:
    """Returns the judges that a model behind an endpoint gives a method; none without one."""
    if client is None:
        return {}
    if method == "agentic":
        return {"agentic": AgenticJudge(chat_generate(client)), "at_once": client.map}
    judge = AnswerJudge(client, answer_scale(method))
    return {"answer_judge": judge, "consistency_judge": ConsistencyJudge(client), "at_once": client.map}
