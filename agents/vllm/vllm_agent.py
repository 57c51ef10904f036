"""An agent whose responses are sampled by vLLM; its conversations have the same tokens as those of `hf`."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from torch import Tensor

from agents.agent import Response, RolloutRows
from agents.hf.chat import ChatEncoder, Conversations, PromptSegment, SampledResponse
from agents.hf.checkpoint import weights_digest
from agents.hf.family import ProcessedImage
from agents.hf.hf_agent import AnswersRequests, loaded_or_given
from agents.hf.model_families import family_of
from agents.hf.sampling_config import SamplingConfig, context_limit
from agents.vllm.vllm_config import VLLMConfig
from agents.vllm.vllm_engine import Request, VLLMEngine, image_offsets, require_sendable
from vlm_envs.trajectory import Observation
from vlm_envs.validation import require

WeightsOf = Callable[[Any], Mapping[str, Tensor]]


def make_engine(
    config: VLLMConfig, model: Any, encoder: ChatEncoder, sampling: SamplingConfig | None = None
) -> VLLMEngine:
    """Returns the engine that samples a model, or any model of its shape once weights are loaded: here or on a server.

    Raises:
        ConfigError: If the model's family is not supported, or vLLM does not support the settings.
        EngineUnavailableError: If a package is not installed.
        SamplerLostError: If no server answers.
    """
    require_sendable(family_of(model))
    require(len(config.urls) < 2, f"One process samples on one server, not on {config.url}: choose one of them.")
    sampling = sampling or SamplingConfig()
    limit = context_limit(model.config, sampling)
    if config.url is not None:
        from agents.vllm.server_engine import ServerEngine

        return ServerEngine(config, encoder, sampling, max_context_tokens=limit)
    from agents.vllm.vllm_engine import LocalEngine

    return LocalEngine(config, model, encoder, sampling, max_context_tokens=limit)


class VLLMAgent:
    """Samples responses of a checkpoint, or of a model in memory, with vLLM; a `LearningAgent`.

    Args:
        directory: A checkpoint, as `agents.hf.hf_agent.load_checkpoint` reads it; None for `model` and `encoder`.
        model: A model in memory; its current weights are used when an episode starts.
        encoder: Its chat format.
        sampling: Sampling settings.
        seed: Seed of the sampling.
        config: vLLM's settings, for an engine owned by the agent.
        engine: An engine shared with other agents of the same model and context length, which take turns and may have
            their own sampling settings.
        weights_of: Returns a model's weights by their names in a checkpoint; its `state_dict` by default.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both; or as `make_engine`.
        EngineUnavailableError: If a package is not installed.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported, or it is incomplete or damaged.
        SamplerLostError: If no server answers.
    """

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        model: Any = None,
        encoder: ChatEncoder | None = None,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        config: VLLMConfig | None = None,
        engine: VLLMEngine | None = None,
        weights_of: WeightsOf | None = None,
    ) -> None:
        model, encoder = loaded_or_given("vllm", directory, model, encoder)
        self.directory, self.encoder, self.seed = directory, encoder, seed
        self.sampling = sampling or SamplingConfig()
        encoder.limit_pixels(self.sampling.max_image_pixels)
        self.policy_version = 0
        self._model, self._weights_of = model, weights_of or _state
        self._version = ""
        self._owns_engine = engine is None
        self.engine = engine or make_engine(config or VLLMConfig(), model, encoder, self.sampling)
        self._sampler = VLLMSampler(self.engine, encoder, seed, self.sampling)
        self._conversations = Conversations(encoder, self.sampling, context_limit(model.config, self.sampling))

    @property
    def identity(self) -> dict[str, Any]:
        """Name and weights digest of a checkpoint, independent of its path; empty for a model in memory."""
        return {} if self.directory is None else {"name": "vllm", "weights": weights_digest(self.directory)}

    def sync(self, policy: Any, version: int) -> None:
        """Uses these weights from the next episode on; vLLM copies them immediately.

        Raises:
            SamplerLostError: If its server does not answer.
        """
        self._model, self.policy_version = policy, version
        self._load()

    def release(self) -> None:
        """Frees the conversations; vLLM keeps its memory."""
        self._sampler.release()
        self._conversations.release()

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of rollouts so far, which seeds depend on."""
        return {"num_started": self._sampler.num_started}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Restores the number of rollouts."""
        self._sampler.num_started = state["num_started"]

    def start(self, worlds: Any, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per row, with the agent's own weights even if the engine is shared.

        Args:
            worlds: One world per row.
            rows: Rows of the rollout; one group per world by default.
        """
        if not self._version or self.engine.version != self._version:
            self._load()
        self._sampler.start(rows or RolloutRows.ungrouped(worlds.num_envs))
        self._conversations.start()

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether the context has room for an observation and the longest response to it."""
        return self._conversations.fits(row, observation)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a sampled response per row; an error response if vLLM was lost.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        segments = self._conversations.segments(rows, observations)
        return self._conversations.responses(rows, segments, self._sampler.continue_rows(rows, segments))

    def close(self) -> None:
        """Closes the engine if the agent owns it."""
        if self._owns_engine:
            self.engine.close()

    def _load(self) -> None:
        self.engine.load(self._weights_of(self._model), uuid.uuid4().hex)
        self._version = self.engine.version


def _state(model: Any) -> Mapping[str, Tensor]:
    state: Mapping[str, Tensor] = model.state_dict()
    return state


class ContinuousVLLMAgent(AnswersRequests, VLLMAgent):
    """A `ContinuousAgent` that samples the same responses as `VLLMAgent`; see there for its arguments."""


@dataclass
class _Row:
    """A conversation so far.

    Attributes:
        part: Index of its rollout among those played together.
        place: Its row within that rollout.
        ids: Its tokens.
        images: Its images.
        num_turns: Number of responses in it.
    """

    part: int
    place: int
    ids: list[int] = field(default_factory=list)
    images: list[ProcessedImage] = field(default_factory=list)
    num_turns: int = 0


class VLLMSampler:
    """A `Sampler` that uses an engine, which caches shared prefixes.

    Responses depend on the seed, the number of rollouts started, the row, and the turn, but not on other requests.

    Args:
        engine: The engine.
        encoder: Provides the image placeholder.
        seed: Base seed of all responses.
        sampling: Sampling settings; None for the engine's own.
    """

    def __init__(
        self, engine: VLLMEngine, encoder: ChatEncoder, seed: int, sampling: SamplingConfig | None = None
    ) -> None:
        self.engine, self.encoder, self.seed, self.sampling = engine, encoder, seed, sampling
        self.num_started = 0
        self._first_started = 0
        self._rows: dict[int, _Row] = {}
        self._asked: dict[str, int] = {}

    def start(self, rows: RolloutRows) -> None:
        """Drops all conversations and opens one empty conversation per row."""
        self.release()
        self._first_started = self.num_started + 1
        self.num_started += len(rows.batch_sizes)
        self._rows = {row: _Row(*index) for row, index in enumerate(rows.batch_indices)}

    def release(self) -> None:
        """Drops all conversations and requests."""
        self.engine.abort([*self._asked])
        self._rows, self._asked = {}, {}

    def continue_rows(self, rows: Sequence[int], segments: Sequence[PromptSegment]) -> list[SampledResponse]:
        """Appends a segment to each row and samples its response, or an error.

        Args:
            rows: A subset of the started rows, in any order; the others are dropped for good.
            segments: The next segment of each row.
        """
        self._rows = {row: self._rows[row] for row in rows}
        for row, segment in zip(rows, segments, strict=True):
            self.add_request(row, segment)
        samples: dict[int, SampledResponse] = {}
        while self.has_unfinished_requests:
            samples |= self.step()
        return [samples[row] for row in rows]

    @property
    def has_unfinished_requests(self) -> bool:
        """Whether any requested response is unfinished."""
        return bool(self._asked)

    def add_request(self, row: int, segment: PromptSegment) -> None:
        """Appends a segment to a row and requests a response to it."""
        name = uuid.uuid4().hex
        self.engine.add_request(name, self._request(row, segment))
        self._asked[name] = row

    def step(self) -> dict[int, SampledResponse]:
        """Advances all unfinished rows; returns the finished responses by row."""
        samples = {self._asked.pop(name): sample for name, sample in self.engine.step().items() if name in self._asked}
        for row, sample in samples.items():
            self._rows[row].ids += sample.ids
            self._rows[row].num_turns += 1
        return samples

    def abort(self, row: int) -> None:
        """Drops the request of a row."""
        names = [name for name, asked in self._asked.items() if asked == row]
        self.engine.abort(names)
        for name in names:
            del self._asked[name]

    def _request(self, row: int, segment: PromptSegment) -> Request:
        state = self._rows[row]
        state.ids += segment.ids.tolist()
        state.images += segment.images
        rollout = self._first_started + state.part
        drawn = np.random.default_rng([self.seed, rollout, state.place, state.num_turns])
        return Request(
            ids=list(state.ids),
            images=tuple(state.images),
            offsets=image_offsets(state.ids, state.images, self.encoder.image_token_id),
            seed=int(drawn.integers(2**62)),
            sampling=self.sampling,
        )
