"""The Argos verifier: accuracy gates the reward, grounding and reasoning refine it.

    response ── read ──> points, moments, segments, reasoning, answer
    answer ── key ──> R_acc;  below τ that is the reward
    points ── mask model ──> spatial;  moments, segments ── description model ──> video
    reasoning ── likelihood model ──> P(answer | question, reasoning, image)

Models are callables bound to the sample's image or video. They may use exact masks of generated scenes or a detector
with a segmenter.

Source: Argos, section 3.1, equations 1-9. Choices and deviations:

- Equation 9 has w_S above the fraction bar and w_G below; both are read as the single weight of grounding.
- A term without a value is left out and the weights of the others are renormalized. By that rule a response without
  points earns no less than one with only right points; `ArgosSettings.require_points` scores it 0 instead. The same
  holds for a response with only labels that the model cannot judge.
- Equation 2 writes M(x, y); here the mask is indexed row first, [y, x], at the pixel that contains the point.
- P(ŷ | q, r, v) is normalized by length: the geometric mean over the answer's tokens. Equation 5 is the product,
  which rewards a long right answer less than a short one.
- The paper averages two kinds of video score, frames and segments; its prompts extract three. Here the mean is over
  points in frames, moments, and segments, as far as they have a value.
- If points are required in a video and the mask model cannot judge any of them, as when they name no frame, they
  count as misses. Otherwise omitting the frame would pay.
- The image's mask model signals "no such object" with an empty mask, which scores 0. None means that it cannot judge.
"""

from __future__ import annotations

import asyncio
import functools
import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import partial
from statistics import fmean
from typing import cast

from agents.api.failures import Unavailable
from judges.asking import BatchedModel, resolved
from judges.episode_rewards.episode_reading import final_state, key_of, own_pieces, point_extent
from judges.episode_rewards.episode_reward import EachByItself, EpisodeJudge, EpisodeReward, RewardOf, RewardSettings
from judges.episode_rewards.exact_models import exact_descriptions, exact_masks, is_generated, seen_masks
from judges.episode_rewards.judge_models import (
    ArgosModels,
    AskedMaskModel,
    DescriptionModel,
    JudgeModels,
    Mask,
    MaskModel,
    Model,
)
from judges.grading import AnswerJudge, match_answer, question_with_options
from judges.grounding import GroundedResponse, Moment, Segment, WrittenPoint, read_response
from judges.scores import Reward
from vlm_envs.responses.answers import RELATIVE_TOLERANCE, AnswerKey
from vlm_envs.trajectory import Trajectory
from vlm_envs.validation import require_above, require_at_least, require_between

Extent = tuple[float, float]
"""Width and height of an image in the units of its points, such as (100, 100)."""


@dataclass(frozen=True, kw_only=True)
class ArgosSettings(RewardSettings):
    """The gate and the weights. A weight of 0 removes its term from the mean, and its models are not asked.

    Attributes:
        threshold: τ: accuracy below it is the whole reward. Source: Argos, equation 9; our choice, none is printed.
        accuracy_weight: w_A. Source: Argos, equation 9; our choice, none is printed.
        grounding_weight: w_S, w_G; 0 for the ablation without visual grounding. Source: Argos, equation 9 and tables 6
            to 8; our choice, none is printed.
        reasoning_weight: w_R; 0 for the ablation without reasoning quality, both 0 for outcome only. Source: Argos,
            equation 9 and tables 6 to 8; our choice, none is printed.
        relative_tolerance: The largest relative error of a right number. The world's own score uses the paper's value.
            Source: Argos, equation 8.
        require_points: Whether a response that points at nothing, or only at things that the mask model cannot judge,
            scores 0 for grounding; applies only with a mask model. Source: our choice.
    """

    threshold: float = 0.5
    accuracy_weight: float = 1.0
    grounding_weight: float = 1.0
    reasoning_weight: float = 1.0
    relative_tolerance: float = RELATIVE_TOLERANCE
    require_points: bool = True

    def __post_init__(self) -> None:
        """Raises `ConfigError` for weights that have no mean."""
        super().__post_init__()
        require_between(self, 0, 1, "threshold")
        require_above(self, 0, "accuracy_weight")
        require_at_least(self, 0, "grounding_weight", "reasoning_weight", "relative_tolerance")


