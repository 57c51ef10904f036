"""VAGEN's presets have the paper's constants, which are written out here, and run in each of its worlds."""

from __future__ import annotations

import pytest

from tests.unit.slow import quick
from training.__main__ import main
from training.algorithms.bilevel_gae import BilevelGAE
from training.algorithms.token_gae import TokenGAE
from training.config.judge_config import JudgeConfig
from training.recipes.shipped import OF_A_WORLD, RECIPES
from training.recipes.vagen import SETTINGS, vagen_base, vagen_full
from training.run_options import find_recipe
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader

TABLE_22 = {
    "sampling": {"temperature": 0.7, "top_p": 0.95},
    "model": "Qwen/Qwen2.5-VL-3B-Instruct",
    "gamma_token": 1.0,
    "kl_coef": 0.001,
    "learning_rate": 1e-6,
    "critic_learning_rate": 1e-5,
    "batch_size": 128,
    "minibatch_size": 32,
}

TABLES_7_TO_15 = {
    "sokoban": [
        {
            "env_id": "VLM/Sokoban-v0",
            "dim_room": (6, 6),
            "max_steps": 100,
            "num_boxes": 1,
            "min_solution_length": 5,
            "max_actions_per_turn": 3,
            "max_turns": 3,
        }
    ],
    "frozenlake": [
        {
            "env_id": "VLM/FrozenLake-v0",
            "desc": None,
            "is_slippery": False,
            "size": 4,
            "max_actions_per_turn": 3,
            "min_solution_length": 5,
            "max_turns": 3,
        }
    ],
    "navigation": [
        {
            "env_id": "VLM/Navigation-v0",
            "instruction_set": each,
            "resolution": 255,
            "fov": 100,
            "max_actions_per_turn": 5,
            "success_threshold": 1.0,
            "step_length": 0.25,
            "max_turns": 4,
        }
        for each in ("base", "common_sense")
    ],
    "primitive_skill": [
        {"env_id": f"VLM/PrimitiveSkill{task}-v0", "max_actions_per_turn": 2, "max_turns": 3}
        for task in ("Place", "Stack", "Drawer", "Align")
    ],
    "svg": [
        {
            "env_id": "VLM/SVG-v0",
            "max_turns": 2,
            "max_actions_per_turn": 1,
            "similarity_weight": 5.0,
            "second_weight": 0.0001,
        }
    ],
}
"""With the weights of Table 20."""

EVERY_WORLD = {
    "prompt_format": "grounding_worldmodeling",
    "system_prompt": True,
    "format_reminder": True,
    "format_reward": 0.5,
}
"""Sections 3 and 5.3, appendix B.2, and the format's row of Tables 16 to 20."""

RUNS = [(preset, world) for preset in OF_A_WORLD for world in TABLES_7_TO_15]


@pytest.mark.parametrize(("preset", "world"), RUNS)
def test_what_the_rows_of_table_22_say(preset, world):
    config = OF_A_WORLD[preset](world)
    drawn = {"temperature": config.sampling.temperature, "top_p": config.sampling.top_p}
    rows = config.num_groups * config.group_size
    assert {
        "sampling": drawn,
        "model": config.model,
        "gamma_token": config.algorithm.gamma_token,
        "kl_coef": config.ppo.kl_coef,
        "learning_rate": config.ppo.learning_rate,
        "critic_learning_rate": config.algorithm.critic.learning_rate,
        "batch_size": rows,
        "minibatch_size": rows // config.ppo.num_minibatches,
    } == TABLE_22
    assert config.group_size == 1, "the paper compares no siblings"
    assert rows // config.algorithm.critic.num_minibatches == 32
    assert (config.ppo.kl_placement, config.ppo.kl_formula) == ("reward", "k1")
    assert (config.ppo.old_logprobs, config.ppo.importance_cap) == ("trainer", 2.0)
    assert (config.ppo.entropy_coef, config.algorithm.critic.value_clip) == (0.0, None), "section 2.2 has neither"
    assert config.ppo.aggregation == "token_mean"
    assert (config.ppo.final_learning_rate_ratio, config.ppo.warmup_iterations) == (1.0, 0)


@pytest.mark.parametrize(("preset", "world"), RUNS)
def test_worlds_are_those_of_the_tables(preset, world):
    representation = "structured" if (preset, world) == ("vagen_full", "primitive_skill") else "natural_language"
    specs = OF_A_WORLD[preset](world).worlds
    assert [{"env_id": spec.env_id, **spec.kwargs} for spec in specs] == [
        EVERY_WORLD | {"representation": representation} | table for table in TABLES_7_TO_15[world]
    ]
    assert {spec.weight for spec in specs} == {1.0}
    for spec, table in zip(specs, TABLES_7_TO_15[world], strict=True):
        with spec.made() as made:  # what is requested is what a world has
            assert (made.max_turns, made.max_actions_per_turn) == (table["max_turns"], table["max_actions_per_turn"])
            assert (made.format_reward, made.prompt_spec.state_help != "") == (0.5, True)


