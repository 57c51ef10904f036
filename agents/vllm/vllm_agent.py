"""An agent whose responses vLLM samples; its conversations are those of `hf`, token by token."""

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
    """Returns what samples a model, or one of its shape with the weights that it is given: here or on a server.

    Raises:
        ConfigError: If the model is of a family whose pictures cannot be handed over, or vLLM cannot sample like this.
        EngineUnavailableError: If a package is not installed.
        SamplerLostError: If there is no server.
    """
    require_sendable(family_of(model))
    require(len(config.urls) < 2, f"One process samples on one server, not on {config.url}: name one of them.")
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
        model: A model in memory, whose weights act as they are when an episode starts.
        encoder: Its chat format.
        sampling: How responses are drawn.
        seed: Seed of the sampling.
        config: Where vLLM samples, for an engine of the agent's own.
        engine: One to be shared with other agents of the same model, which take turns and may each draw in their own
            way; made with the same context.
        weights_of: A model's weights under the names that a checkpoint has for them; its state by default.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both; or as `make_engine`.
        EngineUnavailableError: If a package is not installed.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If it is of no family that is known, incomplete or damaged.
        SamplerLostError: If there is no server.
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
        """What tells a checkpoint from others, wherever it lies; nothing for a model in memory, which may yet learn."""
        return {} if self.directory is None else {"name": "vllm", "weights": weights_digest(self.directory)}

    def sync(self, policy: Any, version: int) -> None:
        """Acts with these weights from the next episode on: vLLM takes a copy of them, now.

        Raises:
            SamplerLostError: If its server is gone.
        """
        self._model, self.policy_version = policy, version
        self._load()

    def release(self) -> None:
        """Lets go of the conversations; vLLM keeps its memory."""
        self._sampler.release()
        self._conversations.release()

    def state_dict(self) -> dict[str, Any]:
        """Returns how many times conversations were started, which seeds depend on."""
        return {"num_started": self._sampler.num_started}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Goes on sampling where a state stands."""
        self._sampler.num_started = state["num_started"]

    def start(self, worlds: Any, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per row, with the agent's own weights, whoever shares its engine.

        Args:
            worlds: As many as there are rows.
            rows: Those of the rollout; each world's own by default.
        """
        if not self._version or self.engine.version != self._version:
            self._load()
        self._sampler.start(rows or RolloutRows.ungrouped(worlds.num_envs))
        self._conversations.start()

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether there is room for an observation and the longest response to it."""
        return self._conversations.fits(row, observation)

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a sampled response per row; one that vLLM was lost with says so.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        segments = self._conversations.segments(rows, observations)
        return self._conversations.responses(rows, segments, self._sampler.continue_rows(rows, segments))

    def close(self) -> None:
        """Ends an engine of the agent's own."""
        if self._owns_engine:
            self.engine.close()

    def _load(self) -> None:
        self.engine.load(self._weights_of(self._model), uuid.uuid4().hex)
        self._version = self.engine.version


def _state(model: Any) -> Mapping[str, Tensor]:
    state: Mapping[str, Tensor] = model.state_dict()
    return state


class ContinuousVLLMAgent(AnswersRequests, VLLMAgent):
    """A `ContinuousAgent`; see `VLLMAgent` for its arguments. It says what that one says, whoever is asked first."""


@dataclass
class _Row:
    """A conversation so far: which of the rollouts played together it is of, and which of its rows there.

    Behind that stand its tokens, its pictures, and how many responses are in it.
    """

    part: int
    place: int
    ids: list[int] = field(default_factory=list)
    images: list[ProcessedImage] = field(default_factory=list)
    num_turns: int = 0


class VLLMSampler:
    """A `Sampler` that asks an engine; what the engine keeps of a prefix is not computed again.

    What is drawn depends on the seed, on how many rollouts were started, on the row and on the turn: on nothing that is
    sampled beside it.

    Args:
        engine: Samples.
        encoder: Tells pictures from text.
        seed: Of all that is drawn.
        sampling: How responses are drawn; None for as the engine was made.
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
        """Forgets everything and opens one empty conversation per row."""
        self.release()
        self._first_started = self.num_started + 1
        self.num_started += len(rows.batch_sizes)
        self._rows = {row: _Row(*place) for row, place in enumerate(rows.batch_indices)}

    def release(self) -> None:
        """Forgets everything, and gives up what is yet to be answered."""
        self.engine.abort([*self._asked])
        self._rows, self._asked = {}, {}

    def continue_rows(self, rows: Sequence[int], segments: Sequence[PromptSegment]) -> list[SampledResponse]:
        """Appends a segment to each row and samples its response; one that cannot be had says why.

        Args:
            rows: A subset of the rows started, in any order; the others are dropped for good.
            segments: What each row is shown.
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
        """Whether any row is yet to be answered."""
        return bool(self._asked)

    def add_request(self, row: int, segment: PromptSegment) -> None:
        """Appends a segment to a row and asks for its response."""
        name = uuid.uuid4().hex
        self.engine.add_request(name, self._request(row, segment))
        self._asked[name] = row

    def step(self) -> dict[int, SampledResponse]:
        """Goes on with all rows that are yet to be answered; returns the responses that are there, by row."""
        samples = {self._asked.pop(name): sample for name, sample in self.engine.step().items() if name in self._asked}
        for row, sample in samples.items():
            self._rows[row].ids += sample.ids
            self._rows[row].num_turns += 1
        return samples

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        names = [name for name, asked in self._asked.items() if asked == row]
        self.engine.abort(names)
        for name in names:
            del self._asked[name]

    def _request(self, row: int, segment: PromptSegment) -> Request:
        known = self._rows[row]
        known.ids += segment.ids.tolist()
        known.images += segment.images
        rollout = self._first_started + known.part
        drawn = np.random.default_rng([self.seed, rollout, known.place, known.num_turns])
        return Request(
            ids=list(known.ids),
            images=tuple(known.images),
            offsets=image_offsets(known.ids, known.images, self.encoder.image_token_id),
            seed=int(drawn.integers(2**62)),
            sampling=self.sampling,
        )
