"""What went wrong in a run's last evaluation, counted by kind, beside the evaluation it is compared with."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any
from urllib.parse import urlencode

from vlm_envs.records.report.mistakes import Kind

MEANINGS: dict[Kind, str] = {
    "world failed": "the world raised an error",
    "no response": "the agent returned an error instead of a response",
    "cut off": "the response hit the token limit",
    "refused": "the model or its provider refused to answer",
    "out of format": "no action could be read from the response",
    "saw wrongly": "the stated observation differs from the true state",
    "not stated": "a wrong action without a stated observation",
    "wrong answer": "the final answer is not the correct one",
    "lost": "an action ended the episode unsolved",
    "became unsolvable": "an action made the level unsolvable",
    "no effect": "none of a turn's actions changed anything",
    "detour": "a turn used more actions than an optimal plan",
    "ran out of context": "the prompt no longer fit the model's context",
    "ran out of turns": "the turn limit was reached without another mistake",
    "not solved": "no single turn caused it",
}
"""Kind of mistake to one line for readers."""


@dataclass(frozen=True, kw_only=True)
class Column:
    """One evaluation's failures.

    Attributes:
        label: The evaluation's label.
        num_failed: Recorded episodes that were not solved.
        num_recorded: Recorded episodes.
        address: Link to its failures in the episode browser; empty if it has none.
    """

    label: str
    num_failed: int
    num_recorded: int
    address: str


@dataclass(frozen=True, kw_only=True)
class Row:
    """One kind of mistake.

    Attributes:
        kind: The kind.
        meaning: What it means, in one line.
        counts: Number of episodes in each column.
        address: Link to the episodes of the last column that have one; empty if it has none.
    """

    kind: str
    meaning: str
    counts: tuple[int, ...]
    address: str


@dataclass(frozen=True, kw_only=True)
class Failures:
    """First mistakes of failed episodes.

    Attributes:
        columns: The last evaluation, after the one it is compared with if there is one.
        rows: Kinds of mistakes, the most frequent of the last evaluation first.
    """

    columns: tuple[Column, ...]
    rows: tuple[Row, ...]


def failures(labels: Sequence[Mapping[str, Any]]) -> Failures | None:
    """Returns the failures of the last evaluation.

    Args:
        labels: As `episode_browser` returns them.

    Returns:
        None if no evaluation has recorded episodes.
    """
    evaluations = {label["label"]: label for label in labels if label["episodes"] and not label["is_training"]}
    if not evaluations:
        return None
    last = [*evaluations.values()][-1]
    compared = [label for label in (evaluations.get(last["beside"]), last) if label is not None]
    kinds = dict.fromkeys(kind for label in reversed(compared) for kind in label["mistakes"])
    rows = tuple(
        Row(
            kind=kind,
            meaning=MEANINGS.get(kind, ""),
            counts=tuple(label["mistakes"].get(kind, 0) for label in compared),
            address=_address(last, mistake=kind) if kind in last["mistakes"] else "",
        )
        for kind in kinds
    )
    columns = tuple(
        Column(
            label=label["label"],
            num_failed=label["num_failed"],
            num_recorded=label["num_recorded"],
            address=_address(label) if label["num_failed"] else "",
        )
        for label in compared
    )
    return Failures(columns=columns, rows=rows)


def _address(label: Mapping[str, Any], **more: str) -> str:
    """Returns the address that the page's script understands (`Browsing.follow`)."""
    return "#" + urlencode({"label": label["label"], "filter": "failed", **more}, errors="replace")
