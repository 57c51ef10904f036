"""The rewards of ARM-Thinker, an agent that judges with tools, and its filter of trajectories.

Whether a tool was called, and whether the call worked, is what the environment recorded. It is never searched for
in a transcript: a model that writes `<tool_response>` itself has called nothing.

Source: ARM-Thinker, section 3.3.2, equations 4 and 5; section 3.2 for the filters. The paper prints no weights.
Choices: 0.3 format, 0.1 attempt, 0.7 accuracy, 0.5 success; a wrong format earns nothing at all; a wrong answer without
a call, a case that equation 5 leaves out, earns the format reward. An episode that ends without an answer is not in the
format, in either stage: the authors' released code reads R_format off the last response, a thought and an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from judges.episode_rewards.episode import final_state, formats_correct, key_of
from judges.episode_rewards.models import JudgeModels
from judges.episode_rewards.reward import EachByItself, EpisodeJudge, EpisodeReward
from judges.reading.answers import AnswerJudge, match_answer
from judges.scores import JudgeScore, Reward
from vlm_envs.errors import ConfigError, require_flag
from vlm_envs.responses.answers import normalise
from vlm_envs.tools.registry import CallRecord
from vlm_envs.trajectory import Trajectory

RejectionReason = Literal["unavailable", "format", "accuracy", "behaviour"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmWeights:
    """Weights of the terms; all our choices.

    Attributes:
        format: R_format, for every turn in the think-act-observe format.
        attempt: R_try, for at least one call.
        accuracy: R_acc, for a right final answer.
        success: R_succ, for a right final answer after a call that worked.
    """

    format: float = 0.3
    attempt: float = 0.1
    accuracy: float = 0.7
    success: float = 0.5


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmOutcome:
    """What an episode came to.

    Attributes:
        format_correct: Whether every response had the asked format, and the last one answered; full stops,
            quotation marks and invisible characters alone are no answer.
        answer: The final answer's score, in [0, 1].
        calls: The environment's records, in order; calls to unknown tools or with broken arguments are no records
            of success, and whether they are records at all is the environment's to say.
    """

    format_correct: bool
    answer: JudgeScore
    calls: tuple[CallRecord, ...] = ()

    def __post_init__(self) -> None:
        """Refuses scores outside the range."""
        if self.answer.available and not 0.0 <= self.answer.value <= 1.0:
            raise ConfigError(f"answer must be a score in [0, 1] or unavailable; got {self.answer.value!r}.")

    @property
    def num_calls(self) -> int:
        """Calls made."""
        return len(self.calls)

    @property
    def num_successful_calls(self) -> int:
        """Calls that gave a result."""
        return sum(call.succeeded for call in self.calls)

    @property
    def is_right(self) -> bool:
        """Whether the final answer is right, at least in part; one that is unavailable is not."""
        return self.answer.available and self.answer.value > 0.0


def exploration_reward(outcome: ArmOutcome, weights: ArmWeights | None = None) -> Reward:
    """Returns the reward of stage 1: R_format + R_try [calls > 0]; the answer does not matter.

    Its terms are `format` and `attempt`; both are 0 when the format is wrong.

    Source: ARM-Thinker, equation 4. Choice: nothing is paid when the format is wrong.
    """
    raw = {"format": 1.0, "attempt": float(outcome.num_calls > 0)}
    return _weighted(outcome, raw, weights)


def accuracy_reward(outcome: ArmOutcome, weights: ArmWeights | None = None) -> Reward:
    """Returns the reward of stage 2: of a right answer, more after a call that worked; of a wrong one, the attempt's.

    Wrong: R_format + R_try [calls > 0]. Right: R_format + R_acc, + R_succ when a call succeeded. A partly right answer
    earns that part of R_acc. Unavailable when the answer's judge was and the format is right.

    Source: ARM-Thinker, equation 5. Choices: see the module.
    """
    if outcome.format_correct and not outcome.answer.available:
        return Reward.unavailable(outcome.answer.reason)
    right = outcome.is_right
    raw = {
        "format": 1.0,
        "attempt": float(not right and outcome.num_calls > 0),
        "accuracy": outcome.answer.value if right else 0.0,
        "success": float(right and outcome.num_successful_calls > 0),
    }
    return _weighted(outcome, raw, weights)


def rejection_reason(outcome: ArmOutcome, *, needs_tools: bool = True) -> RejectionReason | None:
    """Returns why an expert's trajectory is not to be trained on; None when it is.

    Args:
        outcome: Of the trajectory.
        needs_tools: Whether it must hold a call that worked. False for data that come without tools.

    Source: ARM-Thinker, section 3.2: format, accuracy, behaviour. Choice: accuracy means a full score.
    """
    if not outcome.format_correct:
        return "format"
    if not outcome.answer.available:
        return "unavailable"
    if outcome.answer.value < 1.0:
        return "accuracy"
    return "behaviour" if needs_tools and outcome.num_successful_calls == 0 else None


def _weighted(outcome: ArmOutcome, raw: dict[str, float], weights: ArmWeights | None) -> Reward:
    weights = weights or ArmWeights()
    if not outcome.format_correct:
        return Reward(terms=dict.fromkeys(raw, 0.0), raw=dict.fromkeys(raw, 0.0), reason="wrong format")
    reason = f"{outcome.num_successful_calls} of {outcome.num_calls} calls worked"
    return Reward(terms={name: getattr(weights, name) * value for name, value in raw.items()}, raw=raw, reason=reason)


def arm_outcome(episode: Trajectory, answer_judge: AnswerJudge | None = None) -> ArmOutcome:
    """Returns what an episode of strategy `arm` came to, from the world's own records."""
    state = final_state(episode)
    return ArmOutcome(
        # Looking for ever is not the format: the last response of a think-act-observe chain is the answer, and one of
        # a full stop or of characters that nobody sees is none, as for `match_answer`.
        format_correct=all(formats_correct(episode)) and bool(normalise(state["answer"] or "")),
        answer=match_answer(state["answer"], key_of(episode), answer_judge),
        calls=tuple(CallRecord(**call) for call in state["calls"]),
    )


def _arm(name: str, reward_of: Callable[[ArmOutcome], Reward], *, needs_tools: bool = True) -> EpisodeReward:
    require_flag("needs_tools", needs_tools)

    def build(models: JudgeModels) -> EpisodeJudge:
        answers = models.deferred_answers()
        return EachByItself(lambda e: reward_of(arm_outcome(e, answers)), [answers] if answers else [])

    return EpisodeReward(
        name=name,
        build=build,
        strategies=("arm",),
        models=frozenset({"answer_judge"}),
        needs=frozenset({"answer_judge"}),
        overlapping_rewards=frozenset(
            {"format_reward"} if reward_of is exploration_reward else {"answer_reward", "format_reward"}
        ),
        rejection_reason=lambda trajectory: rejection_reason(arm_outcome(trajectory), needs_tools=needs_tools),
        configure=lambda *, needs_tools=needs_tools: _arm(name, reward_of, needs_tools=needs_tools),
    )


ARM_EXPLORATION, ARM_ACCURACY = _arm("arm_exploration", exploration_reward), _arm("arm_accuracy", accuracy_reward)
"""The two stages. Exploration pays form and attempts, no answer. With `needs_tools=False` a rollout without a call that
worked may be imitated, too."""
