"""Binds the models that Argos verifies with to each episode's pictures."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from agents.perception.likelihood import HFLikelihood, LikelihoodQuery
from judges.episode_rewards.episode import final_state, shown_images
from judges.episode_rewards.exact import exact_masks
from judges.episode_rewards.models import Likelihoods, Mask, MaskModel, Masks
from training.config.judges import VerifierConfig
from vlm_envs.trajectory import Trajectory

Picture = npt.NDArray[np.uint8]


def verifier_models(config: VerifierConfig, device: str) -> dict[str, Any]:
    """Loads the models a configuration names.

    Returns:
        The fields of `judges.episode_rewards.models.JudgeModels` that bring them in; empty without models.

    Raises:
        WeightsUnavailableError: If a model's weights are not there.
    """
    models: dict[str, Any] = {}
    if config.likelihood is not None:
        models["likelihoods"] = _likelihoods(HFLikelihood.from_pretrained(config.likelihood, device=device))
    if config.detector is not None and config.segmenter is not None:
        models["masks"] = _masks(config.detector, config.segmenter, device)
    return models


def _likelihoods(model: HFLikelihood) -> Likelihoods:
    def likelihoods(asked: list[tuple[Trajectory, str, str, str]]) -> list[list[float] | None]:
        return model.log_probs(
            [
                LikelihoodQuery(question=question, reasoning=reasoning, answer=answer, images=shown_images(episode))
                for episode, question, reasoning, answer in asked
            ]
        )

    return likelihoods


def _masks(detector: str, segmenter: str, device: str) -> Masks:
    """Returns exact masks where there are any, else what the models see in the picture or the named frame of a video.

    Of several pictures that are no frames nothing: a point in percents does not say which of them it is in.
    """
    from agents.perception.masks import GroundingDinoSam  # Two more architectures, which hardly any run needs.

    masker = GroundingDinoSam.from_pretrained(detector, segmenter, device=device)

    def masks(episode: Trajectory) -> MaskModel | None:
        exact, images = exact_masks(episode), shown_images(episode)
        if exact is not None:
            return exact
        times_s = final_state(episode).get("times_s") or ()
        if times_s and len(times_s) == len(images):
            return lambda label, frame, time_s: _in_frame(masker.mask, images, times_s, label, frame, time_s)
        return (lambda label, frame, time_s: masker.mask(images[0], label)) if len(images) == 1 else None

    return masks


def _in_frame(
    mask: Callable[[Picture, str], Mask | None],
    images: Sequence[Picture],
    times_s: Sequence[float],
    label: str,
    frame: int | None,
    time_s: float | None,
) -> Mask | None:
    """Returns what a model sees in the frame of a number, from 1, or else the one nearest to a time.

    An empty mask for a number that no frame has; None without number and time.
    """
    if frame is None and time_s is None:
        return None
    if frame is None:
        frame = 1 + min(range(len(times_s)), key=lambda index: abs(times_s[index] - float(time_s or 0.0)))
    if not 1 <= frame <= len(images):
        return np.zeros(images[0].shape[:2], np.bool_)
    return mask(images[frame - 1], label)
