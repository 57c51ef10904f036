"""Why an episode failed: what went wrong first, in an episode as it is recorded."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from vlm_envs.records.json_lines import Record
from vlm_envs.records.report.claims import compare
from vlm_envs.records.report.questions import answers_of, is_question
from vlm_envs.responses.extraction import last_section

Kind = Literal[
    "world failed",
    "no response",
    "cut off",
    "refused",
    "out of format",
    "saw wrongly",
    "not stated",
    "wrong answer",
    "lost",
    "became unsolvable",
    "no effect",
    "detour",
    "ran out of context",
    "ran out of turns",
    "not solved",
]


_OF_ACTING: frozenset[Kind] = frozenset(("lost", "became unsolvable", "no effect", "detour"))
_NOTHING = frozenset(("", "unknown", "none", "null", "nothing", "na", "not stated"))
"""Observations without content, in lower case and without punctuation."""


@dataclass(frozen=True, kw_only=True)
class Mistake:
    """The first thing that went wrong.

    Attributes:
        kind: What, in two or three words that one can filter by.
        turn: Index of the turn; None where no single turn is to blame.
        detail: The particulars, in a sentence; may be empty.
    """

    kind: Kind
    turn: int | None
    detail: str = ""


def first_mistake(episode: Record, *, trusts_judge: bool = True) -> Mistake | None:
    """Returns what went wrong first in an unsolved episode, as `episode_record` writes it; None for a solved one.

    Turn by turn, and inside a turn in the order in which a response comes about: the response itself, what it says it
    sees, what it does. A detour is blamed only where nothing else is: an episode can be solved in spite of one. Where
    the format asks for an observation and a turn states none, its wrong actions are "not stated", since they do not
    show whether the agent saw wrongly or planned badly. Responses out of the format have no sections; for them the
    episode's `expects_observation` says whether the format has an observation.

    Args:
        episode: The episode.
        trusts_judge: Whether an observation is wrong that its judge scored below 1. Where not all episodes that are
            compared were judged, only words tell.
    """
    if episode.get("success"):
        return None
    expects_observation = bool(episode.get("expects_observation"))
    turns = [turn if trusts_judge else {**turn, "scores": {}} for turn in episode["turns"]]
    read = partial(_of_response, is_lenient=episode.get("reading") == "lenient")
    mistakes = [
        mistake
        for index, turn in enumerate(turns)
        if (mistake := read(turn, index) or _of_seeing(turn, index) or _of_acting(turn, index)) is not None
    ]
    fatal = [mistake for mistake in mistakes if mistake.kind != "detour"]
    if fatal and fatal[-1].kind == "lost" and is_question(episode):
        fatal = [mistake for mistake in fatal if mistake.kind != "no effect"]  # refused tool calls
        fatal[-1] = _wrong_answer(episode, fatal[-1])
        return fatal[0]
    if fatal or mistakes:
        return _unless_unstated((fatal or mistakes)[0], turns, expects_observation=expects_observation)
    if turns and turns[-1].get("context_full"):
        return Mistake(kind="ran out of context", turn=len(turns) - 1, detail="There was no room for another turn.")
    if turns and turns[-1].get("truncated"):
        return Mistake(kind="ran out of turns", turn=len(turns) - 1)
    return Mistake(kind="not solved", turn=None)


def _wrong_answer(episode: Record, mistake: Mistake) -> Mistake:
    answered, correct = answers_of(episode)
    detail = f"It answered {answered}; correct is {correct}." if answered else f"Correct is {correct}."
    return replace(mistake, kind="wrong answer", detail=detail)


def _unless_unstated(mistake: Mistake, turns: Sequence[Record], *, expects_observation: bool) -> Mistake:
    """Returns a mistake; one of acting becomes "not stated" where its turn states no observation."""
    if mistake.turn is None or mistake.kind not in _OF_ACTING:
        return mistake
    if not _is_unstated(_observation(turns[mistake.turn], is_expected=expects_observation)):
        return mistake
    return replace(mistake, kind="not stated", detail=f"The observation states nothing. {mistake.detail}")


def _observation(turn: Record, *, is_expected: bool) -> str | None:
    """Returns a turn's observation, in the format or not; empty where an expected one is missing, else None."""
    said: str | None = (turn.get("sections") or {}).get("observation")
    if said is not None or not is_expected:
        return said
    _, inside = last_section(turn.get("response") or "", "observation") or ("", "")
    return inside


