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
"""Longest reply, as of an endpoint."""

_Verdict = TypeVar("_Verdict")
Pixels = npt.NDArray[np.uint8]
Place = tuple[float, float]
"""Column and row, in percents."""


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


class CheckpointJudge:
    """An agent as a judge's model, like `ChatClient`: gives the likeliest reply to one question after the other.

    Args:
        name: Of the agent, such as `"hf:DIR"`.
        device: Where its model runs.

    Raises:
        ConfigError: If there is no such agent.
        FileNotFoundError: If there is no checkpoint.
    """

    def __init__(self, name: str, *, device: str = "auto") -> None:
        offered = {"sampling": SamplingConfig(temperature=0.0, max_new_tokens=_MAX_NEW_TOKENS), "device": device}
        known = setting_names(name)
        self._name = name
        self._agent = make_agent(name, **{key: value for key, value in offered.items() if key in known})

    async def ask(
        self,
        messages: Sequence[Message],
        read: Callable[[str], _Verdict],
        *,
        temperature: float | None = None,
        sample: int = 0,
    ) -> _Verdict | Unavailable:
        """Returns what the reply to one question says; one that cannot be read is asked for once more.

        Args:
            messages: The question: what the system says, if anything, and what the user asks.
            read: Makes a verdict of a reply, or raises `UnreadableReplyError`.
            temperature: Of no effect, and neither is `sample`: the reply is the likeliest.
            sample: See there.
        """
        observation, reason = observation_of(messages), ""
        with conversations(self._agent, RolloutRows.ungrouped(1)) as asked:
            for _ in range(2):
                try:
                    (reply,) = asked.respond([0], [observation])
                except ConfigError as error:  # no room for the question
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
        """Lets go of the agent."""
        getattr(self._agent, "close", lambda: None)()

    def _unavailable(self, reason: str) -> Unavailable:
        return Unavailable(f"judge {self._name}: {reason}")


def observation_of(messages: Sequence[Message]) -> Observation:
    """Returns a question as a world would show it: pictures, then text, behind what the system says."""
    parts = [part for each in messages if each.role != "system" for part in each.parts]
    observation: Observation = {
        "text": "\n".join(part for part in parts if isinstance(part, str)),
        "images": tuple(_pixels(part) for part in parts if isinstance(part, ChatPicture)),
    }
    system = "\n".join(
        part for each in messages if each.role == "system" for part in each.parts if isinstance(part, str)
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
    """Returns what asks for the places of things."""
    return f"Point at: {label}"


def read_places(reply: str) -> list[Place]:
    """Returns the places within the picture that a reply points at; none for what cannot be read."""
    points = read_response(reply).points
    return [(each.x, each.y) for each in points if 0.0 <= each.x <= 100.0 and 0.0 <= each.y <= 100.0]


def pointing_agent(name: str) -> Callable[[Pixels, str], list[Place]]:
    """Returns what asks an agent where things are in a picture; about each thing once."""
    agent = make_agent(name)
    known: dict[tuple[bytes, str], list[Place]] = {}

    def point(picture: Pixels, label: str) -> list[Place]:
        key = hashlib.blake2b(picture.tobytes(), digest_size=16, key=str(picture.shape).encode()).digest(), label
        if key not in known:
            (reply,) = replies(agent, [{"text": pointing_prompt(label), "images": (picture,)}])
            known[key] = read_places(reply)
        return known[key]

    return point


def replies(agent: Agent, questions: Sequence[Observation]) -> list[str]:
    """Returns what an agent says to questions that have nothing to do with each other; nothing to none."""
    if not questions:
        return []
    with conversations(agent, RolloutRows.ungrouped(len(questions))) as asked:
        return [each.text for each in asked.respond(range(len(questions)), questions)]
