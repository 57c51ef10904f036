"""Reward shaping: named terms that the trainer adds to the raw reward of each turn.

    turns ── judges ──> scores of their texts ── terms ──> named rewards per turn

Source: VAGEN, section 5.1: the sum over turns t of 0.5 times the score of observation_t against s_t and 0.5
times the score of prediction_t against s_{t+1}, paid only if the response's format is right; and appendix
D.1.2 for the repetition penalty. The world's own reward stays as it is. A judge that cannot answer makes its
turn unavailable. Such a turn must be masked, because a zero would teach the policy that its answer was wrong.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, Protocol

from judges.asking import TextAndState, score_claims
from judges.repetition_penalty import RepetitionConfig, RepetitionPenalty
from judges.scores import Judge, JudgeScore
from judges.state_text.exact_judge import ExactJudge, has_rules
from judges.state_text.tally import Tally
from vlm_envs.responses.formats import Representation
from vlm_envs.trajectory import PaidTerm, Trajectory, Turn
from vlm_envs.validation import require
from vlm_envs.world import SEEN

Section = Literal["observation", "prediction"]
JudgeFor = Callable[[str, Representation], Judge]
"""Finds the judge of an env id and a representation."""


@dataclass(frozen=True, kw_only=True, slots=True)
class ScoredTurn:
    """A turn with its judges' scores and the rewards they earn.

    Attributes:
        turn: The turn as it was played.
        env_id: Its world, which determines how its texts are read.
        scores: The score of each judged section; a section without a text to judge is absent.
        judge_terms: Rewards from judges, then those from an episode reward; all 0 if the turn is unavailable.
    """

    turn: Turn
    env_id: str
    scores: Mapping[Section, JudgeScore] = field(default_factory=dict)
    judge_terms: tuple[PaidTerm, ...] = ()

    @property
    def available(self) -> bool:
        """False if a judge could not answer, so that the turn must be masked."""
        return all(score.available for score in self.scores.values())

    @property
    def terms(self) -> tuple[PaidTerm, ...]:
        """All terms of the turn's reward: the world's, then `judge_terms`."""
        return (*self.turn.reward_terms, *self.judge_terms)

    @property
    def total(self) -> float:
        """The sum of `terms`: the turn's reward in training."""
        # Adding the judges' terms to the world's own sum keeps results bit-exact.
        return self.turn.reward + math.fsum(term.value for term in self.judge_terms)

    @property
    def rewards(self) -> dict[str, float]:
        """The values of `judge_terms` by name."""
        return {term.name: term.value for term in self.judge_terms}

    def text(self, section: Section) -> str | None:
        """Returns the text to judge; None if the format is wrong, the section is absent, or the world has no rules."""
        if not self.turn.info.get("format_correct") or not has_rules(self.env_id):
            return None
        text: str | None = self.turn.info.get("sections", {}).get(section)
        return text

    def truth(self, section: Section) -> Mapping[str, Any]:
        """Returns the state that a section describes: the current one for observations, the next for predictions."""
        state: Mapping[str, Any] = self.turn.state if section == "observation" else self.turn.info["state"]
        return state


class RewardTerm(Protocol):
    """A rule that pays one named part of the shaped reward; its attribute `weight`, if any, is recorded."""

    @property
    def name(self) -> str:
        """The part's name in logs, unique among the terms in use."""
        ...

    @property
    def sections(self) -> tuple[Section, ...]:
        """The sections whose scores the term reads."""
        ...

    def __call__(self, turns: Sequence[ScoredTurn]) -> list[float]:
        """Returns the reward of each turn of a batch, in order."""
        ...


@dataclass(frozen=True, kw_only=True, slots=True)
class SectionReward:
    """Pays for the score of one section.

    Attributes:
        name: The part's name in logs.
        sections: The section, alone.
        weight: Reward of a perfect text.
    """

    name: str
    sections: tuple[Section]
    weight: float = 0.5

    def __call__(self, turns: Sequence[ScoredTurn]) -> list[float]:
        """Returns weight times the score of each turn's section, in [0, weight]; 0 if there was nothing to judge."""
        (section,) = self.sections
        return [self.weight * turn.scores[section].value if section in turn.scores else 0.0 for turn in turns]


grounding_reward = functools.partial(SectionReward, name="grounding", sections=("observation",))
"""Pays for an observation that agrees with the state the policy saw; its weight is the paper's beta_g."""

worldmodeling_reward = functools.partial(SectionReward, name="worldmodeling", sections=("prediction",))
"""Pays for a prediction that agrees with the state the actions led to; its weight is the paper's beta_w."""


