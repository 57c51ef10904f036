"""Mags-RL's two stages, with the paper's constants: `python -m training mags --model DIR`.

*Not run here* with a 3B model; the tests write the constants out a second time and run an iteration of each stage with
the tiny one, on data sets of the same layout.

| | stage 1, `foundations` | stage 2, `complex` | source |
|---|---|---|---|
| samples | 10 of TallyQA, 10 of VSR | 10 of TallyQA, 10 of GQA | section 4.1; "evenly" of stage 1, pin in 2 |
| prompts, zoom reward | one box, precision | every target, recall in counting | appendix A.1, equation 1 |
| steps | 300 | 225 | appendix C |
| learning rate | 2e-6 | 5e-7 | appendix C |
| temperature | 0.09 | 1.0 | appendix C |
| KL's beta | 0.04 | 0.03 | appendix C |
| reference | the base model | what stage 1 made | appendix C |

| both | | source |
|---|---|---|
| model | Qwen2.5-VL-3B, no cold start | appendix C |
| group, batch | 16 rollouts of a question, 64 in all | appendix C |
| objective | GRPO, the mean of each response's mean over tokens, clipped | section 3.1 |
| weights of the reward | 2, 1, 0.5, 0.5 and 0.1 | appendix B |
| temperature, top-p of evaluations | 0.01, 0.95 | appendix C |
| optimiser | AdamW | appendix C |
| super-resolution | SMFANet, of every crop | appendix C, section 3.2 |
| KL | k3, in the loss | pin: DeepSeekMath's, which section 3.1 starts from |
| steps a batch | one | pin |
| rates | constant | pin |
| clip, gradient norm | 0.2, 1.0 | pins |
| AdamW's betas, epsilon, decay | (0.9, 0.999), 1e-8, 0 | pins: TRL's defaults |
| factor of super-resolution | that of the weights | pin |
| crop from which Lanczos takes over | 512 x 512 pixels | pin |
| tokens a round | 512 | pin |
| memory | bfloat16 with float32 masters, layers recomputed, micro-batches of 8192 tokens | pins |

*Pins* are values that the paper leaves open and this project chose. A temperature of 0.09 makes siblings nearly equal;
it is what appendix C says, and that stage 2 increases it to 1.0.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

from agents.hf.sampling import SamplingConfig
from training.algorithms.grpo import GRPO
from training.config.eval_sampling import EvalSamplingConfig
from training.config.judges import JudgeConfig
from training.config.run import RunConfig
from training.config.stages import STAGE_BEFORE, Stage, StagesConfig
from training.config.update.adamw import PAPER_BETAS
from training.config.update.memory import MemoryConfig
from training.config.update.ppo import PPOConfig
from training.config.worlds.pools import PoolConfig
from training.config.worlds.spec import WorldSpec
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
    return VARIANT_OF[require_choice("The variant of mags", variant, VARIANTS)]()


def _curriculum() -> StagesConfig:
    second = replace(_run(COMPLEX, SUPER_RESOLUTION), model=STAGE_BEFORE)
    return _stages(
        "mags",
        Stage(name=FOUNDATIONS.name, run=_run(FOUNDATIONS, SUPER_RESOLUTION)),
        Stage(name=COMPLEX.name, run=second, reference="reset"),
    )


def _direct() -> StagesConfig:
    settings = replace(
        FOUNDATIONS,
        name="direct",
        number=COMPLEX.number,
        num_iterations=FOUNDATIONS.num_iterations + COMPLEX.num_iterations,
    )
    run = _run(settings, SUPER_RESOLUTION)
    worlds = tuple(
        _world(each, name, COMPLEX.number, SUPER_RESOLUTION) for each, name in _samples(FOUNDATIONS, COMPLEX)
    )
    return _stages("mags_direct", Stage(name=settings.name, run=replace(run, worlds=worlds)))


def _without_super_resolution() -> StagesConfig:
    stage = Stage(name=FOUNDATIONS.name, run=_run(FOUNDATIONS, CROP_AND_RESIZE))
    return _stages("mags_without_super_resolution", stage)


VARIANT_OF: Mapping[str, Callable[[], StagesConfig]] = MappingProxyType(
    dict(zip(VARIANTS, (_curriculum, _direct, _without_super_resolution), strict=True))
)


def _stages(name: str, *stages: Stage) -> StagesConfig:
    return StagesConfig(name=name, model=MODEL, stages=stages)


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


def _run(settings: Settings, enlarged: Mapping[str, Any]) -> RunConfig:
    """Returns a stage as a run: appendix C."""
    return RunConfig(
        name=settings.name,
        model=MODEL,
        worlds=tuple(_world(each, name, settings.number, enlarged) for each, name in _samples(settings)),
        num_iterations=settings.num_iterations,
        num_groups=4,
        group_size=16,
        sampling=SamplingConfig(temperature=settings.temperature, max_new_tokens=512),
        eval_sampling=EvalSamplingConfig(temperature=0.01, top_p=0.95),
        judge=JudgeConfig(
            grounding_weight=0.0, worldmodeling_weight=0.0, episode_reward=f"mags_stage_{settings.number}"
        ),
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
        memory=MemoryConfig(gradient_checkpointing=True),
        dtype="bfloat16",
    )
