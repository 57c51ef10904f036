"""Mags-RL's two stages: `python -m training mags --model DIR`, and in small `mags_tiny`."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.grpo import GRPO
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.judge_config import JudgeConfig
from training.config.run_config import EvalSamplingConfig, RunConfig
from training.config.update_config import LARGE_MODEL, PAPER_BETAS, PPOConfig
from training.config.world_spec import WorldSpec
from training.pools.pool_config import PoolConfig
from training.recipes.tiny import tiny_recipe, without_critic
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig
from vlm_envs.validation import require_choice

MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"
"""Appendix C; a directory here, to be named by `--model DIR` wherever it is."""

DATA = "data/mags"
"""Where copies of the data sets are, each in a folder of its name, and lists of samples, unless options say so."""

SMFANET = "agents.perception.super_resolution:smfanet"
WEIGHTS = f"{DATA}/smfanet_x4.safetensors"
MAX_INPUT_PIXELS = 512 * 512
"""Larger crops are enlarged by Lanczos resampling."""

SUPER_RESOLUTION: Mapping[str, Any] = MappingProxyType(
    {"upscaler": SMFANET, "upscaler_kwargs": {"weights": WEIGHTS, "max_input_pixels": MAX_INPUT_PIXELS}}
)
CROP_AND_RESIZE: Mapping[str, Any] = MappingProxyType({"upscaler": "bicubic", "upscaler_kwargs": {"factor": 4}})
"""Section 4.3's baseline; as large as what SMFANet of four times the sides makes."""

VARIANTS = ("curriculum", "direct", "without_super_resolution")
"""The paper's method, section 4.4's direct training, and section 4.3's crop and resize."""
_TINY_CROP_AND_RESIZE: Mapping[str, Any] = MappingProxyType({"upscaler": "bicubic", "upscaler_kwargs": {"factor": 2}})
_TINY_SUPER_RESOLUTION: Mapping[str, Any] = MappingProxyType({"upscaler": SMFANET, "upscaler_kwargs": {"factor": 2}})
_TINY_NUM_ITERATIONS = (40, 30)
"""Of both stages: three quarters of the first one's in the second, as 225 of 300."""
_TINY_IMITATION = ColdStartConfig(num_steps=2000, num_first_turn_steps=1100, suboptimal_rate=0.5)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """What the two stages differ in.

    Attributes:
        name: Of the stage.
        number: Of the paper's stages, whose prompts and reward it has.
        datasets: Of its samples, in equal parts.
        num_iterations: Steps.
        learning_rate: Of all of them.
        temperature: At which responses are drawn.
        kl_coef: What holds the policy to the model that the stage starts from.
    """

    name: str
    number: int
    datasets: tuple[str, ...]
    num_iterations: int
    learning_rate: float
    temperature: float
    kl_coef: float


FOUNDATIONS = Settings(
    name="foundations",
    number=1,
    datasets=("tallyqa", "vsr"),
    num_iterations=300,
    learning_rate=2e-6,
    temperature=0.09,
    kl_coef=0.04,
)
COMPLEX = Settings(
    name="complex",
    number=2,
    datasets=("tallyqa", "gqa"),
    num_iterations=225,
    learning_rate=5e-7,
    temperature=1.0,
    kl_coef=0.03,
)


def mags(variant: str = "curriculum") -> StagesConfig:
    """Mags-RL: zoom with super-resolution, in two stages; takes `--model DIR`. `mags:direct` skips the curriculum.

    `mags:direct` is section 4.4's ablation: the samples of both stages at once, from the base model. It has the prompts
    and the reward that a model is tested with, stage 2's, with the rate, temperature and penalty of stage 1, which
    starts from that model too, and as many steps as both stages. The paper says no more than that its configuration is
    the same. `mags:without_super_resolution` is section 4.3's: the first stage, whose crops are resized only.

    Args:
        variant: One of `VARIANTS`.

    Raises:
        ConfigError: If there is no such variant.
    """
    require_choice("The variant of mags", variant, VARIANTS)
    enlarged = CROP_AND_RESIZE if variant == "without_super_resolution" else SUPER_RESOLUTION
    stages = [Stage(name=FOUNDATIONS.name, run=_run(FOUNDATIONS, enlarged))]
    if variant == "curriculum":
        stages.append(Stage(name=COMPLEX.name, run=replace(_run(COMPLEX, enlarged), model=STAGE_BEFORE)))
    elif variant == "direct":
        num_iterations = FOUNDATIONS.num_iterations + COMPLEX.num_iterations
        direct = replace(FOUNDATIONS, name=variant, number=COMPLEX.number, num_iterations=num_iterations)
        stages = [Stage(name=variant, run=_run(direct, enlarged, FOUNDATIONS, COMPLEX))]
    return StagesConfig(name=_named("mags", variant), model=MODEL, stages=tuple(stages))


def _named(recipe: str, variant: str) -> str:
    return recipe if variant == "curriculum" else f"{recipe}_{variant}"


def _samples(*stages: Settings) -> list[tuple[str, str]]:
    """Returns the lists of samples of some stages, each with its data set."""
    return [(f"{DATA}/{stage.name}_{dataset}.jsonl", dataset) for stage in stages for dataset in stage.datasets]


