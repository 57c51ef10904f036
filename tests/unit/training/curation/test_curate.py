"""Datasets filtered from an expert's rollouts, and cold starts that imitate them."""

from __future__ import annotations

import io
import json
import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from agents.oracle import OracleAgent, RandomAgent
from tests.unit.training.batches import run_config
from training.__main__ import main
from training.cold_start.cold_start_config import ColdStartConfig
from training.cold_start.cold_start_loop import make_cold_start
from training.config.world_spec import WorldSpec
from training.curation.curated_data import curated_episodes, shuffled_batches
from training.curation.curation_config import CURATED, CurateConfig
from training.curation.curation_loop import Filtered, curation_judge, filter_rollouts, make_data_set, play
from training.curation.curation_set import questions
from training.rewards.verifier import Verifier
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.run_data import RunReader

SMALL = ("side_px=400", "target_px=(16, 40)", "answer_kinds=('choice', 'number')")


def played(expert, chosen: CurateConfig):
    (of_world,) = questions(chosen)
    return play(expert, chosen, of_world).groups


def filtered(groups, chosen: CurateConfig) -> Filtered:
    with curation_judge(chosen) as judge:
        return filter_rollouts(groups, chosen, judge, drops_trivial=chosen.drop_trivial)


def config(tmp_path: Path, strategy: str = "points", **changes) -> CurateConfig:
    fields = {"output": str(tmp_path), "num_samples": 6, "num_rollouts": 3}
    return CurateConfig(settings=(*SMALL, f"prompt_format={strategy}"), **fields | changes)


def test_a_perfect_experts_rollouts_are_all_kept(tmp_path):
    _, result = make_data_set(config(tmp_path, mistake_rate=0.0))
    assert result.record()["rollout_yield"] == 1.0
    assert result.record()["num_kept"] == 6
    assert "kept 6 of 6 questions (yield 1.000)" in str(result)


def test_a_random_agents_wrong_answers_are_not(tmp_path):
    chosen = config(tmp_path, mistake_rate=1.0, num_rollouts=2)
    groups = played(OracleAgent(mistake_rate=1.0), chosen)
    result = filtered(groups, chosen)
    num_right = sum(each.success for group in groups for each in group)
    assert result.curated.num_good_rollouts == num_right < 12
    assert all(each.success for each in result.curated.kept.values())
    assert result.rejections == {"accuracy": 12 - num_right}


def test_trivial_questions_are_dropped_if_asked_for(tmp_path, monkeypatch):
    # As if the oracle were the base model
    monkeypatch.setattr("training.curation.curation_command._require_counts", lambda config: None)
    _, result = make_data_set(config(tmp_path, mistake_rate=0.0, drop_trivial=True))
    assert (result.total.num_trivial, result.total.num_kept) == (6, 0)
    with pytest.raises(ConfigError, match="is empty"):
        curated_episodes(tmp_path / "curated")


def test_arm_keeps_rollouts_with_a_call_that_worked(tmp_path):
    chosen = config(tmp_path, "arm", episode_reward="arm_accuracy", num_samples=24, num_rollouts=1)
    groups = played(RandomAgent(), chosen)  # answers at once
    assert any(group[0].success for group in groups)
    assert not filtered(groups, chosen).curated.kept
    assert filtered(groups, replace(chosen, reward_settings=("needs_tools=False",))).curated.kept


def test_settings_of_a_reward_are_its_own(tmp_path):
    with pytest.raises(ConfigError, match=r"'argos' has no setting 'needs_tools'; it has threshold, accuracy_weight"):
        config(tmp_path, reward_settings=("needs_tools=False",))
    with pytest.raises(ConfigError, match=r"needs_tool'; it has format_weight, .*Did you mean 'needs_tools'"):
        config(tmp_path, "arm", episode_reward="arm_accuracy", reward_settings=("needs_tool=False",))


def test_what_lets_a_model_look_and_decide_is_refused_without_one(tmp_path):
    with pytest.raises(ConfigError, match=r"agentic .*endpoint\.model NAME and endpoint\.base-url"):
        config(tmp_path, "direct", episode_reward="agentic")


def test_a_person_who_leaves_is_told_in_one_line_and_leaves_nothing_behind(tmp_path, capsys, monkeypatch):
    monkeypatch.setattr("sys.stdin", io.StringIO())
    words = ["--num-samples", "1", *(word for setting in SMALL for word in ("--set", setting))]
    assert main(["curate", "--expert", "human", "--output", str(tmp_path / "runs"), *words]) == 2
    assert "error: --expert human: the input ended before all rollouts of 1 questions" in capsys.readouterr().err
    assert not (tmp_path / "runs").exists()


