"""The rewards of ARM-Thinker, an agent that judges with tools, and its two data filters.

Whether a tool was called, and whether the call worked, is what the environment recorded. It is never searched for
in a transcript: a model that writes `<tool_response>` itself has called nothing.

Source: ARM-Thinker, section 3.3.2, equations 4 and 5; section 3.2 for the filters. The paper prints no weights.
Choices: 0.3 format, 0.1 attempt, 0.7 accuracy, 0.5 success; a wrong format earns nothing at all; a wrong answer without
a call, a case that equation 5 leaves out, earns the format reward. An episode that ends without an answer is not in the
format, in either stage: the authors' released code reads R_format off the last response, a thought and an answer.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Generic, Literal, TypeVar

from judges.scores import JudgeScore, Reward
from vlm_envs.errors import ConfigError, require_positive
from vlm_envs.tools.registry import CallRecord

NUM_DIFFICULTY_SAMPLES = 5
"""Answers of the base model that decide whether a sample is trivial; section 3.2."""

SampleT = TypeVar("SampleT")
Fault = Literal["unavailable", "format", "accuracy", "behaviour"]


@dataclass(frozen=True, kw_only=True, slots=True)
class ArmWeights:
    """Weights of the terms; all pins.

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
        format_correct: whether every response had the asked format, and the last one answered; full stops,
            quotation marks and invisible characters alone are no answer.
        answer: the final answer's score, in [0, 1].
        calls: the environment's records, in order; calls to unknown tools or with broken arguments are no records
            of success, and whether they are records at all is the environment's to say.
    """

    format_correct: bool
    answer: JudgeScore
    calls: tuple[CallRecord, ...] = ()

    def __post_init__(self) -> None:
        """Refuse scores outside the range."""
        if self.answer.available and not 0.0 <= self.answer.f1 <= 1.0:
            raise ConfigError(f"answer must be a score in [0, 1] or unavailable; got {self.answer.f1!r}.")

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
        return self.answer.available and self.answer.f1 > 0.0


def exploration_reward(outcome: ArmOutcome, weights: ArmWeights | None = None) -> Reward:
    """Stage 1: R_format + R_try [calls > 0]; the answer does not matter.

    Args:
        outcome: of the episode.
        weights: of the terms.

    Returns:
        The terms `format` and `attempt`; both 0 when the format is wrong.

    Source: ARM-Thinker, equation 4. Choice: nothing is paid when the format is wrong.
    """
    weights = weights or ArmWeights()
    raw = {"format": 1.0, "attempt": float(outcome.num_calls > 0)}
    return _weighted(outcome, raw, {"format": weights.format, "attempt": weights.attempt})


def accuracy_reward(outcome: ArmOutcome, weights: ArmWeights | None = None) -> Reward:
    """Stage 2: a right answer, and more for one after a call that worked; for a wrong one the attempt.

    Args:
        outcome: of the episode.
        weights: of the terms.

    Returns:
        Wrong: R_format + R_try [calls > 0]. Right: R_format + R_acc, + R_succ when a call succeeded. A partly right
        answer earns that part of R_acc. Unavailable when the answer's judge was and the format is right.

    Source: ARM-Thinker, equation 5. Choices: see the module.
    """
    weights = weights or ArmWeights()
    if outcome.format_correct and not outcome.answer.available:
        return Reward.unavailable(outcome.answer.reason)
    right = outcome.is_right
    raw = {
        "format": 1.0,
        "attempt": float(not right and outcome.num_calls > 0),
        "accuracy": outcome.answer.f1 if right else 0.0,
        "success": float(right and outcome.num_successful_calls > 0),
    }
    return _weighted(
        outcome,
        raw,
        {
            "format": weights.format,
            "attempt": weights.attempt,
            "accuracy": weights.accuracy,
            "success": weights.success,
        },
    )


def is_trivial(num_right: int, num_samples: int = NUM_DIFFICULTY_SAMPLES) -> bool:
    """Whether the base model got a sample right every time, so that it is dropped.

    Args:
        num_right: right answers.
        num_samples: answers drawn.

    Raises:
        ConfigError: more right answers than answers, or fewer than none.

    Source: ARM-Thinker, section 3.2: 100 % of five.
    """
    require_positive("num_samples", num_samples)
    if not 0 <= num_right <= num_samples:
        raise ConfigError(f"num_right must be from 0 to {num_samples}; got {num_right}.")
    return num_right == num_samples


def drop_trivial(
    samples: Iterable[tuple[SampleT, int]], num_samples: int = NUM_DIFFICULTY_SAMPLES
) -> tuple[SampleT, ...]:
    """Keep the samples that the base model does not always get right.

    Args:
        samples: each sample with the base model's number of right answers.
        num_samples: answers drawn for each.

    Returns:
        The kept samples, in order.
    """
    return tuple(sample for sample, num_right in samples if not is_trivial(num_right, num_samples))


@dataclass(frozen=True, kw_only=True, slots=True)
class Filtered(Generic[SampleT]):
    """What a trajectory filter kept.

    Attributes:
        kept: the trajectories to train on, in order.
        dropped: how many were dropped, by their first fault.
    """

    kept: tuple[SampleT, ...]
    dropped: Mapping[Fault, int]


def first_fault(outcome: ArmOutcome, *, needs_tools: bool = True) -> Fault | None:
    """Return why a teacher's trajectory is not to be trained on; None when it is.

    Args:
        outcome: of the trajectory.
        needs_tools: whether it must hold a call that worked. False for data that come without tools.

    Source: ARM-Thinker, section 3.2: format, accuracy, behaviour. Choice: accuracy means a full score.
    """
    if not outcome.format_correct:
        return "format"
    if not outcome.answer.available:
        return "unavailable"
    if outcome.answer.f1 < 1.0:
        return "accuracy"
    return "behaviour" if needs_tools and outcome.num_successful_calls == 0 else None


def filter_trajectories(
    trajectories: Sequence[tuple[SampleT, ArmOutcome]], *, needs_tools: bool = True
) -> Filtered[SampleT]:
    """Keep a teacher's trajectories without a fault, and count the others.

    Args:
        trajectories: each with its outcome.
        needs_tools: as in `first_fault`.
    """
    faults = [first_fault(outcome, needs_tools=needs_tools) for _, outcome in trajectories]
    kept = tuple(sample for (sample, _), fault in zip(trajectories, faults, strict=True) if fault is None)
    return Filtered(kept=kept, dropped=Counter(fault for fault in faults if fault is not None))


def _weighted(outcome: ArmOutcome, raw: dict[str, float], weights: Mapping[str, float]) -> Reward:
    if not outcome.format_correct:
        return Reward(terms=dict.fromkeys(raw, 0.0), raw=dict.fromkeys(raw, 0.0), reason="wrong format")
    reason = f"{outcome.num_successful_calls} of {outcome.num_calls} calls worked"
    return Reward(terms={name: weights[name] * value for name, value in raw.items()}, raw=raw, reason=reason)
