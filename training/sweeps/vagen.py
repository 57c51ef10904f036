"""VAGEN's Tables 2 to 4 and the ablations of its section 5.4, in one of its worlds.

    table 2, strategies     VAGEN-Base with each of the five reasoning strategies
    table 2, baselines      vanilla PPO without a mask, GRPO and turn-level PPO with one, under grounding_worldmodeling
    table 3                 VAGEN-Base with each of the three representations of states
    table 4, section 5.4    VAGEN-Base, bi-level GAE alone, the reasoning reward alone, VAGEN-Full

Base is a row of all of them. With a checkpoint, every arm has the constants of the presets (`training.recipes.vagen`).
*Not run here.* Without one it is the tiny VLM: its start imitates an expert that overlooks what makes the world hard in
some of its turns, in all strategies and representations at once, so that arms differ in nothing but what they are asked
to write and how they learn. It goes on from the start of the world's tiny recipe, which sees.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.algorithms.turn_gae import TurnGAE
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.recipes.vagen import vagen_base, vagen_full
from training.sweeps.sweep import Arm, Sweep
from vlm_envs.validation import require_choice

BASE = "base"
TABLES = {
    "strategies": "Table 2: reasoning strategies, under VAGEN-Base",
    "baselines": "Table 2: other algorithms, with grounding and world modelling",
    "representations": "Table 3: representations of states, under VAGEN-Base",
    "full": "Table 4 and section 5.4: VAGEN-Base, VAGEN-Full and what lies between",
}
STRATEGIES = ("no_think", "free_think", "grounding", "worldmodeling")
REPRESENTATIONS = ("structured", "symbolic")

_PAPER = {
    "frozenlake": {
        BASE: 0.71,
        "no_think": 0.09,
        "free_think": 0.68,
        "grounding": 0.68,
        "worldmodeling": 0.76,
        "vanilla_ppo": 0.21,
        "grpo": 0.57,
        "turn_ppo": 0.70,
        "structured": 0.63,
        "symbolic": 0.49,
        "full": 0.74,
    },
    "sokoban": {
        BASE: 0.61,
        "no_think": 0.57,
        "free_think": 0.57,
        "grounding": 0.56,
        "worldmodeling": 0.41,
        "vanilla_ppo": 0.18,
        "grpo": 0.20,
        "turn_ppo": 0.38,
        "structured": 0.28,
        "symbolic": 0.49,
        "full": 0.79,
    },
}
"""Test success of Qwen2.5-VL-3B in Tables 2 to 4."""

_ENV_IDS = {"frozenlake": "VLM/FrozenLake-v0", "sokoban": "VLM/Sokoban-v0"}
WORLDS = tuple(_ENV_IDS)
"""The paper's worlds in which states have all three representations."""


def vagen_tables(world: str = "frozenlake", *, model: str | None = None, quick: bool = False) -> Sweep:
    """Returns the arms of Tables 2 to 4 and of section 5.4 in one world.

    Args:
        world: One of `WORLDS`.
        model: Checkpoint directory that all arms start from, with the paper's constants; None for the tiny VLM.
        quick: Whether imitation, training and evaluation are cut to what shows that everything runs, and nothing more.

    Raises:
        ConfigError: If the world is none of them.
    """
    require_choice("--world", world, WORLDS)
    if model is not None:
        base, full = (replace(preset(world), model=model) for preset in (vagen_base, vagen_full))
        base, full = (_cut(run) if quick else run for run in (base, full))
        start = None
    else:
        base, full = (_tiny(world, algorithm, quick=quick) for algorithm in (_token_gae(), _bilevel_gae()))
        full = replace(full, judge=JudgeConfig(grounding_weight=0.5, worldmodeling_weight=0.5))
        start = _tiny_start(world, base, quick=quick)
    paper = _PAPER[world]
    arms = tuple(
        Arm(name=name, run=run, rows={TABLES[table]: title for table, title in rows.items()}, paper=paper.get(name))
        for name, run, rows in _arms(base, full)
    )
    name = "_".join(["vagen_tables", world, *([] if model is None else [_checkpoint(model)]), *["quick"] * quick])
    return Sweep(name=name, title=f"VAGEN in {world}", baseline=BASE, arms=arms, start=start)


def _cut(run: RunConfig) -> RunConfig:
    """Returns a preset that shows that it runs, and nothing more."""
    return replace(run, num_iterations=2, num_groups=8, eval_every=1, num_eval_episodes=16, num_val_episodes=4)


def _checkpoint(model: str) -> str:
    """Returns a part of a name by which a checkpoint is told from others of the same name."""
    place = Path(model).resolve()
    return f"{place.name}-{hashlib.blake2b(str(place).encode(), digest_size=3).hexdigest()}"


