"""The help of a recipe: the options that most runs need, and where the others are."""

from __future__ import annotations

import contextlib
import io
import re
from collections.abc import Iterator

from vlm_envs.arguments.options import Program
from vlm_envs.arguments.tables import wrapped

HELP = ("-h", "--help")
HELP_ALL = "--help-all"

MAIN_OPTIONS = (
    *("--algorithm", "--resume", "--name", "--output", "--model", "--num-iterations", "--num-groups", "--group-size"),
    *("--num-eval-episodes", "--eval-every", "--checkpoint-every", "--seed", "--device", "--num-threads"),
    *("--worlds.0.env-id", "--sampling.temperature", "--judge.episode-reward", "--ppo.learning-rate", "--ppo.kl-coef"),
    "--lora.rank",
)
"""Options that `--help` of a recipe shows."""

_FRAMES = ("│ ", "  ")
"""What options begin with where the parser draws frames, and where the output cannot show them."""

_OPTION = re.compile(r"--\w[\w.-]*")


@contextlib.contextmanager
def shortened(program: Program, *, with_algorithm: bool) -> Iterator[None]:
    """Prints the help that is asked for within the block with the main options only.

    Args:
        program: What the options belong to.
        with_algorithm: Whether the algorithm's settings are shown as well.
    """
    printed = io.StringIO()
    try:
        with contextlib.redirect_stdout(printed):
            yield
    except SystemExit:
        print("\n".join(_lines(program, printed.getvalue(), with_algorithm=with_algorithm)))
        raise


def _lines(program: Program, full: str, *, with_algorithm: bool) -> list[str]:
    """Returns the help with the main options of a whole one."""
    options = list(_options(full))
    shown = [
        f"  {line}"
        for name, lines in options
        if name in MAIN_OPTIONS or (with_algorithm and name.startswith("--algorithm."))
        for line in lines
    ]
    usage = f"usage: {program.prog} [--options] [--resume]"
    last = f"All {len(options)} options: {program.prog} {HELP_ALL}"
    return [usage, "", *wrapped(program.description), "", "options:", *shown, "", last]


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
