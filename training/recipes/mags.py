"""Mags-RL's two stages, `python -m training mags --model DIR`, and the tiny version `mags_tiny`."""

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
"""The model of appendix C; set `--model DIR` to its local directory."""

DATA = "data/mags"
"""Default folder of the datasets, each in a subfolder with its name, and of the lists of samples."""

SMFANET = "agents.perception.super_resolution:smfanet"
WEIGHTS = f"{DATA}/smfanet_x4.safetensors"
MAX_INPUT_PIXELS = 512 * 512
"""Larger crops are enlarged by Lanczos resampling."""

SUPER_RESOLUTION: Mapping[str, Any] = MappingProxyType(
    {"upscaler": SMFANET, "upscaler_kwargs": {"weights": WEIGHTS, "max_input_pixels": MAX_INPUT_PIXELS}}
)
CROP_AND_RESIZE: Mapping[str, Any] = MappingProxyType({"upscaler": "bicubic", "upscaler_kwargs": {"factor": 4}})
"""Section 4.3's baseline, with the same output size as the fourfold SMFANet."""

VARIANTS = ("curriculum", "direct", "without_super_resolution")
"""The paper's method, section 4.4's direct training, and section 4.3's crop and resize."""
_TINY_CROP_AND_RESIZE: Mapping[str, Any] = MappingProxyType({"upscaler": "bicubic", "upscaler_kwargs": {"factor": 2}})
_TINY_SUPER_RESOLUTION: Mapping[str, Any] = MappingProxyType({"upscaler": SMFANET, "upscaler_kwargs": {"factor": 2}})
_TINY_NUM_ITERATIONS = (40, 30)
"""Iterations of both stages, in about the paper's ratio of 300 to 225."""
_TINY_IMITATION = ColdStartConfig(num_steps=2000, num_first_turn_steps=1100, suboptimal_rate=0.5)


@dataclass(frozen=True, kw_only=True)
class Settings:
    """Settings that differ between the two stages.

    Attributes:
        name: Name of the stage.
        number: Number of the paper's stage whose prompts and reward it uses.
        datasets: Datasets of its samples, in equal parts.
        num_iterations: Number of iterations.
        learning_rate: Constant learning rate.
        temperature: Sampling temperature.
        kl_coef: Coefficient of the KL to the stage's initial model.
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

    `mags:direct` is section 4.4's ablation: the samples of both stages at once, from the base model. It uses the
    prompts and the reward of stage 2, which are also those of the evaluation, the learning rate, temperature, and KL
    coefficient of stage 1, which also starts from the base model, and the iterations of both stages together. The
    paper states only that its configuration is the same. `mags:without_super_resolution` is section 4.3's ablation:
    the first stage with crops that are only resized.

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
    """Returns the sample lists of some stages, each with its dataset."""
    return [(f"{DATA}/{stage.name}_{dataset}.jsonl", dataset) for stage in stages for dataset in stage.datasets]


def _world(samples: str, dataset: str, number: int, enlarged: Mapping[str, Any]) -> WorldSpec:
    """Returns the world of a sample list."""
    return WorldSpec(
        env_id="VLM/ZoomQA-v0",
        name=samples.removeprefix(f"{DATA}/").removesuffix(".jsonl"),
        kwargs={
            "prompt_format": "mags",
            "mags_stage": number,
            "dataset": dataset,
            "folder": f"{DATA}/{dataset}",
            "answer_reward": 0.0,  # the paper's reward already includes answer and format
            "format_reward": 0.0,
            "system_prompt": True,
            "format_reminder": True,  # appendix A.1's prompt suffix
            "prompt_example": False,
            **enlarged,
        },
        pool=PoolConfig(file=samples),
    )


def _run(settings: Settings, enlarged: Mapping[str, Any], *sampled: Settings) -> RunConfig:
    """Returns the run of a stage (appendix C), with its own samples or those of `sampled`."""
    return RunConfig(
        name=settings.name,
        model=MODEL,
        worlds=tuple(
            _world(samples, name, settings.number, enlarged) for samples, name in _samples(*(sampled or (settings,)))
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
    """Mags-RL's two stages on the tiny VLM: reward zooming by precision, then by recall. Includes the cold start.

    The cold start, in place of a pretrained checkpoint, imitates an expert with the prompts of both stages. The
    second stage changes the prompts, the zoom reward, the learning rate (a quarter of the first), and the KL (0.03 to
    the result of the first stage instead of 0.04 to the cold start), as in the paper. It uses other levels;
    temperatures are 1 in both. The shipped SMFANet enlarges crops. Variants are those of `mags`; `mags_tiny:direct`
    has the iterations of both stages together.

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
    # All variants first imitate the expert with the prompts of both stages
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

    Boards are shown at a quarter of their size: blocks are clearly visible, but their dots are only two pixels wide.
    In half of the demonstrations the expert zooms into the center, wherever the block is, and answers as if it knew.
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
                "answer_reward": 0.0,  # the paper's reward already includes the answer
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
