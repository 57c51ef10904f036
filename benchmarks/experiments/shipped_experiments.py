"""The shipped experiments: recipes compared with their baselines, learning curves, and papers' claims."""

from __future__ import annotations

from benchmarks.experiments.experiment import Experiment, Variant
from vlm_envs.validation import require_choice

_TINY = ("frozenlake", "sokoban", "navigation", "primitive", "svg", "zoomqa", "docqa", "videoqa", "judging")

_RECIPES = {
    "results": Experiment(
        name="results",
        question="What do the tiny recipes reach on test levels, beside their starts and baselines?",
        variants={
            **{f"{name}_tiny": Variant(command=f"{name}_tiny") for name in _TINY},
            "zoomqa_blank_crops": Variant(command="zoomqa_tiny --worlds.0.kwargs.blank-crops"),
        },
        seeds=(0, 1, 2),
        options="--num-threads 1 --record-every 0 --first-eval-level 512",
        has_baselines=True,
    ),
    "curves": Experiment(
        name="curves",
        question="How do the recipes of the papers' pages learn, stage by stage?",
        variants={
            "frozenlake_tiny": Variant(command="frozenlake_tiny --num-threads 1 --record-every 0"),
            **{name: Variant(command=name) for name in ("ivgr_tiny", "mags_tiny", "argos_tiny", "arm_thinker_tiny")},
            "doorkey": Variant(
                command="adapt:examples/doorkey.toml --worlds.0.kwargs.prompt-format no_think --cold-start.num-steps "
                "600 --cold-start.num-first-turn-steps 150 --num-iterations 80 --num-groups 16 --group-size 8 "
                "--algorithm gigpo --ppo.kl-coef 0 --ppo.final-learning-rate-ratio 0.3 --eval-every 10 "
                "--num-eval-episodes 128"
            ),
        },
        seeds=(0,),
    ),
}

PAPERS = ("vagen", "argos", "ivgr", "mags", "arm_thinker")
"""Experiments of one claim each, in the order in which `ablations` runs and lists them."""

EXPERIMENTS = (*_RECIPES, "ablations", *PAPERS)


def find_experiments(name: str) -> list[Experiment]:
    """Returns the experiments for a name on the command line.

    Raises:
        ConfigError: If there is no such experiment.
    """
    require_choice("The experiment", name, EXPERIMENTS)
    if name in _RECIPES:
        return [_RECIPES[name]]
    # Imported here because algorithms import torch
    from benchmarks.experiments.ablations import CLAIMS

    return [CLAIMS[paper]() for paper in (PAPERS if name == "ablations" else (name,))]
