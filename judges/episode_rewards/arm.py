"""The rewards of ARM-Thinker, an agent that judges with tools, and its trajectory filter.

Tool calls and their success come from the environment's records, never from the transcript: a model that writes
`<tool_response>` itself has called nothing.

The reward `agentic` is the verdict of ARM-Thinker's judge on the last response of an episode in any world.

Source: ARM-Thinker, section 3.3.2, equations 4 and 5; section 3.2 for the filters; section 5.5 for the two rewards that
it is compared with. The paper prints no weights.
Choices: 0.3 format, 0.1 attempt, 0.7 accuracy, 0.5 success; a wrong format earns nothing at all; a wrong answer without
a call, a case that equation 5 omits, earns the format reward. An episode that ends without an answer has a wrong format
in both stages: the authors' released code reads R_format from the last response, a thought and an answer.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, fields
from typing import Any, Literal

from judges.episode_rewards.episode_reading import final_state, formats_correct, key_of, own_pieces, shown_images
from judges.episode_rewards.episode_reward import EachByItself, EpisodeJudge, EpisodeReward, RewardSettings
from judges.episode_rewards.judge_models import JudgeModels
from judges.grading import AnswerJudge, match_answer, match_by_rule
from judges.scores import JudgeScore, Reward
from vlm_envs.errors import ConfigError
from vlm_envs.qa.qa_context import CallRecord
from vlm_envs.responses.answers import read_answer
from vlm_envs.tools.pictures import Picture
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import require_at_least, require_between

RejectionReason = Literal["unavailable", "format", "accuracy", "behaviour"]


@dataclass(frozen=True, kw_only=True)
class ArmSettings(RewardSettings):
    """Settings that all ARM-Thinker rewards share. The paper prints no weight.

    Attributes:
        format_weight: R_f, for an episode with every response in the think-act-observe format. Source: ARM-Thinker,
            equations 4 and 5; our choice.
        needs_format: Whether a wrong format earns nothing at all; otherwise it loses only R_f, another reading of the
            paper's equations. Source: our choice.
        needs_tools: Whether a trajectory to imitate must contain a successful call; for curation. Source: ARM-Thinker,
            section 3.2, behavior.
    """

    format_weight: float = 0.3
    needs_format: bool = True
    needs_tools: bool = True

    def __post_init__(self) -> None:
        """Raises `ConfigError` for negative weights, which would reward faults."""
        super().__post_init__()
        require_at_least(self, 0, *(field.name for field in fields(self) if field.name.endswith("_weight")))


@dataclass(frozen=True, kw_only=True)
class ArmExplorationSettings(ArmSettings):
    """The constants of stage 1.

    Attributes:
        attempt_weight: R_try, for calls, whether they succeed or not. Source: ARM-Thinker, equation 4; our choice.
        min_calls: Number of calls that earns it. Source: ARM-Thinker, equation 4, more than 0.
    """

    attempt_weight: float = 0.1
    min_calls: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigError` if an attempt needs no calls."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls")


@dataclass(frozen=True, kw_only=True)
class ArmOutcomeSettings(ArmSettings):
    """The constants of the accuracy-and-format reward: the ablation's first baseline, which the others extend.

    Attributes:
        accuracy_weight: R_acc, for a right final answer; a partly right one earns that share. Source: ARM-Thinker,
            equation 5; our choice.
        right_above: An answer counts as right if its score is above this. Source: ARM-Thinker, equation 5, R_acc > 0.
    """

    accuracy_weight: float = 0.7
    right_above: float = 0.0

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a bound that no answer exceeds."""
        super().__post_init__()
        require_between(self, 0, 1, "right_above", includes=(True, False))