def _arms(base: RunConfig, full: RunConfig) -> Iterator[tuple[str, RunConfig, dict[str, str]]]:
    """Yields name, run and rows of every arm."""
    yield (
        BASE,
        base,
        {
            "strategies": "grounding and world modelling",
            "baselines": "VAGEN-Base: token GAE with a mask",
            "representations": "natural language",
            "full": "VAGEN-Base",
        },
    )
    for strategy in STRATEGIES:
        yield strategy, _told(base, prompt_format=strategy), {"strategies": strategy.replace("_", " ")}
    critic = base.algorithm.critic_config
    assert critic is not None, "VAGEN-Base has one"
    unmasked = TokenGAE(critic=critic, bootstrap_truncated=False, reward_placement="trajectory", mask="all")
    by_trainer = replace(base.ppo, old_logprobs="trainer", importance_cap=None)  # nobody sampled observations
    yield "vanilla_ppo", replace(base, algorithm=unmasked, ppo=by_trainer), {"baselines": "vanilla PPO: no mask"}
    # One episode of each level, as the others have with a preset, would leave nothing to compare
    groups = base if base.group_size > 1 else replace(base, num_groups=base.num_groups // 8, group_size=8)
    yield "grpo", replace(groups, algorithm=GRPO()), {"baselines": "GRPO with a mask"}
    turns = TurnGAE(critic=critic, bootstrap_truncated=False)
    yield "turn_ppo", replace(base, algorithm=turns), {"baselines": "turn-level PPO with a mask"}
    for representation in REPRESENTATIONS:
        yield representation, _told(base, representation=representation), {"representations": representation}
    yield "bilevel_gae", replace(base, algorithm=full.algorithm), {"full": "bi-level GAE alone"}
    by_turns = replace(base.algorithm, **{"reward_placement": "turn"})
    rewarded = replace(base, algorithm=by_turns, judge=full.judge)
    yield "reasoning_reward", rewarded, {"full": "reasoning reward alone"}
    yield "full", full, {"full": "VAGEN-Full"}


def _told(run: RunConfig, **kwargs: str) -> RunConfig:
    """Returns a run whose worlds are played in another format."""
    return replace(run, worlds=tuple(replace(each, kwargs={**each.kwargs, **kwargs}) for each in run.worlds))


def _tiny(world: str, algorithm: TokenGAE | BilevelGAE, *, quick: bool) -> RunConfig:
    """Returns how the tiny VLM is trained: the recipe of FrozenLake under another algorithm, without a judge."""
    spec = WorldSpec(
        env_id=_ENV_IDS[world],
        kwargs={
            "prompt_format": "grounding_worldmodeling",
            "representation": "natural_language",
        },
    )
    return RunConfig(
        name="arm",
        worlds=(spec,),
        num_iterations=2 if quick else 20,
        num_groups=4 if quick else 16,
        group_size=8,
        sampling=SamplingConfig(max_new_tokens=160),
        judge=JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0),
        algorithm=algorithm,
        ppo=PPOConfig(
            learning_rate=1e-4,
            warmup_iterations=0,
            final_learning_rate_ratio=0.1,
            micro_batch_size=16,
            kl_coef=0.0,
            old_logprobs="sampler",
        ),
        num_eval_episodes=16 if quick else 256,
        num_val_episodes=4 if quick else 128,
    )


def _tiny_start(world: str, base: RunConfig, *, quick: bool) -> RunConfig:
    """Returns the cold start that all arms go on from: every strategy, and every representation."""
    formats = [
        base,
        *(_told(base, prompt_format=strategy) for strategy in STRATEGIES),
        *(_told(base, representation=representation) for representation in REPRESENTATIONS),
    ]
    steps = 6 if quick else 1500
    return replace(
        base,
        name="start",
        worlds=tuple(replace(spec, name=_format(spec)) for run in formats for spec in run.worlds),
        num_iterations=0,
        num_eval_episodes=0,
        cold_start=ColdStartConfig(
            num_steps=steps,
            num_first_turn_steps=steps // 4,
            suboptimal_rate=0.3,
            start_from=f"training/recipes/checkpoints/{world}_tiny",
        ),
    )


def _format(spec: WorldSpec) -> str:
    return f"{spec.kwargs['prompt_format']}, {spec.kwargs['representation']}"


def _critic() -> CriticConfig:
    return CriticConfig(trunk="policy", learning_rate=4e-4, warmup_iterations=1, num_minibatches=8, value_clip=None)


def _token_gae() -> TokenGAE:
    return TokenGAE(critic=_critic(), bootstrap_truncated=False, reward_placement="trajectory")


def _bilevel_gae() -> BilevelGAE:
    return BilevelGAE(critic=_critic(), bootstrap_truncated=False, gamma_turn=0.95, lambda_turn=0.95)
