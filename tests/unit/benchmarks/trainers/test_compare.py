"""Which processes are run, on what work, and what is refused before any of them."""

import importlib.util
from dataclasses import asdict

import pytest

pytest.importorskip("torch", reason="needs torch: pip install '.[train]'")

from benchmarks.__main__ import main
from benchmarks.trainers.trainer_comparison import (
    CaseResult,
    Lap,
    Measured,
    TrainerOptions,
    Work,
    compare,
    in_own_process,
    report,
    require_same,
)
from vlm_envs.errors import ConfigError


class Runner:
    def __init__(self):
        self.asked = []

    def __call__(self, what, work):
        self.asked.append((what, work.world_ms))
        return asdict(Measured(laps=[Lap(seconds={"update": 1.0}, counts={})], peak_mib=1.0))


def test_trainers_take_turns_and_the_order_is_turned_round():
    options = TrainerOptions(world_ms=(0, 50), judge_ms=(0,), repeats=2)
    runner, results = Runner(), [CaseResult(work=work) for work in options.cases()]
    for _ in compare(options, results, runner):
        pass
    at_once = [("trl", 0), ("in_step", 0), ("async", 0)]
    late = [("trl", 50), ("in_step_threads", 50), ("async_threads", 50)]
    assert runner.asked == [*at_once, *late, *at_once[::-1], *late[::-1]]
    assert [len(runs) for result in results for runs in result.runs.values()] == [2] * 6
    told = report(options, {"max_difference": 0.0}, results)
    assert [case["medians"]["trl"]["iteration_s"] for case in told["cases"]] == [1.0, 1.0]


def test_other_log_probabilities_are_other_work():
    require_same("trl", {"max_difference": 9e-5})
    for difference in (2e-4, float("nan")):
        with pytest.raises(ConfigError, match="nothing is measured"):
            require_same("trl", {"max_difference": difference})


def test_without_the_peer_it_is_said_how_to_get_it(monkeypatch, capsys):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "trl" else find(name))
    assert main(["trainer"]) == 2
    said = capsys.readouterr().err
    assert said.count("\n") == 1
    assert "'trl' needs trl" in said and ".venv-peers" in said


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["--modes", "in_steps"], "in_step"),
        (["--world-ms", "-1"], "at least 0 ms"),
        (["--repeats", "0"], "--repeats must be at least 1"),
        (["--peer", "verl"], "trl"),
    ],
)
def test_wrong_options_are_told(words, told, capsys):
    assert main(["trainer", *words]) == 2
    assert told in capsys.readouterr().err


def test_levels_are_those_of_a_run():
    assert len(set(Work().levels(0)) | set(Work().levels(1))) == 2 * Work().num_groups


@pytest.mark.soak
def test_ours_does_the_work():
    """Nobody's trainer but ours is needed; that levels, turns and tokens are the work's, the process itself checks."""
    work = Work(num_groups=2, group_size=2, tokens=4, micro_batch_size=2, num_iterations=1, world_ms=1.0, judge_ms=1.0)
    (lap,) = Measured.from_dict(in_own_process("async_threads", work)).laps
    assert 2 <= lap.counts["trained_images"] < work.num_episodes * work.turns  # siblings' first picture is one
    assert 2 <= lap.counts["sampled_images"] <= work.num_episodes * work.turns
    assert {"prefill", "decode", "worlds", "judges", "update"} <= {name for name, s in lap.seconds.items() if s > 0}


def test_a_process_that_hangs_is_ended(monkeypatch):
    monkeypatch.setattr("benchmarks.trainers.trainer_comparison.TIMEOUT_S", 0.01)
    with pytest.raises(ConfigError, match=r"'trl' took longer than .* minutes"):
        in_own_process("trl", Work())


@pytest.mark.soak
def test_a_process_that_fails_is_told_of():
    with pytest.raises(ConfigError, match=r"'backwards' ended with exit code 1: KeyError: 'backwards'"):
        in_own_process("backwards", Work())
