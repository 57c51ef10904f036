"""`python -m benchmarks`: boards that compare agents on the same levels, and speed and memory benchmarks."""

from __future__ import annotations

import json
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from vlm_envs import __version__
from vlm_envs.command_line import EXIT_USAGE, Commands, run_command, tell
from vlm_envs.errors import ConfigError
from vlm_envs.requirements import missing_package_message

EXIT_MISSED = 1

_PROG = "python -m benchmarks"


@dataclass(frozen=True, kw_only=True)
class Speed:
    """Measure the speed of the components on this machine, each compared with a peer or a limit in the same run.

    Results are medians; a ratio above 1 is better.

    Attributes:
        only: Run only these benchmarks; an unknown name lists all of them.
        quick: Run a smoke test whose numbers mean little.
        json: Also write the results and a description of the machine to this file.
    """

    only: tuple[str, ...] = ()
    quick: bool = False
    json: Path | None = None


@dataclass(frozen=True, kw_only=True)
class Memory:
    """Compare the memory estimates of `python -m training plan` with the memory that updates use on this machine.

    Updates randomly initialized models on the CPU, each in its own process, and measures its resident memory. Linux
    only; the largest cases take minutes.

    Attributes:
        only: Run only these cases; an unknown name lists all of them.
    """

    only: tuple[str, ...] = ()


def main(words: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        words: Arguments after the program's name; None for those of the process.

    Returns:
        The exit code: 0 for success, 1 if a limit was missed, 2 for a usage error.
    """
    words = list(sys.argv[1:] if words is None else words)
    if words[:1] == ["run"]:
        try:
            # Imported here so that --help is fast, like the commands below
            from benchmarks.models.cli.run_command import RunOptions, with_file

            words[1:] = with_file(RunOptions, words[1:], f"{_PROG} run")
        except ConfigError as error:
            tell(error)
            return EXIT_USAGE
        except ModuleNotFoundError as error:
            tell(missing_package_message(error, "benchmarks"))
            return EXIT_USAGE
    return run_command(_PROG, COMMANDS, words, version=f"vlm-envs {__version__}")


def _memory(options: Memory) -> int:
    # Imported here because other benchmarks must not need torch
    from benchmarks.speed.memory import MAX_ERROR, checked_cases, compared, table

    results = [compared(name) for name in checked_cases(options.only)]
    print(*table(results), sep="\n")
    return 0 if all(abs(result.error) <= MAX_ERROR for result in results) else EXIT_MISSED


def _speed(options: Speed) -> int:
    from benchmarks.speed.speed_benchmarks import checked_names, print_table, run_speed

    names = checked_names(options.only)
    report = run_speed(names, quick=options.quick, on_start=lambda name: print(f"measuring {name} …", file=sys.stderr))
    print_table(report.rows)
    for name, reason in report.skipped.items():
        print(f"skipped {name}: {reason}")
    if options.json is not None:
        options.json.write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    return 0 if options.quick or report.passed else EXIT_MISSED


COMMANDS: Commands = {
    "run": "benchmarks.models.cli.run_command:RunOptions:run",
    "page": "benchmarks.models.cli.board_commands:PageOptions:run_page",
    "replay": "benchmarks.models.cli.board_commands:ReplayOptions:run_replay",
    "export": "benchmarks.models.cli.board_commands:ExportOptions:run_export",
    "merge": "benchmarks.models.cli.board_commands:MergeOptions:run_merge",
    "power": "benchmarks.models.cli.board_commands:PowerOptions:run_power",
    "evaluate": "benchmarks.models.cli.evaluate_command:EvaluateOptions:run_evaluate",
    "rescore": "benchmarks.models.cli.rescore_command:RescoreOptions:run_rescore",
    "forecast": "benchmarks.models.cli.board_commands:ForecastOptions:run_forecast",
    "suites": "benchmarks.models.cli.board_commands:SuitesOptions:run_suites",
    "sb3": "benchmarks.models.sb3_command:Sb3Options:run_sb3",
    "speed": (Speed, _speed),
    "trainer": "benchmarks.trainers.trainer_comparison:TrainerOptions:run_trainer",
    "memory": (Memory, _memory),
    "gpu": "benchmarks.speed.gpu:GpuOptions:run_gpu",
    "experiment": "benchmarks.experiments.running:ExperimentOptions:run_experiment",
}


if __name__ == "__main__":
    sys.exit(main())
