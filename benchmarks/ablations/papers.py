"""The central claims of the five papers in small, by the names that `python -m benchmarks ablations --only` takes.

What is trained is the tiny recipes' own; a rival differs from its paper's method in what the claim is about. Lengths
were chosen by how long they take, before any test level was played.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.ablations.ablation import Ablation, Arm
from training.algorithms.algorithm import Algorithm, CriticConfig
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
from training.stages.stages_config import Stage, StagesConfig

NO_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)


def vagen() -> Ablation:
    """VAGEN-Full beside algorithms that know neither turns' thoughts nor both levels, in FrozenLake."""
    recipe = replace(frozenlake_tiny(), num_iterations=30)
    critic = recipe.algorithm.critic_config
    assert critic is not None and recipe.model is not None, "its critic is a head on the policy, and its start ships"

    def arm(name: str, title: str, algorithm: Algorithm, judge: JudgeConfig) -> Arm:
        return Arm(name=name, title=title, stages=_alone(replace(recipe, algorithm=algorithm, judge=judge)))

    return Ablation(
        name="vagen",
        title="VAGEN",
        claim="Rewards for what is seen and foreseen in each turn, with bi-level GAE, train better than GRPO and than "
        "turn-level PPO by the task's reward alone.",
        setting="FrozenLake 4x4 from the start of `frozenlake_tiny`, which has imitated an expert that overlooks holes "
        "in three of ten turns; 30 iterations of 128 episodes. The judge is exact. GRPO compares eight siblings of a "
        "level; the others play as many and compare none. The start sees right in 0.998 of turns, which leaves rewards "
        "for seeing nothing to teach: what is compared is how credit is assigned.",
        method="full",
        arms=(
            arm("full", "VAGEN-Full", _bilevel(critic), recipe.judge),
            arm("grpo", "GRPO", GRPO(), NO_JUDGE),
            arm("turn_ppo", "turn-level PPO", TurnGAE(critic=critic, bootstrap_truncated=False), NO_JUDGE),
        ),
        start=recipe.model,
        worlds=recipe.worlds,
        sampling=recipe.sampling,
        judge=recipe.judge,
        shown={"score/observation": "sees right", "score/prediction": "foresees right"},
    )


def argos() -> Ablation:
    """The gated reward beside the outcome alone, where training levels have a shortcut that held-out ones have not."""
    see, *_ = argos_tiny().stages
    gated, outcome = (argos_hack_tiny(reward).stages for reward in ("gated", "outcome_only"))
    run = _run(gated[-1])
    return Ablation(
        name="argos",
        title="Argos",
        claim="A reward that is gated by accuracy and pays for grounding resists a hack that the outcome alone falls "
        "for.",
        setting="In which quarter of a frame is the thing? In training levels its colour gives it away. The start has "
        "imitated whoever looks, and is then fine-tuned on as many who look and point as who know and point at nothing "
        "(`argos_hack_tiny`); 16 iterations of 64 episodes. A guess is right in a quarter; of a start below 0.4 "
        "nothing can be told.",
        method="gated",
        arms=(
            Arm(name="gated", title="accuracy as a gate, and grounding", stages=gated[-1:]),
            Arm(name="outcome_only", title="outcome alone", stages=outcome[-1:]),
        ),
        start=StagesConfig(name="start", stages=(see, *gated[:-1])),
        worlds=run.worlds,
        sampling=run.sampling,
        judge=run.judge,
        shown={"argos/grounding": "grounding"},
        least_start=0.4,  # a guess is right in a quarter
    )


def ivgr() -> Ablation:
    """Both streams beside the textual one alone, asked in words."""
    imitation, reinforcement = ivgr_tiny().stages
    run = replace(_run(reinforcement), num_iterations=20)
    _, textual, general = run.worlds

    def alone(**settings: float) -> JudgeConfig:
        return replace(run.judge, reward_settings=tuple(f"{name}={value:g}" for name, value in settings.items()))

    return Ablation(
        name="ivgr",
        title="iVGR",
        claim="Trained on a grounded stream beside the textual one, and paid for agreeing with it, a model answers "
        "better in words than trained on the textual stream alone.",
        setting="What colour is the leftmost block? From stage `sft` of `ivgr_tiny`, which has imitated somebody who "
        "knows where blocks are and often takes another one for the leftmost; 20 iterations of 100 episodes, a tenth "
        "of them general questions: two epochs of 90 questions, in the first of which no response can be held against "
        "an earlier one. Without a grounded stream its share is the textual one's, which sees each question twice as "
        "often.",
        method="dual",
        arms=(
            Arm(name="dual", title="both streams, consistency rewarded", stages=_alone(run)),
            Arm(
                name="textual",
                title="textual stream alone",
                stages=_alone(
                    replace(run, worlds=(replace(textual, weight=0.9), general), judge=alone(consistency_weight=0))
                ),
            ),
        ),
        start=StagesConfig(name="start", stages=(imitation,)),
        worlds=(replace(textual, weight=1.0, pool=None),),
        sampling=run.sampling,
        judge=NO_JUDGE,
        shown={"format_rate": "turns in the format"},
    )


