"""Likelihood of an answer under a vision-language model, given images, question, and reasoning.

The model reads the conversation as if it were its own:

    user       images, then the question
    assistant  <think>reasoning</think><answer>answer

and only the answer's tokens are scored: all prefixes in one forward pass, no cache, no sampling.

Source: Argos, section 3.1, equation 5. Choices: the tags around reasoning and answer; the closing tag is not part of
the answer, so ending it costs nothing; the whole vocabulary at temperature 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from torch import Tensor

from agents.hf.chat import ChatEncoder
from agents.hf.family import ProcessedImage
from agents.hf.hf_agent import load_checkpoint
from agents.hf.model_families import family_of
from agents.hf.row_passes import row_hidden_states
from agents.perception.weights import WeightsUnavailableError
from vlm_envs.validation import require_positive

Pixels = npt.NDArray[np.uint8]
_LETTERS_PER_TOKEN, _PIXELS_PER_TOKEN = 4, 28 * 28
"""Approximate values for text and images of Qwen2.5-VL."""


@dataclass(frozen=True, kw_only=True)
class LikelihoodConfig:
    """Limits of one forward pass.

    Attributes:
        max_tokens: Longest conversation, including images; longer ones get no score.
        max_rows: Most conversations per forward pass.
    """

    max_tokens: int = 8192
    max_rows: int = 8

    def __post_init__(self) -> None:
        require_positive("max_tokens", self.max_tokens, minimum=2)
        require_positive("max_rows", self.max_rows)


@dataclass(frozen=True, kw_only=True, eq=False)
class LikelihoodQuery:
    """One answer to score.

    Attributes:
        question: The question, including its options.
        reasoning: The thought before the answer; may be empty.
        answer: The answer, without its tags.
        images: The images, each uint8[height, width, 3].
    """

    question: str
    reasoning: str
    answer: str
    images: tuple[Pixels, ...] = ()


@dataclass(frozen=True, kw_only=True)
class _Row:
    """A query in tokens; the answer is the last `num_answer_tokens` of them."""

    ids: list[int]
    images: tuple[ProcessedImage, ...]
    num_answer_tokens: int


def passes_of(queries: Sequence[LikelihoodQuery], max_rows: int) -> list[list[int]]:
    """Groups queries into forward passes; returns the indices of each pass.

    Queries of similar length share a pass, because shorter ones are padded to the longest. The length is estimated from
    letters and pixels, so that passes can be distributed over several models without loading one.

    Args:
        queries: Queries to score.
        max_rows: Most queries per pass.
    """
    order = sorted(range(len(queries)), key=lambda index: _size(queries[index]))
    return [order[start : start + max_rows] for start in range(0, len(order), max_rows)]


def _size(query: LikelihoodQuery) -> float:
    """Returns the approximate number of tokens of a query."""
    num_letters = len(query.question) + len(query.reasoning) + len(query.answer)
    num_pixels = sum(image.size // 3 for image in query.images)
    return num_letters / _LETTERS_PER_TOKEN + num_pixels / _PIXELS_PER_TOKEN


class HFLikelihood:
    """Scores answers with a transformers model."""

    def __init__(self, model: Any, encoder: ChatEncoder, config: LikelihoodConfig | None = None) -> None:
        self.model, self.encoder = model, encoder
        self.config = config or LikelihoodConfig()

    @classmethod
    def from_pretrained(
        cls,
        directory: str | Path,
        *,
        config: LikelihoodConfig | None = None,
        dtype: str | torch.dtype = "auto",
        device: str | torch.device = "cpu",
    ) -> HFLikelihood:
        """Returns the model of a checkpoint directory.

        Raises:
            WeightsUnavailableError: If there is no checkpoint, its model type is not supported, or it is incomplete or
                damaged.
        """
        try:
            model, encoder = load_checkpoint(directory, dtype=dtype)
        except (FileNotFoundError, ValueError) as error:
            raise WeightsUnavailableError(str(error)) from error
        return cls(model.to(device), encoder, config)

    def log_probs(self, queries: Sequence[LikelihoodQuery]) -> list[list[float] | None]:
        """Scores answers in batches of up to `config.max_rows`.

        Args:
            queries: Queries to score; a query's result does not depend on its batch.

        Returns:
            For each query the natural log-probability of each token of its answer; None for an empty answer, or a
            conversation longer than `config.max_tokens`.
        """
        scores: list[list[float] | None] = [None] * len(queries)
        for part in passes_of(queries, self.config.max_rows):
            rows = {index: self._row(queries[index]) for index in part}
            usable = {index: row for index, row in rows.items() if self._is_usable(row)}
            if usable:
                for index, scored in zip(usable, self._score(list(usable.values())), strict=True):
                    scores[index] = scored
        return scores

    def _is_usable(self, row: _Row) -> bool:
        return row.num_answer_tokens > 0 and len(row.ids) <= self.config.max_tokens

    def _row(self, query: LikelihoodQuery) -> _Row:
        """Returns a query in tokens; the answer is tokenized separately from the text before it."""
        segment = self.encoder.encode({"text": query.question, "images": query.images}, is_first=True)
        thought = self.encoder.encode_text(f"<think>{query.reasoning}</think><answer>", is_start=True)
        answer = self.encoder.encode_text(query.answer)
        return _Row(
            ids=[*segment.ids.tolist(), *thought, *answer],
            images=segment.images,
            num_answer_tokens=len(answer),
        )

    @torch.no_grad()
    def _score(self, rows: Sequence[_Row]) -> list[list[float]]:
        """Returns the log-probabilities of each row's answer, from one forward pass."""
        was_training = self.model.training
        self.model.eval()
        hidden_BTD = self._hidden_states(rows)
        self.model.train(was_training)
        return [self._answer_log_probs(hidden_TD, row) for hidden_TD, row in zip(hidden_BTD, rows, strict=True)]

    def _hidden_states(self, rows: Sequence[_Row]) -> Tensor:
        """Returns the last hidden states, float[B, T, D], rows padded on the right."""
        width = max(len(row.ids) for row in rows)
        ids_BT = torch.full((len(rows), width), self.encoder.pad_id, dtype=torch.long)
        mask_BT = torch.zeros(len(rows), width, dtype=torch.long)
        for index, row in enumerate(rows):
            ids_BT[index, : len(row.ids)] = torch.tensor(row.ids)
            mask_BT[index, : len(row.ids)] = 1
        ids_BT, mask_BT = ids_BT.to(self.model.device), mask_BT.to(self.model.device)
        return row_hidden_states(self.model, ids_BT, mask_BT, [image for row in rows for image in row.images])

    def _answer_log_probs(self, hidden_TD: Tensor, row: _Row) -> list[float]:
        """Returns the log-probability of each token of the answer, given everything before it."""
        end, num = len(row.ids), row.num_answer_tokens
        logits_NV = family_of(self.model).logits(self.model, hidden_TD[end - num - 1 : end - 1]).float()
        chosen_N = torch.tensor(row.ids[end - num :], device=logits_NV.device)
        log_probs: list[float] = logits_NV.log_softmax(-1).gather(1, chosen_N[:, None])[:, 0].tolist()
        return log_probs
