"""Response formats as data, and the prompts built from them: the tags of each strategy, in order.

There are five reasoning strategies (VAGEN Table 5) times up to three representations of the visual state
(VAGEN Table 23), and the strategies of question-answering worlds (ARM-Thinker, Mags-RL, iVGR, Argos). A
strategy is a tuple of sections; one parser (`vlm_envs.responses.parsing`) and one writer handle them all.

The first observation contains the whole instruction, as a system message or in its text, so observations are
all an agent needs. Later observations contain only feedback, and a reminder of the format if requested.
Nothing here depends on the world's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal, get_args

Representation = Literal["natural_language", "symbolic", "structured"]
REPRESENTATIONS: tuple[str, ...] = get_args(Representation)
WITHOUT_SYMBOLS = ("natural_language", "structured")
"""Representations of worlds that have no drawing as rows of symbols."""

SECTION_MEANING: dict[str, str] = {
    "think": "your thoughts",
    "rethink": "your thoughts after the closer look",
    "observation": "the state you see now",
    "reasoning": "how you choose",
    "prediction": "the state after your actions",
    "tool_call": "one call of a tool",
    "answer": "your actions",
}
"""Meaning of each section, as the prompt describes it."""

TOOL_OUTPUT_TAGS = ("<tool_response>", "</tool_response>")
"""Tags around tool output. A response in which the model writes them itself is not in the format."""


@dataclass(frozen=True, kw_only=True)
class ResponseFormat:
    """The tags of one strategy.

    Attributes:
        name: Strategy name as users write it.
        thoughts: Sections inside `<think>`, in order. Empty for strategies without structured thoughts.
        free_think: Whether `<think>` contains free text instead of sections.
        thought_tag: Name of the tag around the thoughts.
        endings: Sections of which exactly one ends the response and contains the actions. If empty, the
            actions are in the free thoughts.
        cut_after: Closing tag whose first occurrence ends the response; the rest is dropped, as if generation
            had stopped there. Empty for none.
        later: Format of the turns after the first, if it differs.
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
        """Returns a response up to the point where it counts as finished."""
        if not self.cut_after:
            return text
        head, tag, _ = text.partition(self.cut_after)
        return head + tag

    @property
    def tag_sequences(self) -> tuple[tuple[str, ...], ...]:
        """All tags in the order in which they occur, one sequence per ending, each tag as it is written."""
        inner = tuple(tag for section in self.thoughts for tag in _tags(section))
        opening, closing = _tags(self.thought_tag)
        think = (opening, *inner, closing) if self.thoughts or self.free_think else ()
        return tuple((*think, *_tags(ending)) for ending in self.endings) or (think,)

    @property
    def sections(self) -> tuple[str, ...]:
        """Names of the sections that contain text, in order, including all endings."""
        return (*((self.thought_tag,) if self.free_think else self.thoughts), *self.endings)

    @property
    def action_sections(self) -> tuple[str, ...]:
        """Names of the sections, one of which contains the actions."""
        return self.endings or (self.thought_tag,)

    def write(self, sections: Mapping[str, str]) -> str:
        """Returns a response in this format.

        Args:
            sections: Text per section name; sections that this format does not have are ignored. If several
                endings are given, the first is written.

        Returns:
            The whole response text, which `parsing.parse_response` can read.

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

Sources: ARM-Thinker, section 3.1 (a thought, then one call or the answer); Mags-RL, section 3.2 (two rounds,
generation stops at `</think>`); iVGR, section 3.2, and Argos, section 3.1 (a thought with boxes, or points,
and the answer); iVGR, section 3.4 (boxes first, then an answer from the crops they define).
"""

KNOWN_TAGS: frozenset[str] = frozenset(TOOL_OUTPUT_TAGS) | {
    tag
    for response_format in (*FORMATS.values(), *QA_FORMATS.values())
    for of_turn in (response_format.at(0), response_format.at(1))
    for sequence in of_turn.tag_sequences
    for tag in sequence
}
"""Every tag of every strategy; none may occur inside a section."""


MAX_ECHO_CHARS = 60
"""Actions longer than this, such as drawings, are shortened in feedback: the model has them in its context anyway."""


@dataclass(frozen=True, kw_only=True)
class PromptSpec:
    """The parts of a world that prompts are built from.

    Attributes:
        task: The world's `vlm_envs.parts.Task`.
        response_format: The strategy's tags.
        state_help: How the state is written in words; empty to omit it.
        max_actions_per_turn: Actions carried out per turn.
        max_turns: Turns before the episode is truncated.
    """

    task: Any
    response_format: ResponseFormat
    state_help: str
    max_actions_per_turn: int
    max_turns: int

    @property
    def separator(self) -> str:
        """Separator between the actions of a turn; empty if there is only one."""
        return str(self.task.grammar.separator) if self.max_actions_per_turn > 1 else ""

    def skeletons(self, response_format: ResponseFormat) -> str:
        """Returns the responses that a format allows."""
        return f"exactly: {' or: '.join(response_format.skeletons(self.task.section_meaning))}"


