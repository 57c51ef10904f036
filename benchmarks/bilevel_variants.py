"""Which variant of bi-level GAE trains better: some seeds of a recipe under each, compared on validation levels.

Run with `python -m benchmarks bilevel_variants`. Everything but `algorithm.variant` and the seed is the recipe's own,
so two runs of one seed start from the same weights and train on the same levels. Test levels are not looked at: the
choice of a default is made here, and what it reaches is measured elsewhere.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import statistics
import sys
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import as_completed
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any, get_args

from agents.registry import make_agent
from benchmarks.speed import machine
from training.algorithms.bilevel_gae import BilevelGAE, BilevelVariant
from training.checkpoints.checkpoint_files import LATEST, has_checkpoint
from training.checkpoints.checkpoint_state import load_for_training
from training.config.run_config import RunConfig
from training.loop.evaluation import evaluate
from training.loop.interrupts import prepare
from training.recipes.shipped import RECIPES
from training.run import train
from training.sweeps.waiting import spawned_pool
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader
from vlm_envs.statistics.success_rates import wilson_interval
from vlm_envs.validation import did_you_mean, require

RESULT = "result.json"
NUM_LAST = 10
"""Iterations at the end of a run whose training success is averaged."""


@dataclass(frozen=True, kw_only=True)
class Comparison:
    """What is compared.

    Attributes:
        recipe: The recipe; it must train by bi-level GAE.
        seeds: Run seeds, each trained under both variants.
        num_iterations: Iterations of each run; None for the recipe's own number.
        num_val_episodes: Validation levels that each trained policy plays; the same ones for all.
        num_at_once: Runs at the same time, each on one thread.
        output: Directory of the runs. Finished ones are not run again, interrupted ones go on.
    """

    recipe: str = "frozenlake_tiny"
    seeds: tuple[int, ...] = (0, 1, 2, 3, 4)
    num_iterations: int | None = None
    num_val_episodes: int = 256
    num_at_once: int = 2
    output: str = "runs/bilevel_variants"

    def __post_init__(self) -> None:
        if self.recipe not in RECIPES:
            raise ConfigError(
                f"Unknown recipe {self.recipe!r}.{did_you_mean(self.recipe, RECIPES)} Known: {', '.join(RECIPES)}."
            )
        require(bool(self.seeds), "seeds must name at least one seed, such as --seeds 0 1 2 3 4.")
        require(len(set(self.seeds)) == len(self.seeds), f"seeds must differ; got {list(self.seeds)}.")
        require(
            min(self.num_val_episodes, self.num_at_once) >= 1,
            f"Expected at least 1 validation episode and 1 run at once; got {self.num_val_episodes} and "
            f"{self.num_at_once}.",
        )

    def config(self, variant: BilevelVariant, seed: int) -> RunConfig:
        """Returns the configuration of one run."""
        recipe = RECIPES[self.recipe]()
        if not isinstance(recipe.algorithm, BilevelGAE):
            raise ConfigError(f"{self.recipe} does not train by bi-level GAE.")
        return replace(
            recipe,
            name=f"{variant}-{seed}",
            output=self.output,
            seed=seed,
            device="cpu",
            num_threads=1,
            num_iterations=recipe.num_iterations if self.num_iterations is None else self.num_iterations,
            num_eval_episodes=0,
            eval_every=0,
            algorithm=replace(recipe.algorithm, variant=variant),
        )


@dataclass(frozen=True, kw_only=True)
class Outcome:
    """One finished run.

    Attributes:
        variant: Its variant.
        seed: Its seed.
        num_iterations: Iterations it was trained for.
        num_successes: Validation levels solved after training.
        num_episodes: Validation levels played.
        training_success: Mean over the last iterations.
        explained_variance: Mean over the last iterations, of targets before generated tokens; None if none vary.
        s_per_iteration: Median seconds of an iteration.
    """

    variant: str
    seed: int
    num_iterations: int
    num_successes: int
    num_episodes: int
    training_success: float
    explained_variance: float | None
    s_per_iteration: float


def compare(comparison: Comparison, *, on_done: Callable[[Outcome], None] = lambda outcome: None) -> list[Outcome]:
    """Trains and evaluates every seed under both variants.

    Args:
        comparison: What is compared.
        on_done: Called with each run's outcome when it is there.

    Returns:
        The outcomes, by variant and seed.
    """
    wanted = [(variant, seed) for seed in comparison.seeds for variant in get_args(BilevelVariant)]
    os.environ["OMP_NUM_THREADS"] = "1"  # inherited; torch reads it once, when a process starts
    outcomes = []
    with spawned_pool(comparison.num_at_once) as pool:
        for done in as_completed([pool.submit(run_one, comparison, variant, seed) for variant, seed in wanted]):
            outcomes.append(done.result())
            on_done(outcomes[-1])
    return sorted(outcomes, key=lambda outcome: (outcome.variant, outcome.seed))


def run_one(comparison: Comparison, variant: BilevelVariant, seed: int) -> Outcome:
    """Trains one seed under one variant and plays the validation levels; a finished run is read from its directory."""
    config = comparison.config(variant, seed)
    directory = Path(config.output) / config.name
    path = directory / RESULT
    wanted = {"num_iterations": config.num_iterations, "num_episodes": comparison.num_val_episodes * len(config.worlds)}
    if path.is_file():
        saved = Outcome(**json.loads(path.read_text(encoding="utf-8")))
        if wanted.items() <= asdict(saved).items():
            return saved
    directory.mkdir(parents=True, exist_ok=True)
    with (directory / "log.txt").open("a", encoding="utf-8") as log, contextlib.redirect_stdout(log):
        train(config, resume=has_checkpoint(directory / LATEST))
        outcome = _outcome(config, directory, comparison.num_val_episodes)
    path.write_text(json.dumps(asdict(outcome), indent=2) + "\n", encoding="utf-8")
    return outcome


def _outcome(config: RunConfig, directory: Path, num_val_episodes: int) -> Outcome:
    """Returns what a run came to, its validation levels played by the weights it ended with."""
    prepare(config)
    assert isinstance(config.algorithm, BilevelGAE), "see `Comparison.config`"
    model, encoder = load_for_training(directory / LATEST / "model", config)
    agent = make_agent("hf", model=model, encoder=encoder, sampling=config.sampling)
    played = [evaluate(agent, spec, split="val", num_episodes=num_val_episodes) for spec in config.worlds]
    lines = [line for line in RunReader(directory).metrics() if line["phase"] == "rl"]
    last = lines[-NUM_LAST:]
    explained = [line["explained_variance"] for line in last if line["explained_variance"] is not None]
    return Outcome(
        variant=config.algorithm.variant,
        seed=config.seed,
        num_iterations=config.num_iterations,
        num_successes=sum(trajectory.success for each in played for trajectory in each.trajectories),
        num_episodes=sum(len(each.trajectories) for each in played),
        training_success=statistics.fmean(line["success"] for line in last),
        explained_variance=statistics.fmean(explained) if explained else None,
        s_per_iteration=statistics.median(line["iteration_s"] for line in lines),
    )


def summary(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    """Returns both variants' validation success over all seeds, and how they differ seed by seed.

    The Wilson interval is of the episodes pooled, as if each were a trial of its own; how much runs of one variant
    differ among themselves is the standard deviation over seeds. The p-value knows both: it is of the exact
    permutation test that swaps the variants within seeds, so with five seeds it cannot be below 1/16.

    Args:
        outcomes: Each seed under both variants.

    Returns:
        Per variant, and `difference` (`paper` minus `released`).

    Raises:
        ValueError: If a seed lacks one of the variants.
    """
    rates: dict[str, dict[int, float]] = {variant: {} for variant in get_args(BilevelVariant)}
    for outcome in outcomes:
        rates[outcome.variant][outcome.seed] = outcome.num_successes / outcome.num_episodes
    if rates["paper"].keys() != rates["released"].keys():
        raise ValueError(f"summary: expected each seed under both variants, got {rates}.")
    differences = [rate - rates["released"][seed] for seed, rate in sorted(rates["paper"].items())]
    return {
        **{variant: _of_variant([each for each in outcomes if each.variant == variant]) for variant in rates},
        "difference": {
            "by_seed": differences,
            "mean": statistics.fmean(differences),
            "p_value": permutation_p_value(differences),
        },
    }


def permutation_p_value(differences: Sequence[float]) -> float:
    """Returns the two-sided p-value of the exact permutation test that pairs differ by chance alone.

    Args:
        differences: One per pair.

    Returns:
        The share of all ways to swap within pairs whose mean is at least as far from 0.
    """
    far = abs(sum(differences)) - 1e-12
    signs = list(itertools.product((1, -1), repeat=len(differences)))
    sums = (sum(sign * each for sign, each in zip(chosen, differences, strict=True)) for chosen in signs)
    return sum(abs(each) >= far for each in sums) / len(signs)


def _of_variant(outcomes: Sequence[Outcome]) -> dict[str, Any]:
    rates = [outcome.num_successes / outcome.num_episodes for outcome in outcomes]
    num_successes, num_episodes = (
        sum(getattr(o, name) for o in outcomes) for name in ("num_successes", "num_episodes")
    )
    interval = wilson_interval(num_successes, num_episodes)
    return {
        "num_successes": num_successes,
        "num_episodes": num_episodes,
        "success": num_successes / num_episodes,
        "success_low": interval.low,
        "success_high": interval.high,
        "std_over_seeds": statistics.stdev(rates) if len(rates) > 1 else None,
        "training_success": statistics.fmean(outcome.training_success for outcome in outcomes),
        "s_per_iteration": statistics.median(outcome.s_per_iteration for outcome in outcomes),
    }


def table(outcomes: Sequence[Outcome], summed: Mapping[str, Any]) -> list[str]:
    """Returns the outcomes and their summary as lines."""
    lines = [f"{'variant':<10}{'seed':>6}{'solved':>9}   {'95 % Wilson':<14}{'training':>12}{'EV':>7}{'s/iter':>8}"]
    for each in outcomes:
        low, high = wilson_interval(each.num_successes, each.num_episodes)
        explained = "" if each.explained_variance is None else f"{each.explained_variance:.2f}"
        lines.append(
            f"{each.variant:<10}{each.seed:>6}{each.num_successes / each.num_episodes:>9.3f}   {low:.3f} to {high:.3f}"
            f"{each.training_success:>12.3f}{explained:>7}{each.s_per_iteration:>8.1f}"
        )
    for variant in get_args(BilevelVariant):
        of = summed[variant]
        spread = "" if of["std_over_seeds"] is None else f"   std over seeds {of['std_over_seeds']:.3f}"
        lines.append(
            f"{variant:<10}{'all':>6}{of['success']:>9.3f}   {of['success_low']:.3f} to {of['success_high']:.3f}"
            f"{of['training_success']:>12.3f}{'':>7}{of['s_per_iteration']:>8.1f}{spread}"
        )
    difference = summed["difference"]
    lines.append(
        f"paper - released: {difference['mean']:+.3f}, permutation test over seeds p = {difference['p_value']:.3f}"
    )
    return lines


def report(comparison: Comparison, json_path: Path | None) -> None:
    """Runs a comparison, prints its table and writes its JSON file.

    Args:
        comparison: What is compared.
        json_path: Where the numbers go; None for `comparison.json` in the comparison's directory.
    """
    for variant, seed in itertools.product(get_args(BilevelVariant), comparison.seeds):
        comparison.config(variant, seed)  # a wrong setting is refused before the first run

    def on_done(outcome: Outcome) -> None:
        rate = outcome.num_successes / outcome.num_episodes
        print(f"{outcome.variant}, seed {outcome.seed}: {rate:.3f}", file=sys.stderr)

    outcomes = compare(comparison, on_done=on_done)
    summed = summary(outcomes)
    print("\n".join(table(outcomes, summed)))
    record = {
        "machine": machine(),
        "comparison": asdict(comparison),
        "outcomes": [asdict(outcome) for outcome in outcomes],
        "summary": summed,
    }
    path = json_path or Path(comparison.output) / "comparison.json"
    path.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")
    print(f"Numbers: {path}")
