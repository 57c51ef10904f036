"""The one error style of tools: a kind for programs, a sentence for the model.

Functions that tools are made of raise `ToolError` for anything a model or a user's file may do wrong. The registry
turns it into a result, so a tool call never raises whatever the model wrote.
"""

from __future__ import annotations

import importlib
from enum import StrEnum
from types import ModuleType

from vlm_envs.errors import EngineUnavailableError, VLMEnvsError
from vlm_envs.requirements import install_command

MAX_QUOTED_CHARS = 60
"""Most characters of somebody else's text that an error message repeats."""

MAX_LISTED_NAMES = 20
"""Most names an error message lists."""


class ToolErrorKind(StrEnum):
    """What went wrong, for programs; the values are shown to models too."""

    TOO_LARGE = "too_large"
    """A text, number, picture or file is larger than the tool reads."""
    MALFORMED_JSON = "malformed_json"
    DUPLICATE_KEY = "duplicate_key"
    NOT_A_TOOL_CALL = "not_a_tool_call"
    """Well-formed JSON of another shape than {"name": …, "arguments": {…}}."""
    UNKNOWN_TOOL = "unknown_tool"
    MISSING_ARGUMENT = "missing_argument"
    UNKNOWN_ARGUMENT = "unknown_argument"
    WRONG_ARGUMENT = "wrong_argument"
    """An argument of the wrong type or outside its range."""
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
    """A search found nothing."""


class ToolError(VLMEnvsError, ValueError):
    """A tool refuses, and says why in words for the model.

    Attributes:
        kind: What went wrong.
        message: What was expected, what came, what to do.
    """

    def __init__(self, kind: ToolErrorKind, message: str) -> None:
        super().__init__(message)
        self.kind = kind
        self.message = message

    def __reduce__(self) -> tuple[type[ToolError], tuple[ToolErrorKind, str]]:
        return type(self), (self.kind, self.message)


def quoted(value: object) -> str:
    """Returns a value of unknown origin as it may stand in a message: short, on one line, without tags.

    Tool output is shown to the model between tags, and rewards read the model's own tags. So angle brackets are
    replaced by look-alikes: no message can open or close a tag, whatever it repeats.

    Args:
        value: Anything; strings come in quotation marks.

    Returns:
        At most about `MAX_QUOTED_CHARS` printable characters.
    """
    shown = value[: MAX_QUOTED_CHARS + 1] if isinstance(value, str) else value
    try:
        text = ascii(shown) if not isinstance(shown, str) or not shown.isprintable() else repr(shown)
    except ValueError:  # An integer of more digits than Python prints.
        text = f"a very long {type(value).__name__}"
    if len(text) > MAX_QUOTED_CHARS + 2:
        text = text[: MAX_QUOTED_CHARS + 1] + "…" + (text[0] if isinstance(value, str) else "")
    return text.replace("<", "‹").replace(">", "›")


def listed(names: list[str]) -> str:
    """Returns names as a message lists them: in the given order, at most `MAX_LISTED_NAMES`, "none" if empty."""
    if not names:
        return "none"
    shown = ", ".join(quoted(name)[1:-1] for name in names[:MAX_LISTED_NAMES])
    left_out = len(names) - MAX_LISTED_NAMES
    return f"{shown} and {left_out} more" if left_out > 0 else shown


def require_package(name: str, purpose: str) -> ModuleType:
    """Imports a package of the extra `tools`.

    Args:
        name: Its import name.
        purpose: What needs it, as the beginning of a sentence.

    Returns:
        The module.

    Raises:
        EngineUnavailableError: If it is not installed.
    """
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise EngineUnavailableError(
            f"{purpose} needs the package {name}, which cannot be imported ({error}). "
            f"Install it: {install_command('tools')}"
        ) from error
