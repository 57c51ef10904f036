"""The models that verify episode rewards: pointing agents, mask models, and checkpoints as judges."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, Protocol, TypeVar

import numpy as np
import numpy.typing as npt
from PIL import Image

from agents.agent import Agent, Response, RolloutRows
from agents.answering import conversations
from agents.api.client import second_request
from agents.api.conversation import Message
from agents.api.conversation import Picture as ChatPicture
from agents.api.failures import Unavailable, UnreadableReplyError
from agents.hf.sampling_config import SamplingConfig
from agents.perception.likelihood import HFLikelihood, LikelihoodConfig, LikelihoodQuery, passes_of
from agents.perception.model_pool import ModelPool
from agents.registry import make_agent, setting_names
from judges.episode_rewards.episode_reading import shown_images
from judges.episode_rewards.judge_models import PackedMask, Picture
from judges.grounding import read_response
from training.config.judge_config import VerifierConfig
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation, Trajectory

_MAX_NEW_TOKENS = 512
"""Maximum reply length, as for an endpoint."""

_Verdict = TypeVar("_Verdict")
Pixels = npt.NDArray[np.uint8]
Place = tuple[float, float]
"""Column and row, in percent of the image."""


class LoadedModels:
    """The models of a configuration, loaded in the process that creates this object.

    Args:
        config: Directories of the models.
        device: Device of the models.

    Raises:
        WeightsUnavailableError: If a model's weights are missing.
    """

    def __init__(self, config: VerifierConfig, device: str) -> None:
        if config.likelihood is not None:
            self._likelihood = HFLikelihood.from_pretrained(config.likelihood, device=device)
        if config.detector is not None and config.segmenter is not None:
            from agents.perception.grounding_dino_sam import (
                GroundingDinoSam,  # imported late: two more architectures that few runs need
            )

            pointer = None if config.pointer is None else pointing_agent(config.pointer)
            self._masker = GroundingDinoSam.from_pretrained(
                config.detector, config.segmenter, device=device, pointer=pointer
            )

    def log_probs(self, queries: Sequence[LikelihoodQuery]) -> list[list[float] | None]:
        """Returns the log-probabilities of answers; see `HFLikelihood.log_probs`."""
        return self._likelihood.log_probs(queries)

    def masks(self, asked: Sequence[tuple[Picture, str]]) -> list[PackedMask | None]:
        """Returns masks of the labeled objects in images; None for labels that the models cannot process."""
        masks = (self._masker.mask(picture, label) for picture, label in asked)
        return [None if mask is None else PackedMask.of(mask) for mask in masks]


class _Answering(Protocol):
    """A holder of the models."""

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        """Returns the results of a `LoadedModels` method, in order; questions of a unit are passed together."""
        ...

    def metrics(self) -> dict[str, float]:
        """Returns metrics to log."""
        ...

    def close(self) -> None:
        """Releases the models."""
        ...


class _Here:
    """Models in this process."""

    def __init__(self, models: LoadedModels) -> None:
        self._models = models

    def ask(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        answers: list[Any] = [None] * len(questions)
        for unit in units:
            results = getattr(self._models, method)([questions[index] for index in unit])
            for index, answer in zip(unit, results, strict=True):
                answers[index] = answer
        return answers

    def metrics(self) -> dict[str, float]:
        return {}

    def close(self) -> None:
        pass


class Verifier:
    """The verification models of a configuration, ready for use.

    Args:
        config: Directories and location of the models.
        device: Device of models in this process; actors use their GPU if they have one.

    Attributes:
        models: Fields of `judges.episode_rewards.judge_models.JudgeModels` that use the models; empty without
            models.

    Raises:
        EngineUnavailableError: If a model's weights are missing, or Ray is requested and unavailable.
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
        """Returns masks; repeated questions about an image are asked once."""
        pictures = {id(picture): picture for picture, _ in asked}
        digests = {number: _digest(picture) for number, picture in pictures.items()}
        questions = {(digests[id(picture)], label): (picture, label) for picture, label in asked}
        units: dict[bytes, list[int]] = {}
        for index, (digest, _) in enumerate(questions):
            units.setdefault(digest, []).append(index)
        answers = self._asked("masks", list(questions.values()), list(units.values()))
        by_question = dict(zip(questions, answers, strict=True))
        return [by_question[digests[id(picture)], label] for picture, label in asked]

    def _asked(self, method: str, questions: Sequence[Any], units: Sequence[Sequence[int]]) -> list[Any]:
        assert self._answering is not None, "only configured models are used"
        return self._answering.ask(method, questions, units)

    def metrics(self) -> dict[str, float]:
        """Returns the numbers of questions and failures of actors; empty for models in this process."""
        metrics = {} if self._answering is None else self._answering.metrics()
        return {f"verifier/{name}": value for name, value in metrics.items()}

    def close(self) -> None:
        """Stops the actors; the next question restarts them."""
        if self._answering is not None:
            self._answering.close()


