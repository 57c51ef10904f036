"""`python -m training RECIPE [--options]`; `python -m training --help` lists recipes and commands."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from training.recipes.listing import recipe_lines, usage_lines
from vlm_envs import __version__
from vlm_envs.command_line import EXIT_USAGE, asks_for_help


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs a recipe or a command.

    Args:
        arguments: Command line without the program's name; the process's own by default.

    Returns:
        Exit status as for `training.commands.main`; 2 without arguments.
    """
    words = list(sys.argv[1:] if arguments is None else arguments)
    if words in ([], ["list"]) or (len(words) == 1 and asks_for_help(words)):
        try:
            print(*(recipe_lines() if words == ["list"] else usage_lines()), sep="\n", flush=True)
        except BrokenPipeError:
            # The reader, such as `head`, closed the pipe; without this, Python reports another error at exit
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0 if words else EXIT_USAGE
    if words == ["--version"]:
        print(f"vlm-envs {__version__}")
        return 0
    # Imported late, as recipes and commands take seconds to import
    from training.commands import main as run

    return run(words)


if __name__ == "__main__":
    sys.exit(main())
