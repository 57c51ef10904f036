"""`python -m agents play AGENT [ENV_ID]` shows an agent play; `python -m agents list` names the agents."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence
from dataclasses import dataclass

from agents.play_command import RECIPE, PlayConfig
from agents.registry import AGENTS, usage
from vlm_envs import __version__
from vlm_envs.command_line import Commands, run_command
from vlm_envs.terminal_tables import table


@dataclass(frozen=True)
class ListConfig:
    """Names the agents there are."""

    def run(self) -> None:
        """Prints one line for each."""
        rows = [(usage(kind), entry.summary) for kind, entry in AGENTS.items()]
        rows.append((f"{RECIPE}:NAME", "a recipe's start, in the world it has learnt (in play)"))
        rows.append(("MODULE:FACTORY", "one of your own, named as in an import statement"))
        print("\n".join(table(rows)))


COMMANDS: Commands = {"play": (PlayConfig, PlayConfig.run), "list": (ListConfig, ListConfig.run)}


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Command line without the program's name; the process's own by default.

    Returns:
        Exit status: 0 for success, 1 if every episode failed, 2 for a mistake on the command line, 130 when
        interrupted.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # A page of turns is no place for bars.
    return run_command("python -m agents", COMMANDS, words, version=f"vlm-envs {__version__}")


if __name__ == "__main__":
    sys.exit(main())