@dataclass(frozen=True, kw_only=True)
class ArmAccuracySettings(ArmOutcomeSettings):
    """The constants of stage 2.

    Attributes:
        attempt_weight: R_try, for calls before a wrong answer. Source: ARM-Thinker, equation 5; our choice.
        min_calls: Number of calls that earns it. Source: ARM-Thinker, equation 5, more than 0.
        success_weight: R_succ, for a right answer after successful calls. Source: ARM-Thinker, equation 5; our choice.
        min_successful_calls: Number of successful calls that earns it. Source: ARM-Thinker, equation 5, more than 0.
    """

    attempt_weight: float = 0.1
    min_calls: int = 1
    success_weight: float = 0.5
    min_successful_calls: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigError` if an attempt or a success needs no calls."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls", "min_successful_calls")


@dataclass(frozen=True, kw_only=True)
class ArmFixedBonusSettings(ArmOutcomeSettings):
    """The constants of the ablation's second baseline.

    Attributes:
        bonus_weight: For calls, regardless of their results and the answer; equal to R_succ, so that both rewards have
            the same maximum. Source: ARM-Thinker, section 5.5, "Fixed Tool Reward"; our choice.
        min_calls: Number of calls that earns it. Source: ARM-Thinker, section 5.5; our choice, as in equation 5.
    """

    bonus_weight: float = 0.5
    min_calls: int = 1

    def __post_init__(self) -> None:
        """Raises `ConfigError` for a bonus without calls."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls")


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmOutcome:
    """The outcome of an episode.

    Attributes:
        format_correct: Whether every response had the requested format and the last one answered; periods, quotation
            marks, and invisible characters alone are not an answer.
        answer: The final answer's score, in [0, 1].
        calls: The environment's records, in order; it decides whether to record calls to unknown tools or with invalid
            arguments, which never count as successful.
    """

    format_correct: bool
    answer: JudgeScore
    calls: tuple[CallRecord, ...] = ()

    @property
    def num_successful_calls(self) -> int:
        """Number of calls that returned a result."""
        return sum(call.succeeded for call in self.calls)

    def accuracy(self, settings: ArmOutcomeSettings) -> float:
        """Returns the final answer's score; 0 if it does not count as right."""
        return self.answer.value if self.answer.available and self.answer.value > settings.right_above else 0.0


def exploration_reward(outcome: ArmOutcome, settings: ArmExplorationSettings | None = None) -> Reward:
    """Returns the reward of stage 1: R_format + R_try [calls > 0]; the answer does not matter.

    Its terms are `format` and `attempt`; both are 0 if the format is wrong.

    Source: ARM-Thinker, equation 4. Choice: a wrong format earns nothing.
    """
    settings = settings or ArmExplorationSettings()
    return _weighted(outcome, {"attempt": len(outcome.calls) >= settings.min_calls}, settings)


def accuracy_reward(outcome: ArmOutcome, settings: ArmAccuracySettings | None = None) -> Reward:
    """Returns the reward of stage 2: accuracy and tool success for a right answer, the attempt for a wrong one.

    Wrong: R_format + R_try [calls > 0]. Right: R_format + R_acc, + R_succ if a call succeeded. A partly right answer
    earns that share of R_acc. Unavailable if the answer judge was and the format is right.

    Source: ARM-Thinker, equation 5. Choices: see the module.
    """
    settings = settings or ArmAccuracySettings()
    accuracy = outcome.accuracy(settings)
    extra = {
        "attempt": not accuracy and len(outcome.calls) >= settings.min_calls,
        "accuracy": accuracy,
        "success": accuracy and outcome.num_successful_calls >= settings.min_successful_calls,
    }
    return _of_answer(outcome, extra, settings)


def accuracy_and_format_reward(outcome: ArmOutcome, settings: ArmOutcomeSettings | None = None) -> Reward:
    """Returns R_format + R_acc: tools earn nothing by themselves.

    Unavailable in the same cases as `accuracy_reward`.

    Source: ARM-Thinker, section 5.5 and figure 4, "Only Acc & Fmt Reward".
    """
    settings = settings or ArmOutcomeSettings()
    return _of_answer(outcome, {"accuracy": outcome.accuracy(settings)}, settings)


def fixed_tool_bonus_reward(outcome: ArmOutcome, settings: ArmFixedBonusSettings | None = None) -> Reward:
    """Returns R_format + R_acc + a bonus [calls > 0], regardless of the calls' success and the answer.

    Unavailable in the same cases as `accuracy_reward`.

    Source: ARM-Thinker, section 5.5 and figure 4, "Fixed Tool Reward".
    """
    settings = settings or ArmFixedBonusSettings()
    bonus = len(outcome.calls) >= settings.min_calls
    return _of_answer(outcome, {"accuracy": outcome.accuracy(settings), "bonus": bonus}, settings)


def rejection_reason(outcome: ArmOutcome, *, needs_tools: bool = True) -> RejectionReason | None:
    """Returns why an expert's trajectory is unfit for training; None if it is fit.

    Args:
        outcome: Of the trajectory.
        needs_tools: Whether it must contain a successful call. False for data without tools.

    Source: ARM-Thinker, section 3.2: format, accuracy, behavior. Choice: accuracy means a full score.
    """
    if not outcome.format_correct:
        return "format"
    if not outcome.answer.available:
        return "unavailable"
    if outcome.answer.value < 1.0:
        return "accuracy"
    return "behaviour" if needs_tools and outcome.num_successful_calls == 0 else None


def _of_answer(outcome: ArmOutcome, extra: dict[str, float], settings: ArmOutcomeSettings) -> Reward:
    """Returns a reward that depends on the answer: unavailable if the answer is, unless the format alone decides."""
    is_decided = settings.needs_format and not outcome.format_correct
    if not outcome.answer.available and not is_decided:
        return Reward.unavailable(outcome.answer.reason)
    return _weighted(outcome, extra, settings)


def _weighted(outcome: ArmOutcome, extra: dict[str, float], settings: ArmSettings) -> Reward:
    raw = {name: float(value) for name, value in {"format": outcome.format_correct, **extra}.items()}
    if settings.needs_format and not outcome.format_correct:
        return Reward(terms=dict.fromkeys(raw, 0.0), raw=dict.fromkeys(raw, 0.0), reason="wrong format")
    reason = f"{outcome.num_successful_calls} of {len(outcome.calls)} calls worked"
    terms = {name: getattr(settings, f"{name}_weight") * value for name, value in raw.items()}
    return Reward(terms=terms, raw=raw, reason=reason)


async def arm_outcome(episode: Trajectory, answer_judge: AnswerJudge | None = None) -> ArmOutcome:
    """Returns the outcome of an episode of strategy `arm`, from the world's own records."""
    return _outcome(episode, await match_answer(final_state(episode)["answer"], key_of(episode), answer_judge))


def _outcome(episode: Trajectory, answer: JudgeScore) -> ArmOutcome:
    state = final_state(episode)
    return ArmOutcome(
        # A think-act-observe chain must end in an answer. As in `match_answer`, a period or invisible characters alone
        # are not an answer.
        format_correct=all(formats_correct(episode)) and bool(read_answer(state["answer"])),
        answer=answer,
        calls=tuple(CallRecord(**call) for call in state["calls"]),
    )


def _arm(name: str, reward_of: Callable[[ArmOutcome, Any], Reward], settings: ArmSettings) -> EpisodeReward:
    def build(models: JudgeModels) -> EpisodeJudge:
        async def reward_of_episode(episode: Trajectory) -> Reward:
            return reward_of(await arm_outcome(episode, models.answer_judge), settings)

        return EachByItself(reward_of_episode, is_asked_ahead=models.answer_judge is not None)

    def rejection_reason_of(episode: Trajectory) -> RejectionReason | None:
        answer = match_by_rule(final_state(episode)["answer"], key_of(episode))
        if answer is None:
            raise ConfigError("A semantic answer key needs a judge; curation must judge such answers first.")
        return rejection_reason(_outcome(episode, answer), needs_tools=needs_tools)

    needs_tools, has_answer = settings.needs_tools, isinstance(settings, ArmOutcomeSettings)
    return EpisodeReward(
        name=name,
        build=build,
        strategies=("arm",),
        models=frozenset({"answer_judge"}),
        needs=frozenset({"answer_judge"}),
        overlapping_rewards=frozenset({"answer_reward", "format_reward"} if has_answer else {"format_reward"}),
        rejection_reason=rejection_reason_of,
        settings=settings,
        configure=lambda settings: _arm(name, reward_of, settings),
    )


ARM_EXPLORATION = _arm("arm_exploration", exploration_reward, ArmExplorationSettings())
"""Stage 1: pays for format and attempts, not for the answer."""

ARM_ACCURACY = _arm("arm_accuracy", accuracy_reward, ArmAccuracySettings())
"""Stage 2. With `needs_tools=False`, rollouts without a successful call may be imitated, too."""

ARM_ACCURACY_AND_FORMAT = _arm("arm_accuracy_and_format", accuracy_and_format_reward, ArmOutcomeSettings())
ARM_FIXED_TOOL_BONUS = _arm("arm_fixed_tool_bonus", fixed_tool_bonus_reward, ArmFixedBonusSettings())
"""The two baselines of the paper's ablation, which replace stage 2."""


def _agentic(models: JudgeModels) -> EpisodeJudge:
    judge = models.agentic_judge
    if judge is None:
        raise ConfigError("The reward 'agentic' needs a judge with a model; got None.")

    async def verdict_on(episode: Trajectory) -> JudgeScore:
        pictures = tuple(map(Picture, shown_images(episode)))
        return await judge.score(
            episode.turns[0].observation.get("text", ""), own_pieces(episode)[-1], pictures=pictures
        )

    async def reward_of(episode: Trajectory) -> Reward:
        """Returns the verdict as the only term; unavailable without one."""
        # Keyed by the turns, which an episode keeps when it is given another env id
        verdict = await models.once(id(episode.turns), lambda: verdict_on(episode))
        if not verdict.available:
            return Reward.unavailable(verdict.reason)
        return Reward(terms={"verdict": verdict.value}, raw={"verdict": verdict.value}, reason=verdict.reason)

    return EachByItself(reward_of, is_asked_ahead=True)


AGENTIC = EpisodeReward(
    name="agentic",
    build=_agentic,
    models=frozenset({"agentic_judge"}),
    needs=frozenset({"agentic_judge"}),
    overlapping_rewards=frozenset({"answer_reward"}),
)
