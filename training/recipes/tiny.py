"""Recipes for the tiny VLM on two CPU cores. The same trainer, worlds and judges as for larger models."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.gigpo import GiGPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from training.mixture.mixture_config import MixConfig

_GRID_WORLDS = ("VLM/FrozenLake-v0", "VLM/Sokoban-v0")
"""Those whose texts the shipped tokenizers know; `agents.hf.tiny_vlm` has the same, and with it transformers."""

_STRUCTURED = {
    "prompt_format": "grounding_worldmodeling",
    "representation": "structured",
    "prompt_example": False,  # the tiny VLM has learnt how states are written; tokens saved are time saved
}
PAID = {
    "VLM/SVG-v0": {"similarity_weight": 10.0},
    "VLM/ZoomQA-v0": {"answer_reward": 10.0},
    "VLM/DocQA-v0": {"answer_reward": 10.0},
    "VLM/VideoQA-v0": {"answer_reward": 10.0},
    "VLM/RewardJudging-v0": {"answer_reward": 10.0},
}
"""What is paid for differently than in a world's own recipe, so that success earns 10 in all of them, as it does in the
worlds that are not named."""


def frozenlake_tiny() -> RunConfig:
    """FrozenLake 4x4, sampled: RL takes the start from 75% to 98% of test levels.

    The start has imitated a teacher that overlooks holes in three of ten turns, as people do. What it writes is true
    all the same.
    """
    return _grid_recipe(
        "frozenlake_tiny",
        "VLM/FrozenLake-v0",
        num_iterations=120,
        cold_start=ColdStartConfig(num_steps=6000, num_first_turn_steps=1200, suboptimal_rate=0.3),
    )


def sokoban_tiny() -> RunConfig:
    """Sokoban 6x6 with one box: 0.89 of the levels, about as many as its teacher (0.85), who overlooks inner walls.

    The start has imitated that expert and no other, who says where the box is to go before it says how: so the box's
    way is settled before the player's. It solves three levels of four.
    """
    config = _grid_recipe(
        "sokoban_tiny",
        "VLM/Sokoban-v0",
        num_iterations=240,
        cold_start=ColdStartConfig(num_steps=4500, num_first_turn_steps=1500, suboptimal_rate=0.5, tells_plan=True),
    )
    return replace(config, ppo=replace(config.ppo, final_learning_rate_ratio=0.3))


def svg_tiny() -> RunConfig:
    """SVG drawings of one shape in one turn, rewarded by how alike they look.

    Its start has imitated for 1,000 steps and draws three of ten pictures nearly exactly; 1,600 steps draw most. There
    is one turn, because an expert whose first drawing is exact shows nobody how a wrong one is mended. Numbers are many
    small decisions, each with a little of the reward, so batches are large and steps are small.
    """
    config = _from_shipped_start(
        "svg_tiny",
        "VLM/SVG-v0",
        {
            "difficulty": 1,
            "resolution": 112,
            "max_turns": 1,
            "prompt_format": "no_think",
        },
        num_iterations=200,
        max_new_tokens=48,
        cold_start=ColdStartConfig(num_steps=1000, num_first_turn_steps=1000),
        learning_rate=5e-5,
        warmup_iterations=10,
        final_learning_rate_ratio=0.3,
    )
    return replace(config, num_groups=32)


def navigation_tiny() -> RunConfig:
    """Navigation to one of a few large things in homes that hold no others, until it is near and in sight.

    Moves are half a metre. The tiny VLM thinks of how many moves away the thing is, and moves. There are twelve of
    them, with a look after every third, and the thing has to be in sight in the end, because twenty moves that are
    always the same come near five of six.
    """
    config = _from_shipped_start(
        "navigation_tiny",
        "VLM/Navigation-v0",
        {
            "resolution": 112,
            "things": ("Bookshelf", "HousePlant", "Bathtub", "Fridge", "Bed"),
            "step_length": 0.5,
            "require_visible": True,
            "max_turns": 4,
            "max_actions_per_turn": 3,
            "min_solution_length": 4,
            "max_visible": 0,
            "format_reward": 0.0,  # paid by turns, and siblings that all arrive are then compared by how late
            "prompt_format": "free_think",
        },
        num_iterations=50,
        max_new_tokens=40,
        cold_start=ColdStartConfig(num_steps=3600, num_first_turn_steps=600),
        final_learning_rate_ratio=0.3,
    )
    # Siblings that all fail differ by what steps cost, and are not to count as much as those that do not
    return replace(config, num_groups=32, algorithm=GiGPO(scale="none"))


def primitive_tiny() -> RunConfig:
    """PrimitiveSkill's placing task with one cube, from above, in one turn; it needs the drivers of `make drivers`.

    Nothing tells where things are: the tiny VLM reads the coordinates of a cube and of two targets off the picture, and
    which of the targets is meant off the instruction. Things stand on a grid of 50 mm, so that there are few numbers to
    learn. In 0.4 of the demonstrations the expert takes the cube to the nearer target, whichever was named;
    reinforcement learning finds that the one that was named pays. The cold start goes on from one that has seen two
    cubes, and twice as many numbers in every picture, from which numbers are learnt sooner.
    """
    return _from_shipped_start(
        "primitive_tiny",
        "VLM/PrimitiveSkillPlace-v0",
        {
            "resolution": 112,
            "camera": "above",
            "grid_mm": 50,
            "num_cubes": 1,
            "show_positions": False,
            "max_turns": 1,
            "max_actions_per_turn": 2,
            "prompt_format": "no_think",
        },
        num_iterations=48,
        max_new_tokens=48,
        cold_start=ColdStartConfig(
            num_steps=350,
            num_first_turn_steps=350,
            suboptimal_rate=0.4,
            start_from="training/recipes/checkpoints/primitive_two_cubes",
        ),
        warmup_iterations=4,
        final_learning_rate_ratio=0.3,
    )


def zoomqa_tiny() -> RunConfig:
    """ZoomQA about the stripes on a block, which is seen on the board; nothing tells what colour they are but a crop.

    In half of the cases the expert of the cold start answers without a look, as if it knew; who imitates it guesses
    there, one of six colours. Reinforcement learning makes it look always.
    """
    return _from_shipped_start(
        "zoomqa_tiny",
        "VLM/ZoomQA-v0",
        {
            "source": "vlm_envs.content.stripes:striped_blocks",
            "prompt_format": "ivgr_views",
            "max_pixels": 112 * 112,
        },
        num_iterations=60,
        max_new_tokens=32,
        cold_start=ColdStartConfig(num_steps=600, num_first_turn_steps=200, suboptimal_rate=0.5),
        final_learning_rate_ratio=0.3,
    )


def videoqa_tiny() -> RunConfig:
    """VideoQA about which way a block slides from one quarter of the picture into another, in four frames.

    A frame is four visual tokens, one a quarter. Its start has imitated for a short while only: a hundred steps see
    nearly every slide.
    """
    return _from_shipped_start(
        "videoqa_tiny",
        "VLM/VideoQA-v0",
        {
            "source": "vlm_envs.content.slides:sliding_blocks",
            "prompt_format": "direct",
            "max_pixels": 56 * 56,
        },
        num_iterations=60,
        max_new_tokens=32,
        cold_start=ColdStartConfig(num_steps=80, num_first_turn_steps=0),
        final_learning_rate_ratio=0.3,
    )


def docqa_tiny() -> RunConfig:
    """DocQA about the number printed on the page that names somebody: search, look at the page, answer.

    Numbers of the body's four pages begin with 1 to 6, each as likely, so that the position, which the search tells,
    is right about them in one report of six, and no text holds them: they are read off the picture of the page, where
    they are 13 pixels high. No contact sheet is shown, on which they could be read unsearched. In half of the
    demonstrations the expert answers without a look, as if it knew; who imitates it guesses there. Reinforcement
    learning finds that searching pays. The start has first repeated random words, for names have to be copied into the
    query, then imitated a fixed set of demonstrations, for drawing reports takes longer than learning from them.
    """
    return _from_shipped_start(
        "docqa_tiny",
        "VLM/DocQA-v0",
        {
            "categories": ("page_label",),
            "num_pages": 6,
            "file_name": "report.pdf",
            "first_label": (1, 6),
            "label_size": 140,
            "num_found": 1,
            "max_pixels": 112 * 112,
            "show_sheet": False,
            "long_side_px": 112,
            "max_turns": 3,
        },
        num_iterations=40,
        max_new_tokens=96,
        cold_start=ColdStartConfig(
            num_steps=8000,
            num_copying_steps=900,
            num_first_turn_steps=0,
            batch_size=8,
            suboptimal_rate=0.5,
            num_demonstrations=12_000,
            residual_scale=0.15,
        ),
    )


def judging_tiny() -> RunConfig:
    """RewardJudging of pairs of texts by an instruction's requirements, which tools can check.

    In half of the cases the expert of the cold start takes a response without a check, as if it knew; who imitates it
    guesses there. Reinforcement learning finds that checking pays.
    """
    return _from_shipped_start(
        "judging_tiny",
        "VLM/RewardJudging-v0",
        {
            "tracks": ("instruction_following",),
            "checks": (
                "check_whether_response_paragraph_number_in_range",
                "check_whether_response_sentence_number_in_range",
                "check_whether_each_paragraph_sentence_number_in_range",
            ),
            "num_requirements": 1,
            "counterfactual": True,
            "max_turns": 3,
            "format_reward": 0.1,
        },
        num_iterations=60,
        max_new_tokens=80,
        cold_start=ColdStartConfig(num_steps=400, num_first_turn_steps=0, suboptimal_rate=0.5),
    )


def name_for(env_id: str) -> str:
    """Returns the name of `any_world`'s run: `doorkey_tiny` for `adapt:worlds/doorkey.toml`."""
    name = re.sub(r"-v\d+$|\.toml$", "", re.split(r"[:/\\]", env_id)[-1].lower())
    return f"{name}_tiny"


