"""The command line: `python -m vlm_envs list | check | play | gallery`.

Each command is one module with `add_arguments(parser)` and `run(arguments) -> exit code`.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Callable, Sequence

from vlm_envs.cli import check, gallery, list_worlds, play
from vlm_envs.errors import VLMEnvsError

Command = tuple[Callable[[argparse.ArgumentParser], None], Callable[[argparse.Namespace], int], str]

COMMANDS: dict[str, Command] = {
    "list": (list_worlds.add_arguments, list_worlds.run, "list the worlds"),
    "check": (check.add_arguments, check.run, "check a world, yours included, against the contract"),
    "play": (play.add_arguments, play.run, "play a world yourself"),
    "gallery": (gallery.add_arguments, gallery.run, "save pictures of every world"),
}
"""Command to what adds its arguments, what runs it, and its one-line help."""

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments after the program's name; None takes those of the process.

    Returns:
        The exit code: 0 when all is well, 1 when a check failed, 2 when the call was wrong.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return EXIT_USAGE
    _, run, _ = COMMANDS[arguments.command]
    try:
        code = run(arguments)
        sys.stdout.flush()
        return code
    except VLMEnvsError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt:
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, `head` for instance, has seen enough; without this Python complains again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m vlm_envs", description="Worlds for VLM agents.")
    subparsers = parser.add_subparsers(dest="command", metavar="{" + ",".join(COMMANDS) + "}")
    for command, (add_arguments, _, summary) in COMMANDS.items():
        add_arguments(subparsers.add_parser(command, help=summary, description=summary.capitalize() + "."))
    return parser
