"""An episode of a world that asks, as its judges see it."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from vlm_envs.responses.answers import AnswerKey, read_number
from vlm_envs.responses.formats import QA_FORMATS
from vlm_envs.tools.written_boxes import WrittenBox


@dataclass(frozen=True, kw_only=True, slots=True)
class JudgedEpisode:
    """What the judges see of one episode.

    Attributes:
        responses: what the model wrote, one text per turn.
        formats_correct: whether each was in the format.
        state: the final state dict of the world, as `QAView.structured` gives it.
        images: the pictures that were shown with the question, each uint8[height, width, 3]; for teachers that look.
        prompt: the text that was shown with them.
    """

    responses: tuple[str, ...]
    formats_correct: tuple[bool, ...]
    state: Mapping[str, Any]
    images: tuple[npt.NDArray[np.uint8], ...] = field(default=(), repr=False, compare=False)
    prompt: str = field(default="", repr=False, compare=False)

    @property
    def strategy(self) -> str:
        """The strategy it was played with."""
        return str(self.state["strategy"])

    @property
    def own_pieces(self) -> tuple[str, ...]:
        """The responses, each cut where it counts as over."""
        response_format = QA_FORMATS[self.strategy]
        return tuple(response_format.at(turn).cut(text) for turn, text in enumerate(self.responses))

    @property
    def last_words(self) -> str:
        """The last response; in a world that asks, as far as it counts."""
        return self.own_pieces[-1] if self.state.get("strategy") in QA_FORMATS else self.responses[-1]

    @property
    def query_id(self) -> str:
        """Names the question among all data sets of a run: its sample's id, and what is shown, asked and right.

        Ids alone are the same for tables of one name in two folders.
        """
        names = (self.state["sample_id"], self.state.get("sample_digest"), self.state.get("truth_digest"))
        return " ".join(str(name) for name in names if name)

    @property
    def num_objects(self) -> int | None:
        """The true count, where the question asks for one."""
        if self.key.kind != "number" or not str(self.state["category"]).startswith("count"):
            return None
        count = read_number(self.key.answers[0])
        return int(count) if count is not None and count >= 0 and count.is_integer() else None

    @property
    def key(self) -> AnswerKey:
        """The truth; an answer compared by similarity is compared so."""
        return AnswerKey(
            kind=self.state["answer_kind"],
            answers=tuple(self.state["answers"]),
            options=tuple(self.state["options"]),
            question=self.state["question"],
        )

    @property
    def true_boxes(self) -> tuple[WrittenBox, ...]:
        """Boxes of what the answer rests on, in the strategy's space."""
        return tuple(WrittenBox(*each["box"]) for each in self.state["evidence"])
