"""`python -m agents play AGENT ENV_ID` shows an agent play; `python -m agents list` names the agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated

import tyro

from agents.cli.play import PlayConfig
from agents.registry import AGENTS, usage
from vlm_envs.errors import VLMEnvsError

EXIT_USAGE = 2
EXIT_INTERRUPTED = 130


@dataclass(frozen=True)
class ListConfig:
    """Names the agents there are."""

    def run(self) -> None:
        """Prints one line for each."""
        for kind, entry in AGENTS.items():
            print(f"{usage(kind):10} {entry.summary}")


_Command = Annotated[PlayConfig, tyro.conf.subcommand("play")] | Annotated[ListConfig, tyro.conf.subcommand("list")]


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Command line without the program's name; the process's own by default.

    Returns:
        Exit status: 0 for success, 2 for a mistake on the command line, 130 when interrupted.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # A page of turns is no place for bars.
    try:
        command: PlayConfig | ListConfig = tyro.cli(
            _Command, args=words, prog="python -m agents", description="Agents: who acts in the worlds."
        )
        command.run()
        sys.stdout.flush()
    except (VLMEnvsError, ValueError, FileNotFoundError) as error:
        print(f"error: {error}", file=sys.stderr)
        return EXIT_USAGE
    except KeyboardInterrupt as interrupt:
        print(str(interrupt) or "Stopped.", file=sys.stderr)
        return EXIT_INTERRUPTED
    except BrokenPipeError:
        # The reader, `head` for instance, has seen enough; without this Python complains again at exit.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return 0


if __name__ == "__main__":
    sys.exit(main())