def test_a_data_set_reads_back_with_its_pictures_and_as_chat_messages(tmp_path):
    chosen = config(tmp_path, mistake_rate=0.0)
    directory, _ = make_data_set(chosen)
    kept = list(filtered(played(OracleAgent(seed=chosen.seed), chosen), chosen).curated.kept.values())
    for written, read in zip(kept, curated_episodes(directory), strict=True):
        for one, two in zip(written.turns, read.turns, strict=True):
            assert (one.response_text, one.observation["text"]) == (two.response_text, two.observation["text"])
            for a, b in zip(one.observation["images"], two.observation["images"], strict=True):
                np.testing.assert_array_equal(a, b)
    lines = [json.loads(line) for line in (directory / "sft.jsonl").read_text().splitlines()]
    assert len(lines) == 6
    user, assistant = lines[0]["messages"]
    assert assistant == {"role": "assistant", "content": [{"type": "text", "text": kept[0].turns[0].response_text}]}
    with Image.open(directory / user["content"][0]["image"]) as picture:
        assert picture.size == (400, 400)
    assert RunReader(directory).config["yield"]["num_kept"] == 6


def test_a_data_set_keeps_system_messages(tmp_path):
    settings = (*SMALL, "prompt_format=points", "system_prompt=True")
    chosen = CurateConfig(settings=settings, output=str(tmp_path), num_samples=2, num_rollouts=1, mistake_rate=0.0)
    directory, _ = make_data_set(chosen)
    (first, *_) = curated_episodes(directory)
    system = first.turns[0].observation["system"]
    (line, *_) = [json.loads(line) for line in (directory / "sft.jsonl").read_text().splitlines()]
    assert [message["role"] for message in line["messages"]] == ["system", "user", "assistant"]
    assert line["messages"][0]["content"] == [{"type": "text", "text": system}]
    assert system not in line["messages"][1]["content"][-1]["text"]


def test_an_existing_data_set_is_left_alone(tmp_path):
    directory, _ = make_data_set(config(tmp_path, mistake_rate=0.0))
    before = (directory / "sft.jsonl").read_bytes()
    with pytest.raises(RunExistsError):
        make_data_set(config(tmp_path))
    assert (directory / "sft.jsonl").read_bytes() == before


def test_batches_show_every_episode_once_before_any_again(tmp_path):
    directory, _ = make_data_set(config(tmp_path, mistake_rate=0.0))
    episodes = curated_episodes(directory)
    batches = shuffled_batches(episodes, 3, seed=0)
    first = [each.seed for _ in range(2) for each in next(batches)]
    second = [each.seed for _ in range(2) for each in next(batches)]
    assert sorted(first) == sorted(second) == sorted(each.seed for each in episodes)
    assert first != second


def test_the_command_prints_the_yield_and_a_cold_start_learns_from_its_data(tiny_directory, tmp_path, capsys):
    words = ["--output", str(tmp_path), "--name", "set", "--num-samples", "4", "--num-rollouts", "2"]
    settings = [word for setting in SMALL for word in ("--set", setting)]
    assert main(["curate", *words, "--mistake-rate", "0", *settings]) == 0
    assert "yield 1.000" in capsys.readouterr().out
    assert RunReader(tmp_path / "set").trajectory_labels() == [CURATED]
    run = run_config(
        worlds=(
            WorldSpec(
                env_id="VLM/ZoomQA-v0", kwargs={"side_px": 400, "target_px": (16, 40), "prompt_format": "points"}
            ),
        ),
        cold_start=ColdStartConfig(
            num_steps=2,
            num_first_turn_steps=1,
            batch_size=2,
            data=str(tmp_path / "set"),
            start_from=str(tiny_directory),
        ),
        num_val_episodes=0,
    )
    make_cold_start(run, tmp_path / "model", writer=None)
    assert (tmp_path / "model" / "model.safetensors").is_file()


def test_a_command_that_keeps_nothing_fails_and_says_what_became_of_everything(tmp_path, capsys, monkeypatch):
    words = ["curate", "--num-samples", "2", "--num-rollouts", "2", "--mistake-rate", "0"]
    words += [word for setting in SMALL for word in ("--set", setting)]
    assert main([*words, "--output", str(tmp_path), "--threshold", "100"]) == 1
    shown = capsys.readouterr()
    assert shown.err.startswith(f"stopped: {tmp_path / 'curated'} is empty, as no response was good enough. ")
    assert "Ask more questions (--num-samples), lower --threshold" in shown.err
    assert (
        "passed over: 4 for threshold" in shown.out
        and "kept 0 of 2 questions" in shown.out
        and "Train on it" not in shown.out
    )
    # As if the oracle were what is trained
    monkeypatch.setattr("training.curation.curation_command._require_counts", lambda config: None)
    assert main([*words, "--output", str(tmp_path), "--name", "trivial", "--drop-trivial"]) == 1
    assert "2 trivial questions dropped" in capsys.readouterr().out


