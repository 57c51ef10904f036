"""Recipes for the tiny VLM on two CPU cores, with the same trainer, worlds, and judges as for larger models."""

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
"""Worlds in the shipped tokenizers' vocabulary, as in `agents.hf.tiny_vlm`, which imports transformers."""

_STRUCTURED = {
    "prompt_format": "grounding_worldmodeling",
    "representation": "structured",
    "prompt_example": False,  # the tiny VLM has already learned the format, and fewer tokens are faster
}
PAID = {
    "VLM/SVG-v0": {"similarity_weight": 10.0},
    "VLM/ZoomQA-v0": {"answer_reward": 10.0},
    "VLM/DocQA-v0": {"answer_reward": 10.0},
    "VLM/VideoQA-v0": {"answer_reward": 10.0},
    "VLM/RewardJudging-v0": {"answer_reward": 10.0},
}
"""Reward arguments that differ from a world's own recipe, so that success earns 10 in every world."""


def frozenlake_tiny() -> RunConfig:
    """FrozenLake 4x4: RL raises success on test levels, with sampling, from 75% to 98%.

    The start imitates a teacher that overlooks holes in three of ten turns, as people do. Its text is true
    nevertheless.
    """
    return _grid_recipe(
        "frozenlake_tiny",
        "VLM/FrozenLake-v0",
        num_iterations=120,
        cold_start=ColdStartConfig(num_steps=6000, num_first_turn_steps=1200, suboptimal_rate=0.3),
    )


def sokoban_tiny() -> RunConfig:
    """Sokoban 6x6 with one box: 89% of levels, about as many as its teacher (85%), which overlooks inner walls.

    The start imitates only that expert, which states where the box should go before it explains how, so that the path
    of the box is decided before that of the player. It solves three of four levels.
    """
    config = _grid_recipe(
        "sokoban_tiny",
        "VLM/Sokoban-v0",
        num_iterations=240,
        cold_start=ColdStartConfig(num_steps=4500, num_first_turn_steps=1500, suboptimal_rate=0.5, tells_plan=True),
    )
    return replace(config, ppo=replace(config.ppo, final_learning_rate_ratio=0.3))


def svg_tiny() -> RunConfig:
    """SVG drawings of one shape in one turn, rewarded by visual similarity.

    After 1,000 imitation steps its start draws three of ten images nearly exactly; with 1,600 steps, most. There is
    one turn, because an expert whose first drawing is exact does not demonstrate corrections. Numbers are many small
    decisions with a small share of the reward each, so batches are large and steps are small.
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
    """Navigation to one of a few large objects, in homes without others, until it is near and in view.

    Moves are half a meter. The tiny VLM estimates the distance in moves, and moves. It has twelve moves, with an
    observation after every third, and the object must be in view at the end; without these limits, twenty fixed moves
    reach five of six objects.
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
            "format_reward": 0.0,  # paid per turn: groups that all succeed would be compared by their number of turns
            "prompt_format": "free_think",
        },
        num_iterations=50,
        max_new_tokens=40,
        cold_start=ColdStartConfig(num_steps=3600, num_first_turn_steps=600),
        final_learning_rate_ratio=0.3,
    )
    # Groups that all fail differ only by step costs; dividing by their deviation would make these count as much as
    # success
    return replace(config, num_groups=32, algorithm=GiGPO(scale="none"))


