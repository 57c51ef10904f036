"""An agent that is a checkpoint directory of any family in `agents.hf.model_families`, the tiny one included."""

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
    """Returns what a checkpoint directory holds, as `save_pretrained` writes it.

    Args:
        directory: Local directory with model, tokenizer and image processor.
        dtype: Weights' type; `"auto"` keeps the checkpoint's.
        attention: How transformers computes attention, as it calls it; None leaves the choice to it.

    Returns:
        The model in evaluation mode, and the encoder that speaks its chat format.

    Raises:
        FileNotFoundError: If there is no checkpoint there.
        ValueError: If it is of no family that is known, incomplete or damaged.
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
    """Returns the chat format of a checkpoint, whose weights need not be there.

    Raises:
        FileNotFoundError: If there is no checkpoint there.
        ValueError: If it is of no family that is known, incomplete or damaged.
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
    """Returns the model and the encoder that an agent is made from: a checkpoint's, or both as they are given.

    Args:
        agent: What the agent is called.
        directory: A checkpoint, as `load_checkpoint` reads it; None for the other two.
        model: A model in memory.
        encoder: Its chat format.
        dtype: Type of a checkpoint's weights; `"auto"` keeps it.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If it is of no family that is known, incomplete or damaged.
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
    """An agent whose responses a transformers model samples; a `LearningAgent`, but for how it responds.

    Each response is drawn from a random stream of its own, which the agent's seed, the number of the rollout, the row
    and its turn decide; of rollouts that are played together each has its own number, and rows of its own. So what an
    episode is does not depend on who else is asked, and when, but for floating-point ties.

    Args:
        directory: A checkpoint, as `load_checkpoint` reads it; None for `model` and `encoder`.
        model: A model of a known family in memory, used as it is and where it is.
        encoder: Its chat format.
        sampling: How responses are drawn.
        seed: Seed of the sampling.
        device: Where a checkpoint's model runs; `"auto"` for a GPU if there is one.
        dtype: Type of a checkpoint's weights; `"auto"` keeps it.

    Raises:
        ConfigError: If there is neither a directory nor a model with its encoder, or both.
        FileNotFoundError: If there is no checkpoint.
        ValueError: If it is of no family that is known, incomplete or damaged, or there is no such device.
    """

    kind: ClassVar[str] = "hf"
    """What boards tell it from others by, beside its weights."""

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
        """What tells a checkpoint from others, wherever it lies; nothing for a model in memory, which may yet learn."""
        return {} if self.directory is None else {"name": self.kind, "weights": weights_digest(self.directory)}

    def sync(self, policy: Any, version: int) -> None:
        """Acts with these weights from the next episode on; they are shared, not copied."""
        if policy is not self.model or (version != self.policy_version and _sees_anew(policy)):
            self._sampler.seen.forget()
        self.model = self._sampler.model = policy
        self.policy_version = version

    def release(self) -> None:
        """Lets go of the conversations, and of pictures unless the tower is frozen: nobody asks for them again."""
        self._sampler.start(RolloutRows())
        self._conversations.release()
        if _sees_anew(self.model):
            self._sampler.seen.forget()

    def start(self, worlds: Any, rows: RolloutRows | None = None) -> None:
        """Opens one conversation per row, or per world where none are given."""
        rows = rows or RolloutRows.ungrouped(worlds.num_envs)
        self._sampler.start(rows, EpisodeDraws(self.seed, self._num_rollouts, rows))
        self._num_rollouts += len(rows.batch_sizes)
        self._conversations.start()

    def state_dict(self) -> dict[str, Any]:
        """Returns how many rollouts there were, which decide the random streams of the next."""
        return {"num_rollouts": self._num_rollouts}

    def load_state_dict(self, state: dict[str, Any]) -> None:
        """Continue with the next rollout."""
        self._num_rollouts = state["num_rollouts"]

    def fits(self, row: int, observation: Observation) -> bool:
        """Returns whether there is room for an observation and the longest response to it."""
        return self._conversations.fits(row, observation)

    @contextmanager
    def _evaluating(self) -> Iterator[None]:
        """Has the model, which may be in training, in evaluation mode for a while."""
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
        """Returns what samples: with `model`, `seen` and `start(rows)`."""


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
    """The part of an agent that makes it a `ContinuousAgent`, given its `_sampler` and `_conversations`.

    The sampler has the methods of vLLM's engine: `add_request`, `step`, `abort`.
    """

    _sampler: Any
    _conversations: Conversations

    def add_request(self, row: int, observation: Observation) -> None:
        """Asks for the response to what a row shows now.

        Raises:
            ConfigError: If a first observation leaves no room for a response.
        """
        (segment,) = self._conversations.segments([row], [observation])
        self._sampler.add_request(row, segment)

    def step(self) -> dict[int, Response]:
        """Goes on with all rows that are yet to be answered; returns the responses that are over."""
        samples = self._sampler.step()
        rows = list(samples)
        segments = [self._conversations.asked(row) for row in rows]
        return dict(zip(rows, self._conversations.responses(rows, segments, list(samples.values())), strict=True))

    def abort(self, row: int) -> None:
        """Gives up what was asked for a row."""
        self._sampler.abort(row)


def _sees_anew(policy: Any) -> bool:
    """Returns whether training changes what a model makes of pictures."""
    return any(weight.requires_grad for part in vision_parts(policy) for weight in part.parameters())