LENIENT = ArgosSettings(require_points=False)
"""Settings for samples that may have nothing to point at: points are not required."""


def point_score(point: WrittenPoint, mask: Mask, extent: Extent | None = None) -> float:
    """Returns the score mask[y, x]: 1 for a point on the mask, 0 for one off the mask, off the image, or unreadable.

    Args:
        point: In some coordinate space of the mask's image.
        mask: bool[height, width].
        extent: Extent of that space; None for the mask's pixels.

    Source: Argos, equation 2. Choice: a point with decimals belongs to the pixel that contains it.
    """
    height, width = mask.shape
    across, down = extent or (width, height)
    x, y = point.x * width / across, point.y * height / down
    if not (0.0 <= x < width and 0.0 <= y < height):
        return 0.0
    return float(mask[int(y), int(x)])


def spatial_score(points: Iterable[WrittenPoint], mask_model: MaskModel, extent: Extent | None = None) -> float | None:
    """Returns R_spatial: the mean score of the points that the mask model can judge; None without any.

    Args:
        points: From the model's response.
        mask_model: Asked once per label and moment.
        extent: Extent of the points' coordinate space; None for the masks' pixels.

    Source: Argos, equation 3. Choice: points that it cannot judge are left out.
    """
    look = functools.cache(mask_model)
    masks = [(point, look(point.label, point.frame, point.time_s)) for point in points]
    return _mean(point_score(point, mask, extent) for point, mask in masks if mask is not None)


def description_score(anchors: Iterable[Moment | Segment], is_true: DescriptionModel) -> float | None:
    """Returns the share of true descriptions among those that the model can judge; None without any.

    Source: Argos, equation 4.
    """
    return _mean(is_true(anchor) for anchor in anchors)


def video_score(
    response: GroundedResponse,
    mask: MaskModel | None,
    description: DescriptionModel,
    extent: Extent | None = None,
    *,
    require_points: bool = False,
) -> float | None:
    """Returns the unweighted mean of the categories' means: points in frames, moments, segments; None without any.

    Args:
        response: The parsed response.
        mask: Mask model for points; None leaves them out.
        description: Description model for moments and segments.
        extent: Extent of the points' coordinate space; None for the masks' pixels.
        require_points: Whether the points count as misses if the mask model cannot judge any of them, as when they name
            no frame.

    Source: Argos, section 3.1, temporal rewards.
    """
    points = spatial_score(response.points, mask, extent) if mask is not None else None
    categories = (
        0.0 if points is None and require_points and mask is not None else points,
        description_score(response.moments, description),
        description_score(response.segments, description),
    )
    return _mean(categories)


def reasoning_quality(log_probs: Sequence[float]) -> float | None:
    """Returns R_reasoning: exp of the mean log-probability of the answer's tokens, in [0, 1].

    Args:
        log_probs: Natural logarithms, at most 0; minus infinity is a probability of 0.

    Returns:
        The geometric mean of the probabilities; None without tokens or if a value is not a log-probability.

    Source: Argos, equation 5. Choice: normalized by length.
    """
    # In half precision, sums over a vocabulary can slightly exceed 1.
    if not log_probs or any(math.isnan(value) or value > 1e-2 for value in log_probs):
        return None
    return math.exp(min(0.0, sum(log_probs) / len(log_probs)))


