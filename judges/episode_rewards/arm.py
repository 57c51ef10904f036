"""The rewards of ARM-Thinker, an agent that judges with tools, and its filter of trajectories.

Whether a tool was called, and whether the call worked, is what the environment recorded. It is never searched for
in a transcript: a model that writes `<tool_response>` itself has called nothing.

The reward `agentic` is the verdict of ARM-Thinker's judge on the last response of an episode of any world.

Source: ARM-Thinker, section 3.3.2, equations 4 and 5; section 3.2 for the filters; section 5.5 for the two rewards that
it is compared with. The paper prints no weights.
Choices: 0.3 format, 0.1 attempt, 0.7 accuracy, 0.5 success; a wrong format earns nothing at all; a wrong answer without
a call, a case that equation 5 leaves out, earns the format reward. An episode that ends without an answer is not in the
format, in either stage: the authors' released code reads R_format off the last response, a thought and an answer.
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
    """What all rewards of ARM-Thinker's trajectories have in common. The paper prints no weight.

    Attributes:
        format_weight: R_f, for an episode whose every response is in the think-act-observe format. Source: ARM-Thinker,
            equations 4 and 5; our choice.
        needs_format: Whether a wrong format earns nothing at all; else it only earns no R_f, as the paper's equations
            may be read. Source: our choice.
        needs_tools: Whether a trajectory to imitate must hold a call that worked; for curation. Source: ARM-Thinker,
            section 3.2, behaviour.
    """

    format_weight: float = 0.3
    needs_format: bool = True
    needs_tools: bool = True

    def __post_init__(self) -> None:
        """Refuses weights that make a fault worth something."""
        super().__post_init__()
        require_at_least(self, 0, *(each.name for each in fields(self) if each.name.endswith("_weight")))


@dataclass(frozen=True, kw_only=True)
class ArmExplorationSettings(ArmSettings):
    """The constants of stage 1.

    Attributes:
        attempt_weight: R_try, for calls, whether they work or not. Source: ARM-Thinker, equation 4; our choice.
        min_calls: Calls that earn it. Source: ARM-Thinker, equation 4, more than 0.
    """

    attempt_weight: float = 0.1
    min_calls: int = 1

    def __post_init__(self) -> None:
        """Refuses no calls as an attempt."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls")


@dataclass(frozen=True, kw_only=True)
class ArmOutcomeSettings(ArmSettings):
    """The constants of a reward by accuracy and format: the ablation's first rival, and what the others add to.

    Attributes:
        accuracy_weight: R_acc, for a right final answer; of a partly right one that part. Source: ARM-Thinker,
            equation 5; our choice.
        right_above: An answer counts as right if its score is above this. Source: ARM-Thinker, equation 5, R_acc > 0.
    """

    accuracy_weight: float = 0.7
    right_above: float = 0.0

    def __post_init__(self) -> None:
        """Refuses a bound that no answer passes."""
        super().__post_init__()
        require_between(self, 0, 1, "right_above", includes=(True, False))


@dataclass(frozen=True, kw_only=True)
class ArmAccuracySettings(ArmOutcomeSettings):
    """The constants of stage 2.

    Attributes:
        attempt_weight: R_try, for calls before a wrong answer. Source: ARM-Thinker, equation 5; our choice.
        min_calls: Calls that earn it. Source: ARM-Thinker, equation 5, more than 0.
        success_weight: R_succ, for a right answer after calls that worked. Source: ARM-Thinker, equation 5; our choice.
        min_successful_calls: Calls that worked which earn it. Source: ARM-Thinker, equation 5, more than 0.
    """

    attempt_weight: float = 0.1
    min_calls: int = 1
    success_weight: float = 0.5
    min_successful_calls: int = 1

    def __post_init__(self) -> None:
        """Refuses no calls as an attempt or a success."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls", "min_successful_calls")


@dataclass(frozen=True, kw_only=True)
class ArmFixedBonusSettings(ArmOutcomeSettings):
    """The constants of the ablation's second rival.

    Attributes:
        bonus_weight: For calls, whatever they give and whatever the answer is; as much as R_succ, so that both rewards
            pay the same at most. Source: ARM-Thinker, section 5.5, "Fixed Tool Reward"; our choice.
        min_calls: Calls that earn it. Source: ARM-Thinker, section 5.5; our choice, as in equation 5.
    """

    bonus_weight: float = 0.5
    min_calls: int = 1

    def __post_init__(self) -> None:
        """Refuses a bonus for no call."""
        super().__post_init__()
        require_at_least(self, 1, "min_calls")


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

    @property
    def num_successful_calls(self) -> int:
        """Calls that gave a result."""
        return sum(call.succeeded for call in self.calls)

    def accuracy(self, settings: ArmOutcomeSettings) -> float:
        """Returns the final answer's score; 0 where it does not count as right."""
        return self.answer.value if self.answer.available and self.answer.value > settings.right_above else 0.0


