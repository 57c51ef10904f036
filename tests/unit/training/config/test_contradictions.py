"""Settings that contradict each other or pay twice, each with a configuration that has them."""

from __future__ import annotations

from dataclasses import dataclass, replace

import pytest

from agents.api.endpoint_config import EndpointConfig
from agents.hf.sampling_config import SamplingConfig
from tests.unit.training.batches import NO_JUDGE, WORLD, run_config
from training.algorithms.algorithm import CriticConfig
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.grpo import GRPO
from training.algorithms.rloo import RLOO
from training.algorithms.token_gae import TokenGAE
from training.config.judge_config import JudgeConfig
from training.config.update_config import PPOConfig
from training.config.world_spec import WorldSpec
from vlm_envs.errors import ConfigError

WORDS = "natural_language"
ENDPOINT = EndpointConfig(base_url="http://localhost:1/v1", model="judge")


def asking(prompt_format="points", **kwargs):
    return (WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"side_px": 400, "prompt_format": prompt_format, **kwargs}),)


def paper(episode, **changes):
    return replace(NO_JUDGE, episode_reward=episode, **changes)


def lake(representation):
    return (WorldSpec(env_id=WORLD.env_id, kwargs={"representation": representation}),)


def lake_of(*formats):
    return tuple(WorldSpec(env_id=WORLD.env_id, kwargs={"prompt_format": each}) for each in formats)


REFUSED = [
    ({"sampling": SamplingConfig(temperature=0.0), "algorithm": GRPO()}, "--sampling.temperature 1"),
    ({"sampling": SamplingConfig(temperature=0.0)}, "--num-iterations 0"),
    (
        {"group_size": 1, "algorithm": GRPO()},
        "grpo compares the episodes of a group, and --group-size 1 is too small",
    ),
    (
        {"group_size": 1, "algorithm": BilevelGAE(sibling_baseline=True), "ppo": PPOConfig(num_minibatches=1)},
        "--algorithm.no-sibling-baseline",
    ),
    (
        {"num_iterations": 3, "algorithm": BilevelGAE(critic=CriticConfig(warmup_iterations=3))},
        "--num-iterations 3",
    ),
    (
        {"sampling": SamplingConfig(top_p=0.9), "ppo": PPOConfig(old_logprobs="sampler")},
        "--ppo.old-logprobs trainer",
    ),
    *(
        (
            {"algorithm": TokenGAE(mask="all"), "ppo": PPOConfig(**ppo)},
            "Use --ppo.old-logprobs trainer and --ppo.importance-cap None.",
        )
        for ppo in [{"old_logprobs": "sampler"}, {"importance_cap": 2.0}]
    ),
    *(
        (
            {"eval_every": every, "num_iterations": 10},
            f"--eval-every must be less than --num-iterations (10), or 0; got {every}. The last iteration is always "
            "evaluated.",
        )
        for every in (10, 11)
    ),
    ({"eval_every": 1, "num_iterations": 1}, "--eval-every must be"),
    ({"eval_every": 1, "num_iterations": 0}, "--eval-every must be"),
    ({"eval_every": 5, "num_val_episodes": 0}, "use --eval-every 0"),
    *(
        (
            {"judge": replace(NO_JUDGE, repetition_penalty=0.1, **judge), "worlds": worlds},
            "--judge.repetition-penalty is 0.1, but it reads <observation> and <prediction>, and no format here has "
            f"either: {told}. Use --judge.repetition-penalty 0, or --worlds.0.kwargs.prompt-format grounding",
        )
        for judge, worlds, told in [
            ({}, lake_of("free_think"), "'free_think'"),
            ({}, lake_of("no_think", "free_think"), "'no_think' and 'free_think'"),
            ({"method": "direct", "endpoint": ENDPOINT}, lake_of("free_think"), "'free_think'"),
        ]
    ),
    *(
        ({"judge": paper(episode), "worlds": worlds}, said)
        for episode, worlds, said in [
            ("argos", asking("points"), "VLM/ZoomQA-v0 also pays 1.0 for it"),
            ("arm_accuracy", asking("arm"), "--worlds.0.kwargs.answer-reward 0"),
            ("mags_stage_1", asking("mags", mags_stage=1), "pays 1.0"),
            ("mags_stage_2", asking("mags"), "pays 1.0"),
            ("ivgr", asking("ivgr_grounded"), "pays 1.0"),
        ]
    ),
    (
        {"judge": paper("agentic", endpoint=ENDPOINT), "worlds": asking("direct", answer_reward=2.0)},
        "pays 2.0",
    ),
    *(
        (
            {"judge": paper(episode), "worlds": asking(prompt_format, answer_reward=0.0, format_reward=0.5, **stage)},
            f"--judge.episode-reward {episode} already includes format_reward, but VLM/ZoomQA-v0 also pays 0.5 for it. "
            "Use --worlds.0.kwargs.format-reward 0.",
        )
        for episode, prompt_format, stage in [
            ("arm_exploration", "arm", {}),
            ("arm_accuracy", "arm", {}),
            ("mags_stage_1", "mags", {"mags_stage": 1}),
            ("mags_stage_2", "mags", {}),
            ("ivgr", "ivgr_grounded", {}),
        ]
    ),
    (
        {"judge": paper("ivgr"), "worlds": asking("ivgr_textual", answer_reward=0.0)},
        "--worlds.1.kwargs.prompt-format ivgr_grounded",
    ),
]


