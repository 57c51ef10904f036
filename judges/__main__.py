"""Command line of the judges: `python -m judges chance VLM/Sokoban-v0`, `… score`, `… calibrate` and `… rewards`."""

from __future__ import annotations

import sys

from vlm_envs import __version__
from vlm_envs.command_line import Commands, run_command

COMMANDS: Commands = {
    "chance": "judges.command_line:Chance:print_chance",
    "score": "judges.command_line:Score:print_score",
    "calibrate": "judges.command_line:Calibrate:print_calibration",
    "rewards": "judges.command_line:Rewards:print_rewards",
}


def main(arguments: list[str] | None = None) -> int:
    """Runs one command.

    Args:
        arguments: Command line without the program's name; from the process by default.

    Returns:
        Exit status: 0, or 2 if an argument is wrong or the model gives nothing to report on.
    """
    return run_command("python -m judges", COMMANDS, arguments, version=f"vlm-envs {__version__}")


if __name__ == "__main__":
    sys.exit(main())