def primitive_tiny() -> RunConfig:
    """PrimitiveSkill's placing task with one cube, from above, in one turn; it needs the drivers of `make drivers`.

    Positions are not given as text: the tiny VLM reads the coordinates of a cube and two targets from the image, and
    the requested target from the instruction. Objects stand on a 50 mm grid, so that there are few numbers to learn.
    In 40% of the demonstrations the expert takes the cube to the nearer target, even if the other was requested;
    reinforcement learning finds that the requested one pays. The cold start continues from one with two cubes, which
    show twice as many numbers per image, so that numbers are learned sooner.
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
    """ZoomQA about the stripes on a block on the board; their color is visible only in a crop.

    In half of the demonstrations the expert answers without zooming, as if it knew; imitation learns to guess one of
    six colors there. After reinforcement learning, the policy always zooms.
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
    """VideoQA about the direction in which a block slides from one quarter of the image to another, in four frames.

    A frame has four visual tokens, one per quarter. Its start imitates only briefly: after a hundred steps it would
    recognize nearly every slide.
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
    """DocQA about the number printed on the page that mentions a given person: search, look at the page, answer.

    The page numbers of the four body pages start at a random number from 1 to 6, so that the page position, which the
    search returns, matches the page number in only one of six reports. No text contains page numbers: they must be
    read from the page image, where they are 13 pixels high. The contact sheet, which would show them without a
    search, is hidden. In half of the demonstrations the expert answers without looking, as if it knew; imitation
    learns to guess there. Reinforcement learning finds that searching pays. The start first repeats random words,
    because names must be copied into queries, and then imitates a fixed set of demonstrations, because drawing
    reports takes longer than training on them.
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

    In half of the demonstrations the expert chooses a response without a check, as if it knew; imitation learns to
    guess there. Reinforcement learning finds that checking pays.
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

    By default, the world uses its own format and arguments, and the tiny VLM first imitates its planner. Judges are
    used if rules for the world exist.

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

    The critic is a head on the policy, and there is no KL penalty: only one model is evaluated, and an iteration
    takes little more than half the time. Larger groups give more comparisons per level.
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
        name: Name of the recipe.
        env_id: Id of the world.
        kwargs: Arguments of the world, without `prompt_example`.
        num_iterations: Number of iterations.
        max_new_tokens: Maximum tokens per response.
        cold_start: Settings of the cold start.
        ppo: Update settings that differ from those of other tiny runs.
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
    """Returns a run with groups of eight episodes per level, without critic and KL penalty, in half the time."""
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
    """Returns a run with the settings that all tiny runs share."""
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
            # The prompt counts down the turns, so reaching the limit is part of the task
            bootstrap_truncated=False,
            sibling_baseline=True,
            gamma_turn=0.95,
            lambda_turn=0.95,
        ),
        ppo=PPOConfig(
            learning_rate=1e-4,
            warmup_iterations=0,  # published results were measured without warmup
            final_learning_rate_ratio=0.1,
            num_minibatches=4,
            micro_batch_size=16,
            kl_coef=0.001,
            old_logprobs="sampler",
        ),
        cold_start=cold_start,
        num_threads=1,  # a second thread is a third faster on idle cores, but much slower if one core is busy
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
"""Single-world recipes whose worlds `mix_tiny` combines, with cold start weights: more where most is left to learn.
The loss is a mean over tokens, so worlds with short responses need more episodes to matter. Reinforcement learning
starts with equal weights."""


def mix_tiny() -> RunConfig:
    """All worlds of the other tiny recipes, one policy and one tokenizer; it needs the drivers of `make drivers`.

    Each world has the arguments of its own recipe except for rewards, so that levels are the same, and the same
    expert, which states no plan here. Success earns the same everywhere, and the only reward per turn is the judge's
    in the grid worlds. So advantages need no division by the group's deviation, which would make step costs count as
    much as success. Groups are assigned to worlds whose success rate is neither 0 nor 1. The cold start continues
    from another shipped one with 8,000 steps: first copying, then first turns.
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
        # Drawings are hardly ever exact, but still improve
        mix=MixConfig(schedule="success", min_factor=0.4),
        num_groups=36,
        algorithm=GiGPO(scale="none"),
        ppo=replace(config.ppo, warmup_iterations=4, final_learning_rate_ratio=0.3),
        sampling=SamplingConfig(max_new_tokens=max(recipe().sampling.max_new_tokens for recipe in SPECIALISTS)),
    )


def _mix_worlds() -> tuple[WorldSpec, ...]:
    """Returns the world of each specialist, with its rewards, cold start weight, and rate of suboptimal plans."""
    worlds = []
    for recipe, weight in SPECIALISTS.items():
        specialist = recipe()
        (world,) = specialist.worlds
        rate = specialist.cold_start.suboptimal_rate
        kwargs = {**world.kwargs, "format_reward": 0.0, **PAID.get(world.env_id, {})}
        worlds.append(replace(world, kwargs=kwargs, cold_start_weight=weight, cold_start_suboptimal_rate=rate))
    return tuple(worlds)
