"""Training on rollouts in which no episode waits for another."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.unit.slow import quick
from tests.unit.training.batches import WORLD, run_config
from tests.unit.training.test_run import differing, metrics_of
from training.checkpoints.checkpoint_state import load_checkpoint_state
from training.rewards.turn_scores import ScoredTrajectory, TurnScorer
from training.run import train
from vlm_envs.errors import WorkerError


def short_run(model_directory, output, **changes):
    fields = {"output": str(output), "model": str(model_directory), "num_eval_episodes": 0, "num_threads": 1}
    return run_config(**fields | changes)


@pytest.mark.soak
def test_it_resumes_bit_by_bit(tiny_directory, tmp_path):
    config = short_run(
        tiny_directory,
        tmp_path,
        name="straight",
        worlds=(replace(WORLD, workers="serial"),),
        rollout="async",
        num_iterations=2,
        num_eval_episodes=2,
    )
    straight = train(config)
    broken = replace(config, name="broken")
    train(replace(broken, num_iterations=1))
    directory = train(broken, resume=True)
    states = [load_checkpoint_state(each / "latest") for each in (straight, directory)]
    assert differing(*states) == []
    assert states[0]["agent"] == {"num_rollouts": 2}
    lines = metrics_of(directory)
    assert [line["iteration"] for line in lines] == [0, 1]
    assert all(line["sampler_gap"] < 1e-4 for line in lines)


@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_judges_are_told_of_turns_and_episodes_as_they_come(rollout, tiny_directory, tmp_path, monkeypatch):
    told = {"saw_turn": [], "saw_episode": []}
    for name, seen in told.items():
        monkeypatch.setattr(TurnScorer, name, lambda scorer, *seen_, seen=seen: seen.append(seen_[-1]))
    train(short_run(tiny_directory, tmp_path, rollout=rollout, num_iterations=1))
    turns = [turn for episode in told["saw_episode"] for turn in episode.turns]
    assert len(told["saw_episode"]) == (4 if rollout == "async" else 0)
    assert len(told["saw_turn"]) == len(turns)


@pytest.mark.parametrize("rollout", quick(["barrier", "async"], "async"))
def test_a_judge_that_can_score_nothing_stops_the_run_which_goes_on_once_it_is_back(
    rollout, tiny_directory, tmp_path, monkeypatch
):
    config = short_run(tiny_directory, tmp_path, rollout=rollout, num_iterations=2)
    monkeypatch.setattr(ScoredTrajectory, "trainable_turns", property(lambda each: [False] * len(each.turns)))
    with pytest.raises(WorkerError, match=r"Nothing is left of iteration 0: the judges could score none of its 4"):
        train(config)
    monkeypatch.undo()
    assert [line["iteration"] for line in metrics_of(train(config, resume=True))] == [0, 1]


@pytest.mark.parametrize("settings", [{}, {"rollout": "async"}])
def test_rewards_that_are_all_nan_stop_the_run(settings, tiny_directory, tmp_path, monkeypatch):
    monkeypatch.setattr(ScoredTrajectory, "turn_rewards", property(lambda each: [float("nan")] * len(each.turns)))
    config = short_run(tiny_directory, tmp_path, num_iterations=2, **settings)
    with pytest.raises(WorkerError, match=r"Nothing is left of iteration 0: all of its 4 .* infinite or NaN"):
        train(config)