def _world(samples: str, dataset: str, number: int, enlarged: Mapping[str, Any]) -> WorldSpec:
    """Returns the world that asks a list of samples."""
    return WorldSpec(
        env_id="VLM/ZoomQA-v0",
        name=samples.removeprefix(f"{DATA}/").removesuffix(".jsonl"),
        kwargs={
            "prompt_format": "mags",
            "mags_stage": number,
            "dataset": dataset,
            "folder": f"{DATA}/{dataset}",
            "answer_reward": 0.0,  # the paper's reward has an answer's in it, and a format's
            "format_reward": 0.0,
            "system_prompt": True,
            "format_reminder": True,  # appendix A.1's prompt suffix
            "prompt_example": False,
            **enlarged,
        },
        pool=PoolConfig(file=samples),
    )


def _run(settings: Settings, enlarged: Mapping[str, Any], *sampled: Settings) -> RunConfig:
    """Returns a stage as a run: appendix C. Its samples are those of `sampled`, or its own."""
    return RunConfig(
        name=settings.name,
        model=MODEL,
        worlds=tuple(
            _world(each, name, settings.number, enlarged) for each, name in _samples(*(sampled or (settings,)))
        ),
        num_iterations=settings.num_iterations,
        num_groups=4,
        group_size=16,
        sampling=SamplingConfig(temperature=settings.temperature, max_new_tokens=512),
        eval_sampling=EvalSamplingConfig(temperature=0.01, top_p=0.95),
        judge=JudgeConfig.of_episodes(f"mags_stage_{settings.number}"),
        algorithm=GRPO(),
        ppo=PPOConfig(
            learning_rate=settings.learning_rate,
            warmup_iterations=0,
            num_minibatches=1,
            micro_batch_tokens=8192,
            kl_coef=settings.kl_coef,
            kl_placement="loss",
            kl_estimator="k3",
            aggregation="sequence_mean",
            old_logprobs="trainer",
            betas=PAPER_BETAS,
        ),
        **LARGE_MODEL,
    )


def mags_tiny(variant: str = "curriculum") -> StagesConfig:
    """Mags-RL's two stages on the tiny VLM: find the place with precision, then with recall. Cold start included.

    The cold start, in place of a pretrained checkpoint that follows either, imitates an expert under the prompts of
    both. Between the stages change what the paper changes: the prompts, the reward for zooming, the rate, a quarter of
    the first stage's, and what the policy is held to, by 0.04 to what it began with and by 0.03 to what the first stage
    made. The second has other levels. Temperatures are 1 in both. Crops are enlarged by the SMFANet that ships. The
    variants are those of `training.recipes.mags`, `mags_tiny:direct` with as many iterations as both stages have.

    Args:
        variant: One of `VARIANTS`.

    Raises:
        ConfigError: If there is no such variant.
    """
    require_choice("The variant of mags_tiny", variant, VARIANTS)
    enlarged = _TINY_CROP_AND_RESIZE if variant == "without_super_resolution" else _TINY_SUPER_RESOLUTION
    first, second = _TINY_NUM_ITERATIONS
    precision = _tiny_stage(1, num_iterations=first, learning_rate=1e-4, kl_coef=0.04, enlarged=enlarged)
    stages = [Stage(name="precision", run=precision)]
    if variant == "curriculum":
        recall = _tiny_stage(2, num_iterations=second, learning_rate=2.5e-5, kl_coef=0.03)
        stages.append(Stage(name="recall", run=replace(recall, seed=1)))
    elif variant == "direct":
        direct = _tiny_stage(2, num_iterations=first + second, learning_rate=1e-4, kl_coef=0.04)
        stages = [Stage(name="direct", run=direct)]
    # They begin by imitating the expert under the prompts of both of the paper's stages
    imitated, other = (
        _tiny_stage(number, num_iterations=0, learning_rate=1e-4, kl_coef=0.0, enlarged=enlarged) for number in (1, 2)
    )
    prompts = tuple(
        replace(world, name=f"stage {number}")
        for number, world in enumerate((*imitated.worlds, *other.worlds), start=1)
    )
    imitated = replace(imitated, model=None, worlds=prompts, judge=JudgeConfig.of_episodes())
    return StagesConfig(name=_named("mags_tiny", variant), stages=(Stage(name="imitation", run=imitated), *stages))


def _tiny_stage(
    number: int,
    *,
    num_iterations: int,
    learning_rate: float,
    kl_coef: float,
    enlarged: Mapping[str, Any] = _TINY_SUPER_RESOLUTION,
) -> RunConfig:
    """Returns questions of dots on blocks, with the prompts and reward of one of the paper's stages.

    Boards are shown at a quarter of their size: blocks are plain there, and their dots two pixels wide. In half of the
    cases the expert of the cold start zooms into the middle, wherever the block is, and answers as if it knew.
    """
    config = tiny_recipe(
        "mags_tiny",
        WorldSpec(
            env_id="VLM/ZoomQA-v0",
            kwargs={
                "prompt_format": "mags",
                "mags_stage": number,
                "source": "vlm_envs.content.dots:dotted_blocks",
                "max_pixels": 112 * 112,
                "answer_reward": 0.0,  # the paper's reward has an answer's in it
                "prompt_example": False,
                **enlarged,
            },
        ),
        num_iterations=num_iterations,
        cold_start=_TINY_IMITATION,
        max_new_tokens=80,
        judge=JudgeConfig.of_episodes(f"mags_stage_{number}"),
    )
    config = without_critic(config)
    return replace(config, model=STAGE_BEFORE, ppo=replace(config.ppo, learning_rate=learning_rate, kl_coef=kl_coef))
