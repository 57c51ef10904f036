"""Where what a model said differs from what was true, word by word."""

from __future__ import annotations

import re
from collections.abc import Mapping
from difflib import SequenceMatcher
from typing import Any

from vlm_envs.responses.formats import structured_text

_TOKENS = re.compile(r"\w+|\s+|[^\w\s]")
_MAX_CHARS = 4_000
"""Longer claims are shown unmarked: comparing takes time that grows with the square of their length."""

Segments = list[tuple[str, bool]]


def compare(claim: str, truth: str | None, state: Mapping[str, Any] | None) -> dict[str, Any]:
    """Returns what a reader needs to see a claim beside the truth.

    Args:
        claim: What the model wrote.
        truth: The true state in the words the model was asked for; None where those are not known.
        state: The typed true state, shown unmarked where `truth` is None.

    Returns:
        `segments`, `truth` (text or None) and `verdict`: `"same"`, `"differs"` or `"unknown"`.
    """
    if truth is None:
        return {
            "segments": [(claim, False)],
            "truth": structured_text(state) if state else None,
            "verdict": "unknown",
        }
    if claim.split() == truth.split():
        return {"segments": [(claim, False)], "truth": truth, "verdict": "same"}
    return {"segments": mark_differences(claim, truth), "truth": truth, "verdict": "differs"}


def mark_differences(claim: str, truth: str) -> Segments:
    """Cuts a claim into pieces that stand in the truth, in this order, and pieces that do not.

    Args:
        claim: What the model wrote.
        truth: What would have been right.

    Returns:
        Pieces of the claim, which together are the claim, each with whether it differs. White space alone
        never counts as a difference. The marks are a reading aid; how much a claim is worth is the judge's
        decision.
    """
    if len(claim) > _MAX_CHARS or len(truth) > _MAX_CHARS:
        return [(claim, False)]
    said, true = _TOKENS.findall(claim), _TOKENS.findall(truth)
    segments: Segments = []
    for kind, start, end, _, _ in SequenceMatcher(None, said, true, autojunk=False).get_opcodes():
        piece = "".join(said[start:end])
        if not piece:
            continue
        differs = kind != "equal" and not piece.isspace()
        if segments and segments[-1][1] == differs:
            piece = segments.pop()[0] + piece
        segments.append((piece, differs))
    return segments
