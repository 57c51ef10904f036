"""The central claims of five papers at small scale: each method and its baselines, as recipes and as an experiment.

Training uses the tiny recipes; a baseline differs from the paper's method only in the aspect that the claim is about.
Run lengths were chosen by duration, before any test level was played. Each recipe is a function, so that
`python -m training --recipe benchmarks.experiments.ablations:vagen_grpo --model DIR` runs it alone.
"""

from __future__ import annotations

import tomllib
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Variant
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.turn_gae import TurnGAE
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.world_spec import WorldSpec
from training.recipes.argos import argos_hack_tiny, argos_tiny
from training.recipes.arm_thinker import arm_thinker_tiny
from training.recipes.ivgr import ivgr_tiny
from training.recipes.mags import mags_tiny
from training.recipes.tiny import frozenlake_tiny
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import Stage, StagesConfig

_CLAIMS = Path(__file__).with_name("claims.toml")

NO_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)


def vagen() -> Experiment:
    """VAGEN-Full against algorithms without turn-level judging or without bi-level advantages, in FrozenLake."""
    recipe = _vagen_recipe()
    assert recipe.model is not None, "its start ships"
    return _experiment("vagen", recipe, judge=recipe.judge, start=recipe.model)


def vagen_full() -> StagesConfig:
    """Judge rewards per turn and bi-level GAE at the recipe's discounts, without comparison within the group."""
    recipe = _vagen_recipe()
    algorithm = BilevelGAE(critic=_critic_of(recipe), bootstrap_truncated=False, gamma_turn=0.95, lambda_turn=0.95)
    return _stages(_alone(replace(recipe, algorithm=algorithm)))


def vagen_grpo() -> StagesConfig:
    """GRPO with the world's reward only."""
    return _stages(_alone(replace(_vagen_recipe(), algorithm=GRPO(), judge=NO_JUDGE)))


def vagen_turn_ppo() -> StagesConfig:
    """Turn-level PPO with the world's reward only."""
    recipe = _vagen_recipe()
    algorithm = TurnGAE(critic=_critic_of(recipe), bootstrap_truncated=False)
    return _stages(_alone(replace(recipe, algorithm=algorithm, judge=NO_JUDGE)))


def _vagen_recipe() -> RunConfig:
    return replace(frozenlake_tiny(), num_iterations=30)


def _critic_of(recipe: RunConfig) -> CriticConfig:
    critic = recipe.algorithm.critic_config
    assert critic is not None, "its critic is a head on the policy"
    return critic


def argos() -> Experiment:
    """The gated reward against the outcome reward, with a shortcut in training levels that held-out levels lack."""
    run = _run(argos_hack_tiny().stages[-1])
    return _experiment("argos", run, judge=run.judge, start_command=_command("argos_start"))


def argos_start() -> StagesConfig:
    """Imitates an expert that looks, then fine-tunes on a mix of looking and guessing from the shortcut."""
    see, *_ = argos_tiny().stages
    return _as_start(see, *argos_hack_tiny("gated").stages[:-1])


def argos_gated() -> StagesConfig:
    """Rewards grounding only if the answer is right."""
    return _stages(argos_hack_tiny("gated").stages[-1:])


def argos_outcome_only() -> StagesConfig:
    """Rewards only the answer."""
    return _stages(argos_hack_tiny("outcome_only").stages[-1:])


def ivgr() -> Experiment:
    """Both streams against the textual stream alone, tested with textual prompts."""
    run = _ivgr_run()
    made = _experiment("ivgr", run, start_command=_command("ivgr_start"))
    assert made.claim is not None, "it tests one"
    return replace(made, claim=replace(made.claim, worlds=(replace(run.worlds[1], weight=1.0, pool=None),)))


def ivgr_start() -> StagesConfig:
    """The recipe's imitation stage."""
    return _as_start(ivgr_tiny().stages[0])


def ivgr_dual() -> StagesConfig:
    """Both streams, as in the recipe."""
    return _stages(_alone(_ivgr_run()))


def ivgr_text_only() -> StagesConfig:
    """The textual stream with the grounded stream's share added, and no consistency reward."""
    run = _ivgr_run()
    _, textual, general = run.worlds
    judge = replace(run.judge, reward_settings=("consistency_weight=0",))
    return _stages(_alone(replace(run, worlds=(replace(textual, weight=0.9), general), judge=judge)))


def _ivgr_run() -> RunConfig:
    return replace(_run(ivgr_tiny().stages[1]), num_iterations=20)


def mags() -> Experiment:
    """Precision, then recall with super-resolution, against recall throughout and against resized crops."""
    _, recall = _mags_runs()
    made = _experiment("mags", recall, start_command=_command("mags_start"))
    resized = replace(made.variants["resized"], kwargs=_resized())
    return replace(made, variants={**made.variants, "resized": resized})


def mags_start() -> StagesConfig:
    """Imitates the prompts of both stages, with both kinds of crops."""
    precision, recall = _mags_runs()
    worlds = tuple(
        replace(spec, name=f"stage {number}, {'resized' if kwargs else 'super-resolved'}")
        for number, run in ((1, precision), (2, recall))
        for kwargs in ({}, _resized())
        for spec in _with(run.worlds, **kwargs)
    )
    cold_start = replace(precision.cold_start, num_steps=1400, num_first_turn_steps=800)
    imitated = replace(precision, num_iterations=0, judge=NO_JUDGE, cold_start=cold_start, worlds=worlds, model=None)
    return _as_start(Stage(name="imitate", run=imitated))


