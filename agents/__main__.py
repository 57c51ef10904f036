"""`python -m agents play AGENT [ENV_ID]` shows an agent play; `python -m agents list` lists the agents."""

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
    """Lists the available agents."""

    def run(self) -> None:
        """Prints one line per agent."""
        rows = [(usage(kind), entry.summary) for kind, entry in AGENTS.items()]
        rows.append((f"{RECIPE}:NAME", "a recipe's start checkpoint, in the world it was trained on (play only)"))
        rows.append(("MODULE:FACTORY", "your own agent, named as in an import statement"))
        print("\n".join(table(rows)))


COMMANDS: Commands = {"play": (PlayConfig, PlayConfig.run), "list": (ListConfig, ListConfig.run)}


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Arguments without the program's name; `sys.argv[1:]` by default.

    Returns:
        Exit status: 0 for success, 1 if every episode failed, 2 for a mistake on the command line, 130 when
        interrupted.
    """
    os.environ.setdefault("HF_HUB_DISABLE_PROGRESS_BARS", "1")  # progress bars would break up the printed turns
    return run_command("python -m agents", COMMANDS, words, version=f"vlm-envs {__version__}")


if __name__ == "__main__":
    sys.exit(main())
