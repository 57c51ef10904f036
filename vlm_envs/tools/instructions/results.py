"""What a check found, in one sentence with the numbers it counted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

MAX_SHOWN_CHARS = 40
"""Most characters of the text or of an argument that a reason repeats."""

MAX_SHOWN_ITEMS = 5
"""Most items that a reason lists."""


@dataclass(frozen=True, slots=True)
class CheckOutcome:
    """The outcome of a check.

    Attributes:
        passed: Whether the text satisfies what was asked.
        reason: Why, with the numbers counted; one sentence that repeats at most short pieces of the text, without tags.
    """

    passed: bool
    reason: str

    @property
    def tool_text(self) -> str:
        """What the tool answers: `"Check result: True"` or `"Check result: False"` (ARM-Thinker, appendix E)."""
        return f"Check result: {self.passed}"


def shown(text: str) -> str:
    """Returns a text as a reason repeats it: quoted, short, on one line, without angle brackets."""
    short = text if len(text) <= MAX_SHOWN_CHARS else text[:MAX_SHOWN_CHARS] + "…"
    return (repr(short) if short.isprintable() else ascii(short)).replace("<", "‹").replace(">", "›")


def listed(items: Sequence[str]) -> str:
    """Returns items as a reason lists them: the first ones, and how many more there are."""
    rest = f" and {len(items) - MAX_SHOWN_ITEMS} more" if len(items) > MAX_SHOWN_ITEMS else ""
    return ", ".join(items[:MAX_SHOWN_ITEMS]) + rest


def range_text(lower: int, upper: int) -> str:
    """Returns a range as a reason names it: `"3"` or `"3 to 5"`."""
    return str(lower) if lower == upper else f"{lower} to {upper}"