def _digest(picture: Picture) -> bytes:
    """Returns a hash of an image's content, type, and shape."""
    content = np.ascontiguousarray(picture)
    return hashlib.blake2b(content.data, digest_size=16, key=str((content.dtype, content.shape)).encode()).digest()


def _pool(config: VerifierConfig) -> ModelPool:
    """Returns actors with a configuration's models, whose directories have the same paths on every machine."""
    return ModelPool(
        partial(LoadedModels, config.absolute(), "cuda" if config.num_gpus else "cpu"),
        num_workers=config.num_workers,
        num_gpus=config.num_gpus,
        timeout_s=config.timeout_s,
        title="the verifier's models",
    )


class CheckpointJudge:
    """An agent as a judge model, like `ChatClient`, with greedy replies to one question at a time.

    Args:
        name: Name of the agent, such as `"hf:DIR"`.
        device: Device of its model.

    Raises:
        ConfigError: If there is no such agent.
        FileNotFoundError: If there is no checkpoint.
    """

    def __init__(self, name: str, *, device: str = "auto") -> None:
        offered = {"sampling": SamplingConfig(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS), "device": device}
        accepted = setting_names(name)
        self._name = name
        self._agent = make_agent(name, **{key: value for key, value in offered.items() if key in accepted})

    async def ask(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        *,
        temperature: float | None = None,
        sample: int = 0,
    ) -> _Verdict | Unavailable:
        """Returns the verdict read from the reply to a question; an unreadable reply is requested once more.

        Args:
            messages: The question: optional system messages, and user messages.
            read: Converts a reply to a verdict, or raises `UnreadableReplyError`.
            temperature: Ignored, as decoding is greedy.
            sample: Ignored, as decoding is greedy.
        """
        observation, reason = observation_of(messages), ""
        with conversations(self._agent, RolloutRows.ungrouped(1)) as asked:
            for _ in range(2):
                try:
                    (reply,) = asked.respond([0], [observation])
                except ConfigError as error:  # the question does not fit into the context
                    return self._unavailable(str(error))
                if reply.stop_reason == "error":
                    return self._unavailable(reply.error)
                try:
                    return read(reply.text)
                except UnreadableReplyError as error:
                    reason = str(error)
                    observation = _once_more(reply, reason)
        return self._unavailable(f"unreadable twice: {reason}")

    def close(self) -> None:
        """Closes the agent."""
        getattr(self._agent, "close", lambda: None)()

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"judge {self._name}: {reason}")


def observation_of(messages: Sequence[Message]) -> Observation:
    """Returns a question as an observation: system text, images, and text."""
    parts = [part for message in messages if message.role != "system" for part in message.parts]
    observation: Observation = {
        "text": "\n".join(part for part in parts if isinstance(part, str)),
        "images": tuple(_pixels(part) for part in parts if isinstance(part, ChatPicture)),
    }
    system = "\n".join(
        part for message in messages if message.role == "system" for part in message.parts if isinstance(part, str)
    )
    if system:
        observation["system"] = system
    return observation


def _once_more(reply: Response, reason: str) -> Observation:
    (_, asked_again) = second_request(reply.text, reason)
    return {"text": str(asked_again.parts[0]), "images": ()}


def _pixels(picture: ChatPicture) -> Any:
    return np.asarray(Image.open(io.BytesIO(picture.png)).convert("RGB"))


def pointing_prompt(label: str) -> str:
    """Returns the prompt for pointing at objects."""
    return f"Point at: {label}"


def read_places(reply: str) -> list[Place]:
    """Returns the positions within the image in a reply; empty if it is unreadable."""
    points = read_response(reply).points
    return [(point.x, point.y) for point in points if 0.0 <= point.x <= 100.0 and 0.0 <= point.y <= 100.0]


def pointing_agent(name: str) -> Callable[[Pixels, str], list[Place]]:
    """Returns a cached function that asks an agent for the positions of objects in an image."""
    agent = make_agent(name)
    cache: dict[tuple[bytes, str], list[Place]] = {}

    def point(picture: Pixels, label: str) -> list[Place]:
        key = hashlib.blake2b(picture.tobytes(), digest_size=16, key=str(picture.shape).encode()).digest(), label
        if key not in cache:
            (reply,) = replies(agent, [{"text": pointing_prompt(label), "images": (picture,)}])
            cache[key] = read_places(reply)
        return cache[key]

    return point


def replies(agent: Agent, questions: Sequence[Observation]) -> list[str]:
    """Returns an agent's replies to independent questions."""
    if not questions:
        return []
    with conversations(agent, RolloutRows.ungrouped(len(questions))) as asked:
        return [reply.text for reply in asked.respond(range(len(questions)), questions)]
