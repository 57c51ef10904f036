"""What a run logs besides its JSONL files: each iteration and each evaluation, once, also when the run was resumed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from agents.hf.sampling_config import SamplingConfig
from tests.unit.training.batches import WORLD, run_config
from tests.unit.training.loop.test_rescue import fail_in_the_second
from tests.unit.training.loop.wandb_server import environment
from training.config.run_config import RunConfig
from training.loop.loggers import RUN_FILE, evaluation_values
from training.run import train
from training.update.learner import Learner
from vlm_envs.records.run_data import RunReader

NAMES = (WORLD.env_id, "b")
ENDS = ("success", "success_low", "success_high")


@pytest.fixture
def config(tiny_directory: Path, tmp_path: Path) -> RunConfig:
    return run_config(
        worlds=(WORLD, replace(WORLD, name="b")),
        output=str(tmp_path),
        model=str(tiny_directory),
        num_iterations=2,
        num_eval_episodes=3,
        num_val_episodes=2,
        eval_every=1,
        checkpoint_every=0,
        sampling=SamplingConfig(max_new_tokens=3),
        num_threads=1,
    )


@pytest.fixture
def wandb_offline(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Starts wandb's client anew, in an environment of its own."""
    wandb = pytest.importorskip("wandb", reason="wandb is not installed: pip install 'vlm-envs[wandb]'")
    wandb.teardown()
    for name, value in environment(tmp_path, WANDB_MODE="offline").items():
        monkeypatch.setenv(name, value)
    yield
    wandb.teardown()


def scalars(directory: Path) -> dict[str, list[tuple[int, float]]]:
    """Returns what TensorBoard shows of a run, by name."""
    shown = EventAccumulator(str(directory / "tensorboard"))
    shown.Reload()
    return {tag: [(each.step, each.value) for each in shown.Scalars(tag)] for tag in shown.Tags()["scalars"]}


def check_all_is_shown(directory: Path) -> None:
    """Asserts that TensorBoard has every metric and every evaluation of a run's files, and nothing twice."""
    shown, reader = scalars(directory), RunReader(directory)
    rewards = [(line["iteration"], pytest.approx(line["reward"])) for line in reader.metrics()]
    assert shown["rl/reward"] == rewards and len(rewards) == 2
    evaluations = reader.evaluations()
    assert {line["split"] for line in evaluations} == {"val", "test"}
    for split in ("val", "test"):
        for world in NAMES:
            lines = [line for line in evaluations if (line["world"], line["split"]) == (world, split)]
            for name in ENDS:
                expected = [(line["iteration"], pytest.approx(line[name])) for line in lines]
                assert shown[f"{split}/{name}/{world}"] == expected
    assert [step for step, _ in shown["test/success"]] == [0, 2]


def test_evaluations_are_shown_beside_metrics(config: RunConfig) -> None:
    check_all_is_shown(train(config))


@pytest.mark.soak
def test_a_validation_that_stands_is_shown_after_the_run_was_resumed(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is of the same step as the iteration that is run again, whose first numbers TensorBoard is told to hide."""
    with monkeypatch.context() as patched:
        fail_in_the_second(patched, Learner, "_policy_step")
        with pytest.raises(RuntimeError, match="out of memory"):
            train(config)
    check_all_is_shown(train(config, resume=True))


@pytest.mark.soak
@pytest.mark.usefixtures("wandb_offline")
def test_wandb_has_the_same_numbers_and_the_runs_configuration(
    config: RunConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = replace(config, wandb_project="lakes")
    with monkeypatch.context() as patched:
        fail_in_the_second(patched, Learner, "_policy_step")
        with pytest.raises(RuntimeError, match="out of memory"):
            train(config)
    directory = Path(config.output) / config.name
    run_id = json.loads((directory / RUN_FILE).read_text())["id"]
    check_all_is_shown(train(config, resume=True))
    logged = [path.read_bytes() for path in sorted((directory / "wandb").glob(f"offline-run-*/run-{run_id}.wandb"))]
    assert len(logged) == 2, "the second part goes on under the id of the first"
    names = [f"{split}/{name}/{world}" for split in ("val", "test") for world in NAMES for name in ENDS]
    for name in ("iteration", "rl/reward", "rl/entropy", "val/success", "test/success", *names):
        assert any(name.encode() in each for each in logged), name
    assert b"num_groups" in logged[0] and str(RunReader(directory).config["commit"]).encode() in logged[0]


def test_the_mean_is_over_worlds() -> None:
    ends = {"success_low": 0.0, "success_high": 1.0}
    records = [{"world": name, "split": "val", "success": value, **ends} for name, value in (("a", 0.25), ("b", 0.75))]
    values = evaluation_values(records)
    assert (values["val/success"], values["val/success/a"], values["val/success_high/b"]) == (0.5, 0.25, 1.0)
    assert evaluation_values([]) == {}


def test_turns_to_success_are_logged_of_the_worlds_with_a_solved_episode() -> None:
    ends = {"success_low": 0.0, "success_high": 1.0, "split": "val"}
    records = [{"world": "a", "success": 0.5, "turns_to_success": 1.5, **ends}, {"world": "b", "success": 0.0, **ends}]
    values = evaluation_values(records)
    assert values["val/turns_to_success/a"] == 1.5
    assert "val/turns_to_success/b" not in values