def gated_mean(
    accuracy: float, grounding: float | None, reasoning: float | None, settings: ArgosSettings | None = None
) -> Reward:
    """Returns R_acc if R_acc < τ, else the weighted mean of accuracy, grounding, and reasoning.

    Args:
        accuracy: In [0, 1].
        grounding: In [0, 1]; None leaves the term out.
        reasoning: In [0, 1]; None leaves the term out.
        settings: Threshold and weights.

    Returns:
        The terms `accuracy`, `grounding`, and `reasoning`, each with its share of the mean.

    Source: Argos, equation 9.
    """
    settings = settings or LENIENT
    if accuracy < settings.threshold:
        return Reward(terms={"accuracy": accuracy}, raw={"accuracy": accuracy}, reason="accuracy below the gate")
    values = {"accuracy": accuracy, "grounding": grounding, "reasoning": reasoning}
    weights = {name: getattr(settings, f"{name}_weight") for name in values}
    raw = {name: value for name, value in values.items() if value is not None and weights[name]}
    total = math.fsum(weights[name] for name in raw)
    return Reward(terms={name: weights[name] * value / total for name, value in raw.items()}, raw=raw)


async def argos_reward(
    text: str,
    key: AnswerKey,
    models: ArgosModels,
    settings: ArgosSettings = LENIENT,
    *,
    extent: Extent | None = None,
) -> Reward:
    """Returns the gated reward of one response.

    Args:
        text: The model's own text.
        key: The true answer and the question.
        models: The sample's models. With a description model the sample is a video. If the accuracy is below the gate,
            only the answer judge is asked.
        settings: Gate and weights; by default points are not required.
        extent: Extent of the points' coordinate space; None for pixels of the mask's image.

    Returns:
        The gated reward; unavailable if the answer judge, the likelihood model, or the mask model was.

    Source: Argos, section 3.1.
    """
    response = read_response(text)
    accuracy = await match_answer(response.answer, key, models.answer, relative_tolerance=settings.relative_tolerance)
    if not accuracy.available:
        return Reward.unavailable(accuracy.reason)
    if accuracy.value < settings.threshold:
        return gated_mean(accuracy.value, None, None, settings)
    reasoning = None
    if models.likelihood is not None and settings.reasoning_weight:
        log_probs = await resolved(
            models.likelihood(question_with_options(key), response.reasoning, response.answer or "")
        )
        reasoning = None if log_probs is None else reasoning_quality(log_probs)
        if reasoning is None:
            return Reward.unavailable("the likelihood model gave no log-probabilities")
    mask = None if models.mask is None or not settings.grounding_weight else await _asked(response.points, models.mask)
    if isinstance(mask, Unavailable):
        return Reward.unavailable(mask.reason)
    grounding = _grounding(response, mask, models.description, settings, extent)
    return gated_mean(accuracy.value, grounding, reasoning, settings)


async def _asked(points: Iterable[WrittenPoint], model: AskedMaskModel) -> MaskModel | Unavailable:
    """Asks a mask model about all points concurrently and returns its answers as a synchronous mask model."""
    asked = list(dict.fromkeys((point.label, point.frame, point.time_s) for point in points))
    answers = await asyncio.gather(*(resolved(model(*question)) for question in asked))
    masks = dict(zip(asked, answers, strict=True))
    lacking = next((answer for answer in masks.values() if isinstance(answer, Unavailable)), None)
    return lacking or cast("MaskModel", lambda *question: masks[question])


def _grounding(
    response: GroundedResponse,
    mask: MaskModel | None,
    description: DescriptionModel | None,
    settings: ArgosSettings,
    extent: Extent | None,
) -> float | None:
    if not settings.grounding_weight or (mask is None and description is None):
        return None
    require_points = settings.require_points and mask is not None
    if require_points and not response.points:
        return 0.0
    if description is not None:
        score = video_score(response, mask, description, extent, require_points=settings.require_points)
    else:
        score = spatial_score(response.points, mask, extent) if mask is not None else None
    # A label that the model does not know must not earn more than one that it knows.
    return 0.0 if score is None and require_points else score


def _mean(scores: Iterable[float | None]) -> float | None:
    """Returns the mean of the scores that are not None; None without any."""
    present = [score for score in scores if score is not None]
    return math.fsum(present) / len(present) if present else None


