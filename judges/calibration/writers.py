"""Writers of state texts with known sight: blind ones, which set the bar, and truthful ones, which must clear it.

    blind         sees nothing of the state, or only what the prompt states
    half-blind    describes one thing truly and guesses the rest
    partial       true, but describes one thing only
    full          true, and describes everything

A judge is sound where the best blind text scores below the worst partial truth, and the best half-blind text below
the worst full truth. The tests of `judges.calibration.chance` hold every judged world to that.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from vlm_envs.responses.formats import Representation

Section = Literal["observation", "prediction"]
"""What a text describes: the state that the model sees, or the state that its actions lead to."""

Sight = Literal["blind", "half_blind", "partial", "full"]
State = Mapping[str, Any]
Write = Callable[[State, Section], str | None]
"""Returns the text for a state; None where the phrasing does not apply, such as a goal that is not reached."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Writer:
    """One way to write a state text.

    Attributes:
        name: Of the phrasing, for reports.
        sight: How much of the state it describes truly.
        write: The text for a state.
        representation: In which it is written.
    """

    name: str
    sight: Sight
    write: Write
    representation: Representation = "natural_language"


def constant(text: str, representation: Representation = "natural_language") -> Writer:
    """Returns a blind writer that writes the same text of every state."""
    return Writer(name=text, sight="blind", write=lambda state, section: text, representation=representation)


def verb(section: Section, *, is_plural: bool = False) -> str:
    """Returns "is", "are" or "will be"."""
    if section == "prediction":
        return "will be"
    return "are" if is_plural else "is"


def joined(*sentences: str) -> str:
    """Returns sentences as one text, each with its first letter in upper case."""
    return " ".join(sentence[0].upper() + sentence[1:] for sentence in sentences if sentence)