def mags_curriculum() -> StagesConfig:
    """Precision, then recall."""
    return _mags_stages(*_mags_runs())


def mags_direct() -> StagesConfig:
    """Recall throughout, with the first stage's learning rates for its duration."""
    precision, recall = _mags_runs()
    return _mags_stages(replace(precision, worlds=recall.worlds, judge=recall.judge), recall)


def mags_resized() -> StagesConfig:
    """Precision, then recall, with crops that are only resized."""
    return _mags_stages(*_mags_runs(), **_resized())


def _mags_runs() -> tuple[RunConfig, RunConfig]:
    _, first, second = mags_tiny().stages
    return replace(_run(first), num_iterations=20), replace(_run(second), num_iterations=15)


def _mags_stages(*runs: RunConfig, **kwargs: Any) -> StagesConfig:
    stages = zip(mags_tiny().stages[1:], runs, strict=True)
    return _stages(tuple(replace(stage, run=replace(run, worlds=_with(run.worlds, **kwargs))) for stage, run in stages))


def _resized() -> dict[str, Any]:
    kwargs = _run(mags_tiny("without_super_resolution").stages[1]).worlds[0].kwargs
    return {name: kwargs[name] for name in ("upscaler", "upscaler_kwargs")}


def arm_thinker() -> Experiment:
    """Exploration, then accuracy with tools, against rewards that ignore tools or pay for every call."""
    run = _run(arm_thinker_tiny().stages[-1])
    return _experiment("arm_thinker", run, start_command=_command("arm_start"))


def arm_start() -> StagesConfig:
    """The recipe's stages before reinforcement learning."""
    return _as_start(*arm_thinker_tiny().stages[:-2])


def arm_explored() -> StagesConfig:
    """Exploration, then accuracy with tools."""
    return _arm_stages("arm_exploration", "arm_accuracy")


def arm_accuracy_and_format() -> StagesConfig:
    """Accuracy and format in both stages."""
    return _arm_stages("arm_accuracy_and_format", "arm_accuracy_and_format")


def arm_fixed_bonus() -> StagesConfig:
    """A bonus for every call in both stages."""
    return _arm_stages("arm_fixed_tool_bonus", "arm_fixed_tool_bonus")


def _arm_stages(*rewards: str) -> StagesConfig:
    stages = zip(arm_thinker_tiny().stages[-2:], rewards, strict=True)
    runs = [(stage, _run(stage), reward) for stage, reward in stages]
    return _stages(
        tuple(
            replace(stage, run=replace(run, judge=replace(run.judge, episode_reward=reward)))
            for stage, run, reward in runs
        )
    )


CLAIMS: dict[str, Callable[[], Experiment]] = {made.__name__: made for made in (vagen, argos, ivgr, mags, arm_thinker)}


def _command(function: str) -> str:
    return f"--recipe {__name__}:{function}"


def _experiment(
    name: str, tested: RunConfig, *, judge: JudgeConfig = NO_JUDGE, start: str = "", start_command: str = ""
) -> Experiment:
    """Returns an experiment of `claims.toml`, with the test worlds and sampling of a run."""
    claim = tomllib.loads(_CLAIMS.read_text(encoding="utf-8"))[name]
    question, variants = claim.pop("question"), claim.pop("variants")
    sources: dict[str, Any] = {"worlds": tested.worlds, "sampling": tested.sampling, "judge": judge}
    return Experiment(
        name=name,
        question=question,
        variants={
            label: Variant(command=_command(variant["recipe"]), title=variant["title"])
            for label, variant in variants.items()
        },
        seeds=(1, 2, 3),
        claim=Claim(**claim, **sources, start=start, start_command=start_command),
    )


def _alone(run: RunConfig) -> tuple[Stage, ...]:
    return (Stage(name="rl", run=run),)


def _run(stage: Stage) -> RunConfig:
    assert isinstance(stage.run, RunConfig), "it is reinforcement learning"
    return stage.run


def _with(worlds: tuple[WorldSpec, ...], **kwargs: Any) -> tuple[WorldSpec, ...]:
    return tuple(replace(spec, kwargs={**spec.kwargs, **kwargs}) for spec in worlds)


def _stages(stages: tuple[Stage, ...]) -> StagesConfig:
    """Returns a staged run from the start that `--model` names; seeds of consecutive stages are 100 apart."""
    placed = tuple(_placed(stage, seed=100 * number) for number, stage in enumerate(stages))
    return StagesConfig(name="ablation", model="start", stages=placed)


def _as_start(*stages: Stage) -> StagesConfig:
    """Returns the staged run that produces a start checkpoint."""
    placed = tuple(_placed(stage, seed=number) for number, stage in enumerate(stages))
    return StagesConfig(name="start", stages=placed)


def _placed(stage: Stage, *, seed: int) -> Stage:
    """Returns a stage on one CPU thread, without its own evaluations."""
    settings: dict[str, Any] = {"seed": seed}
    if isinstance(stage.run, RunConfig | SFTConfig):
        settings |= {"device": "cpu", "num_threads": 1}
    if isinstance(stage.run, RunConfig):
        settings |= {"num_eval_episodes": 0, "eval_every": 0, "record_every": 0}
    return replace(stage, run=replace(stage.run, **settings))