@pytest.mark.parametrize(("changes", "said"), REFUSED)
def test_refused_with_the_options_that_mend_it(changes, said):
    with pytest.raises(ConfigError) as caught:
        run_config(**changes)
    assert said in str(caught.value)


@dataclass(frozen=True, kw_only=True)
class Endless(RLOO):
    """Plays further groups, and does not say what for."""

    max_sampling_rounds: int = 5


def test_rounds_in_search_of_useful_groups_need_to_know_which_are():
    with pytest.raises(ConfigError, match=r"Endless plays up to 5 rounds .* override its useful_rows"):
        run_config(algorithm=Endless())
    run_config(algorithm=Endless(max_sampling_rounds=1))


def test_all_that_is_wrong_is_told_at_once():
    with pytest.raises(ConfigError) as caught:
        run_config(algorithm=GRPO(), group_size=1, eval_every=200)
    for remedy in ("--eval-every must be less than --num-iterations (100)", "--group-size 2"):
        assert remedy in str(caught.value)


@pytest.mark.parametrize(
    "changes",
    [
        {"sampling": SamplingConfig(temperature=0.0), "num_iterations": 0},
        {"ppo": PPOConfig(num_minibatches=2, clip_high=0.28)},
        {"judge": paper("arm_exploration"), "worlds": asking("arm")},
        {"judge": paper("argos"), "worlds": asking(answer_reward=0.0)},
        {"judge": paper("argos"), "worlds": asking(answer_reward=0.0, format_reward=0.5)},
        {
            "judge": paper("agentic", endpoint=ENDPOINT),
            "worlds": asking("direct", answer_reward=0.0, format_reward=0.5),
        },
        {"judge": paper("agentic", endpoint=ENDPOINT)},
        {"judge": JudgeConfig(method="extraction", endpoint=ENDPOINT), "worlds": lake(WORDS)},
        {
            "judge": JudgeConfig(method="direct", endpoint=ENDPOINT, in_evaluations=True),
            "worlds": lake(WORDS),
            "num_eval_episodes": 0,
            "eval_every": 9,
            "num_iterations": 10,
        },
        {"judge": JudgeConfig(method="direct", endpoint=ENDPOINT), "worlds": lake("structured")},
        {"judge": replace(NO_JUDGE, repetition_penalty=0.1), "worlds": lake_of("free_think", "worldmodeling")},
        {
            "judge": replace(NO_JUDGE, repetition_penalty=0.1, method="direct", endpoint=ENDPOINT),
            "worlds": lake_of("grounding"),
        },
    ],
)
def test_what_acts_is_allowed(changes):
    run_config(**changes)


@pytest.mark.parametrize("env_id", ["VLM/ZoomQA-v0", "VLM/DocQA-v0", "VLM/RewardJudging-v0"])
def test_worlds_that_ask_pay_no_format_by_default(env_id):
    run_config(worlds=(WorldSpec(env_id=env_id, kwargs={"answer_reward": 0.0}),), judge=paper("arm_accuracy"))


def test_worlds_made_only_to_be_asked_are_closed(monkeypatch):

    class Asked:
        representation, num_closed = "structured", 0

        @property
        def unwrapped(self):
            return self

        def close(self):
            Asked.num_closed += 1

    monkeypatch.setattr("training.config.world_spec.make", lambda env_id, **kwargs: Asked())
    spec = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"source": "x"})
    with spec.made() as world:
        assert world.representation == "structured"
    assert Asked.num_closed == 1
    assert spec.answer_kinds() == frozenset() and Asked.num_closed == 2
    assert spec.has_level("train") and Asked.num_closed == 3
