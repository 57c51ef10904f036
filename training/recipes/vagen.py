"""VAGEN's two runs in each of its worlds, with the paper's constants: `python -m training vagen_full --model DIR`.

The paper trains one Qwen2.5-VL-3B per world (Tables 2 to 4), so each preset is for one world, such as
`vagen_full:navigation`; `vagen_full` alone is for Sokoban. *Not run here* with a 3B model; the tests run one
iteration of each with the tiny one.

| | VAGEN-Base and VAGEN-Full | source |
|---|---|---|
| strategy | grounding_worldmodeling | section 5.3 |
| task reward | +10, -0.1, Sokoban's boxes, PrimitiveSkill's stages, 5 x SVG's similarity | Tables 16 to 20 |
| format reward | 0.5 per turn | Tables 16 to 20 |
| token gamma | 1.0 | Table 22 |
| token lambda | 1.0 | pin |
| temperature, top-p | 0.7, 0.95, also in evaluations | Table 22; Table 21 has 0.7 for other models |
| KL | 0.001, k1, in the reward | Table 22, section 2.2 |
| learning rates | 1e-6, the critic's 1e-5, constant | Table 22, pin |
| batch, mini-batch | 128, 32, one epoch | Table 22, pin |
| turns, actions | Sokoban 3, 3; FrozenLake 3, 3; Navigation 4, 5; PrimitiveSkill 3, 2; SVG 2, 1 | Tables 7 to 15 |
| tokens per response | 200; Navigation 256; SVG 750 | pins |
| iterations | 300, validated every 20 | pins |
| clip, gradient norm | 0.2, 1.0 | pins |
| AdamW's betas, epsilon, decay of all weights | (0.9, 0.999), 1e-8, 0.01; also the critic's | pins |
| memory | bfloat16 with float32 master weights, gradient checkpointing, micro-batches of 8192 tokens | pins |

| | VAGEN-Base | VAGEN-Full | source |
|---|---|---|---|
| advantages | token GAE, observations masked | bi-level GAE, Algorithm 2 | sections 2.2, 5.2 |
| reward placement | all on the last token | at the end of each turn | sections 2.2, 5.2 |
| turn gamma, lambda | | 0.95, 1.0 | pins |
| grounding, world modeling | | 0.5 each; none in SVG | section 5.3 |
| repetition penalty | | 0.1 in Sokoban | appendix D.1.2 |
| PrimitiveSkill's states | natural language | structured | section 4 |

*Pins* are values that the paper does not specify, taken from the scripts of its public code (branch `vagen-legacy`)
or from verl, on which they run. Where they differ, the paper has priority: Navigation has 4 turns (5 there), every
batch is 128 (64 there, in two worlds), and there is no entropy bonus and no value clipping, because the losses of
section 2.2 have neither. That Base writes PrimitiveSkill's states in natural language is inferred from Tables 3 and
4, where its results are the same.

Further choices are documented in docs/vagen.md.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import Any

from agents.hf.sampling_config import SamplingConfig
from training.algorithms.algorithm import Algorithm, CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.token_gae import TokenGAE
from training.config.judge_config import JudgeConfig
from training.config.run_config import RunConfig
from training.config.update_config import LARGE_MODEL, PAPER_BETAS, PPOConfig
from training.config.world_spec import WorldSpec
from vlm_envs.validation import require_choice

MODEL = "Qwen/Qwen2.5-VL-3B-Instruct"
"""Table 22's actor and critic; set `--model DIR` to its local directory."""

_PROMPTS = {
    "prompt_format": "grounding_worldmodeling",
    "system_prompt": True,
    "format_reminder": True,
    "format_reward": 0.5,
}
_CRITIC = CriticConfig(learning_rate=1e-5, num_minibatches=4, value_clip=None)


@dataclass(frozen=True, kw_only=True)
class _Setting:
    """One of the paper's worlds.

    Attributes:
        env_ids: Ids of its worlds.
        limits: Turns per episode, and actions per turn.
        table: Other world arguments from its table.
        variants: World arguments; each variant is a separate world per id.
        workers: Type of the workers that step the worlds.
        representation: State representation in VAGEN-Full.
        max_new_tokens: Maximum tokens per response.
        num_test_episodes: Episodes per evaluation.
        reasoning_weight: Weight of the grounding and world modeling rewards in VAGEN-Full.
        repetition_penalty: Repetition penalty in VAGEN-Full.
    """

    env_ids: tuple[str, ...]
    limits: tuple[int, int]
    table: dict[str, Any] = field(default_factory=dict)
    variants: tuple[dict[str, Any], ...] = ({},)
    workers: str = "serial"
    representation: str = "natural_language"
    max_new_tokens: int = 200
    num_test_episodes: int = 128
    reasoning_weight: float = 0.5
    repetition_penalty: float = 0.0

    @property
    def worlds(self) -> tuple[WorldSpec, ...]:
        """The worlds of a run."""
        max_turns, max_actions = self.limits
        limits = {"max_turns": max_turns, "max_actions_per_turn": max_actions}
        written = {"representation": self.representation}
        return tuple(
            WorldSpec(
                env_id=env_id, kwargs={**_PROMPTS, **limits, **variant, **self.table, **written}, workers=self.workers
            )
            for env_id in self.env_ids
            for variant in self.variants
        )