def _is_unstated(observation: str | None) -> bool:
    """Returns whether an observation has no content; None, of a format without observations, is not unstated."""
    if observation is None:
        return False
    return "".join(re.findall(r"[\w ]", observation)).strip().casefold() in _NOTHING


def _of_response(turn: Record, index: int, *, is_lenient: bool) -> Mistake | None:
    """Returns what is wrong with a response before its text counts.

    With lenient reading, a wrong format or a cut-off is a mistake only if no action was read.
    """
    if turn.get("worker_error"):
        return Mistake(kind="world failed", turn=index, detail=_sentence(str(turn["worker_error"])))
    if turn.get("stop_reason") == "error":
        return Mistake(kind="no response", turn=index)
    if turn.get("stop_reason") == "context":
        why = turn.get("stop_detail") or "The request exceeded a limit of the model."
        return Mistake(kind="ran out of context", turn=index, detail=_sentence(str(why)))
    if turn.get("stop_reason") == "content_filter" and not turn.get("actions"):
        why = turn.get("stop_detail") or "The model or its provider refused to answer."
        return Mistake(kind="refused", turn=index, detail=_sentence(str(why)))
    if is_lenient and turn.get("actions"):
        return None
    if turn.get("stop_reason") == "length":
        return Mistake(kind="cut off", turn=index, detail="The response hit the token limit.")
    if turn.get("parse_error"):
        why = turn.get("unread") or turn["parse_error"]
        return Mistake(kind="out of format", turn=index, detail=_sentence(str(why)))
    return None


def _of_seeing(turn: Record, index: int) -> Mistake | None:
    """Returns an observation that is wrong: by its judge's score, or by its words where nobody scored it.

    Only words of the structured representation are compared, which say one thing in one way.
    """
    said = (turn.get("sections") or {}).get("observation")
    if said is None or _is_unstated(said):
        return None
    score = (turn.get("scores") or {}).get("observation")
    if score is not None:
        return Mistake(kind="saw wrongly", turn=index, detail=f"Observation scored {score:.2f}.") if score < 1 else None
    truth = turn.get("state_text")
    if isinstance(truth, str) and truth.startswith("{") and compare(said, truth, None)["verdict"] == "differs":
        return Mistake(kind="saw wrongly", turn=index, detail="The observation differs from the true state.")
    return None


def _of_acting(turn: Record, index: int) -> Mistake | None:
    """Returns what is wrong with the actions of a turn that was read, as far as the world's solver tells."""
    before, left = turn.get("optimal_actions_before"), turn.get("optimal_actions_left")
    num_actions = len(turn.get("actions") or ())
    if turn.get("terminated"):
        return Mistake(kind="lost", turn=index, detail="The world ended unsolved.")
    if before is not None and left is None:
        return Mistake(kind="became unsolvable", turn=index, detail=f"It could have been solved in {before} more.")
    if num_actions and turn.get("action_effective") is False:
        return Mistake(kind="no effect", turn=index, detail="None of its actions changed anything.")
    if before is not None and left is not None and num_actions + left > before:
        wasted = num_actions + left - before
        return Mistake(kind="detour", turn=index, detail=f"{wasted} more action{'s' * (wasted > 1)} than needed.")
    return None


def _sentence(error: str) -> str:
    """Returns an error, which is written to stand behind a colon, as a sentence of its own."""
    error = error.strip()
    return error[:1].upper() + error[1:] + ("" if error.endswith((".", "!", "?")) else ".")
