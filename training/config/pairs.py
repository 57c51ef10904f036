"""How responses to be judged are built from questions with a right answer, apart from doing it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from agents.api.config import EndpointConfig
from vlm_envs.validation import field_name, require, require_between

JUDGED = "judged.jsonl"
"""The file that is written into the folder, as `dataset=judged` of RewardJudging reads it."""


NOBODY = EndpointConfig(model="NAME", base_url="http://URL", temperature=1.0, max_tokens=2048)
"""No model; what is set besides the name and the address holds for one that is named."""


@dataclass(frozen=True, kw_only=True)
class PairsConfig:
    """Build responses to be judged from questions with a right one: wrong ones beside it, too similar ones dropped.

    Attributes:
        folder: Where the questions and their pictures are, and the result goes.
        rows: File of the questions in it, JSON lines or a table (`.parquet`): `question`, `response` (the right one),
            and what there is of `wrong` (a list of wrong ones), `answer` (what the right response comes to in short),
            `image`, or `document` with or without `pages` and `evidence_pages`; `track` and `id`.
        layout: How that file has them: `own`, as above; `mp_docvqa`, its `train.json` beside its folder `images`;
            `deepeyes`, one of its tables, in both of which the true answer is the right response; `mm_ifengine`,
            conversations and preferences as LLaMA-Factory reads them, in which `rejected` is a wrong one.
        num_candidates: 2 or 4 responses to choose from, or 1 to be judged alone: the right one in one row, a wrong one
            in another.
        max_similarity: A wrong response is dropped if its words are more alike to the right one's than this: 1 less the
            edits of words over the longer one's number of words.
        endpoint: A model that writes wrong responses where a row has too few; nobody unless `model` and `base_url` are
            given. With a `cache_dir`, a call that is repeated asks for nothing twice.
        probe_endpoints: Whether that model is asked one short question at start-up, so that one that does not answer is
            told at once.
    """

    folder: str = "."
    rows: str = "rows.jsonl"
    layout: Literal["own", "mp_docvqa", "deepeyes", "mm_ifengine"] = "own"
    num_candidates: Literal[1, 2, 4] = 2
    max_similarity: float = 0.9
    endpoint: EndpointConfig = NOBODY
    probe_endpoints: bool = True

    def __post_init__(self) -> None:
        require_between(self, 0, 1, "max_similarity", includes=(False, True))
        require(
            self.rows != JUDGED,
            f"{field_name(self, 'rows')} {JUDGED} is what the result is called. Name the file of the questions.",
        )
        endpoint = field_name(self, "endpoint")
        is_compatible = self.endpoint.provider == NOBODY.provider
        require(
            self.asks_model == (not is_compatible or self.endpoint.base_url != NOBODY.base_url),
            f"A model that writes wrong responses needs a name and an address: {endpoint}.model NAME and "
            f"{endpoint}.base-url URL.",
        )

    @property
    def asks_model(self) -> bool:
        """Whether a model writes wrong responses."""
        return self.endpoint.model != NOBODY.model

    @property
    def num_wrong(self) -> int:
        """Wrong responses that a question needs."""
        return max(1, self.num_candidates - 1)