def exploration_reward(outcome: ArmOutcome, settings: ArmExplorationSettings | None = None) -> Reward:
    """Returns the reward of stage 1: R_format + R_try [calls > 0]; the answer does not matter.

    Its terms are `format` and `attempt`; both are 0 when the format is wrong.

    Source: ARM-Thinker, equation 4. Choice: nothing is paid when the format is wrong.
    """
    settings = settings or ArmExplorationSettings()
    return _weighted(outcome, {"attempt": len(outcome.calls) >= settings.min_calls}, settings)


def accuracy_reward(outcome: ArmOutcome, settings: ArmAccuracySettings | None = None) -> Reward:
    """Returns the reward of stage 2: of a right answer, more after a call that worked; of a wrong one, the attempt's.

    Wrong: R_format + R_try [calls > 0]. Right: R_format + R_acc, + R_succ when a call succeeded. A partly right answer
    earns that part of R_acc. Unavailable when the answer's judge was and the format is right.

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
    """Returns R_format + R_acc: tools are worth nothing by themselves.

    Unavailable as `accuracy_reward` is.

    Source: ARM-Thinker, section 5.5 and figure 4, "Only Acc & Fmt Reward".
    """
    settings = settings or ArmOutcomeSettings()
    return _of_answer(outcome, {"accuracy": outcome.accuracy(settings)}, settings)


def fixed_tool_bonus_reward(outcome: ArmOutcome, settings: ArmFixedBonusSettings | None = None) -> Reward:
    """Returns R_format + R_acc + a bonus [calls > 0], whether a call worked or not and the answer is right or not.

    Unavailable as `accuracy_reward` is.

    Source: ARM-Thinker, section 5.5 and figure 4, "Fixed Tool Reward".
    """
    settings = settings or ArmFixedBonusSettings()
    bonus = len(outcome.calls) >= settings.min_calls
    return _of_answer(outcome, {"accuracy": outcome.accuracy(settings), "bonus": bonus}, settings)


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


def _of_answer(outcome: ArmOutcome, extra: dict[str, float], settings: ArmOutcomeSettings) -> Reward:
    """Returns a reward that rests on the answer: unavailable where that is, unless the format decides alone."""
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
        # Looking for ever is not the format: the last response of a think-act-observe chain is the answer, and one of
        # a full stop or of characters that nobody sees is none, as for `match_answer`.
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
            raise ConfigError("A semantic answer key needs a judge; curation settles such answers first.")
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
"""Stage 1: pays form and attempts, no answer."""

ARM_ACCURACY = _arm("arm_accuracy", accuracy_reward, ArmAccuracySettings())
"""Stage 2. With `needs_tools=False` a rollout without a call that worked may be imitated, too."""

ARM_ACCURACY_AND_FORMAT = _arm("arm_accuracy_and_format", accuracy_and_format_reward, ArmOutcomeSettings())
ARM_FIXED_TOOL_BONUS = _arm("arm_fixed_tool_bonus", fixed_tool_bonus_reward, ArmFixedBonusSettings())
"""The two rivals of the paper's ablation, in place of stage 2."""


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
        """Returns the verdict, as the only term; unavailable where there is none."""
        # By turns, which an episode keeps when it is given another world's name
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