def first_prompt(spec: PromptSpec) -> str:
    """Returns the instructions of an episode: task, rules, actions, format, budget."""
    task = spec.task
    actions = ", ".join(task.action_names) if task.action_names else task.grammar.expected
    joined = f" separated by '{spec.separator}'" if spec.separator else ""
    first, later = (spec.response_format.at(turn) for turn in (0, 1))
    lines = [
        f"{task.opening}: {task.name}. {task.goal}",
        *task.rules,
        f"Actions: {actions}. At most {spec.max_actions_per_turn} a turn{joined}; {spec.max_turns} turns.",
        f"Respond with {spec.skeletons(first)}",
    ]
    if later is not first:
        lines.append(f"From the second turn on with {spec.skeletons(later)}")
    if spec.state_help and {"observation", "prediction"} & set(spec.response_format.sections):
        lines.append(spec.state_help)
    return "\n".join(lines)


def turn_prompt(spec: PromptSpec, turn: int) -> str:
    """Returns the number of the turn and any note on the last one.

    If a system message contains the instructions, this is the whole text of the first turn.

    Args:
        spec: The world's prompt.
        turn: Number of turns played so far.
    """
    note = spec.task.last_turn_note if 0 < turn == spec.max_turns - 1 else ""
    return "\n".join(filter(None, (f"Turn {turn + 1} of {spec.max_turns}.", note)))


def format_reminder(spec: PromptSpec, turn: int) -> str:
    """Returns instructions on how to respond to this turn, which end an observation.

    Args:
        spec: The world's prompt.
        turn: Number of turns played so far.

    Source: VAGEN, Appendix B, whose user turns all end with the number of actions and the format.
    """
    limit = f"At most {spec.max_actions_per_turn} actions, separated by '{spec.separator}'. " if spec.separator else ""
    return f"{limit}Respond with {spec.skeletons(spec.response_format.at(turn))}"


def next_prompt(
    spec: PromptSpec,
    turn: int,
    carried_out: tuple[str, ...],
    error: str | None,
    *,
    effects: tuple[bool, ...],
    over: bool,
) -> str:
    """Returns the text of a later observation: what was carried out, errors in the format, and the turns left.

    Args:
        spec: The world's prompt.
        turn: Number of turns played so far.
        carried_out: Names of the last turn's actions, in order, including those without effect.
        error: Error in the response's format; None if it is correct.
        effects: Whether each action of `carried_out` changed the state.
        over: Whether the episode has ended.

    Source: VAGEN, Appendix B, the feedback of Navigation, which reports once per turn whether an action was
        carried out. Here, each action without effect is reported.
    """
    fault = "" if error is None else f"Not in the format: {error}."
    left = "The episode is over." if over else turn_prompt(spec, turn)
    return "\n".join(filter(None, (_told(spec.task.grammar.separator, carried_out, effects), fault, left)))


def _told(separator: str, carried_out: tuple[str, ...], effects: tuple[bool, ...]) -> str:
    """Returns a sentence about the actions that were carried out and those that had no effect."""
    if not carried_out:
        return "Nothing was carried out."
    names = [name if len(name) <= MAX_ECHO_CHARS else f"{name[:MAX_ECHO_CHARS]}…" for name in carried_out]
    joiner = f"{separator} "
    if not any(effects):
        return f"No effect: {joiner.join(names)}."
    marked = [name if effect else f"{name} (no effect)" for name, effect in zip(names, effects, strict=True)]
    return f"Done: {joiner.join(marked)}."


def structured_text(value: object) -> str:
    """Returns a typed state as text: `{player_position: (4, 2), grid_size: (6, 6)}`; fractions with two decimals."""
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key}: {structured_text(item)}" for key, item in value.items()) + "}"
    if isinstance(value, list):
        return "[" + ", ".join(map(structured_text, value)) + "]"
    return f"{value:.2f}" if isinstance(value, float) else str(value)


def encodable(text: str) -> str:
    """Returns a text with unpaired surrogates, which have no UTF-8 form, replaced by question marks.

    JSON escapes can encode an unpaired surrogate, and a model can sample one; no file, message, or tokenizer
    accepts it.
    """
    return text.encode("utf-8", "replace").decode("utf-8")