def any_world(env_id: str) -> RunConfig:
    """One world, such as your own; options set its format, its arguments, and the cold start.

    By default the world has its own default format and arguments, and the tiny VLM first imitates its planner. Judges
    are asked where there are rules to judge the world by.

    Args:
        env_id: A registered id, with the module that registers it in front: `my_module:My/World-v0`.
    """
    return tiny_recipe(
        name_for(env_id),
        WorldSpec(env_id=env_id),
        num_iterations=40,
        cold_start=ColdStartConfig(num_steps=800, num_first_turn_steps=300),
        max_new_tokens=128,
    )


def _grid_recipe(name: str, env_id: str, *, num_iterations: int, cold_start: ColdStartConfig) -> RunConfig:
    """Returns a run in one grid world from its shipped start.

    The critic is a head on the policy, and nothing holds the policy to its start: there is one model to feed, and an
    iteration takes little more than half the time. Larger groups compare more on each level.
    """
    config = tiny_recipe(
        name,
        WorldSpec(env_id=env_id, kwargs=dict(_STRUCTURED)),
        num_iterations=num_iterations,
        cold_start=cold_start,
        max_new_tokens=96,
    )
    return replace(
        config,
        num_groups=16,
        group_size=8,
        algorithm=config.algorithm.with_critic(trunk="policy", warmup_iterations=1, num_minibatches=8),
        ppo=replace(config.ppo, kl_coef=0.0),
        tokenizer_worlds=_GRID_WORLDS,
        model=f"training/recipes/checkpoints/{name}",
    )


