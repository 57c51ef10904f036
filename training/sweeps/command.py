"""`python -m training sweep NAME`: from words to runs and tables."""

from __future__ import annotations

from collections.abc import Sequence

from training.config.sweep import SweepConfig
from vlm_envs.command_line import HELP, HELP_ALL, Program, description_of, parsed
from vlm_envs.errors import ConfigError
from vlm_envs.validation import did_you_mean, require_choice


def run_sweep_command(words: Sequence[str]) -> None:
    """Runs what is asked for of a sweep, and prints its tables.

    Raises:
        ConfigError: If there is no such sweep, world or arm, or nothing to show yet.
    """
    from training.sweeps.shipped import SWEEPS

    name, rest = (words[0], list(words[1:])) if words else ("--help", [])
    program = Program(
        prog=f"python -m training sweep {'NAME' if name.startswith('-') else name}",
        description=f"{description_of(SweepConfig)}\n\nSweeps: {', '.join(SWEEPS)}.",
    )
    if name in (*HELP, HELP_ALL):
        parsed(SweepConfig, ["--help"], program)
    if name.startswith("-"):
        raise ConfigError(f"Which sweep? Its name comes first: {', '.join(SWEEPS)}.")
    if name not in SWEEPS:
        raise ConfigError(
            f"There is no sweep {name!r}; there are {', '.join(SWEEPS)}.{did_you_mean(name, list(SWEEPS))}"
        )
    config = parsed(SweepConfig, rest, program)
    sweep = SWEEPS[name](config)
    for each in config.only:
        require_choice("--only", each, [arm.name for arm in sweep.arms])
    sweep = sweep.only(config.only)

    from training.sweeps.outcomes import finished_outcomes, load_outcomes, save_outcomes
    from training.sweeps.report import lines  # Only now: a mistake need not wait for torch.
    from training.sweeps.runner import run_sweep

    folder = config.output / sweep.name
    kept = None if config.results is None else config.results / f"{sweep.name}.json"
    outcomes = {} if kept is None else load_outcomes(kept)
    if config.seeds:
        run_sweep(sweep, config, outcomes)
    finished = finished_outcomes(sweep, folder)
    # What is kept counts before a run, which may be of earlier settings
    outcomes |= {arm: seeds | outcomes.get(arm, {}) for arm, seeds in finished.items()}
    if not outcomes:
        raise ConfigError(f"No run of {sweep.name} is finished in {folder}. Train some: --seeds 3.")
    if kept is not None and config.seeds:
        save_outcomes(outcomes, kept)
    told = "\n".join(lines(sweep, outcomes))
    if config.quick:
        told += "\nMade with --quick: it shows that everything runs, and its numbers mean nothing.\n"
    if finished:
        (folder / "tables.md").write_text(told, encoding="utf-8")
    print(told)