@pytest.mark.parametrize("world", TABLES_7_TO_15)
def test_base_is_token_gae_with_the_whole_return_on_the_last_token(world):
    config = vagen_base(world)
    assert isinstance(config.algorithm, TokenGAE)
    assert (config.algorithm.reward_placement, config.algorithm.mask) == ("trajectory", "generated")
    assert (config.algorithm.lambda_token, config.algorithm.bootstrap_truncated) == (1.0, False)
    assert config.judge == JudgeConfig(grounding_weight=0.0, worldmodeling_weight=0.0, repetition_penalty=0.0)


@pytest.mark.parametrize("world", TABLES_7_TO_15)
def test_full_is_bilevel_gae_with_the_rewards_of_reasoning(world):
    config = vagen_full(world)
    assert isinstance(config.algorithm, BilevelGAE)
    assert config.algorithm.variant == "paper"
    assert (config.algorithm.gamma_turn, config.algorithm.lambda_turn) == (0.95, 1.0)
    assert (config.algorithm.lambda_token, config.algorithm.bootstrap_truncated) == (1.0, False)
    weight = 0.0 if world == "svg" else 0.5  # section 5.3: there, bi-level GAE alone
    penalty = 0.1 if world == "sokoban" else 0.0  # appendix D.1.2
    assert config.judge == JudgeConfig(
        grounding_weight=weight, worldmodeling_weight=weight, repetition_penalty=penalty, method="exact"
    )


def test_a_preset_is_found_by_its_world():
    assert set(TABLES_7_TO_15) == set(SETTINGS)
    found, rest = find_recipe(["vagen_full:navigation", "--num-iterations", "3"])
    assert found is not None and found.config() == vagen_full("navigation") and rest == ["--num-iterations", "3"]
    assert vagen_full("navigation").name == "vagen_full_navigation"
    assert "VAGEN-Full" in found.description and "Args:" not in found.description
    assert RECIPES["vagen_base"]() == vagen_base("sokoban")
    with pytest.raises(ConfigError, match=r"'svgs'\. Did you mean 'svg'"):
        vagen_full("svgs")


@pytest.mark.parametrize("preset", OF_A_WORLD)
def test_without_a_model_it_says_in_one_line_what_to_do(preset, tmp_path, capsys):
    assert main([preset, "--output", str(tmp_path)]) == 2
    (told,) = capsys.readouterr().err.splitlines()
    assert "No checkpoint at Qwen/Qwen2.5-VL-3B-Instruct" in told and "--model DIR" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("preset", "world"),
    quick(
        [
            ("vagen_base", "frozenlake"),
            *(("vagen_full", world) for world in TABLES_7_TO_15 if world != "primitive_skill"),
        ],
        ("vagen_base", "frozenlake"),
        ("vagen_full", "frozenlake"),
    ),
)
def test_it_runs(preset, world, tiny_directory, tmp_path):
    """One iteration with the tiny VLM; in this process, for engines take seconds to start."""
    settings = {
        "--output": tmp_path,
        "--model": tiny_directory,
        "--num-iterations": 1,
        "--num-groups": 4,
        "--num-eval-episodes": 0,
        "--eval-every": 0,
        "--num-val-episodes": 0,
        "--num-threads": 1,
        "--dtype": "float32",  # a CPU computes with bfloat16 slowly
        "--sampling.max-new-tokens": 8,
    }
    workers = [word for number in range(4) for word in (f"--worlds.{number}.workers", "serial")]
    words = [*(str(word) for pair in settings.items() for word in pair), *workers[: 2 * len(TABLES_7_TO_15[world])]]
    assert main([f"{preset}:{world}", *words]) == 0
    run = RunReader(tmp_path / f"{preset}_{world}")
    (line,) = [line for line in run.metrics() if line["phase"] == "rl"]
    assert line["iteration"] == 0 and {"kl", "sampler_gap", "value_loss", "policy_loss"} <= line.keys()
    (label,) = run.trajectory_labels()
    first = run.trajectories(label)[0]["turns"][0]
    (asked,) = (line for line in first["system"].splitlines() if line.startswith("Respond with exactly: <think><obs"))
    assert first["text"].endswith(asked)
