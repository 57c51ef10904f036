"""What `python -m benchmarks claims` does and prints."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable, Sequence
from concurrent.futures import Future, as_completed
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from training.sweeps.waiting import spawned_pool
from vlm_envs.errors import ConfigError
from vlm_envs.validation import require, require_at_least

if TYPE_CHECKING:
    from benchmarks.claims.arms import Arms


@dataclass(frozen=True, kw_only=True)
class ClaimsOptions:
    """Hold reinforcement learning against imitation of the same demonstrations with the same compute.

    Each claim is a world, an expert, and how much of it there is. Both arms go on from one start that has imitated it:
    one by reinforcement learning, the other for about as many CPU seconds by imitation. The best of each on validation
    levels plays the test levels once. What is there is not run again; without `--seeds` it is shown.

    These are the claims, with the minutes of one core that a seed of both arms takes: frozenlake_suboptimal 35,
    frozenlake_500 25, frozenlake_2000 25 and frozenlake_unlimited 35, sokoban_suboptimal 75, sokoban_500, sokoban_2000
    and sokoban_unlimited 25 to 35 each. The first seed waits for the start of both, up to an hour; those called
    suboptimal have theirs already.

    Attributes:
        only: These claims and no others.
        seeds: Seeds to run of each that `--only` names, from 1 on; 0 is the start's.
        num_at_once: Runs at the same time, each on one thread.
        runs: Where models and logs go.
        results: Where results are, a file for each arm; by default under `runs` where seeds are run, else docs/claims.
            A start that is kept there, in `starts/NAME`, is gone on from.
        picture: Where the picture goes; None for none.
    """

    only: tuple[str, ...] = ()
    seeds: tuple[int, ...] = ()
    num_at_once: int = 2
    runs: Path = Path("runs/claims")
    results: Path | None = None
    picture: Path | None = None

    @property
    def folder(self) -> Path:
        """Where results are."""
        return self.results or (self.runs / "results" if self.seeds else Path("docs/claims"))

    def __post_init__(self) -> None:
        require_at_least(self, 1, "num_at_once")
        require(
            bool(self.only) or not self.seeds,
            f"--seeds {' '.join(map(str, self.seeds))} needs --only: of all claims it would take hours. Name those to "
            "be run, such as --only frozenlake_500; --help lists them with their minutes.",
        )
        require(min(self.seeds, default=1) >= 1, f"--seeds must be at least 1; got {list(self.seeds)}.")
        require(len(set(self.seeds)) == len(self.seeds), f"--seeds must differ; got {list(self.seeds)}.")


def run_claims(options: ClaimsOptions) -> None:
    """Runs what is asked for, prints the tables of what there is, and draws it.

    Raises:
        ConfigError: If there is no claim of a name, nothing to show, or no place for the picture.
    """
    from benchmarks.claims.claim import CLAIMS, claim_named
    from benchmarks.claims.report import decoded_greedily, draw, gains, lines, load_arms
    from benchmarks.pictures import require_place

    require_place(options.picture)
    claims = {name: claim_named(name) for name in options.only or CLAIMS}
    if options.seeds:
        _run_seeds([*claims], options)
    arms = {name: load_arms(options.folder, name) for name in claims}
    if not any(each["rl"] for each in arms.values()):
        raise ConfigError(
            f"No seed of {', '.join(claims)} is whole in {options.folder}, with a file for its expert, its start, more "
            "imitation and reinforcement learning. Run some: python -m benchmarks claims "
            f"--only {next(iter(claims))} --seeds 1 2 3."
        )
    print(*lines(claims, arms), "", *gains(claims, arms), sep="\n")
    if greedy := decoded_greedily(claims, arms):
        print("", *greedy, sep="\n")
    print("", "In each table the p-values of a column are corrected for as many claims as it has.", sep="\n")
    if options.picture is not None:
        draw(claims, arms, options.picture)


def _run_seeds(names: Sequence[str], options: ClaimsOptions) -> None:
    """Runs the seeds of claims, several at a time; those of one that is complete are not run again."""
    incomplete = [name for name in names if _arms(name, options).is_incomplete(options.seeds)]
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited; torch reads it once, when a process starts
    try:
        with spawned_pool(options.num_at_once) as pool:
            _wait(pool.submit(_run, name, None, options) for name in incomplete)
            _wait(pool.submit(_run, name, seed, options) for seed in options.seeds for name in incomplete)
    except KeyboardInterrupt as interrupt:
        message = f"Interrupted. Arms that are whole are in {options.folder}; the same command makes the others."
        raise KeyboardInterrupt(message) from interrupt


def _wait(runs: Iterable[Future[None]]) -> None:
    """Waits for runs, and raises what the first of them fails of."""
    for done in as_completed(list(runs)):
        done.result()


def _run(name: str, seed: int | None, options: ClaimsOptions) -> None:
    """Runs both arms of a seed, or, without one, prepares for them."""
    arms = _arms(name, options)
    if seed is None:
        arms.prepare()
    else:
        arms.run(seed)


def _arms(name: str, options: ClaimsOptions) -> Arms:
    from benchmarks.claims.arms import Arms, Measuring
    from benchmarks.claims.claim import claim_named

    claim = claim_named(name)
    return Arms(
        name=name,
        claim=claim,
        runs=options.runs,
        results=options.folder,
        measuring=Measuring(num_points=claim.num_points),
        say=lambda line: print(line, file=sys.stderr, flush=True),
    )
