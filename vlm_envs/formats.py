"""Response formats as data: which tags a strategy asks for, in which order.

Five reasoning strategies (VAGEN Table 5) times up to three representations of the visual state (VAGEN
Table 23). A strategy is a tuple of sections; one parser (`vlm_envs.parsing`) and one writer serve them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Representation = Literal["natural_language", "symbolic", "structured"]
REPRESENTATIONS: tuple[str, ...] = get_args(Representation)

SECTION_MEANING: dict[str, str] = {
    "think": "your thoughts",
    "observation": "the state you see now",
    "reasoning": "how you choose",
    "prediction": "the state after your actions",
    "answer": "your actions",
}
"""What the prompt says belongs into each section."""


@dataclass(frozen=True, kw_only=True)
class ResponseFormat:
    """The tags of one strategy.

    Attributes:
        name: Strategy name as users write it.
        thoughts: Sections inside `<think>`, in order. Empty for strategies without structured thoughts.
        free_think: Whether `<think>` holds free text instead of sections.
    """

    name: str
    thoughts: tuple[str, ...] = ()
    free_think: bool = False

    @property
    def tags(self) -> tuple[str, ...]:
        """All tags in the order they occur, each as it is written, e.g. `("<answer>", "</answer>")`."""
        inner = tuple(tag for section in self.thoughts for tag in (f"<{section}>", f"</{section}>"))
        think = ("<think>", *inner, "</think>") if self.thoughts or self.free_think else ()
        return (*think, "<answer>", "</answer>")

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections that hold text, in order."""
        return (*(("think",) if self.free_think else self.thoughts), "answer")

    def write(self, sections: Mapping[str, str]) -> str:
        """Returns a response in this format.

        Args:
            sections: Text per section name; sections this format does not have are ignored.

        Returns:
            The whole response text, which `parsing.parse_response` reads back.

        Raises:
            KeyError: If a section of this format is missing.
        """

        def wrap(name: str) -> str:
            return f"<{name}>{sections[name]}</{name}>"

        if self.free_think:
            think = wrap("think")
        elif self.thoughts:
            think = f"<think>{''.join(wrap(name) for name in self.thoughts)}</think>"
        else:
            think = ""
        return think + wrap("answer")


FORMATS: dict[str, ResponseFormat] = {
    response_format.name: response_format
    for response_format in (
        ResponseFormat(name="no_think"),
        ResponseFormat(name="free_think", free_think=True),
        ResponseFormat(name="grounding", thoughts=("observation", "reasoning")),
        ResponseFormat(name="worldmodeling", thoughts=("reasoning", "prediction")),
        ResponseFormat(name="grounding_worldmodeling", thoughts=("observation", "reasoning", "prediction")),
    )
}
"""The five strategies by name. Source: VAGEN Table 5."""

KNOWN_TAGS: frozenset[str] = frozenset(tag for fmt in FORMATS.values() for tag in fmt.tags)
"""Every tag of every strategy; none of them may occur inside a section."""
