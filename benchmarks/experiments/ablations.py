"""The central claims of five papers at small scale: each method and its rivals, as recipes and as an experiment.

Training is the tiny recipes' own; a rival differs from its paper's method only in what the claim is about. Lengths were
chosen by how long they take, before any test level was played. Each recipe is a function here, so that
`python -m training --recipe benchmarks.experiments.ablations:vagen_grpo --model DIR` runs one alone.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from benchmarks.experiments.experiment import Claim, Experiment, Variant
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
from training.sft.sft_config import SFTConfig
from training.stages.stages_config import Stage, StagesConfig

NO_JUDGE = JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0)


def vagen() -> Experiment:
    """VAGEN-Full against algorithms without turn-level judging or without both levels, in FrozenLake."""
    recipe = _vagen_recipe()
    assert recipe.model is not None, "its start ships"
    return Experiment(
        name="vagen",
        question="Do rewards for perception and bi-level GAE train better than GRPO and turn-level PPO?",
        variants={
            "full": _variant("vagen_full", "VAGEN-Full"),
            "grpo": _variant("vagen_grpo", "GRPO"),
            "turn_ppo": _variant("vagen_turn_ppo", "turn-level PPO"),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="VAGEN",
            text="Rewards for what is seen and foreseen in each turn, with bi-level GAE, train better than GRPO and "
            "than turn-level PPO by the task's reward alone.",
            setting="FrozenLake 4x4 from the start of `frozenlake_tiny`, which has imitated an expert that overlooks "
            "holes in three of ten turns; 30 iterations of 128 episodes. The judge is exact. GRPO compares eight "
            "siblings of a level; the others play as many and compare none. The start sees right in 0.998 of turns, "
            "which leaves rewards for seeing nothing to teach: what is compared is how credit is assigned.",
            method="full",
            start=recipe.model,
            worlds=recipe.worlds,
            sampling=recipe.sampling,
            judge=recipe.judge,
            shown={"score/observation": "sees right", "score/prediction": "foresees right"},
        ),
    )


def vagen_full() -> StagesConfig:
    """Judge rewards per turn, and bi-level GAE at the recipe's discounts without its comparison of siblings."""
    recipe = _vagen_recipe()
    algorithm = BilevelGAE(critic=_critic_of(recipe), bootstrap_truncated=False, gamma_turn=0.95, lambda_turn=0.95)
    return _stages(_alone(replace(recipe, algorithm=algorithm)))


def vagen_grpo() -> StagesConfig:
    """GRPO with the world's reward alone."""
    return _unjudged_vagen(GRPO())


def vagen_turn_ppo() -> StagesConfig:
    """Turn-level PPO with the world's reward alone."""
    return _unjudged_vagen(TurnGAE(critic=_critic_of(_vagen_recipe()), bootstrap_truncated=False))


def _unjudged_vagen(algorithm: Algorithm) -> StagesConfig:
    return _stages(_alone(replace(_vagen_recipe(), algorithm=algorithm, judge=NO_JUDGE)))


def _vagen_recipe() -> RunConfig:
    return replace(frozenlake_tiny(), num_iterations=30)


def _critic_of(recipe: RunConfig) -> CriticConfig:
    critic = recipe.algorithm.critic_config
    assert critic is not None, "its critic is a head on the policy"
    return critic


def argos() -> Experiment:
    """The gated reward against the outcome alone, where training levels have a shortcut that held-out ones lack."""
    run = _run(argos_hack_tiny().stages[-1])
    return Experiment(
        name="argos",
        question="Does a gated reward for grounding resist a hack that the outcome alone falls for?",
        variants={
            "gated": _variant("argos_gated", "accuracy as a gate, and grounding"),
            "outcome_only": _variant("argos_outcome_only", "outcome alone"),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="Argos",
            text="A reward that is gated by accuracy and pays for grounding resists a hack that the outcome alone "
            "falls for.",
            setting="In which quarter of a frame is the thing? In training levels its colour gives it away. The start "
            "has imitated whoever looks, and is then fine-tuned on as many who look and point as who know and point at "
            "nothing (`argos_hack_tiny`); 16 iterations of 64 episodes. A guess is right in a quarter; of a start "
            "below 0.4 nothing can be told.",
            method="gated",
            start_command=_command("argos_start"),
            worlds=run.worlds,
            sampling=run.sampling,
            judge=run.judge,
            shown={"argos/grounding": "grounding"},
            least_start=0.4,  # a guess is right in a quarter
        ),
    )


def argos_start() -> StagesConfig:
    """Imitates whoever looks, then fine-tunes on a mix of looking and knowing."""
    see, *_ = argos_tiny().stages
    return _as_start(see, *argos_hack_tiny("gated").stages[:-1])


def argos_gated() -> StagesConfig:
    """Grounding is rewarded where the answer is right."""
    return _stages(argos_hack_tiny("gated").stages[-1:])


def argos_outcome_only() -> StagesConfig:
    """The answer alone is rewarded."""
    return _stages(argos_hack_tiny("outcome_only").stages[-1:])


def ivgr() -> Experiment:
    """Both streams against the textual one alone, tested in words."""
    run = _ivgr_run()
    return Experiment(
        name="ivgr",
        question="Does a grounded stream beside the textual one improve answers in words?",
        variants={
            "dual": _variant("ivgr_dual", "both streams, consistency rewarded"),
            "textual": _variant("ivgr_text_only", "textual stream alone"),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="iVGR",
            text="Trained on a grounded stream beside the textual one, and paid for agreeing with it, a model answers "
            "better in words than trained on the textual stream alone.",
            setting="What colour is the leftmost block? From stage `sft` of `ivgr_tiny`, which has imitated somebody "
            "who knows where blocks are and often takes another one for the leftmost; 20 iterations of 100 episodes, a "
            "tenth of them general questions: two epochs of 90 questions, in the first of which no response can be "
            "held against an earlier one. Without a grounded stream its share is the textual one's, which sees each "
            "question twice as often.",
            method="dual",
            start_command=_command("ivgr_start"),
            worlds=(replace(run.worlds[1], weight=1.0, pool=None),),
            sampling=run.sampling,
            judge=NO_JUDGE,
            shown={"format_rate": "turns in the format"},
        ),
    )


