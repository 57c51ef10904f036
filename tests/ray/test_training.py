"""A training run with its worlds on Ray is the run with its worlds in this process, bit by bit."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import psutil

from tests.ray.processes import CHECKOUT, actors, environment
from training.checkpoints.state import load_checkpoint_state
from vlm_envs.records.run_data import RunReader

SETTINGS = {
    "num-iterations": "2",
    "num-groups": "2",
    "group-size": "2",
    "num-eval-episodes": "3",
    "num-val-episodes": "2",
    "checkpoint-every": "1",
    "num-threads": "1",
    "sampling.max-new-tokens": "6",
    "ppo.num-minibatches": "1",
    "algorithm.critic.num-minibatches": "1",
    "algorithm.critic.warmup-iterations": "0",
}
TIMES = ("elapsed_s", "rollout_s", "iteration_s", "tokens_per_s", "turns_per_s", "env_steps_per_s")


def training(output: Path, workers: str, **more: str) -> subprocess.Popen[str]:
    settings = SETTINGS | {"output": str(output), "name": workers, "worlds.0.workers": workers} | more
    words = (word for name, value in settings.items() for word in (f"--{name}", value))
    return subprocess.Popen(
        [sys.executable, "-m", "training", "frozenlake_tiny", *words],
        cwd=CHECKOUT,
        env=environment(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(run: Path) -> list[dict[str, object]]:
    return [{name: value for name, value in each.items() if name not in TIMES} for each in RunReader(run).metrics()]


def test_worlds_on_ray_train_the_model_that_worlds_in_this_process_do(tmp_path):
    told = {}
    for workers in ("serial", "ray"):
        told[workers], _ = (run := training(tmp_path, workers)).communicate(timeout=280)
        assert run.returncode == 0, told
    assert told["ray"] == told["serial"].replace("/serial/", "/ray/"), "Ray adds nothing to the console"
    serial, ray = (tmp_path / name / "latest" / "model" / "model.safetensors" for name in ("serial", "ray"))
    assert serial.read_bytes() == ray.read_bytes()
    assert lines(tmp_path / "serial") == lines(tmp_path / "ray")


def test_actors_that_are_killed_in_a_run_cost_their_groups_and_are_counted(tmp_path):
    run = training(tmp_path, "ray", **{"num-iterations": "6", "num-groups": "4", "eval-every": "0"})
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
