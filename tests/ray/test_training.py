"""A training run with its worlds on Ray is the run with its worlds in this process, bit by bit."""

import os
import signal
import time

import psutil

from tests.ray.processes import actors
from tests.ray.runs import lines, training
from training.checkpoints.checkpoint_state import load_checkpoint_state


def test_worlds_on_ray_train_the_model_that_worlds_in_this_process_do(tmp_path):
    told = {}
    for workers in ("serial", "ray"):
        told[workers], _ = (run := training(tmp_path, workers, **{"worlds.0.workers": workers})).communicate(
            timeout=280
        )
        assert run.returncode == 0, told
    assert told["ray"] == told["serial"].replace("/serial/", "/ray/"), "Ray adds nothing to the console"
    serial, ray = (tmp_path / name / "latest" / "model" / "model.safetensors" for name in ("serial", "ray"))
    assert serial.read_bytes() == ray.read_bytes()
    assert lines(tmp_path / "serial") == lines(tmp_path / "ray")


def test_actors_that_are_killed_in_a_run_cost_their_groups_and_are_counted(tmp_path):
    run = training(
        tmp_path, "ray", **{"worlds.0.workers": "ray", "num-iterations": "6", "num-groups": "4", "eval-every": "0"}
    )
    killed: set[int] = set()
    until = time.monotonic() + 240
    while run.poll() is None and time.monotonic() < until:
        time.sleep(0.3)
        started = lines(tmp_path / "ray") if (tmp_path / "ray" / "metrics.jsonl").exists() else []
        if not any(line.get("phase") == "rl" for line in started) or len(killed) >= 3:
            continue
        for actor in actors(psutil.Process(run.pid))[:1]:
            killed.add(actor.pid)
            os.kill(actor.pid, signal.SIGKILL)
    told, _ = run.communicate(timeout=60)
    assert run.returncode == 0, told
    assert killed
    played = [line for line in lines(tmp_path / "ray") if line.get("phase") == "rl"]
    assert len(played) == 6
    assert load_checkpoint_state(tmp_path / "ray" / "latest")["iteration"] == 6
    assert all({"lost_episodes", "dropped_groups"} <= set(line) for line in played)
    assert "The ray worker of environments" in told, "one line says which worker died, and of what"
