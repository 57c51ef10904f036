"""History policies, which select the part of an episode that is sent again each turn; part of an agent's identity."""

from __future__ import annotations

import re
from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from agents.api.conversation import Message, Picture
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require_at_least

OMITTED = "[picture of an earlier turn left out]"
"""Replaces an omitted image."""

FIRST = "The first message of this game, for its rules. The state in it is of then, not of now:"
NEWEST = "What follows is newer:"
"""Texts around the first observation if turns between it and the newest are omitted: it may contain an old state."""


@dataclass(frozen=True, kw_only=True)
class Exchange:
    """One finished turn.

    Attributes:
        shown: The observation.
        said: The model's answer, without thoughts.
    """

    shown: Message
    said: Message


class History(ABC):
    """Selects the messages of a request."""

    @abstractmethod
    def messages(self, past: Sequence[Exchange], now: Message, summary: str = "") -> tuple[Message, ...]:
        """Returns the messages of a request, without the system prompt.

        Args:
            past: Finished turns, oldest first.
            now: The current observation.
            summary: The model's latest summary; empty if there is none.
        """

    def asks_to_sum_up(self, past: Sequence[Exchange], summary: str) -> tuple[Message, ...]:
        """Returns a request for a summary of the turns so far, made before the next one; none by default.

        Args:
            past: Finished turns, at least one.
            summary: The latest summary, of all of them except the newest.
        """
        return ()


@dataclass(frozen=True)
class FullHistory(History):
    """Sends everything, which also makes the best use of a provider's prompt cache."""

    def messages(self, past: Sequence[Exchange], now: Message, summary: str = "") -> tuple[Message, ...]:
        """Returns every turn. See `History`."""
        return tuple(replace(message, comes_again=message.role == "user") for message in _whole(past, now))


@dataclass(frozen=True)
class LastImages(History):
    """Sends every text, and the images of the last observations.

    Attributes:
        num_images: Number of images to keep; those of the current observation are always kept.
    """

    num_images: int

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_images")

    def messages(self, past: Sequence[Exchange], now: Message, summary: str = "") -> tuple[Message, ...]:
        """Returns every turn, without early images. See `History`."""
        left = self.num_images - len(now.pictures)
        kept: list[Message] = [now]
        for turn in reversed(past):
            parts = []
            for part in reversed(turn.shown.parts):
                is_picture = isinstance(part, Picture)
                parts.append(part if not is_picture or left > 0 else OMITTED)
                left -= is_picture
            kept += [turn.said, replace(turn.shown, parts=tuple(reversed(parts)))]
        return tuple(reversed(kept))


@dataclass(frozen=True)
class LastTurns(History):
    """Sends the text of the first observation, which holds the rules, and the last turns in full.

    Attributes:
        num_turns: Number of turns to send, including the current one.
    """

    num_turns: int

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_turns")

    def messages(self, past: Sequence[Exchange], now: Message, summary: str = "") -> tuple[Message, ...]:
        """Returns the last turns. See `History`."""
        num_kept = self.num_turns - 1
        recent = past[len(past) - num_kept :] if num_kept else ()
        if len(recent) == len(past):
            return _whole(past, now)
        first, *others = _whole(recent, now)
        rules = _rules(past)
        return (Message(role="user", parts=(*rules, *([NEWEST] if rules else []), *first.parts)), *others)


@dataclass(frozen=True)
class Summary(History):
    """Sends the rules, the model's own summary of the turns so far, and the current turn.

    The summary is a separate request before every turn except the first; its tokens count like the others.

    Attributes:
        max_words: Longest summary that is requested.
    """

    max_words: int = 150

    def __post_init__(self) -> None:
        require_at_least(self, 1, "max_words")

    def messages(self, past: Sequence[Exchange], now: Message, summary: str = "") -> tuple[Message, ...]:
        """Returns one message. See `History`."""
        if not past:
            return (now,)
        notes = f"Your summary of the {len(past)} turns so far:\n{summary}"
        return (Message(role="user", parts=(*_rules(past), notes, NEWEST, *now.parts)),)

    def asks_to_sum_up(self, past: Sequence[Exchange], summary: str) -> tuple[Message, ...]:
        """Returns the newest turn, the summary of those before it, and the question. See `History`."""
        newest = past[-1]
        before = (f"Your summary of the turns before:\n{summary}",) if len(past) > 1 else ()
        question = (
            "Do not act now. Sum up what you have seen and done so far, in at most "
            f"{self.max_words} words, as notes for your next turn: you will see these notes instead of the turns."
        )
        return (
            Message(role="user", parts=(*before, *newest.shown.parts)),
            newest.said,
            Message(role="user", parts=(question,)),
        )


def _rules(past: Sequence[Exchange]) -> tuple[str, ...]:
    """Returns the text of the first observation, which holds the rules, marked as such; empty if it has none."""
    texts = tuple(part for part in past[0].shown.parts if isinstance(part, str))
    return (FIRST, *texts) if texts else ()


def _whole(past: Sequence[Exchange], now: Message) -> tuple[Message, ...]:
    return (*(message for turn in past for message in (turn.shown, turn.said)), now)


HISTORIES: dict[str, tuple[Callable[..., History], str]] = {
    "full": (FullHistory, ""),
    "last_images": (LastImages, "N"),
    "last_turns": (LastTurns, "N"),
    "summary": (Summary, "MAX_WORDS"),
}
"""Policies by name, with the placeholder for the text after a colon."""


def history_named(name: str) -> History:
    """Returns a policy by its name, such as `"full"`, `"last_images:4"`, `"last_turns:2"`, `"summary"`.

    Raises:
        ConfigError: If there is no such policy, or its number is not valid.
    """
    kind, colon, number = name.partition(":")
    forms = ", ".join(f"{kind}{f':{part}' if part else ''}" for kind, (_, part) in HISTORIES.items())
    if kind not in HISTORIES or (colon and not re.fullmatch(r"[0-9]+", number)):
        raise ConfigError(f"history must be one of {forms}, such as last_images:4; got {name!r}.")
    make, part = HISTORIES[kind]
    if bool(colon) > bool(part) or (part == "N" and not colon):
        raise ConfigError(f"history {kind!r} is written {kind}{f':{part}' if part else ''}; got {name!r}.")
    return make(int(number)) if colon else make()
