"""`python -m training sweep NAME`: from words to runs and tables."""

from __future__ import annotations

from collections.abc import Sequence

from training.config.sweep import SweepConfig
from vlm_envs.arguments.options import Program, description_of, parsed
from vlm_envs.errors import ConfigError, did_you_mean, require_choice


def run_sweep_command(words: Sequence[str]) -> None:
    """Runs what is asked for of a sweep, and prints its tables.

    Raises:
        ConfigError: If there is no such sweep, world or arm, or nothing to show yet.
    """
    from training.sweeps.shipped import SWEEPS

    name, rest = (words[0], list(words[1:])) if words else ("--help", [])
    program = Program(
        prog=f"python -m training sweep {'NAME' if name.startswith('-') else name}",
        description=description_of(SweepConfig),
    )
    if name in ("-h", "--help"):
        parsed(SweepConfig, ["--help"], program)
    if name not in SWEEPS:
        raise ConfigError(
            f"There is no sweep {name!r}; there are {', '.join(SWEEPS)}.{did_you_mean(name, list(SWEEPS))}"
        )
    config = parsed(SweepConfig, rest, program)
    sweep = SWEEPS[name](config)
    for each in config.only:
        require_choice("--only", each, [arm.name for arm in sweep.arms])
    sweep = sweep.only(config.only)

    from training.sweeps.report import lines, solved_by_arms  # Only now: a mistake need not wait for torch.
    from training.sweeps.runner import run_sweep

    folder = config.output / sweep.name
    if config.seeds:
        run_sweep(sweep, config)
    after = solved_by_arms(sweep, folder)
    if not after:
        raise ConfigError(f"No run of {sweep.name} is finished in {folder}. Train some: --seeds 3.")
    told = "\n".join(lines(sweep, after, solved_by_arms(sweep, folder, label="before")))
    if config.quick:
        told += "\nMade with --quick: it shows that everything runs, and its numbers mean nothing.\n"
    (folder / "tables.md").write_text(told, encoding="utf-8")
    print(told)