class ArgosJudge(EachByItself):
    """The verifier, which also measures how well the last episodes were grounded, even if grounding earns nothing.

    The metric covers generated images and clips with something to point at, for which it is exact. It makes runs with
    and without the grounding term comparable and reveals rewards earned without looking.

    Args:
        reward_of: The reward of one episode.
        answer_judge: The judge to ask while other episodes are played; None without one.
    """

    _measured: Sequence[tuple[float, bool]] = ()

    def __init__(self, reward_of: RewardOf, answer_judge: AnswerJudge | None) -> None:
        super().__init__(reward_of, is_asked_ahead=answer_judge is not None)
        self._answer_judge = answer_judge

    async def __call__(self, episodes: Sequence[Trajectory]) -> list[Reward]:
        """Returns the reward of each episode, in order."""
        rewards = await super().__call__(episodes)
        generated = [episode for episode in episodes if is_generated(episode) and final_state(episode)["evidence"]]
        self._measured = [(exact_grounding(episode), episode.success) for episode in generated]
        return rewards

    async def ask_ahead(self, episode: Trajectory) -> None:
        """Asks about the answer only; the other models answer in batches."""
        if self._answer_judge is not None:
            answer = read_response(own_pieces(episode)[-1]).answer
            await match_answer(answer, key_of(episode), self._answer_judge)

    def metrics(self) -> dict[str, float]:
        """Returns the last episodes' mean grounding and the share that is right with grounding below 0.5."""
        if not self._measured:
            return {}
        return {
            "argos/grounding": fmean(score for score, _ in self._measured),
            "argos/ungrounded_right": fmean(is_right and score < 0.5 for score, is_right in self._measured),
        }


def exact_grounding(episode: Trajectory) -> float:
    """Returns how well an episode with a generated image or clip is grounded, in [0, 1]; 0 without points."""
    mask, description = exact_masks(episode), exact_descriptions(episode)
    response = read_response(own_pieces(episode)[-1])
    return _grounding(response, mask, description, ArgosSettings(), point_extent(episode)) or 0.0


def argos_judge(models: JudgeModels, settings: ArgosSettings | None = None) -> EpisodeJudge:
    """Returns the verifier of episodes of strategy `points`.

    Args:
        models: Models for masks, likelihoods, and answers.
        settings: Gate and weights.
    """
    settings = settings or ArgosSettings()
    likelihoods = None
    if models.likelihoods is not None and settings.reasoning_weight:
        likelihoods = BatchedModel(models.likelihoods)
    masks: Callable[[Trajectory], AskedMaskModel | None] = models.masks or exact_masks
    if models.masks is None and models.picture_masks is not None and settings.grounding_weight:
        masks = partial(seen_masks, BatchedModel(models.picture_masks))

    async def reward_of(episode: Trajectory) -> Reward:
        # Only a generated image is certain to hold nothing to point at. Elsewhere the boxes are just not annotated; if
        # points were optional there, a response without any would earn more than one with half of them right.
        is_empty = is_generated(episode) and not final_state(episode)["evidence"]
        return await argos_reward(
            own_pieces(episode)[-1],
            key_of(episode),
            ArgosModels(
                mask=masks(episode),
                description=exact_descriptions(episode),
                likelihood=None if likelihoods is None else partial(likelihoods, episode),
                answer=models.answer_judge,
            ),
            replace(settings, require_points=False) if is_empty else settings,
            extent=point_extent(episode),
        )

    return ArgosJudge(reward_of, models.answer_judge)


def _argos(settings: ArgosSettings) -> EpisodeReward:
    asked: dict[Model, float] = {"masks": settings.grounding_weight, "likelihoods": settings.reasoning_weight}
    return EpisodeReward(
        name="argos",
        build=lambda models: argos_judge(models, settings),
        strategies=("points",),
        models=frozenset({"answer_judge", *(model for model, weight in asked.items() if weight)}),
        needs=frozenset({"answer_judge"}),
        overlapping_rewards=frozenset({"answer_reward"}),
        settings=settings,
        configure=_argos,
    )


ARGOS = _argos(ArgosSettings())
"""The reward has no term for the format."""
