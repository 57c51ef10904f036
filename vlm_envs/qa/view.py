"""An episode about a question in pictures and in words."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np
import numpy.typing as npt

from vlm_envs.parts import View
from vlm_envs.qa.context import QAContext
from vlm_envs.qa.dynamics import right_answer
from vlm_envs.qa.paper import written_sheet
from vlm_envs.qa.state import QAState
from vlm_envs.qa.strategy import Strategy, written_evidence
from vlm_envs.responses.answers import score_answer
from vlm_envs.tools.sheets import stitched_row

Pixels = npt.NDArray[np.uint8]


@dataclass(frozen=True, kw_only=True)
class QAView(View[QAState]):
    """What came with the last observation, and the truth about the question.

    Attributes:
        context: Gives the budget of pictures.
        strategy: Gives the space in which boxes are written.
    """

    tells_answer: ClassVar[bool] = True

    context: QAContext
    strategy: Strategy

    def image(self, state: QAState) -> Pixels:
        """Returns what came last in one picture, side by side; where nothing came, what came first.

        Where there is no picture at all, the question is written on a sheet.
        """
        shown = state.shown or self.context.opening(state.sample)[1]
        if not shown:
            return written_sheet(state.sample).pixels.copy()
        row = stitched_row([self.context.scaled(image) for image in shown])
        return row.pixels.copy()

    def images(self, state: QAState) -> tuple[Pixels, ...]:
        """Returns the pictures that came last, each scaled to the budget."""
        return tuple(self.context.shown(image, state.sample).pixels.copy() for image in state.shown)

    def structured(self, state: QAState) -> Mapping[str, Any]:
        """Returns question, key, evidence in the strategy's space, calls and answer, in JSON types.

        `sample_digest` is of what is shown and asked, `truth_digest` of what is right: ids alone do not tell two
        folders of one data set apart.
        """
        sample, key = state.sample, state.sample.key
        shown_as = self.context.shown_pixels(sample)
        evidence = written_evidence(sample, self.strategy.space(sample, self.context))
        return {
            "sample_id": sample.sample_id,
            "sample_digest": sample.digest,
            "truth_digest": sample.truth_digest,
            "category": sample.category,
            "strategy": self.strategy.name,
            "question": sample.question,
            "answer_kind": key.kind,
            "answers": list(key.answers),
            "options": list(key.options),
            "evidence": [{"label": each.label, "box": list(box)} for each, box in evidence],
            "evidence_pages": list(sample.evidence_pages),
            "shown_size": None if shown_as is None else [shown_as.width, shown_as.height],
            "calls": [{"name": call.name, "succeeded": call.succeeded} for call in state.calls],
            "answer": state.answer,
            "score": score_answer(state.answer, key),
        } | {
            name: value
            for name, value in (("tolerance", key.tolerance), ("coordinates", self.context.coordinates))
            if value is not None
        }

    def describe(self, state: QAState, representation: str) -> str:
        """Returns what is true of the question, in sentences or as JSON."""
        sample = state.sample
        if representation == "structured":
            pages = {"evidence_pages": list(sample.evidence_pages)} if sample.evidence_pages else {}
            return json.dumps({"answer": right_answer(sample.key), "facts": sample.facts} | pages, ensure_ascii=False)
        pages_text = f" It is on {_pages(sample.evidence_pages)}." if sample.evidence_pages else ""
        return f"{sample.facts} The right answer is {right_answer(sample.key)}.{pages_text}".strip()

    def true_description(self, state: QAState, representation: str) -> str:
        """Returns the facts that a careful look tells; empty where there are none, or they are what is asked for."""
        return "" if state.sample.key.kind == "verdict" else state.sample.facts


def _pages(pages: tuple[int, ...]) -> str:
    return f"page {pages[0]}" if len(pages) == 1 else f"pages {', '.join(map(str, pages))}"
