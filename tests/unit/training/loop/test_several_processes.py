"""Runs of two processes through the command line: one run's files, any number goes on, and a death is told of."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.unit.training import reports
from tests.unit.training.engines.several_processes import launched
from training.__main__ import main
from training.loop.interrupts import saved_iterations
from vlm_envs.records.run_data import RunReader

LIMIT_S = 250.0
"""How long processes may take, below what a test may: alone they take seconds, beside others minutes."""


UNREPORTED = reports.__name__
"""The training of two processes, but for its report."""


def options(tiny_directory: Path, output: Path, **changes: str) -> list[str]:
    settings = {
        "name": "two",
        "output": str(output),
        "model": str(tiny_directory),
        "num-iterations": "2",
        "num-groups": "3",
        "group-size": "2",
        "num-eval-episodes": "3",
        "num-val-episodes": "0",
        "checkpoint-every": "1",
        "record-every": "1",
        "num-threads": "1",
        "sampling.max-new-tokens": "6",
        "ppo.num-minibatches": "2",
        "ppo.kl-coef": "0.001",
        "algorithm.critic.trunk": "own",
        "algorithm.critic.num-minibatches": "1",
        "algorithm.critic.warmup-iterations": "0",
        "worlds.0.workers": "serial",
    }
    settings |= {name.replace("_", "-"): value for name, value in changes.items()}
    return ["frozenlake_tiny", *(word for name, value in settings.items() for word in (f"--{name}", value))]


def ended(processes: list[subprocess.Popen[str]]) -> list[str]:
    """Returns what processes told that ended well; of any others, none is left."""
    try:
        told = [process.communicate(timeout=LIMIT_S)[0] for process in processes]
    finally:
        for process in processes:
            process.kill()
    assert [process.returncode for process in processes] == [0] * len(processes), told
    return told


@pytest.fixture
def running(tiny_directory, tmp_path):
    """Two processes that train on and on, once they have saved an iteration, and their run; none is left of them."""
    settings = options(tiny_directory, tmp_path, num_iterations="500", num_eval_episodes="0")
    processes = launched(2, *settings, module="training")
    run = tmp_path / "two"
    try:
        until = time.monotonic() + LIMIT_S
        while not saved_iterations(run):
            assert time.monotonic() < until
            assert all(process.poll() is None for process in processes)
            time.sleep(0.2)
        yield processes, run
    finally:
        for process in processes:
            process.kill()
            process.wait()


@pytest.mark.soak
def test_two_processes_write_one_run_and_one_goes_on_with_it(tiny_directory, tmp_path):
    words = options(tiny_directory, tmp_path, num_iterations="1")
    told = ended(launched(2, *words, "--engine", "fsdp2", module=UNREPORTED))
    assert "Report: " in told[0]
    assert "kill -INT" in told[0], "it tells of the end of others, too"
    assert "after: VLM/" not in told[1], "the main process alone says how it goes"
    run = tmp_path / "two"
    reader = RunReader(run)
    assert [line["iteration"] for line in reader.metrics()] == [0]
    assert [line["label"] for line in reader.evaluations()] == ["before", "after"]
    seeds = [line["seed"] for line in reader.trajectories("before")]
    assert len(set(seeds)) == 3
    assert seeds == sorted(seeds), "as one process plays them"
    trained = reader.trajectories("training 0")
    assert [line["seed"] for line in trained][::2] == [line["seed"] for line in trained][1::2], "siblings stay together"
    assert len({line["seed"] for line in trained}) == 3
    assert {path.name for path in (run / "latest" / "processes").iterdir()} == {"0.pt", "1.pt"}
    learnt = json.loads((run / "latest" / "model" / "provenance.json").read_text())
    assert (learnt["iteration"], learnt["worlds"][0]["env_id"]) == (1, "VLM/FrozenLake-v0")
    assert main(["frozenlake_tiny", "--resume", *there(tmp_path, 2), "--engine", "local"]) == 0
    assert not (run / "latest" / "processes").exists(), "one process keeps it all in one file"
    assert [line["iteration"] for line in reader.metrics()] == [0, 1]
    assert json.loads((run / "latest" / "progress.json").read_text()) == {"iteration": 2}


@pytest.mark.soak
def test_two_processes_go_through_a_pool_as_one_does(tiny_directory, tmp_path):
    pool = tmp_path / "pool.jsonl"
    assert main(["pool", "frozenlake_tiny", "--num-samples", "4", "--out", str(pool)]) == 0
    on_it = [*options(tiny_directory, tmp_path, num_eval_episodes="0"), "--worlds.0.pool.file", str(pool)]
    ended(launched(2, *on_it, "--engine", "ddp", module="training"))
    assert main([*on_it, "--name", "one", "--engine", "local"]) == 0
    levels = [
        [each["level"] for number in range(2) for each in RunReader(tmp_path / name).trajectories(f"training {number}")]
        for name in ("two", "one")
    ]
    assert levels[0] == levels[1] and len(levels[0]) == 12
    assert len({*levels[0][:8]}) == 4, "an epoch is through before its levels come again"
    assert main([*on_it, "--num-iterations", "3", "--engine", "local", "--resume"]) == 0
    assert RunReader(tmp_path / "two").metrics()[-1]["pool/VLM/FrozenLake-v0/epoch"] == 9 / 4


@pytest.mark.soak
@pytest.mark.parametrize(("engine", "dtype", "limit"), [("fsdp2", "float32", 1e-5), ("ddp", "bfloat16", 5e-2)])
def test_what_acts_sees_pictures_as_what_is_trained_does(engine, dtype, limit, tiny_directory, tmp_path):
    """The same pictures come again in each iteration, and the vision tower learns."""
    pool = tmp_path / "pool.jsonl"
    assert main(["pool", "frozenlake_tiny", "--num-samples", "3", "--out", str(pool)]) == 0
    words = options(tiny_directory, tmp_path, num_iterations="4", num_eval_episodes="0", checkpoint_every="0")
    words += ["--ppo.learning-rate", "1e-3", "--ppo.num-minibatches", "1", "--worlds.0.pool.file", str(pool)]
    ended(launched(2, *words, "--engine", engine, "--dtype", dtype, module="training"))
    gaps = [each["sampler_gap"] for each in RunReader(tmp_path / "two").metrics() if "sampler_gap" in each]
    assert len(gaps) == 4 and max(gaps) < limit, gaps


def there(output: Path, num_iterations: int) -> list[str]:
    return ["--output", str(output), "--name", "two", "--num-iterations", str(num_iterations)]


@pytest.mark.soak
def test_when_one_dies_the_other_says_how_to_go_on(running):
    processes, run = running
    os.kill(processes[1].pid, signal.SIGKILL)
    processes[0].terminate()  # as their launcher does then
    told = processes[0].communicate(timeout=LIMIT_S)[0]
    assert processes[0].returncode not in (0, None)
    (line,) = [line for line in told.splitlines() if "Resume with --resume" in line]
    assert f"as of {saved_iterations(run)} iterations" in line


@pytest.mark.soak
def test_a_signal_to_the_main_process_alone_stops_all_after_an_iteration(running):
    processes, _ = running
    processes[0].send_signal(signal.SIGINT)
    told = ended(processes)
    title, how_to_stop = told[0].splitlines()[:2]
    assert title.startswith("frozenlake_tiny (")
    assert f"kill -INT {processes[0].pid}" in how_to_stop, "said at once"
    assert "kills the run 30 s later; then the last checkpoint, of" in told[0]
    assert "Interrupted after iteration" in told[0]
    assert "kill -INT" not in told[1]


@pytest.mark.soak
def test_a_lost_connection_ends_in_one_line_with_what_is_on_disk(running):
    """No launcher ends the other here, so that it is the connection that tells."""
    processes, run = running
    os.kill(processes[0].pid, signal.SIGKILL)
    told = processes[1].communicate(timeout=LIMIT_S)[0]
    assert processes[1].returncode == 1, told
    assert "Traceback" not in told
    (*_, last) = told.strip().splitlines()
    assert last.startswith("stopped: another process of the run is gone")
    assert f"as of {saved_iterations(run)} iterations. Resume with --resume." in last


def test_a_checkpoint_that_is_being_put_in_place_is_counted_and_left_alone(tmp_path):
    old = tmp_path / ".latest.old"
    old.mkdir()
    (old / "progress.json").write_text('{"iteration": 4}')
    assert saved_iterations(tmp_path) == 4
    assert old.is_dir()
    (tmp_path / "latest").mkdir()
    (tmp_path / "latest" / "progress.json").write_text('{"iteration": 5}')
    assert saved_iterations(tmp_path) == 5


@pytest.mark.soak
def test_the_main_process_has_told_why_before_another_ends(tiny_directory, tmp_path):
    """A launcher ends the main process as soon as another has failed."""
    main_process, other = launched(2, *options(tiny_directory, tmp_path), "--staleness", "1", module="training")
    try:
        assert "Use --staleness 0, or one process" in main_process.communicate(timeout=LIMIT_S)[0]
        time.sleep(1.0)
        assert main_process.returncode == 2 and other.poll() is None
        assert "Use --staleness 0, or one process" in other.communicate(timeout=LIMIT_S)[0], "where nobody ends it"
    finally:
        for process in (main_process, other):
            process.kill()


@pytest.mark.parametrize(
    ("words", "environment", "told"),
    [
        (["--engine", "fsdp2"], {}, "but this is one"),
        (["--engine", "local"], {"WORLD_SIZE": "2"}, "Use --engine auto"),
        (
            ["--num-groups", "3", "--ppo.num-minibatches", "1"],
            {"WORLD_SIZE": "4"},
            "--num-groups 3 leaves some without",
        ),
        ([], {"WORLD_SIZE": "2", "ACCELERATE_USE_FSDP": "true"}, "--fsdp_version 2"),
        ([], {"WORLD_SIZE": "2", "ACCELERATE_USE_DEEPSPEED": "true"}, "ACCELERATE_USE_DEEPSPEED"),
        ([], {"MASTER_ADDR": "127.0.0.1", "ACCELERATE_MIXED_PRECISION": "no"}, "Add --multi_gpu"),
        (["--lora.rank", "4", "--engine", "fsdp2"], {"WORLD_SIZE": "2"}, "Use --engine ddp"),
    ],
)
def test_processes_that_cannot_train_together_are_refused_in_one_line(
    tiny_directory, tmp_path, monkeypatch, capsys, words, environment, told
):
    for name, value in environment.items():
        monkeypatch.setenv(name, value)
    assert main([*options(tiny_directory, tmp_path), *words]) == 2
    shown = capsys.readouterr().err
    assert told in shown
    assert len(shown.strip().splitlines()) == 1
    assert not (tmp_path / "two").exists()
