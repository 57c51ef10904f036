"""Argos' preset has the paper's constants, written out here a second time; the small ones run."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

pytest.importorskip("pydantic", reason="needs the tools: pip install '.[tools]'")

from judges.episode_rewards.argos import ArgosSettings
from tests.unit.training.reports import empty_reports
from tests.unit.vlm_envs.qa.datasets.test_argos_data import CHOICE, put, with_frames
from training.__main__ import main
from training.algorithms.grpo import GRPO
from training.config.run_config import RunConfig
from training.curation.curation_config import CurateConfig
from training.pools.pool_levels import read_ids
from training.recipes.argos import HACK_REWARDS, REWARDS, argos, argos_hack_tiny, argos_tiny
from training.recipes.shipped import STAGED_VARIANTS
from training.run_options import find_recipe
from training.sft.sft_config import SFTConfig
from vlm_envs.errors import ConfigError
from vlm_envs.qa.datasets.video_r1 import MAX_FRAMES
from vlm_envs.records.run_data import RunReader

PAPER = {
    "model": "Qwen/Qwen2.5-VL-7B-Instruct",  # section 5
    "num_rollouts": 8,  # section 4.2
    "rollout_temperature": 0.6,  # appendix C.2
    "rollout_tokens": 6144,  # appendix C.2
    "threshold": 0.7,  # appendix C.3
    "sft_samples": 85_000,  # appendix C.4, and the next
    "rl_samples": 4_500,
    "frames": 32,  # section 4.2, stage I
    "sft_batch": 256,  # appendix A, and the next four
    "sft_steps": 1000,
    "learning_rates": (1e-5, 1e-5),
    "rl_batch": 56,
    "rl_steps": 80,
    "kl_placement": "loss",  # equation 11
    "scale": "std",  # equation 10
    "tolerance": 0.05,  # equation 8
}

EASY_R1 = {"group_size": 5, "temperature": 1.0, "top_p": 0.99, "kl_coef": 0.01, "kl_formula": "k3", "decay": 0.01}
"""Its default configuration, where the paper says nothing."""

STAGES = {stage.name: stage.run for stage in argos().stages}
TAUGHT = [run for run in STAGES.values() if isinstance(run, CurateConfig)]


def test_constants_are_the_papers():
    sft, grpo = STAGES["sft"], STAGES["grpo"]
    assert isinstance(sft, SFTConfig) and isinstance(grpo, RunConfig) and isinstance(grpo.algorithm, GRPO)
    assert list(STAGES) == ["clips", "pictures", "sft", "grpo"]
    (taught,) = {replace(run, env_id=TAUGHT[0].env_id, seed=0) for run in TAUGHT}
    assert {
        "model": argos().model,
        "num_rollouts": taught.num_rollouts,
        "rollout_temperature": taught.sampling.temperature,
        "rollout_tokens": taught.sampling.max_new_tokens,
        "threshold": taught.threshold,
        "sft_samples": sum(run.num_kept for run in TAUGHT),
        "rl_samples": sum(spec.pool.draw for spec in grpo.worlds),
        "frames": MAX_FRAMES,
        "sft_batch": sft.batch_size,
        "sft_steps": sft.num_steps,
        "learning_rates": (sft.learning_rate, grpo.ppo.learning_rate),
        "rl_batch": grpo.num_groups,
        "rl_steps": grpo.num_iterations,
        "kl_placement": grpo.ppo.kl_placement,
        "scale": grpo.algorithm.scale,
        "tolerance": ArgosSettings().relative_tolerance,
    } == PAPER
    evaluated = grpo.evaluated_sampling
    assert (evaluated.temperature, evaluated.max_new_tokens) == (0.6, 6144), "appendix A"
    assert {
        "group_size": grpo.group_size,
        "temperature": grpo.sampling.temperature,
        "top_p": grpo.sampling.top_p,
        "kl_coef": grpo.ppo.kl_coef,
        "kl_formula": grpo.ppo.kl_formula,
        "decay": grpo.ppo.weight_decay,
    } == EASY_R1
    assert grpo.sampling.max_new_tokens == 6144, "as many as the teacher's, which it has learnt from"
    assert taught.num_samples * 0.031 > 0.99 * taught.num_kept, "as many questions as the paper's yield asks for"
    assert grpo.num_groups * grpo.num_iterations <= PAPER["rl_samples"], "each of them once"
    assert [spec.pool.exclude for spec in grpo.worlds] == [("stage:clips",), ("stage:pictures",)]
    assert {source.path for source in sft.sources} == {"stage:clips", "stage:pictures"}
    assert {spec.env_id for spec in grpo.worlds} == {run.env_id for run in TAUGHT}
    assert all(spec.kwargs == {"prompt_format": "points", "answer_reward": 0.0} for spec in grpo.worlds)


@pytest.mark.parametrize("recipe", [argos, argos_tiny])
def test_ablations_leave_out_terms_of_the_reward_and_nothing_else(recipe):
    left = {"full": (1, 1), "without_reasoning": (1, 0), "without_grounding": (0, 1), "outcome_only": (0, 0)}
    whole = recipe()
    for name, weights in left.items():
        config = recipe(name)
        (*before, last), (*others, whole_last) = config.stages, whole.stages
        settings = last.run.judge.reward.settings
        assert (settings.grounding_weight, settings.reasoning_weight) == weights and settings.accuracy_weight == 1
        assert before == others
        plain = replace(last, run=replace(last.run, judge=whole_last.run.judge))
        assert plain == whole_last
    assert set(left) == set(REWARDS)


def test_conditions_of_the_hack_differ_in_the_reward_of_reinforcement_learning_alone():
    gated, outcome = (argos_hack_tiny(each).stages for each in ("gated", "outcome_only"))
    assert gated[:-1] == outcome[:-1]
    assert replace(outcome[-1].run, judge=gated[-1].run.judge) == gated[-1].run
    assert outcome[-1].run.judge.reward.settings.grounding_weight == 0.0
    assert gated[0].run.reward.settings.grounding_weight == 0.0, "else nothing that points nowhere were kept"
    assert [*HACK_REWARDS] == ["gated", "without_reasoning", "without_grounding", "outcome_only"]
    without = argos_hack_tiny("without_grounding").stages[-1].run.judge.reward.settings
    assert (without.grounding_weight, without.reasoning_weight) == (
        0.0,
        gated[-1].run.judge.reward.settings.reasoning_weight,
    )


def test_rewards_stand_behind_the_names():
    for name in ("argos", "argos_tiny", "argos_hack_tiny"):
        made = STAGED_VARIANTS[name]
        found, rest = find_recipe([f"{name}:outcome_only", "--model", "DIR"])
        assert found is not None and rest == ["--model", "DIR"]
        assert found.made() == made("outcome_only") and found.made().name == f"{name}_outcome_only"
        with pytest.raises(ConfigError, match=r"'outcome'\. Did you mean 'outcome_only'"):
            made("outcome")
    assert argos_hack_tiny().name == "argos_hack_tiny" and argos_tiny().name == "argos_tiny"


def test_without_a_model_it_says_in_one_line_what_to_do(tmp_path, capsys):
    for recipe, missing in (("argos", "Qwen/Qwen2.5-VL-7B-Instruct"), ("argos_hack_tiny", "runs/argos_tiny/3-sft")):
        assert main([recipe, "--output", str(tmp_path)]) == 2
        (told,) = capsys.readouterr().err.splitlines()
        assert missing in told and "--model DIR" in told
    assert not list(tmp_path.iterdir())


@pytest.mark.soak
def test_the_documented_command_trains_on_nothing_that_it_imitates(tmp_path, tiny_directory, capsys):
    """Curation and reinforcement learning read one copy of Video-R1, in which both would find the same samples."""
    rows = []
    for number in range(40):
        with_frames(tmp_path, 2, f"videos/{number}")
        rows.append(CHOICE | {"path": f"./videos/{number}.mp4", "problem": f"What appears first in {number}?"})
    put(tmp_path / "part.json", rows)
    data = {"dataset": "video_r1", "folder": str(tmp_path)}
    words = {
        "clips.num-kept": 9, "clips.num-samples": 60, "clips.num-rollouts": 1, "clips.threshold": 0,
        "pictures.num-kept": 1, "pictures.num-samples": 1, "pictures.num-rollouts": 1, "pictures.threshold": 0,
        "sft.num-steps": 1, "sft.batch-size": 1, "sft.eval-share": 0, "sft.dtype": "float32",
        "grpo.num-iterations": 1, "grpo.num-groups": 2, "grpo.group-size": 2, "grpo.num-eval-episodes": 0,
        "grpo.sampling.max-new-tokens": 4, "grpo.worlds.0.pool.draw": 9, "grpo.worlds.1.pool.draw": 1,
        "grpo.dtype": "float32", "grpo.judge.reward-set": "reasoning_weight=0",
        **{f"grpo.worlds.0.kwargs.{name}": value for name, value in data.items()},
    }  # fmt: skip
    given = [word for name, value in data.items() for word in ("--stages.clips.set", f"{name}={value}")]
    given += ["--stages.pictures.set", "side_px=200", "--stages.pictures.set", "target_px=(16, 40)"]
    start = ["argos:outcome_only", "--model", str(tiny_directory), "--output", str(tmp_path / "runs")]
    with empty_reports():
        assert main([*start, *given, *options(words)]) == 0
    run = tmp_path / "runs" / "argos_outcome_only"
    imitated = {row["turns"][0]["state"]["sample_id"] for row in RunReader(run / "1-clips").trajectories("curated")}
    reinforced = read_ids(run / "4-grpo" / "pools" / "clips.jsonl")
    assert len(imitated) == len(reinforced) == 9 and not imitated & reinforced
    assert "may train on samples" not in capsys.readouterr().out


@pytest.fixture(scope="module")
def small(tmp_path_factory):
    """`argos_tiny` with an iteration or two of everything, in which nothing is good enough but what the oracle says."""
    out = tmp_path_factory.mktemp("argos")
    words = {
        "see.cold-start.num-steps": 2, "see.num-eval-episodes": 2, "see.num-val-episodes": 0,
        "curate.num-samples": 4, "curate.num-rollouts": 2, "curate.expert": "oracle",
        "sft.num-epochs": 1, "sft.batch-size": 2, "sft.eval-share": 0,
        "grpo.num-iterations": 1, "grpo.num-groups": 2, "grpo.group-size": 2, "grpo.num-eval-episodes": 2,
        "grpo.num-val-episodes": 0,
    }  # fmt: skip
    with empty_reports():
        assert main(["argos_tiny", "--output", str(out), *options(words)]) == 0
    return out


def options(words: dict[str, object]) -> list[str]:
    return [str(word) for name, value in words.items() for word in (f"--stages.{name}", value)]


def test_the_tiny_one_curates_fine_tunes_and_is_reinforced_in_one_command(small):
    run = small / "argos_tiny"
    folders = sorted(path.name for path in run.iterdir() if path.is_dir())
    assert folders == ["1-see", "2-curate", "3-sft", "4-grpo"]
    assert json.loads((run / "2-curate" / "config.json").read_text())["yield"]["num_kept"] == 4
    metrics = [line for line in RunReader(run / "4-grpo").metrics() if line["phase"] == "rl"]
    assert all(0.0 <= line["argos/grounding"] <= 1.0 for line in metrics)
    assert all("argos/grounding" in line for line in RunReader(run / "4-grpo").evaluations())


@pytest.mark.soak
@pytest.mark.parametrize("reward", ["gated", "outcome_only"])
def test_the_hack_is_run_from_what_it_made_and_tells_what_grounding_scores(reward, small, tmp_path):
    words = {
        "knows.num-samples": 3, "looks.num-samples": 3, "sft.batch-size": 2, "sft.eval-share": 0,
        "grpo.num-iterations": 1, "grpo.num-groups": 2, "grpo.group-size": 2, "grpo.num-eval-episodes": 2,
        "grpo.num-val-episodes": 0,
    }  # fmt: skip
    start = small / "argos_tiny" / "3-sft" / "latest" / "model"
    words = ["--output", str(tmp_path), "--name", "hack", "--model", str(start), *options(words)]
    assert main([f"argos_hack_tiny:{reward}", *words]) == 0
    knows, looks = (RunReader(tmp_path / "hack" / each).trajectories("curated") for each in ("1-knows", "2-looks"))
    pointing = [["<points" in each["turns"][0]["response"] for each in episodes] for episodes in (knows, looks)]
    assert len(knows) == len(looks) == 3 and not any(pointing[0]) and all(pointing[1])
    (line,) = [line for line in RunReader(tmp_path / "hack" / "4-grpo").metrics() if line["phase"] == "rl"]
    assert "argos/grounding" in line and "argos/ungrounded_right" in line
