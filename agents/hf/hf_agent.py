"""An agent that loads a checkpoint directory of any family in `agents.hf.model_families`, including the tiny one."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar

import torch
from safetensors import SafetensorError
from transformers import AutoConfig, AutoModelForImageTextToText, AutoTokenizer

from agents.agent import Response, RolloutRows
from agents.hf.chat import ChatEncoder, Conversations
from agents.hf.chat_template import processor_template
from agents.hf.checkpoint import require_checkpoint, torch_device, weights_digest
from agents.hf.model_families import family_of_type, vision_parts
from agents.hf.sampler import CachedSampler, EpisodeDraws
from agents.hf.sampling_config import SamplingConfig, context_limit
from vlm_envs.errors import ConfigError
from vlm_envs.trajectory import Observation


def load_checkpoint(
    directory: str | Path, *, dtype: str | torch.dtype = "auto", attention: str | None = None
) -> tuple[Any, ChatEncoder]:
    """Returns the model and the encoder of a checkpoint directory, as written by `save_pretrained`.

    Args:
        directory: Local directory with model, tokenizer, and image processor.
        dtype: Type of the weights; `"auto"` keeps the checkpoint's.
        attention: transformers' name of the attention implementation; None for its default.

    Returns:
        The model in evaluation mode, and the encoder for its chat format.

    Raises:
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported, or it is incomplete or damaged.
    """
    path = require_checkpoint(directory)
    encoder = load_encoder(path)
    try:
        model = AutoModelForImageTextToText.from_pretrained(
            path, local_files_only=True, dtype=dtype, attn_implementation=attention
        )
    except (OSError, SafetensorError) as error:
        raise ValueError(f"The checkpoint at {path} is incomplete or damaged: {error}") from error
    return model.eval(), encoder


def load_encoder(directory: str | Path) -> ChatEncoder:
    """Returns the chat encoder of a checkpoint, which may be without weights.

    Raises:
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported, or it is incomplete or damaged.
    """
    path = require_checkpoint(directory)
    try:
        tokenizer = AutoTokenizer.from_pretrained(path, local_files_only=True)
        config = AutoConfig.from_pretrained(path, local_files_only=True)
        family = family_of_type(config.model_type)
        image_processor = family.image_processor_class.from_pretrained(path, local_files_only=True)
    except OSError as error:
        raise ValueError(f"The checkpoint at {path} is incomplete or damaged: {error}") from error
    if template := processor_template(path):
        tokenizer.chat_template = template
    return ChatEncoder(tokenizer, family.reader_class(tokenizer, image_processor, config))


def loaded_or_given(
    agent: str, directory: str | Path | None, model: Any, encoder: ChatEncoder | None, *, dtype: str = "auto"
) -> tuple[Any, ChatEncoder]:
    """Returns the model and the encoder of an agent: a checkpoint's, or those passed in.

    Args:
        agent: The agent's name.
        directory: A checkpoint, as `load_checkpoint` reads it; None for `model` and `encoder`.
        model: A model in memory.
        encoder: Its chat format.
        dtype: Type of a checkpoint's weights; `"auto"` keeps the checkpoint's.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported, or it is incomplete or damaged.
    """
    given = (directory is not None, model is not None, encoder is not None)
    if given not in ((True, False, False), (False, True, True)):
        raise ConfigError(
            f"The agent {agent!r} takes a checkpoint directory, {agent}:DIR; or, from Python, model and encoder."
        )
    if directory is not None:
        return load_checkpoint(directory, dtype=dtype)
    assert encoder is not None
    return model, encoder


class CheckpointAgent(ABC):
    """An agent whose responses are sampled from a transformers model; a `LearningAgent` without `respond`.

    Each response is drawn from its own random stream, determined by the agent's seed, the rollout's number, the row,
    and the turn; rollouts played together have separate numbers and rows. Episodes therefore do not depend on
    scheduling, except for floating-point ties.

    Args:
        directory: A checkpoint, as `load_checkpoint` reads it; None for `model` and `encoder`.
        model: A model of a supported family in memory, used as is and on its current device.
        encoder: Its chat format.
        sampling: Sampling settings.
        seed: Seed of the sampling.
        device: Device of a checkpoint's model; `"auto"` for a GPU if there is one.
        dtype: Type of a checkpoint's weights; `"auto"` keeps the checkpoint's.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If its model type is not supported, it is incomplete or damaged, or there is no such device.
    """

    kind: ClassVar[str] = "hf"
    """Distinguishes agents of different kinds with the same weights on boards."""

    def __init__(
        self,
        directory: str | Path | None = None,
        *,
        model: Any = None,
        encoder: ChatEncoder | None = None,
        sampling: SamplingConfig | None = None,
        seed: int = 0,
        device: str = "auto",
        dtype: str = "auto",
    ) -> None:
        model, encoder = loaded_or_given("hf", directory, model, encoder, dtype=dtype)
        if directory is not None:
            model = model.to(torch_device(device))
        self.directory = directory
        self.model, self.encoder, self.seed = model, encoder, seed
        self.policy_version = self._num_rollouts = 0
        self.sampling = sampling or SamplingConfig()
        encoder.limit_pixels(self.sampling.max_image_pixels)
        self.max_context_tokens = context_limit(model.config, self.sampling)
        self._sampler = self._make_sampler()
        self._conversations = Conversations(encoder, self.sampling, self.max_context_tokens)

    @property
    def identity(self) -> dict[str, Any]:
        """Name and weights digest of a checkpoint, independent of its path; empty for a model in memory."""
        return {} if self.directory is None else {"name": self.kind, "weights": weights_digest(self.directory)}

    def sync(self, policy: Any, version: int) -> None:
        """Uses these weights from the next episode on; they are shared, not copied."""
        if policy is not self.model or (version != self.policy_version and _sees_anew(policy)):
            self._sampler.seen.forget()
        self.model = self._sampler.model = policy
        self.policy_version = version

    def release(self) -> None:
        """Frees the conversations, and image features unless the tower is frozen."""
        self._sampler.start(RolloutRows())
        self._conversations.release()
        if _sees_anew(self.model):
            self._sampler.seen.forget()

    def start(self, worlds: Any, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per row, or per world if no rows are given."""
        rows = rows or RolloutRows.ungrouped(worlds.num_envs)
        self._sampler.start(rows, EpisodeDraws(self.seed, self._num_rollouts, rows))
        self._num_rollouts += len(rows.batch_sizes)
        self._conversations.start()

    def state_dict(self) -> dict[str, Any]:
        """Returns the number of rollouts so far, which determines the next random streams."""
        return {"num_rollouts": self._num_rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continues with the next rollout."""
        self._num_rollouts = state["num_rollouts"]

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether the context has room for an observation and the longest response to it."""
        return self._conversations.fits(row, observation)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Sets the model, which may be in training mode, to evaluation mode for the duration."""
        if not self.model.training:
            yield
            return
        self.model.eval()
        try:
            yield
        finally:
            self.model.train()

    @abstractmethod
    def _make_sampler(self) -> Any:
        """Returns the sampler, with `model`, `seen`, and `start(rows)`."""


class HFAgent(CheckpointAgent):
    """Samples in batches, with one cache across turns; see `CheckpointAgent` for its arguments."""

    def _make_sampler(self) -> CachedSampler:
        return CachedSampler(self.model, self.encoder, self.sampling, EpisodeDraws(self.seed))

    def respond(self, rows: Sequence[int], observations: Sequence[Observation]) -> list[Response]:
        """Returns a sampled response per row.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        segments = self._conversations.segments(rows, observations)
        with self._evaluating():
            samples = self._sampler.continue_rows(rows, segments)
        return self._conversations.responses(rows, segments, samples)


class AnswersRequests:
    """Makes an agent with `_sampler` and `_conversations` a `ContinuousAgent`.

    The sampler has the methods of vLLM's engine: `add_request`, `step`, `abort`.
    """

    _sampler: Any
    _conversations: Conversations

    def add_request(self, row: int, observation: Observation) -> None:
        """Requests the response to a row's current observation.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (segment,) = self._conversations.segments([row], [observation])
        self._sampler.add_request(row, segment)

    def step(self) -> dict[int, Response]:
        """Advances all unfinished rows; returns the finished responses."""
        samples = self._sampler.step()
        rows = list(samples)
        segments = [self._conversations.asked(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Drops the request of a row."""
        self._sampler.abort(row)


def _sees_anew(policy: Any) -> bool:
    """Returns whether training changes a model's image features."""
    return any(weight.requires_grad for part in vision_parts(policy) for weight in part.parameters())
