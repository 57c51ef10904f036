"""Binds the models that Argos verifies with to each episode's pictures."""

from __future__ import annotations

from typing import Any

from agents.perception.likelihood import HFLikelihood, LikelihoodQuery
from judges.episode_rewards.argos import exact_masks
from judges.episode_rewards.episode import shown_images
from judges.episode_rewards.models import Likelihoods, MaskModel, Masks
from training.config.judges import VerifierConfig
from vlm_envs.trajectory import Trajectory


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
    """Returns exact masks where there are any, else what the models see; of several pictures nothing.

    A point in percents does not say which of several pictures it is in.
    """
    from agents.perception.masks import GroundingDinoSam  # Two more architectures, which hardly any run needs.

    masker = GroundingDinoSam.from_pretrained(detector, segmenter, device=device)

    def masks(episode: Trajectory) -> MaskModel | None:
        exact, images = exact_masks(episode), shown_images(episode)
        if exact is not None or len(images) != 1:
            return exact
        return lambda label, frame, time_s: masker.mask(images[0], label)

    return masks
