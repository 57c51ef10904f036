"""Binds the models that Argos verifies with to each episode's pictures."""

from __future__ import annotations

from typing import Any

from agents.perception.likelihood import HFLikelihood, LikelihoodQuery
from judges.episode_rewards.argos import MaskTeacher
from judges.episode_rewards.episodes import LikelihoodsOf, MasksOf, exact_masks
from judges.episode_rewards.judged_episode import JudgedEpisode
from training.config.judges import VerifierConfig


def verifier_models(config: VerifierConfig, device: str) -> dict[str, Any]:
    """Loads the models a configuration names.

    Args:
        config: Their directories.
        device: Where they run.

    Returns:
        The arguments of `judges.episode_rewards.episodes.episode_judge` that bring them in; empty without models.

    Raises:
        FileNotFoundError: If the likelihood's checkpoint is not there.
        EngineUnavailableError: If the detector's or the segmenter's weights are not.
    """
    models: dict[str, Any] = {}
    if config.likelihood is not None:
        models["likelihoods"] = _likelihoods(HFLikelihood.from_pretrained(config.likelihood, device=device))
    if config.detector is not None and config.segmenter is not None:
        models["masks_of"] = _masks_of(config.detector, config.segmenter, device)
    return models


def _likelihoods(teacher: HFLikelihood) -> LikelihoodsOf:
    def likelihoods(asked: list[tuple[JudgedEpisode, str, str, str]]) -> list[list[float] | None]:
        return teacher.log_probs(
            [
                LikelihoodQuery(question=question, reasoning=reasoning, answer=answer, images=episode.images)
                for episode, question, reasoning, answer in asked
            ]
        )

    return likelihoods


def _masks_of(detector: str, segmenter: str, device: str) -> MasksOf:
    """Returns exact masks where there are any, else what the models see; of several pictures nothing.

    A point in percents does not say which of several pictures it is in.
    """
    from agents.perception.detection import GroundingDinoSam  # Two more architectures, which hardly any run needs.

    teacher = GroundingDinoSam.from_pretrained(detector, segmenter, device=device)

    def masks_of(episode: JudgedEpisode) -> MaskTeacher | None:
        exact = exact_masks(episode)
        if exact is not None or len(episode.images) != 1:
            return exact
        return teacher.of(episode.images[0])

    return masks_of
