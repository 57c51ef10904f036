"""Errors of tools: a kind for programs, and a sentence for the model.

The functions behind tools raise `ToolError` for any mistake of a model or in a user's file. The registry
converts it to a result, so a tool call never raises, whatever the model wrote.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from types import ModuleType

from vlm_envs.errors import EngineUnavailableError, VLMEnvsError
from vlm_envs.requirements import install_command

MAX_QUOTED_CHARS = 60
"""Maximum number of characters of untrusted text that an error message quotes."""

MAX_LISTED_NAMES = 20
"""Maximum number of names an error message lists."""


class ToolErrorKind(StrEnum):
    """Kinds of errors, for programs; the values are also shown to models."""

    TOO_LARGE = "too_large"
    """A text, number, image, or file exceeds the tool's limit."""
    MALFORMED_JSON = "malformed_json"
    DUPLICATE_KEY = "duplicate_key"
    NOT_A_TOOL_CALL = "not_a_tool_call"
    """Well-formed JSON with a shape other than {"name": …, "arguments": {…}}."""
    UNKNOWN_TOOL = "unknown_tool"
    MISSING_ARGUMENT = "missing_argument"
    UNKNOWN_ARGUMENT = "unknown_argument"
    WRONG_ARGUMENT = "wrong_argument"
    """An argument has the wrong type or is out of range."""
    UNKNOWN_IMAGE = "unknown_image"
    UNKNOWN_TEXT = "unknown_text"
    BOX_NOT_FOUR_NUMBERS = "box_not_four_numbers"
    BOX_NOT_FINITE = "box_not_finite"
    BOX_NOT_WHOLE_NUMBERS = "box_not_whole_numbers"
    BOX_OUT_OF_RANGE = "box_out_of_range"
    BOX_REVERSED = "box_reversed"
    BOX_TOO_ELONGATED = "box_too_elongated"
    BOX_TOO_SMALL = "box_too_small"
    STORE_FULL = "store_full"
    FORBIDDEN_PATH = "forbidden_path"
    UNKNOWN_FILE = "unknown_file"
    UNREADABLE_FILE = "unreadable_file"
    PAGE_OUT_OF_RANGE = "page_out_of_range"
    NO_MATCH = "no_match"
    """A search had no results."""


class ToolError(VLMEnvsError, ValueError):
    """A tool rejects a call, with an explanation for the model.

    Attributes:
        kind: Kind of the error.
        message: Explanation of the expectation, the given value, and a fix.
    """

    def __init__(self, kind: ToolErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def __reduce__(self) -> tuple[type[ToolError], tuple[ToolErrorKind, str]]:
        return type(self), (self.kind, self.message)


def quoted(value: object) -> str:
    """Returns an untrusted value in a form that is safe in a message: short, on one line, without tags.

    Tool output is shown to the model between tags, and rewards parse the model's own tags. Angle brackets are
    therefore replaced by similar characters, so that no message can open or close a tag.

    Args:
        value: Any value; strings are quoted.

    Returns:
        At most about `MAX_QUOTED_CHARS` printable characters.
    """
    shown = value[: MAX_QUOTED_CHARS + 1] if isinstance(value, str) else value
    try:
        text = ascii(shown) if not isinstance(shown, str) or not shown.isprintable() else repr(shown)
    except ValueError:  # an integer with more digits than Python prints
        text = f"a very long {type(value).__name__}"
    if len(text) > MAX_QUOTED_CHARS + 2:
        text = text[: MAX_QUOTED_CHARS + 1] + "…" + (text[0] if isinstance(value, str) else "")
    return text.replace("<", "‹").replace(">", "›")


def listed(names: list[str]) -> str:
    """Joins names for a message: in the given order, at most `MAX_LISTED_NAMES`; "none" if empty."""
    if not names:
        return "none"
    shown = ", ".join(quoted(name)[1:-1] for name in names[:MAX_LISTED_NAMES])
    left_out = len(names) - MAX_LISTED_NAMES
    return f"{shown} and {left_out} more" if left_out > 0 else shown


def require_package(name: str, purpose: str) -> ModuleType:
    """Imports a package of the extra `tools`.

    Args:
        name: Its import name.
        purpose: The feature that needs it, as the beginning of a sentence.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EngineUnavailableError(
            f"{purpose} needs the package {name}, which cannot be imported ({error}). "
            f"Install it with {install_command('tools')}"
        ) from error
