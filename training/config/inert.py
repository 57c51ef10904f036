"""Settings of several parts of a run that would do nothing together; those of one part are refused by that part.

Each function yields what was expected, what came and which options mend it, so that all of it can be told at once.
"""

from __future__ import annotations

from collections.abc import Iterator

from agents.hf.sampling import SamplingConfig
from training.algorithms.algorithm import Algorithm
from training.algorithms.gae import GAE
from training.algorithms.shipped import name_of
from training.config.judges import JudgeConfig
from training.config.ppo import PPOConfig


def algorithm_contradictions(
    algorithm: Algorithm, ppo: PPOConfig, sampling: SamplingConfig, *, group_size: int
) -> Iterator[str]:
    """Yields what an algorithm, its update and its samples cannot do together.

    Settings of a critic (`ppo.critic_...`, `ppo.value_clip`) may stay where there is none: their names say whose they
    are, and a recipe can be compared under every algorithm by changing that one option.
    """
    name = name_of(algorithm)
    if group_size < algorithm.min_group_size:
        compares_by_choice = isinstance(algorithm, GAE) and algorithm.sibling_baseline
        what = "--algorithm.sibling-baseline" if compares_by_choice else f"--algorithm {name}"
        yield (
            f"{what} compares siblings, and with --group-size {group_size} there are too few. Use --group-size "
            f"{algorithm.min_group_size} or more{', or --algorithm.no-sibling-baseline' if compares_by_choice else ''}."
        )
    if not algorithm.needs_critic and ppo.critic_warmup_iterations > 0:
        yield (
            f"--algorithm {name} has no critic: --ppo.critic-warmup-iterations {ppo.critic_warmup_iterations} would be "
            "iterations without learning. Use --ppo.critic-warmup-iterations 0."
        )
    if sampling.top_p < 1 and ppo.old_logprobs == "sampler":
        yield (
            f"With --sampling.top-p {sampling.top_p} the sampler's log-probabilities are of another distribution "
            "than the trainer's. Use --ppo.old-logprobs trainer (and --ppo.importance-cap 2) or --sampling.top-p 1."
        )
    if algorithm.learns_observations and (ppo.old_logprobs == "sampler" or ppo.importance_cap is not None):
        yield (
            f"--algorithm {name} learns from observations here, too, for which the sampler has no log-probability: the "
            f"ratio cannot be taken against it (--ppo.old-logprobs {ppo.old_logprobs}) nor corrected towards it "
            f"(--ppo.importance-cap {ppo.importance_cap}). Use --ppo.old-logprobs trainer and --ppo.importance-cap "
            "None."
        )


def length_contradictions(
    *, num_iterations: int, temperature: float, critic_warmup_iterations: int, eval_every: int
) -> Iterator[str]:
    """Yields what a run of this many iterations leaves no room for."""
    if temperature == 0 and num_iterations > 0:
        yield (
            "--sampling.temperature 0 always takes the likeliest token: the siblings of a group are the same episode, "
            "GRPO's advantages are all 0, and no algorithm learns what another response would have earned. Use "
            "--sampling.temperature 1, or --num-iterations 0 to evaluate only."
        )
    if 0 < num_iterations <= critic_warmup_iterations:
        yield (
            f"--ppo.critic-warmup-iterations {critic_warmup_iterations} leaves the policy nothing of "
            f"--num-iterations {num_iterations}. Lower the first or raise the second."
        )
    if 0 < eval_every >= num_iterations:
        below = f"{num_iterations - 1} or less, " if num_iterations > 1 else ""
        yield (
            f"--eval-every {eval_every} never comes round in --num-iterations {num_iterations}: the last "
            f"evaluation is not one of these. Use --eval-every {below}0 for none."
        )


def evaluation_contradictions(
    judge: JudgeConfig, *, num_eval_episodes: int, eval_every: int, num_val_episodes: int
) -> Iterator[str]:
    """Yields evaluations that are asked for and never made."""
    if judge.in_evaluations and num_eval_episodes == 0 and (eval_every == 0 or num_val_episodes == 0):
        yield (
            "--judge.in-evaluations has a model judge evaluations, and none are made: --num-eval-episodes is 0 and so "
            "is --eval-every or --num-val-episodes. Raise them or use --judge.no-in-evaluations."
        )
    if eval_every > 0 and num_val_episodes == 0:
        yield f"--eval-every {eval_every} evaluates --num-val-episodes 0. Raise the second or use --eval-every 0."
