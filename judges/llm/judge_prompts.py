r"""Prompts from text files, and strict reading of the replies to them.

A prompt's file has a part for each message, and placeholders in double braces:

    [system]
    You check descriptions of a game …
    [user]
    True state: {{truth}}
    Description: {{text}}

Values are filled in as JSON, so a text is one quoted line. Characters that could pass for a tag, a line break, or
nothing at all (control and format characters, unpaired surrogates, every kind of angle bracket) are written as `\u`
escapes. A text can say "ignore the above", but it always looks like a quotation.

A reply must end with its only `<answer>…</answer>`, in exactly the requested form; reasoning may precede it. Any
other reply is unreadable, which is neither a yes nor a no, because guessing could reward an arbitrary reply. A reply
with two answers is unreadable, because one of them may quote the judged text.
"""

from __future__ import annotations

import functools
import json
import re
import unicodedata
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from agents.api.conversation import Message, Role
from agents.api.failures import UnreadableReplyError
from vlm_envs.errors import ConfigError
from vlm_envs.tools.tool_errors import ToolError
from vlm_envs.tools.tool_registry import read_json
from vlm_envs.validation import did_you_mean

MAX_TEXT_CHARS = 8_000
"""Characters of a text that a judge sees; the rest is cut, and the cut is marked."""

_PROMPTS = Path(__file__).with_name("prompts")
_PLACEHOLDER = re.compile(r"\{\{(\w+)\}\}")
_PART = re.compile(r"^\[(system|user)\]\n", re.MULTILINE)

_BRACKETS = ("ANGLE BRACKET", "ANGLE QUOTATION MARK")

MAX_REPLY_CHARS = 20_000
"""Longer replies are unreadable."""

_OPEN, _CLOSE = "<answer>", "</answer>"
_FENCE = re.compile(r"```(?:json)?\n(.*)\n```", re.DOTALL)
_SCORE = re.compile(r"[0-9](?:\.[0-9]{1,6})?")


@dataclass(frozen=True, slots=True)
class PromptTemplate:
    """A prompt with placeholders.

    Attributes:
        name: Such as `sokoban/direct_grounding`.
        parts: Role and text of each message.
    """

    name: str
    parts: tuple[tuple[Role, str], ...]

    @property
    def placeholders(self) -> frozenset[str]:
        """The names in double braces."""
        return frozenset(name for _, text in self.parts for name in _PLACEHOLDER.findall(text))

    def fill(self, **values: Any) -> tuple[Message, ...]:
        """Returns the messages with every placeholder filled.

        Raises:
            ConfigError: A placeholder has no value, or a value no placeholder.
        """
        if values.keys() != self.placeholders:
            raise ConfigError(f"Prompt {self.name!r} takes {sorted(self.placeholders)}, got {sorted(values)}.")
        literals = {name: literal(value) for name, value in values.items()}
        # One pass: a placeholder inside a filling stays what it is.
        return tuple(
            Message(role=role, parts=(_PLACEHOLDER.sub(lambda match: literals[match[1]], text),))
            for role, text in self.parts
        )


@functools.cache
def prompt_template(name: str) -> PromptTemplate:
    """Returns a prompt of `judges/llm/prompts` by its path in that folder, without the suffix.

    Raises:
        ConfigError: There is no such prompt.
    """
    if name not in template_names():
        raise ConfigError(f"No prompt {name!r}.{did_you_mean(name, template_names())}")
    before, *pieces = _PART.split((_PROMPTS / f"{name}.txt").read_text(encoding="utf-8"))
    assert not before.strip(), f"{name}: text before the first part"
    parts = zip(pieces[::2], pieces[1::2], strict=True)
    return PromptTemplate(name, tuple((cast("Role", role), text.strip()) for role, text in parts))


@functools.cache
def template_names() -> tuple[str, ...]:
    """Returns the names of all prompts, sorted."""
    files = (file.relative_to(_PROMPTS) for file in _PROMPTS.rglob("*.txt"))
    return tuple(sorted(file.with_suffix("").as_posix() for file in files))