class Stubborn(OracleAgent):
    """Answers everything in the same words."""

    def write(self, world):
        return "<think>No idea.</think><answer>no idea</answer>"


def test_rollouts_of_a_question_that_comes_twice_belong_together(tmp_path):
    chosen = config(tmp_path, mistake_rate=0.0, num_samples=2, num_rollouts=2)
    first, second = played(OracleAgent(), chosen)
    wrong = played(Stubborn(), replace(chosen, num_samples=1))[0]
    assert not any(each.success for each in wrong), "the case under test"
    result = filtered([first, second, wrong], chosen)
    assert (result.curated.num_samples, result.curated.num_rollouts, len(result.curated.kept)) == (2, 6, 2)


def test_the_verifier_is_asked_about_all_questions_at_once(tmp_path, monkeypatch):
    chosen = config(tmp_path, mistake_rate=0.5, drop_trivial=True)
    groups = played(OracleAgent(mistake_rate=0.5), chosen)
    sizes = []

    def likelihoods(asked):
        sizes.append(len(asked))
        return [[-0.1 * len(answer)] for *_, answer in asked]

    monkeypatch.setattr(Verifier, "__init__", lambda self, config, device: None)
    monkeypatch.setattr(Verifier, "models", {"likelihoods": likelihoods}, raising=False)
    monkeypatch.setattr(Verifier, "close", lambda self: None)
    together = filtered(groups, chosen)
    assert len(sizes) == 1 and sizes[0] > 3, "one batch, of more than one question"
    alone = [filtered([group], chosen) for group in groups]
    assert together.curated.kept == {name: best for each in alone for name, best in each.curated.kept.items()}
    assert together.rejections == sum((Counter(each.rejections) for each in alone), Counter())
    assert together.num_trivial == sum(each.num_trivial for each in alone)
    for count in ("num_samples", "num_rollouts", "num_good_rollouts"):
        assert getattr(together.curated, count) == sum(getattr(each.curated, count) for each in alone)


def test_if_every_question_is_trivial_the_verifier_is_not_asked(tmp_path):
    chosen = config(tmp_path, drop_trivial=True, num_samples=2, num_rollouts=1)
    result = filtered(played(OracleAgent(), chosen), chosen)
    assert (result.num_trivial, result.curated.num_rollouts) == (2, 0)


def test_answers_that_only_a_model_can_compare_are_refused_before_anything_is_played(tmp_path):
    rows = [{"problem": "What is it?", "answer": "a mug", "images": ["a.png"], "target_instances": []}]
    (tmp_path / "table.jsonl").write_text("\n".join(map(json.dumps, rows)))
    settings = ("prompt_format=points", "dataset=treevgr", f"folder={tmp_path}")
    with pytest.raises(ConfigError, match=r"only a model can compare .*--endpoint\.model NAME"):
        make_data_set(CurateConfig(output=str(tmp_path / "out"), settings=settings))


def test_the_levels_of_a_pool_are_curated_and_no_others(tmp_path):
    pool, other = tmp_path / "pool.jsonl", tmp_path / "other"
    small = ["--worlds.0.kwargs.side-px", "400", "--worlds.0.kwargs.target-px", "16", "40"]
    assert main(["pool", "VLM/ZoomQA-v0", *small, "--num-samples", "5", "--out", str(pool)]) == 0
    ids = [json.loads(line)["id"] for line in pool.read_text().splitlines()]
    other.write_text(f"{ids[1]}\n")
    command = [
        "curate",
        "--set",
        "target_px=40",
        "--mistake-rate",
        "0",
        "--num-rollouts",
        "2",
        "--output",
        str(tmp_path),
    ]
    assert main([*command, "--name", "all", "--pool", str(pool)]) == 0
    assert main([*command, "--name", "rest", "--pool", str(pool), "--exclude", str(other), "--num-samples", "3"]) == 0
    for name, expected in (("all", ids), ("rest", [ids[0], *ids[2:4]])):
        reader = RunReader(tmp_path / name)
        assert [each["turns"][0]["state"]["sample_id"] for each in reader.trajectories(CURATED)] == expected
        assert reader.config["yield"]["num_lost"] == 0


def test_a_pool_that_cannot_be_asked_about_is_refused_before_anything_is_played(tmp_path, capsys):
    pool = tmp_path / "pool.jsonl"
    pool.write_text('{"id": "nothing"}\n')
    assert main(["curate", "--pool", str(pool), "--output", str(tmp_path)]) == 2
    assert "pool.jsonl, line 1: VLM/ZoomQA-v0 cannot load this level" in capsys.readouterr().err
    assert main(["curate", "--exclude", str(pool), "--output", str(tmp_path)]) == 2
    assert re.search(r"--exclude .*\(--pool FILE\)", capsys.readouterr().err)
    assert not (tmp_path / "curated").exists()