def _from_shipped_start(
    name: str,
    env_id: str,
    kwargs: dict[str, Any],
    *,
    num_iterations: int,
    max_new_tokens: int,
    cold_start: ColdStartConfig,
    **ppo: Any,
) -> RunConfig:
    """Returns a run without a critic or turn judges, from the start that `python -m training cold_start NAME` makes.

    Args:
        name: The recipe's.
        env_id: Its world.
        kwargs: Arguments of the world, without `prompt_example`.
        num_iterations: Iterations.
        max_new_tokens: Tokens of a response.
        cold_start: How the start was made.
        ppo: Settings of the update that differ from those of other tiny runs.
    """
    config = tiny_recipe(
        name,
        WorldSpec(env_id=env_id, kwargs={**kwargs, "prompt_example": False}),
        num_iterations=num_iterations,
        cold_start=cold_start,
        max_new_tokens=max_new_tokens,
        judge=JudgeConfig.of_episodes(),
    )
    config = replace(without_critic(config), model=f"training/recipes/checkpoints/{name}")
    return replace(config, ppo=replace(config.ppo, **ppo))


def without_critic(config: RunConfig) -> RunConfig:
    """Returns a run that compares siblings only, eight of a level: half the time of a critic's, and no penalty."""
    return replace(config, num_groups=16, group_size=8, algorithm=GiGPO(), ppo=replace(config.ppo, kl_coef=0.0))