def mags() -> Ablation:
    """Two stages with super-resolution beside one sort of stage all along, and beside crops that are only resized."""
    _, first, second = mags_tiny().stages
    precision, recall = (
        replace(_run(each), num_iterations=each_long) for each, each_long in ((first, 20), (second, 15))
    )
    resized = _run(mags_tiny("without_super_resolution").stages[1]).worlds[0].kwargs
    resized = {name: resized[name] for name in ("upscaler", "upscaler_kwargs")}

    def stages(*runs: RunConfig, **kwargs: Any) -> tuple[Stage, ...]:
        with_kwargs = (replace(run, worlds=_with(run.worlds, **kwargs)) for run in runs)
        return tuple(replace(stage, run=run) for stage, run in zip((first, second), with_kwargs, strict=True))

    direct = replace(precision, worlds=recall.worlds, judge=recall.judge)
    start = replace(
        precision,
        num_iterations=0,
        judge=NO_JUDGE,
        cold_start=replace(precision.cold_start, num_steps=1400, num_first_turn_steps=800),
        worlds=tuple(
            replace(spec, name=f"stage {number}, {'resized' if kwargs else 'super-resolved'}")
            for number, run in ((1, precision), (2, recall))
            for kwargs in ({}, resized)
            for spec in _with(run.worlds, **kwargs)
        ),
    )
    return Ablation(
        name="mags",
        title="Mags-RL",
        claim="Two stages, precision before recall, with super-resolved crops answer better than direct training, and "
        "than crops that are only resized.",
        setting="What colour is the dot on the block (`mags_tiny`)? 20 and 15 iterations of 128 episodes. The start "
        "has imitated both stages' prompts with both sorts of crops, of an expert who zooms into the middle in half of "
        "the cases. Direct training has the second stage's prompts and reward from the beginning; rates, penalties and "
        "references are the same. All are tested with the second stage's prompts.",
        method="curriculum",
        arms=(
            Arm(name="curriculum", title="two stages, super-resolution", stages=stages(precision, recall)),
            Arm(name="direct", title="direct training", stages=stages(direct, recall)),
            Arm(
                name="resized",
                title="two stages, crops resized",
                stages=stages(precision, recall, **resized),
                kwargs=resized,
            ),
        ),
        start=StagesConfig(name="start", stages=(Stage(name="imitate", run=replace(start, model=None)),)),
        worlds=recall.worlds,
        sampling=recall.sampling,
        judge=NO_JUDGE,
        shown={"format_rate": "turns in the format"},
    )


def arm_thinker() -> Ablation:
    """Exploration, then accuracy with tools, beside rewards that do not know tools or pay for any call."""
    *taught, explore, accuracy = arm_thinker_tiny().stages
    run = _run(accuracy)

    def stages(exploring: str, judging: str) -> tuple[Stage, ...]:
        rewards = ((explore, exploring), (accuracy, judging))
        return tuple(replace(stage, run=_rewarded(_run(stage), reward)) for stage, reward in rewards)

    plain, bonus = "arm_accuracy_and_format", "arm_fixed_tool_bonus"
    return Ablation(
        name="arm_thinker",
        title="ARM-Thinker",
        claim="Exploration, then a reward of accuracy and of calls that helped, makes a better judge than accuracy and "
        "format alone, and than a fixed bonus for calls.",
        setting="Which of two texts keeps to the instruction? From stage `sft` of `arm_thinker_tiny`, which hardly "
        "checks; 10 and 20 iterations of 128 episodes, in which each pair is judged in both orders. Rivals have their "
        "one reward in both.",
        method="arm",
        arms=(
            Arm(name="arm", title="exploration, then accuracy", stages=stages("arm_exploration", "arm_accuracy")),
            Arm(name="accuracy_and_format", title="accuracy and format", stages=stages(plain, plain)),
            Arm(name="fixed_bonus", title="fixed bonus for calls", stages=stages(bonus, bonus)),
        ),
        start=StagesConfig(name="start", stages=tuple(taught)),
        worlds=run.worlds,
        sampling=run.sampling,
        judge=NO_JUDGE,
        shown={"metric/calls": "calls an episode", "metric/successful_calls": "that worked"},
        num_test_levels=128,
    )


ABLATIONS: dict[str, Callable[[], Ablation]] = {made.__name__: made for made in (vagen, argos, ivgr, mags, arm_thinker)}
"""In the order in which they are run."""


def _alone(run: RunConfig) -> tuple[Stage, ...]:
    return (Stage(name="rl", run=run),)


def _run(stage: Stage) -> RunConfig:
    assert isinstance(stage.run, RunConfig), "it is reinforcement learning"
    return stage.run


def _bilevel(critic: CriticConfig) -> BilevelGAE:
    """Returns bi-level GAE without the recipe's comparison of siblings, at the recipe's discounts."""
    return BilevelGAE(critic=critic, bootstrap_truncated=False, gamma_turn=0.95, lambda_turn=0.95)


def _rewarded(run: RunConfig, reward: str) -> RunConfig:
    return replace(run, judge=replace(run.judge, episode_reward=reward))


def _with(worlds: tuple[WorldSpec, ...], **kwargs: Any) -> tuple[WorldSpec, ...]:
    return tuple(replace(spec, kwargs={**spec.kwargs, **kwargs}) for spec in worlds)