SETTINGS: dict[str, _Setting] = {
    "sokoban": _Setting(  # Tables 7 and 16
        env_ids=("VLM/Sokoban-v0",),
        limits=(3, 3),
        table={"dim_room": (6, 6), "max_steps": 100, "num_boxes": 1, "min_solution_length": 5},
        repetition_penalty=0.1,
    ),
    "frozenlake": _Setting(  # Tables 9 and 17
        env_ids=("VLM/FrozenLake-v0",),
        limits=(3, 3),
        table={"desc": None, "is_slippery": False, "size": 4, "min_solution_length": 5},
    ),
    "navigation": _Setting(  # Tables 11 and 18; instruction sets of Table 2
        env_ids=("VLM/Navigation-v0",),
        limits=(4, 5),
        table={"resolution": 255, "fov": 100, "success_threshold": 1.0, "step_length": 0.25},
        variants=tuple({"instruction_set": name} for name in ("base", "common_sense")),
        max_new_tokens=256,
    ),
    "primitive_skill": _Setting(  # Tables 13 and 19; tasks of Table 2, representation of section 4
        env_ids=tuple(f"VLM/PrimitiveSkill{task}-v0" for task in ("Place", "Stack", "Drawer", "Align")),
        limits=(3, 2),
        workers="process",
        representation="structured",
        num_test_episodes=32,
    ),
    "svg": _Setting(  # Tables 15 and 20; no reward of reasoning (section 5.3)
        env_ids=("VLM/SVG-v0",),
        limits=(2, 1),
        table={"similarity_weight": 5.0, "second_weight": 1e-4},
        max_new_tokens=750,
        num_test_episodes=32,
        reasoning_weight=0.0,
    ),
}
"""The paper's worlds."""


def vagen_base(world: str = "sokoban") -> RunConfig:
    """VAGEN-Base in Sokoban, or as `vagen_base:WORLD` in another world of the paper; takes `--model DIR`.

    It uses task and format rewards, all placed on the last token, and token GAE with masked observations.

    Args:
        world: A key of `SETTINGS`.

    Raises:
        ConfigError: If the paper has no such world.
    """
    algorithm = TokenGAE(
        critic=_CRITIC, bootstrap_truncated=False, gamma_token=1.0, lambda_token=1.0, reward_placement="trajectory"
    )
    setting = replace(_setting(world), representation="natural_language")
    return _recipe(f"vagen_base_{world}", setting, algorithm, JudgeConfig.of_episodes())


def vagen_full(world: str = "sokoban") -> RunConfig:
    """VAGEN-Full in Sokoban, or as `vagen_full:WORLD` in another world of the paper; takes `--model DIR`.

    It adds rewards for grounding and world modeling, places rewards per turn, and uses bi-level GAE.

    Args:
        world: A key of `SETTINGS`.

    Raises:
        ConfigError: If the paper has no such world.
    """
    algorithm = BilevelGAE(
        critic=_CRITIC,
        bootstrap_truncated=False,
        gamma_turn=0.95,
        lambda_turn=1.0,
        gamma_token=1.0,
        lambda_token=1.0,
    )
    setting = _setting(world)
    judge = JudgeConfig(
        grounding_weight=setting.reasoning_weight,
        worldmodeling_weight=setting.reasoning_weight,
        repetition_penalty=setting.repetition_penalty,
    )
    return _recipe(f"vagen_full_{world}", setting, algorithm, judge)


def _setting(world: str) -> _Setting:
    return SETTINGS[require_choice("The world of a preset", world, SETTINGS)]


def _recipe(name: str, setting: _Setting, algorithm: Algorithm, judge: JudgeConfig) -> RunConfig:
    """Returns a run with the settings that both share (Table 22)."""
    return RunConfig(
        name=name,
        model=MODEL,
        worlds=setting.worlds,
        num_iterations=300,
        num_groups=128,
        group_size=1,
        sampling=SamplingConfig(temperature=0.7, top_p=0.95, max_new_tokens=setting.max_new_tokens),
        judge=judge,
        algorithm=algorithm,
        ppo=PPOConfig(
            learning_rate=1e-6,
            warmup_iterations=0,
            num_minibatches=4,
            micro_batch_tokens=8192,
            kl_coef=0.001,
            old_logprobs="trainer",
            importance_cap=2.0,
            betas=PAPER_BETAS,
            weight_decay=0.01,
        ),
        **LARGE_MODEL,
        num_eval_episodes=setting.num_test_episodes,
        eval_every=20,
        num_val_episodes=setting.num_test_episodes,
    )