def literal(value: Any) -> str:
    """Returns a value as JSON on one line, with all characters escaped that could pass for part of a prompt.

    Returns:
        JSON that decodes to the same value, except that tuples become lists and texts longer than `MAX_TEXT_CHARS` are
        cut.
    """
    return "".join(
        _escape(char) if _is_doubtful(char) else char for char in json.dumps(_shortened(value), ensure_ascii=False)
    )


def _shortened(value: Any) -> Any:
    if isinstance(value, str) and len(value) > MAX_TEXT_CHARS:
        return f"{value[:MAX_TEXT_CHARS]}… (cut)"
    if isinstance(value, Mapping):
        return {str(key): _shortened(item) for key, item in value.items()}
    return [_shortened(item) for item in value] if isinstance(value, (list, tuple)) else value


@functools.lru_cache(maxsize=4096)
def _is_doubtful(char: str) -> bool:
    if char.isascii():
        return char in "<>" or ord(char) < 32 or ord(char) == 127
    plain = unicodedata.normalize("NFKC", char)
    is_blank = unicodedata.category(char) in ("Cc", "Cf", "Cs", "Co", "Cn", "Zl", "Zp")
    return is_blank or "<" in plain or ">" in plain or unicodedata.name(char, "").endswith(_BRACKETS)


def _escape(char: str) -> str:
    units = char.encode("utf-16-be", "surrogatepass")
    return "".join(f"\\u{units[at : at + 2].hex()}" for at in range(0, len(units), 2))


def read_yes_no(reply: str) -> bool:
    """Returns whether a reply is `<answer>YES</answer>`, in upper or lower case, and not `<answer>NO</answer>`.

    Source: VAGEN, appendix D.1.1, for the form.

    Raises:
        UnreadableReplyError: It is neither.
    """
    word = answer_of(reply)
    # Checked first, because `upper` maps some non-ASCII letters to ASCII.
    if not word.isascii() or word.upper() not in ("YES", "NO"):
        raise UnreadableReplyError(f"expected YES or NO, got {word[:40]!r}")
    return word.upper() == "YES"


def read_score(reply: str, allowed: Sequence[float]) -> float:
    """Returns a reply's score, such as 0.75.

    Raises:
        UnreadableReplyError: It is not one of the allowed scores.
    """
    text = answer_of(reply)
    if not _SCORE.fullmatch(text) or float(text) not in allowed:
        raise UnreadableReplyError(f"expected one of {', '.join(map(str, allowed))}, got {text[:40]!r}")
    return float(text)


def read_object(reply: str) -> dict[str, Any]:
    """Returns a reply's JSON object, bare or in one code fence.

    Raises:
        UnreadableReplyError: It is not an object, or has a non-finite number or a duplicate key.
    """
    text = answer_of(reply)
    fenced = _FENCE.fullmatch(text)
    try:
        value = read_json(fenced[1] if fenced else text)
    except ToolError as error:
        raise UnreadableReplyError(f"expected a JSON object: {str(error)[:80]}") from error
    if not isinstance(value, dict):
        raise UnreadableReplyError(f"expected a JSON object, got a {type(value).__name__}")
    return value


def answer_of(reply: str) -> str:
    """Returns the content of a reply's only `<answer>…</answer>`, stripped.

    Raises:
        UnreadableReplyError: There is not exactly one of each tag, text follows the answer, or the reply is too long.
    """
    if len(reply) > MAX_REPLY_CHARS:
        raise UnreadableReplyError(f"the reply has {len(reply)} characters, more than {MAX_REPLY_CHARS}")
    if reply.count(_OPEN) != 1 or reply.count(_CLOSE) != 1:
        counts = f"{reply.count(_OPEN)} {_OPEN} and {reply.count(_CLOSE)} {_CLOSE}"
        raise UnreadableReplyError(f"expected exactly one {_OPEN}…{_CLOSE}, got {counts}")
    inside, after = reply.split(_OPEN)[1].partition(_CLOSE)[::2]
    if _CLOSE in reply.split(_OPEN)[0] or after.strip():
        raise UnreadableReplyError(f"the reply does not end with its {_OPEN}…{_CLOSE}")
    return inside.strip()