def tiny_recipe(
    name: str,
    world: WorldSpec,
    *,
    num_iterations: int,
    cold_start: ColdStartConfig,
    max_new_tokens: int,
    judge: JudgeConfig | None = None,
) -> RunConfig:
    """Returns what all tiny runs share, around what is their own."""
    return RunConfig(
        name=name,
        worlds=(world,),
        num_iterations=num_iterations,
        num_groups=32,
        group_size=4,
        sampling=SamplingConfig(max_new_tokens=max_new_tokens),
        judge=judge or JudgeConfig(),
        algorithm=BilevelGAE(
            critic=CriticConfig(learning_rate=4e-4, warmup_iterations=2, num_minibatches=16, value_clip=None),
            # The prompt counts the turns down, so running out of them is an end, not an accident
            bootstrap_truncated=False,
            sibling_baseline=True,
            gamma_turn=0.95,
            lambda_turn=0.95,
        ),
        ppo=PPOConfig(
            learning_rate=1e-4,
            warmup_iterations=0,  # as they were measured
            final_learning_rate_ratio=0.1,
            num_minibatches=4,
            micro_batch_size=16,
            kl_coef=0.001,
            old_logprobs="sampler",
        ),
        cold_start=cold_start,
        num_threads=1,  # a second gains a third on quiet cores, and waits for long where one of them is taken
    )


SPECIALISTS: dict[Callable[[], RunConfig], float] = {
    frozenlake_tiny: 3.0,
    sokoban_tiny: 3.0,
    navigation_tiny: 2.5,
    primitive_tiny: 2.0,
    svg_tiny: 2.0,
    zoomqa_tiny: 1.0,
    docqa_tiny: 3.0,
    videoqa_tiny: 0.5,
    judging_tiny: 0.3,
}
"""The recipes of one world each whose worlds are mixed, and the weights of these in the cold start: more where most is
left to learn. A loss is a mean over tokens, so worlds of short responses need more of them to be heard at all.
Reinforcement learning begins with as much of each."""


def mix_tiny() -> RunConfig:
    """All worlds of the other tiny recipes, one policy and one tokenizer; it needs the drivers of `make drivers`.

    Each world has the arguments that it has in its own recipe, but for what is paid, so that levels are the same,
    and the same expert, who tells no plan here. Success earns the same everywhere, and nothing is paid by turns but
    what the judge gives in the grid worlds. So siblings need not be divided by what they differ in, which would make
    as much of a step's cost as of success. Groups go where success is neither 0 nor 1. The cold start goes on from
    another, which ships too: of 8,000 steps, copying first and first turns then.
    """
    config = tiny_recipe(
        "mix_tiny",
        frozenlake_tiny().worlds[0],
        num_iterations=150,
        cold_start=ColdStartConfig(
            num_steps=5000,
            num_first_turn_steps=0,
            batch_size=12,
            start_from="training/recipes/checkpoints/mix_first_steps",
        ),
        max_new_tokens=96,
    )
    config = without_critic(config)
    return replace(
        config,
        worlds=_mix_worlds(),
        model="training/recipes/checkpoints/mix_tiny",
        # Drawings are hardly ever exact, and are learnt all the same
        mix=MixConfig(schedule="success", min_factor=0.4),
        num_groups=36,
        algorithm=GiGPO(scale="none"),
        ppo=replace(config.ppo, warmup_iterations=4, final_learning_rate_ratio=0.3),
        sampling=SamplingConfig(max_new_tokens=max(recipe().sampling.max_new_tokens for recipe in SPECIALISTS)),
    )


def _mix_worlds() -> tuple[WorldSpec, ...]:
    """Returns the world of each specialist, with what it pays, and its expert's weight and rate of suboptimal plans."""
    worlds = []
    for recipe, weight in SPECIALISTS.items():
        specialist = recipe()
        (world,) = specialist.worlds
        rate = specialist.cold_start.suboptimal_rate
        kwargs = {**world.kwargs, "format_reward": 0.0, **PAID.get(world.env_id, {})}
        worlds.append(replace(world, kwargs=kwargs, cold_start_weight=weight, cold_start_suboptimal_rate=rate))
    return tuple(worlds)
