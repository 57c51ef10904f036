"""`python -m benchmarks speed [--only NAME …] [--quick] [--json FILE]`, and `python -m benchmarks bilevel_variants`."""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Sequence
from pathlib import Path

from benchmarks.speed import BENCHMARKS, checked_names, run_speed
from benchmarks.table import print_table

EXIT_MISSED, EXIT_USAGE = 1, 2


def main(argv: Sequence[str] | None = None) -> int:
    """Runs one command.

    Args:
        argv: Arguments after the program's name; None takes those of the process.

    Returns:
        The exit code: 0 when all is well, 1 when a limit was missed, 2 when the call was wrong.
    """
    parser = _parser()
    arguments = parser.parse_args(argv)
    if arguments.command is None:
        parser.print_help()
        return EXIT_USAGE
    if arguments.command == "bilevel_variants":
        return _bilevel_variants(arguments)
    try:
        names = checked_names(arguments.only)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    return _speed(names, quick=arguments.quick, json_path=arguments.json)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Measure this project.")
    commands = parser.add_subparsers(dest="command", metavar="{speed,bilevel_variants}")
    speed = commands.add_parser(
        "speed",
        help="how fast its parts are on this machine",
        description="Medians, beside a peer or a limit in the same run. A ratio above 1 is better.",
        epilog="benchmarks: " + "; ".join(f"{name} ({each.summary})" for name, each in BENCHMARKS.items()),
    )
    speed.add_argument("--only", nargs="+", default=[], metavar="NAME", help="these benchmarks and no others")
    speed.add_argument("--quick", action="store_true", help="a smoke run; its numbers mean little")
    speed.add_argument("--json", type=Path, metavar="FILE", help="also write rows and machine to a file")
    variants = commands.add_parser(
        "bilevel_variants",
        help="which variant of bi-level GAE trains better",
        description="Seeds of a recipe under each variant, one thread a run, compared on validation levels. Run again, "
        "it goes on where it was interrupted.",
    )
    variants.add_argument("--recipe", default="frozenlake_tiny", help="what is trained (default: %(default)s)")
    variants.add_argument("--seeds", nargs="+", type=int, default=[0, 1, 2, 3, 4], metavar="SEED", help="run seeds")
    variants.add_argument("--num-iterations", type=int, metavar="N", help="of each run (default: the recipe's)")
    variants.add_argument("--num-val-episodes", type=int, default=256, metavar="N", help="levels played afterwards")
    variants.add_argument("--num-at-once", type=int, default=2, metavar="N", help="runs at the same time")
    variants.add_argument("--output", default="runs/bilevel_variants", metavar="DIR", help="where the runs go")
    variants.add_argument("--json", type=Path, metavar="FILE", help="numbers (default: DIR/comparison.json)")
    return parser


def _bilevel_variants(arguments: argparse.Namespace) -> int:
    # Imported here, because speed benchmarks must not need torch
    from benchmarks.bilevel_variants import Comparison, report

    settings = {name: value for name, value in vars(arguments).items() if name not in ("command", "json")}
    try:
        report(Comparison(**{**settings, "seeds": tuple(arguments.seeds)}), arguments.json)
    except ValueError as error:
        print(error, file=sys.stderr)
        return EXIT_USAGE
    return 0


def _speed(names: Sequence[str], *, quick: bool, json_path: Path | None) -> int:
    report = run_speed(names, quick=quick, on_start=lambda name: print(f"measuring {name} …", file=sys.stderr))
    print_table(report.rows)
    for name, reason in report.skipped.items():
        print(f"skipped {name}: {reason}")
    if json_path is not None:
        json_path.write_text(json.dumps(report.to_dict(), indent=2) + "\n", encoding="utf-8")
    return 0 if quick or report.passed else EXIT_MISSED


if __name__ == "__main__":
    sys.exit(main())
