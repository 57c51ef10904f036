"""How likely a vision-language model thinks an answer, once it has seen pictures, question and reasoning.

The model reads the conversation it might have had itself:

    user       pictures, then the question
    assistant  <think>reasoning</think><answer>answer

and the answer's tokens are what is scored: all prefixes in one forward pass, no cache, nothing sampled.

Source: Argos, section 3.1, equation 5. Choices: the tags around reasoning and answer; the closing tag is not part of
the answer, so nothing is lost for ending it; the whole vocabulary at temperature 1.
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
"""About as many as in text and pictures of Qwen2.5-VL."""


@dataclass(frozen=True, kw_only=True)
class LikelihoodConfig:
    """How much is read at once.

    Attributes:
        max_tokens: Longest conversation, pictures included; of longer ones nothing is said.
        max_rows: Most conversations in one forward pass.
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
        question: What was asked, its options included.
        reasoning: The thought before the answer; may be empty.
        answer: The answer, without its tags.
        images: What was shown, each uint8[height, width, 3].
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
    """Returns which queries are read in one forward pass each, by their indices.

    Those that are about as long are read together, for the shorter are padded to the longest. How long a query is, is
    told by its letters and pixels. So whoever shares passes out over several models need not have one to know them.

    Args:
        queries: What is to be scored.
        max_rows: Most queries of a pass.
    """
    order = sorted(range(len(queries)), key=lambda index: _size(queries[index]))
    return [order[start : start + max_rows] for start in range(0, len(order), max_rows)]


def _size(query: LikelihoodQuery) -> float:
    """Returns about how many tokens a query has."""
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
            WeightsUnavailableError: If there is no checkpoint, or it is of another family, incomplete or damaged.
        """
        try:
            model, encoder = load_checkpoint(directory, dtype=dtype)
        except (FileNotFoundError, ValueError) as error:
            raise WeightsUnavailableError(str(error)) from error
        return cls(model.to(device), encoder, config)

    def log_probs(self, queries: Sequence[LikelihoodQuery]) -> list[list[float] | None]:
        """Scores answers, up to `config.max_rows` of them at a time.

        Args:
            queries: What to score; a row's result does not depend on its neighbours.

        Returns:
            For each query the natural log-probability of each token of its answer. None where there is none to give:
            an empty answer, or a conversation longer than `config.max_tokens`.
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
        """Returns a query in tokens; the answer's are its own, whatever stands before it."""
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
        """Returns the log-probability of each token of the answer, given all before it."""
        end, num = len(row.ids), row.num_answer_tokens
        logits_NV = family_of(self.model).logits(self.model, hidden_TD[end - num - 1 : end - 1]).float()
        chosen_N = torch.tensor(row.ids[end - num :], device=logits_NV.device)
        log_probs: list[float] = logits_NV.log_softmax(-1).gather(1, chosen_N[:, None])[:, 0].tolist()
        return log_probs
