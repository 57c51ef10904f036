"""A stage curates what the next one learns from, once, in both orders, whatever interrupts the run."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest

from training.__main__ import main
from training.curation import curation_loop
from training.curation.curated_data import curated_episodes
from training.curation.curation_config import CurateConfig
from training.curation.curation_loop import make_data_set
from training.recipes.tiny import judging_tiny
from training.sft.sft_config import SFTConfig
from training.stages import stages_loop
from training.stages.stages_config import Stage, StagesConfig, saved_stages
from training.stages.stages_loop import train_stages
from training.stages.stages_preflight import is_free
from vlm_envs.errors import ConfigError
from vlm_envs.records.json_lines import RunExistsError
from vlm_envs.records.run_data import RunReader
from vlm_envs.trajectory import Trajectory

START = str(Path(__file__).parents[4] / str(judging_tiny().model))
(WORLD,) = judging_tiny().worlds
CURATED = CurateConfig(
    env_id=WORLD.env_id,
    settings=tuple(f"{name}={value!r}" for name, value in WORLD.kwargs.items()),
    again=("reverse_order=True",),
    episode_reward="arm_accuracy",
    mistake_rate=0.0,
    num_samples=3,
    num_rollouts=1,
)


def staged(tmp_path, curated: CurateConfig = CURATED) -> StagesConfig:
    tuned = SFTConfig(
        model=START, data=("stage:rollouts",), num_steps=1, batch_size=2, eval_share=0.0, num_threads=1, device="cpu"
    )
    chosen = (Stage(name="rollouts", run=curated), Stage(name="sft", run=tuned))
    return StagesConfig(name="staged", output=str(tmp_path), stages=chosen)


def responses(episode: Trajectory) -> tuple[str, ...]:
    """Returns the quoted responses, in the order in which they are shown."""
    match = re.search(r"resp_1:\n(.*)\nresp_2:\n(.*)\nQuestion:", episode.turns[0].observation["text"], re.DOTALL)
    assert match is not None
    return match.groups()


def test_every_pair_is_asked_in_both_orders(tmp_path):
    directory, result = make_data_set(replace(CURATED, output=str(tmp_path)))
    kept = curated_episodes(directory)
    forward, reverse = kept[:3], kept[3:]
    assert len(kept) == 6 and result.record()["num_samples"] == 6
    for one, other in zip(forward, reverse, strict=True):
        assert responses(one) == responses(other)[::-1]
        assert one.turns[-1].state["answers"] != other.turns[-1].state["answers"]


def test_asking_twice_in_the_same_way_is_refused():
    for again in (("reverse_order=False", "reverse_order=False"), ("max_turns=3",)):
        with pytest.raises(ConfigError, match="asks every question twice in the same way"):
            replace(CURATED, again=again)


def test_a_folder_without_a_batch_is_begun_anew(tmp_path):
    unfinished = tmp_path / "curated.unfinished"
    unfinished.mkdir()
    (unfinished / "curation.json").write_text("{}")
    directory, _ = make_data_set(replace(CURATED, output=str(tmp_path), again=()))
    assert len((directory / "sft.jsonl").read_text().splitlines()) == 3
    assert [each.name for each in tmp_path.iterdir()] == ["curated"]


def interrupted_in_the_second_batch(monkeypatch):
    """Has Ctrl-C pressed while a curation's second batch is played; returns the batches that are asked."""
    original, asked = curation_loop.play, []

    def interrupted(expert, config, batch):
        asked.append(batch)
        if len(asked) == 2:
            raise KeyboardInterrupt
        return original(expert, config, batch)

    monkeypatch.setattr(curation_loop, "play", interrupted)
    return asked


def test_a_stage_that_was_interrupted_while_it_curated_goes_on(tmp_path, monkeypatch, capsys):
    small, asked = replace(CURATED, batch_size=2), interrupted_in_the_second_batch(monkeypatch)
    with pytest.raises(KeyboardInterrupt):
        train_stages(staged(tmp_path, small))
    assert not is_free(tmp_path / "staged")
    with pytest.raises(RunExistsError, match="--resume"):
        train_stages(staged(tmp_path, small))
    with pytest.raises(ConfigError, match=r"Stage 'rollouts': .* with num_rollouts 1, not 2"):
        train_stages(staged(tmp_path, replace(small, num_rollouts=2)), resume=True)
    directory = train_stages(staged(tmp_path, small), resume=True)
    assert "Resuming" in capsys.readouterr().out
    assert [each.world for each in asked] == [0, 0, 0, 1, 1], "one batch was interrupted"
    assert len((directory / "1-rollouts" / "sft.jsonl").read_text().splitlines()) == 6


@pytest.mark.soak
def test_ctrl_c_in_a_curation_says_how_to_go_on(tmp_path, monkeypatch, capsys):
    asked = interrupted_in_the_second_batch(monkeypatch)
    with pytest.raises(KeyboardInterrupt) as raised:
        train_stages(staged(tmp_path, replace(CURATED, batch_size=2)))
    said = "Interrupted in stage 'rollouts'. 2 of 6 questions are written; go on with --resume."
    assert str(raised.value) == said
    asked.clear()
    words = ["curate", "--num-samples", "4", "--batch-size", "2", "--num-rollouts", "1", "--output", str(tmp_path)]
    words += ["--episode-reward", "arm_accuracy", "--mistake-rate", "0", "--env-id", CURATED.env_id]
    command = words + [word for each in CURATED.settings for word in ("--set", each)]
    assert main(command) == 130
    shown = capsys.readouterr().err
    assert shown == "Interrupted. 2 of 4 questions are written; the same command resumes where this one stopped.\n"
    assert main(command) == 0
    assert f"Resuming {tmp_path / 'curated'} after 2 of 4 questions." in capsys.readouterr().out


def test_the_next_stage_learns_from_it_and_a_resumed_run_does_not_curate_again(tmp_path, monkeypatch):
    def interrupted(*_, **__):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(stages_loop, "fine_tuned", interrupted)
        with pytest.raises(KeyboardInterrupt):
            train_stages(staged(tmp_path))
    assert saved_stages(tmp_path / "staged")[1] == ["rollouts"]
    monkeypatch.setattr(stages_loop, "make_data_set", lambda run: pytest.fail("it has been curated"))
    with pytest.raises(ConfigError, match=r"Stage 'rollouts': the data at .* num_samples 3, not 4.*--name"):
        train_stages(staged(tmp_path, replace(CURATED, num_samples=4)), resume=True)
    directory = train_stages(staged(tmp_path), resume=True)
    (read,) = RunReader(directory / "2-sft").config["data_sets"]
    assert (read["path"], read["num_rows"]) == (f"{directory / '1-rollouts'}=1".removesuffix("=1"), 6)
    assert saved_stages(directory)[1] == ["rollouts", "sft"]
    assert (directory / "report.html").is_file()


def test_a_curation_that_keeps_nothing_ends_the_run_with_the_remedy(tmp_path):
    curated = replace(CURATED, threshold=1.6)
    with pytest.raises(ConfigError, match=r"Stage 'rollouts': Nothing is curated.*--stages.rollouts.threshold"):
        train_stages(staged(tmp_path, curated))
    assert not (tmp_path / "staged" / "1-rollouts").exists()