class RepetitionTerm:
    """Penalizes incorrect text that the policy keeps writing, with one history per world and section.

    A text is incorrect if less than 0.7 of its stated facts are true; omitted facts do not count. For a text without
    facts, or with a judge that counts none (`direct`), the score is used instead.

    A world's observations are compared only with its own observations; otherwise a rarely sampled world could never
    have a frequent text.

    Args:
        config: Shared by all histories; the paper's values by default.
    """

    name = "repetition"
    sections: tuple[Section, ...] = ("observation", "prediction")

    def __init__(self, config: RepetitionConfig | None = None) -> None:
        self._config = config or RepetitionConfig()
        self._penalties: dict[str, RepetitionPenalty] = {}

    def __call__(self, turns: Sequence[ScoredTurn]) -> list[float]:
        """Returns the sum of each turn's penalties, at most 0; remembers the batch."""
        rewards = [0.0] * len(turns)
        for key, members in self._members_by_history(turns).items():
            penalty = self._penalties.setdefault(key, RepetitionPenalty(self._config))
            texts = [text for _, text, _ in members]
            penalties = penalty.penalize(texts, [precision for _, _, precision in members])
            for (index, _, _), reward in zip(members, penalties, strict=True):
                rewards[index] += reward
        return rewards

    def _members_by_history(self, turns: Sequence[ScoredTurn]) -> dict[str, list[tuple[int, str, float]]]:
        members: dict[str, list[tuple[int, str, float]]] = {}
        for index, scored in enumerate(turns):
            for section, score in scored.scores.items():
                key = f"{scored.env_id}/{scored.turn.info['representation']}/{section}"
                members.setdefault(key, []).append((index, scored.text(section) or "", _precision(score)))
        return members

    def state_dict(self) -> dict[str, Any]:
        """Returns every history, for a checkpoint: JSON types only."""
        return {key: penalty.state_dict() for key, penalty in self._penalties.items()}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Restores histories from `state_dict`."""
        self._penalties = {key: RepetitionPenalty(self._config) for key in state}
        for key, history in state.items():
            self._penalties[key].load_state_dict(history)


def _precision(score: JudgeScore) -> float:
    return score.value if math.isnan(score.precision) else score.precision


@functools.lru_cache(maxsize=64)
def exact_judge(env_id: str, representation: Representation) -> Judge:
    """Returns the exact judge of a world and a representation; it is stateless, so one serves all turns."""
    return ExactJudge(env_id, representation)


async def shape(
    trajectories: Sequence[Trajectory],
    terms: Sequence[RewardTerm],
    judge_for: JudgeFor | Mapping[Section, JudgeFor] = exact_judge,
    judge_name: str = "exact",
) -> list[tuple[ScoredTurn, ...]]:
    """Returns the turns of a batch of episodes, with their scores and named rewards.

    Each section is judged once, and only if a term reads its score. Each judge gets all its texts in one call.

    Args:
        trajectories: The episodes.
        terms: The parts of the shaped reward, with distinct names.
        judge_for: Finds the judge of an env id and a representation; or one such function per section, if observations
            and predictions have different judges, as with language models.
        judge_name: NAME in the source of their terms, `judge:NAME`.

    Raises:
        ConfigError: Two terms share a name.
    """
    names = [term.name for term in terms]
    require(
        len(set(names)) == len(names),
        f"Reward terms need distinct names, got {names}. Rename one with its `name` argument.",
    )
    turns = [
        ScoredTurn(turn=turn, env_id=trajectory.env_id) for trajectory in trajectories for turn in trajectory.turns
    ]
    asked = claims_by_judge(turns, sections_of(terms), judge_for)
    judged = await score_claims([(judge, [claim for _, _, claim in claims]) for judge, claims in asked])
    scores: list[dict[Section, JudgeScore]] = [{} for _ in turns]
    for (_, claims), column in zip(asked, judged, strict=True):
        for (index, section, _), score in zip(claims, column, strict=True):
            scores[index][section] = score
    turns = [replace(turn, scores=own) for turn, own in zip(turns, scores, strict=True)]
    columns = [term(turns) for term in terms]
    rewarded = iter(
        replace(turn, judge_terms=_paid(terms, rewards if turn.available else [0.0] * len(terms), judge_name))
        for turn, *rewards in zip(turns, *columns, strict=True)
    )
    return [tuple(next(rewarded) for _ in trajectory.turns) for trajectory in trajectories]


def _paid(terms: Sequence[RewardTerm], values: Sequence[float], judge_name: str) -> tuple[PaidTerm, ...]:
    return tuple(
        PaidTerm(name=term.name, value=float(value), source=f"judge:{judge_name}", weight=getattr(term, "weight", 1.0))
        for term, value in zip(terms, values, strict=True)
    )


def sections_of(terms: Sequence[RewardTerm]) -> list[Section]:
    """Returns the sections whose scores the terms read, sorted."""
    return sorted({section for term in terms for section in term.sections})


def claims_by_judge(
    turns: Sequence[ScoredTurn], sections: Sequence[Section], judge_for: JudgeFor | Mapping[Section, JudgeFor]
) -> list[tuple[Judge, list[tuple[int, Section, TextAndState]]]]:
    """Returns each judge with its claims, each as the turn's index, the section, and the text with its state."""
    asked: dict[int, tuple[Judge, list[tuple[int, Section, TextAndState]]]] = {}
    for index, turn in enumerate(turns):
        for section in sections:
            text = turn.text(section)
            if text is not None:
                find = judge_for[section] if isinstance(judge_for, Mapping) else judge_for
                judge = find(turn.env_id, turn.turn.info["representation"])
                _, claims = asked.setdefault(id(judge), (judge, []))
                claims.append((index, section, (text, turn.truth(section))))
    return list(asked.values())


def score_thoughts(turn: Turn) -> float | None:
    """Returns how accurately a turn's thoughts describe the observation, in [0, 1].

    The score is the F1 of the facts, which are separated by commas and must match the world's own text word for word:
    `"5 ahead, 2 left"` has two. Strategies with a section `observation` have judges, which also read free wording.

    Returns:
        The mean over sections, 0 if the format was wrong; None if the strategy has no such thoughts.
    """
    true = {name: text for name, text in turn.seen_sections.items() if name != SEEN}
    if not true:
        return None
    if not turn.info.get("format_correct"):
        return 0.0
    said = turn.info.get("sections") or {}
    return sum(_facts_right(said.get(name, ""), text) for name, text in true.items()) / len(true)


def _facts_right(said: str, true: str) -> float:
    claimed, facts = _facts(said), _facts(true)
    return Tally(num_correct=len(claimed & facts), num_claimed=len(claimed), num_true=len(facts)).f1


def _facts(text: str) -> set[str]:
    return {fact for part in text.split(",") if (fact := " ".join(part.lower().split()))}