def ivgr_start() -> StagesConfig:
    """The recipe's imitation."""
    return _as_start(ivgr_tiny().stages[0])


def ivgr_dual() -> StagesConfig:
    """Both streams, as in the recipe."""
    return _stages(_alone(_ivgr_run()))


def ivgr_text_only() -> StagesConfig:
    """The textual stream, with the grounded one's share, and no reward for agreement."""
    run = _ivgr_run()
    _, textual, general = run.worlds
    judge = replace(run.judge, reward_settings=("consistency_weight=0",))
    return _stages(_alone(replace(run, worlds=(replace(textual, weight=0.9), general), judge=judge)))


def _ivgr_run() -> RunConfig:
    return replace(_run(ivgr_tiny().stages[1]), num_iterations=20)


def mags() -> Experiment:
    """Two stages with super-resolution against one kind of stage throughout, and against crops only resized."""
    _, recall = _mags_runs()
    return Experiment(
        name="mags",
        question="Do precision before recall, and super-resolved crops, improve answers?",
        variants={
            "curriculum": _variant("mags_curriculum", "two stages, super-resolution"),
            "direct": _variant("mags_direct", "direct training"),
            "resized": replace(_variant("mags_resized", "two stages, crops resized"), kwargs=_resized()),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="Mags-RL",
            text="Two stages, precision before recall, with super-resolved crops answer better than direct training, "
            "and than crops that are only resized.",
            setting="What colour is the dot on the block (`mags_tiny`)? 20 and 15 iterations of 128 episodes. The "
            "start has imitated both stages' prompts with both sorts of crops, of an expert who zooms into the middle "
            "in half of the cases. Direct training has the second stage's prompts and reward from the beginning; "
            "rates, penalties and references are the same. All are tested with the second stage's prompts.",
            method="curriculum",
            start_command=_command("mags_start"),
            worlds=recall.worlds,
            sampling=recall.sampling,
            judge=NO_JUDGE,
            shown={"format_rate": "turns in the format"},
        ),
    )


def mags_start() -> StagesConfig:
    """Imitates both stages' prompts, with both kinds of crops."""
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
    """Recall throughout, at the first stage's rates in its time."""
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
    """Exploration, then accuracy with tools, against rewards that ignore tools or pay for any call."""
    run = _run(arm_thinker_tiny().stages[-1])
    return Experiment(
        name="arm_thinker",
        question="Does a reward for helpful calls make a better judge than accuracy, or than a bonus for any call?",
        variants={
            "arm": _variant("arm_explored", "exploration, then accuracy"),
            "accuracy_and_format": _variant("arm_accuracy_and_format", "accuracy and format"),
            "fixed_bonus": _variant("arm_fixed_bonus", "fixed bonus for calls"),
        },
        seeds=(1, 2, 3),
        claim=Claim(
            title="ARM-Thinker",
            text="Exploration, then a reward of accuracy and of calls that helped, makes a better judge than accuracy "
            "and format alone, and than a fixed bonus for calls.",
            setting="Which of two texts keeps to the instruction? From stage `sft` of `arm_thinker_tiny`, which hardly "
            "checks; 10 and 20 iterations of 128 episodes, in which each pair is judged in both orders. Rivals have "
            "their one reward in both.",
            method="arm",
            start_command=_command("arm_start"),
            worlds=run.worlds,
            sampling=run.sampling,
            judge=NO_JUDGE,
            shown={"metric/calls": "calls an episode", "metric/successful_calls": "that worked"},
            num_test_levels=128,
        ),
    )


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
    """A bonus for any call in both stages."""
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


def _variant(function: str, title: str) -> Variant:
    return Variant(command=_command(function), title=title)


def _alone(run: RunConfig) -> tuple[Stage, ...]:
    return (Stage(name="rl", run=run),)


def _run(stage: Stage) -> RunConfig:
    assert isinstance(stage.run, RunConfig), "it is reinforcement learning"
    return stage.run


def _with(worlds: tuple[WorldSpec, ...], **kwargs: Any) -> tuple[WorldSpec, ...]:
    return tuple(replace(spec, kwargs={**spec.kwargs, **kwargs}) for spec in worlds)


def _stages(stages: tuple[Stage, ...]) -> StagesConfig:
    """Returns a run of stages from a start that `--model` names; each stage's seeds have a hundred of their own."""
    placed = tuple(_placed(stage, seed=100 * number) for number, stage in enumerate(stages))
    return StagesConfig(name="ablation", model="start", stages=placed)


def _as_start(*stages: Stage) -> StagesConfig:
    """Returns the run that makes a start."""
    placed = tuple(_placed(stage, seed=number) for number, stage in enumerate(stages))
    return StagesConfig(name="start", stages=placed)


def _placed(stage: Stage, *, seed: int) -> Stage:
    """Returns a stage on one thread of the CPU; only the experiment evaluates it."""
    run = stage.run
    if isinstance(run, RunConfig):
        run = replace(run, seed=seed, device="cpu", num_threads=1, num_eval_episodes=0, eval_every=0, record_every=0)
    elif isinstance(run, SFTConfig):
        run = replace(run, seed=seed, device="cpu", num_threads=1)
    else:
        run = replace(run, seed=seed)
    return replace(stage, run=run)
