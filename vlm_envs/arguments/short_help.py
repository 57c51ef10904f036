"""The short help of a command with many options: those that most users need, and how to list the others."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator, Sequence

from vlm_envs.arguments.tables import wrapped

HELP = ("-h", "--help")
HELP_ALL = "--help-all"

_FRAMES = ("│ ", "  ")
"""What options begin with where the parser draws frames, and where the output cannot show them."""

_OPTION = re.compile(r"--\w[\w.-]*")


def asks_for_help(words: Sequence[str]) -> bool:
    """Returns whether a command line asks for the short or the whole help."""
    return bool({*HELP, HELP_ALL} & {*words})


@contextlib.contextmanager
def shortened(prog: str, description: str, main_options: Sequence[str], help_all: str) -> Iterator[None]:
    """Prints the help that is asked for within the block with the main options only.

    Args:
        prog: Command that the options belong to.
        description: What it does.
        main_options: Options that are shown; a name that ends with a dot stands for all options that begin with it.
        help_all: Command that lists every option.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except SystemExit:
        options = list(_options(printed.getvalue()))
        prefixes = tuple(name for name in main_options if name.endswith("."))
        shown = [(name, lines) for name, lines in options if name in main_options or name.startswith(prefixes)]
        resume = " [--resume]" if "--resume" in dict(shown) else ""
        print(f"usage: {prog} [--options]{resume}", "", *paragraphs(description), "", "options:", sep="\n")
        print(*(f"  {line}" for _, lines in shown for line in lines), sep="\n")
        print(f"\nAll {len(options)} options: {help_all}")
        raise
    print(printed.getvalue(), end="")


@contextlib.contextmanager
def readable() -> Iterator[None]:
    """Wraps usage lines and descriptions that are printed within the block to the width of the terminal."""
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    finally:
        lines = [line.rstrip() for line in printed.getvalue().rstrip().splitlines()]
        print(*(part for line in lines for part in _readable(line)), sep="\n")


def _readable(line: str) -> list[str]:
    if line.startswith("usage:"):
        return wrapped_usage(line)
    return [line] if line.startswith((" ", "│", "╭", "╰")) else wrapped(line)


def wrapped_usage(text: str) -> list[str]:
    """Returns the lines of a usage text, each option with its value on one line."""
    depth, joined = 0, ""
    for character, after in zip(text, f"{text[1:]} ", strict=True):
        depth += (character in "[{") - (character in "]}")
        is_inside = depth > 0 or after not in "[-"
        joined += "\xa0" if character == " " and is_inside else character
    return [line.replace("\xa0", " ") for line in wrapped(joined, indent=" " * len("usage: "))]


def paragraphs(text: str) -> list[str]:
    """Returns the lines of a text, each paragraph wrapped to the width of the terminal."""
    lines = [line for part in text.split("\n\n") for line in ("", *wrapped(" ".join(part.split())))]
    return lines[1:]


def _options(full: str) -> Iterator[tuple[str, list[str]]]:
    """Yields each option of a help text with its lines."""
    name = ""
    lines: list[str] = []
    for line in full.splitlines():
        text = line[2:].rstrip(" │") if line.startswith(_FRAMES) else ""
        start = _OPTION.match(text)
        continues = text.startswith("  ") or (text and not any(line.startswith(" ") for line in lines))
        if start or not continues:
            if name:
                yield name, lines
            name, lines = (start[0] if start else ""), []
        lines.append(text)
