"""The models that Argos verifies with, in this process or in Ray actors, and how they are asked about a whole batch.

    likelihoods ── a forward pass at a time ──┐
                                              ├──> the models here, or actors side by side
    masks ── a picture with its labels ───────┘

What is asked together does not depend on where the models are. So answers are the same everywhere, but for what other
processors or numbers of threads round otherwise.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from functools import partial
from typing import Any, Protocol

import numpy as np

from agents.api.failures import Unavailable
from agents.perception.likelihood import HFLikelihood, LikelihoodConfig, LikelihoodQuery, passes_of
from agents.perception.model_pool import ModelPool
from judges.episode_rewards.episode_reading import shown_images
from judges.episode_rewards.judge_models import PackedMask, Picture
from training.config.judges import VerifierConfig
from training.rewards.pointing import pointing_agent
from vlm_envs.trajectory import Trajectory


class LoadedModels:
    """The models of a configuration, loaded where this is made.

    Args:
        config: Which.
        device: Where they run.

    Raises:
        WeightsUnavailableError: If a model's weights are not there.
    """

    def __init__(self, config: VerifierConfig, device: str) -> None:
        if config.likelihood is not None:
            self._likelihood = HFLikelihood.from_pretrained(config.likelihood, device=device)
        if config.detector is not None and config.segmenter is not None:
            from agents.perception.grounding_dino_sam import (
                GroundingDinoSam,  # two more architectures, which hardly any run needs
            )

            pointer = None if config.pointer is None else pointing_agent(config.pointer)
            self._masker = GroundingDinoSam.from_pretrained(
                config.detector, config.segmenter, device=device, pointer=pointer
            )

    def log_probs(self, queries: Sequence[LikelihoodQuery]) -> list[list[float] | None]:
        """Returns the log-probabilities of answers; see `HFLikelihood.log_probs`."""
        return self._likelihood.log_probs(queries)

    def masks(self, asked: Sequence[tuple[Picture, str]]) -> list[PackedMask | None]:
        """Returns masks of what labels name in pictures; None for a label that the models cannot be asked for."""
        masks = (self._masker.mask(picture, label) for picture, label in asked)
        return [None if mask is None else PackedMask.of(mask) for mask in masks]


class _Answering(Protocol):
    """Whoever has the models."""

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        """Returns what a method of `LoadedModels` says to questions, in order, those of a unit asked together."""
        ...

    def metrics(self) -> dict[str, float]:
        """Returns what there is to log."""
        ...

    def close(self) -> None:
        """Lets go of the models."""
        ...


class _Here:
    """The models in this process."""

    def __init__(self, models: LoadedModels) -> None:
        self._models = models

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        answers: list[Any] = [None] * len(questions)
        for unit in units:
            said = getattr(self._models, method)([questions[place] for place in unit])
            for place, answer in zip(unit, said, strict=True):
                answers[place] = answer
        return answers

    def metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass


class Verifier:
    """The models that a configuration names, ready to be asked.

    Args:
        config: Which, and where.
        device: Where they run in this process; actors take a GPU of theirs if they have one.

    Attributes:
        models: The fields of `judges.episode_rewards.judge_models.JudgeModels` that bring them in; empty without
            models.

    Raises:
        EngineUnavailableError: If a model's weights are not there, or Ray is to have them and there is none.
        WorkerError: If an actor cannot start.
    """

    def __init__(self, config: VerifierConfig, device: str = "cpu") -> None:
        self.models: dict[str, Any] = {}
        self._answering: _Answering | None = None
        if config.likelihood is not None:
            self.models["likelihoods"] = self._likelihoods
        if config.detector is not None:
            self.models["picture_masks"] = self._picture_masks
        if self.models:
            self._answering = _Here(LoadedModels(config, device)) if config.workers == "local" else _pool(config)

    def _likelihoods(self, asked: list[tuple[Trajectory, str, str, str]]) -> list[list[float] | None]:
        queries = [
            LikelihoodQuery(question=question, reasoning=reasoning, answer=answer, images=shown_images(episode))
            for episode, question, reasoning, answer in asked
        ]
        answers = self._asked("log_probs", queries, passes_of(queries, LikelihoodConfig().max_rows))
        return [None if isinstance(answer, Unavailable) else answer for answer in answers]

    def _picture_masks(self, asked: list[tuple[Picture, str]]) -> list[PackedMask | Unavailable | None]:
        """Returns masks; what siblings ask about one picture is asked once."""
        pictures = {id(picture): picture for picture, _ in asked}
        digests = {number: _digest(picture) for number, picture in pictures.items()}
        questions = {(digests[id(picture)], label): (picture, label) for picture, label in asked}
        units: dict[bytes, list[int]] = {}
        for place, (digest, _) in enumerate(questions):
            units.setdefault(digest, []).append(place)
        answers = self._asked("masks", list(questions.values()), list(units.values()))
        by_question = dict(zip(questions, answers, strict=True))
        return [by_question[digests[id(picture)], label] for picture, label in asked]

    def _asked(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        assert self._answering is not None, "only models that are named are asked"
        return self._answering.ask(method, questions, units)

    def metrics(self) -> dict[str, float]:
        """Returns what was asked of actors, and what they did not answer; nothing of models in this process."""
        metrics = {} if self._answering is None else self._answering.metrics()
        return {f"verifier/{name}": value for name, value in metrics.items()}

    def close(self) -> None:
        """Ends actors; whoever is asked later starts them anew."""
        if self._answering is not None:
            self._answering.close()


def _digest(picture: Picture) -> bytes:
    """Returns what tells pictures apart."""
    content = np.ascontiguousarray(picture)
    return hashlib.blake2b(content.data, digest_size=16, key=str((content.dtype, content.shape)).encode()).digest()


def _pool(config: VerifierConfig) -> ModelPool:
    """Returns actors with the models of a configuration, whose directories are at the same place on every machine."""
    return ModelPool(
        partial(LoadedModels, config.absolute(), "cuda" if config.num_gpus else "cpu"),
        num_workers=config.num_workers,
        num_gpus=config.num_gpus,
        timeout_s=config.timeout_s,
        title="the verifier's models",
    )
