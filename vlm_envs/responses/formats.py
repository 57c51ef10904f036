"""Response formats as data: which tags a strategy asks for, in which order.

Five reasoning strategies (VAGEN Table 5) times up to three representations of the visual state (VAGEN
Table 23), and the strategies of question-answering worlds (ARM-Thinker, Mags-RL, iVGR, Argos). A strategy is a tuple
of sections; one parser (`vlm_envs.responses.parsing`) and one writer serve them all.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal, get_args

Representation = Literal["natural_language", "symbolic", "structured"]
REPRESENTATIONS: tuple[str, ...] = get_args(Representation)
WITHOUT_SYMBOLS = ("natural_language", "structured")
"""Representations of worlds that no rows of symbols draw."""

SECTION_MEANING: dict[str, str] = {
    "think": "your thoughts",
    "rethink": "your thoughts after the closer look",
    "observation": "the state you see now",
    "reasoning": "how you choose",
    "prediction": "the state after your actions",
    "tool_call": "one call of a tool",
    "answer": "your actions",
}
"""What the prompt says belongs into each section."""

TOOL_OUTPUT_TAGS = ("<tool_response>", "</tool_response>")
"""Around what tools say. A model that writes them itself is not in the format."""


@dataclass(frozen=True, kw_only=True)
class ResponseFormat:
    """The tags of one strategy.

    Attributes:
        name: Strategy name as users write it.
        thoughts: Sections inside `<think>`, in order. Empty for strategies without structured thoughts.
        free_think: Whether `<think>` holds free text instead of sections.
        thought_tag: What the thoughts stand in.
        endings: Sections of which exactly one ends the response, and in which the actions are. Empty: the actions are
            in the free thoughts.
        cut_after: A closing tag after whose first occurrence the response counts as over; what follows is dropped, as
            if generation had stopped there. Empty for none.
        later: The format of the turns after the first, where it is another one.
    """

    name: str
    thoughts: tuple[str, ...] = ()
    free_think: bool = False
    thought_tag: str = "think"
    endings: tuple[str, ...] = ("answer",)
    cut_after: str = ""
    later: ResponseFormat | None = None

    def at(self, turn: int) -> ResponseFormat:
        """Returns the format of a turn, counted from 0."""
        return self.later if turn > 0 and self.later is not None else self

    def cut(self, text: str) -> str:
        """Returns a response up to where it counts as over."""
        if not self.cut_after:
            return text
        head, tag, _ = text.partition(self.cut_after)
        return head + tag

    @property
    def tag_sequences(self) -> tuple[tuple[str, ...], ...]:
        """All tags in the order they occur, one sequence per ending, each tag as it is written."""
        inner = tuple(tag for section in self.thoughts for tag in _tags(section))
        opening, closing = _tags(self.thought_tag)
        think = (opening, *inner, closing) if self.thoughts or self.free_think else ()
        return tuple((*think, *_tags(ending)) for ending in self.endings) or (think,)

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections that hold text, in order, all endings included."""
        return (*((self.thought_tag,) if self.free_think else self.thoughts), *self.endings)

    @property
    def action_sections(self) -> tuple[str, ...]:
        """Names of the sections of which one holds the actions."""
        return self.endings or (self.thought_tag,)

    def write(self, sections: Mapping[str, str]) -> str:
        """Returns a response in this format.

        Args:
            sections: Text per section name; sections this format does not have are ignored. Of several endings the
                first that is there is written.

        Returns:
            The whole response text, which `parsing.parse_response` reads back.

        Raises:
            KeyError: If a section of this format is missing.
        """

        def wrap(name: str) -> str:
            opening, closing = _tags(name)
            return f"{opening}{sections[name]}{closing}"

        if self.free_think:
            think = wrap(self.thought_tag)
        elif self.thoughts:
            opening, closing = _tags(self.thought_tag)
            think = f"{opening}{''.join(wrap(name) for name in self.thoughts)}{closing}"
        else:
            think = ""
        if not self.endings:
            return think
        return think + wrap(next((name for name in self.endings if name in sections), self.endings[0]))

    def skeletons(self, meaning: Mapping[str, str] = SECTION_MEANING) -> tuple[str, ...]:
        """Returns the format with a hint in place of each section's text, once per ending."""
        hints = {name: f"({meaning[name]})" for name in self.sections}
        thoughts = {name: hint for name, hint in hints.items() if name not in self.endings}
        return tuple(self.write(thoughts | {ending: hints[ending]}) for ending in self.endings) or (self.write(hints),)


def _tags(section: str) -> tuple[str, str]:
    """Returns a section's opening and closing tag."""
    return f"<{section}>", f"</{section}>"


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

_ZOOMING = ResponseFormat(
    name="mags",
    free_think=True,
    endings=(),
    cut_after="</think>",
    later=ResponseFormat(name="mags", free_think=True, thought_tag="rethink"),
)

_LOOKING_TWICE = ResponseFormat(
    name="ivgr_views",
    free_think=True,
    endings=(),
    cut_after="</think>",
    later=ResponseFormat(name="ivgr_views", free_think=True),
)

QA_FORMATS: dict[str, ResponseFormat] = {
    response_format.name: response_format
    for response_format in (
        ResponseFormat(name="direct", free_think=True),
        ResponseFormat(name="arm", free_think=True, endings=("tool_call", "answer"), cut_after="</tool_call>"),
        _ZOOMING,
        ResponseFormat(name="ivgr_grounded", free_think=True),
        ResponseFormat(name="ivgr_textual", free_think=True),
        _LOOKING_TWICE,
        ResponseFormat(name="points", free_think=True),
    )
}
"""The strategies of question-answering worlds, by name.

Sources: ARM-Thinker, section 3.1 (a thought, then one call or the answer); Mags-RL, section 3.2 (two rounds, generation
stops at `</think>`); iVGR, section 3.2, and Argos, section 3.1 (a thought with boxes, or points, and the answer); iVGR,
section 3.4 (boxes first, then an answer from the views they give).
"""

KNOWN_TAGS: frozenset[str] = frozenset(TOOL_OUTPUT_TAGS) | {
    tag
    for response_format in (*FORMATS.values(), *QA_FORMATS.values())
    for of_turn in (response_format.at(0), response_format.at(1))
    for sequence in of_turn.tag_sequences
    for tag in sequence
}
"""Every tag of every strategy; none of them may occur inside a section."""
