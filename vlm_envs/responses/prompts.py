"""Prompt texts of every world, built from data.

The first observation carries the whole instruction, as a system message or in its text, so observations are all an
agent needs; later ones carry feedback only, and a reminder of the format if that is asked for. Nothing here sees the
world's state.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from vlm_envs.responses.formats import SECTION_MEANING, ResponseFormat

MAX_ECHO_CHARS = 60
"""An action as long as a drawing is not repeated whole: the model has it in its context anyway."""


@dataclass(frozen=True, kw_only=True)
class PromptSpec:
    """What prompts are built from.

    Attributes:
        task_name: The game's name.
        goal: One sentence.
        rules: Further sentences.
        action_names: Names of the actions, or None.
        separator: What stands between actions, or empty for a single action.
        expected_action: What an action looks like.
        response_format: The strategy's tags.
        state_help: How the state is written in words; empty to leave it out.
        max_actions_per_turn: Actions carried out per turn.
        max_turns: Turns before the episode is truncated.
        opening: What kind of thing the task is: the first word of the first prompt.
        section_meaning: What belongs into each section of a response.
        last_turn_note: What is said before the last turn; empty for nothing.
    """

    task_name: str
    goal: str
    rules: tuple[str, ...]
    action_names: tuple[str, ...] | None
    separator: str
    expected_action: str
    response_format: ResponseFormat
    state_help: str
    max_actions_per_turn: int
    max_turns: int
    opening: str = "Game"
    section_meaning: Mapping[str, str] = field(default_factory=lambda: SECTION_MEANING)
    last_turn_note: str = ""


def first_prompt(spec: PromptSpec) -> str:
    """Returns the instructions of an episode: game, rules, actions, format, budget."""
    actions = ", ".join(spec.action_names) if spec.action_names else spec.expected_action
    joined = f" separated by '{spec.separator}'" if _takes_several(spec) else ""
    lines = [
        f"{spec.opening}: {spec.task_name}. {spec.goal}",
        *spec.rules,
        f"Actions: {actions}. At most {spec.max_actions_per_turn} a turn{joined}; {spec.max_turns} turns.",
        *_format_lines(spec),
    ]
    if spec.state_help and {"observation", "prediction"} & set(spec.response_format.sections):
        lines.append(spec.state_help)
    return "\n".join(lines)


def turn_prompt(spec: PromptSpec, turn: int) -> str:
    """Returns how much is left: all there is to say in the first turn where a system message instructs.

    Args:
        spec: The world's prompt.
        turn: How many turns were played.
    """
    lines = [f"Turn {turn + 1} of {spec.max_turns}."]
    if spec.last_turn_note and 0 < turn == spec.max_turns - 1:
        lines.append(spec.last_turn_note)
    return "\n".join(lines)


def format_reminder(spec: PromptSpec, turn: int) -> str:
    """Returns how to respond now, as the end of an observation.

    Args:
        spec: The world's prompt.
        turn: How many turns were played.

    Source: VAGEN, Appendix B, whose user turns all end in the number of actions and the format.
    """
    limit = f"At most {spec.max_actions_per_turn} actions, separated by '{spec.separator}'. "
    skeletons = " or: ".join(spec.response_format.at(turn).skeletons(spec.section_meaning))
    return f"{limit if _takes_several(spec) else ''}Respond with exactly: {skeletons}"


def next_prompt(
    spec: PromptSpec,
    turn: int,
    carried_out: tuple[str, ...],
    error: str | None,
    *,
    effects: tuple[bool, ...],
    over: bool,
) -> str:
    """Returns the text of a later observation: what happened, what was wrong, how much is left.

    Args:
        spec: The world's prompt.
        turn: How many turns were played.
        carried_out: Names of the last turn's actions, in order, those that changed nothing included.
        error: What was wrong with the response's format; None for nothing.
        effects: Whether each action of `carried_out` changed the state.
        over: Whether the episode has ended.

    Source: VAGEN, Appendix B, the feedback of Navigation, which tells whether an action was carried out. It does so
    once a turn; here each action that changed nothing is told.
    """
    lines = [_told(spec, carried_out, effects)]
    if error is not None:
        lines.append(f"Not in the format: {error}.")
    if over:
        lines.append("The episode is over.")
    else:
        lines.append(turn_prompt(spec, turn))
    return "\n".join(lines)


def _takes_several(spec: PromptSpec) -> bool:
    return bool(spec.separator) and spec.max_actions_per_turn > 1


def _told(spec: PromptSpec, carried_out: tuple[str, ...], effects: tuple[bool, ...]) -> str:
    """Returns what was done, and what of it changed nothing."""
    if not carried_out:
        return "Nothing was carried out."
    names = [name if len(name) <= MAX_ECHO_CHARS else f"{name[:MAX_ECHO_CHARS]}…" for name in carried_out]
    joiner = f"{spec.separator} " if spec.separator else " "
    if not any(effects):
        return f"No effect: {joiner.join(names)}."
    marked = [name if effect else f"{name} (no effect)" for name, effect in zip(names, effects, strict=True)]
    return f"Done: {joiner.join(marked)}."


def _format_lines(spec: PromptSpec) -> list[str]:
    """Returns how to respond: with which endings, and from the second turn on if that differs."""
    first, later = (spec.response_format.at(turn) for turn in (0, 1))
    lines = [f"Respond with exactly: {' or: '.join(first.skeletons(spec.section_meaning))}"]
    if later is not first:
        lines.append(f"From the second turn on with exactly: {' or: '.join(later.skeletons(spec.section_meaning))}")
    return lines
