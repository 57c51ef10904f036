"""A run that is killed again and again, its cold start included, comes to what one comes to that nobody stopped."""

from __future__ import annotations

import signal
import subprocess
import sys
from pathlib import Path

from tests.unit.training.test_run import differing
from training.__main__ import main
from training.checkpoints.checkpoint_files import COLD_START_STATE, is_in_cold_start
from training.checkpoints.checkpoint_state import load_checkpoint_state, load_cold_start_state
from vlm_envs.records.run_data import RunReader

CHECKOUT = Path(__file__).parents[2]

KILLED_AT = """
import importlib, os, signal, sys
from training.__main__ import main
where, number = sys.argv[1].rsplit(":", 1)
module, _, path = where.partition(":")
owner = importlib.import_module(module)
*parts, name = path.split(".")
for part in parts:
    owner = getattr(owner, part)
real, calls = getattr(owner, name), []
def kill(*args, **kwargs):
    calls.append(name)
    if len(calls) == int(number):
        if name == "save":
            with open(args[1], "wb") as file:
                file.write(b"half a file")
        os.kill(os.getpid(), signal.SIGKILL)
    return real(*args, **kwargs)
setattr(owner, name, kill)
sys.exit(main(sys.argv[2:]))
"""
MOMENTS = (
    "training.cold_start.cold_start_loop:make_batch:4",  # in the cold start's fourth step, two behind its checkpoint
    "torch:save:1",  # while a checkpoint of the cold start is written
    "training.cold_start.cold_start_loop:evaluate:1",  # in its validation
    "training.loop.collect:try_rollouts:2",  # in the second rollout
    "training.update.learner:Learner._critic_step:2",  # in an update
    "training.checkpoints.checkpoint_state:torch.save:1",  # while a checkpoint is written
)
NOT_COMPARED = ("elapsed_s", "rollout_s", "iteration_s", "tokens_per_s", "turns_per_s", "env_steps_per_s")


def command(name: str, output: Path) -> list[str]:
    settings = {
        "--name": name,
        "--model": "None",
        "--output": str(output),
        "--cold-start.num-steps": "7",
        "--cold-start.num-first-turn-steps": "2",
        "--cold-start.suboptimal-rate": "0.5",
        "--cold-start.mistake-rate": "0.3",
        "--cold-start.batch-size": "2",
        "--cold-start.checkpoint-every": "2",
        "--num-iterations": "2",
        "--num-groups": "2",
        "--group-size": "2",
        "--num-eval-episodes": "2",
        "--num-val-episodes": "2",
        "--checkpoint-every": "1",
        "--num-threads": "1",
        "--sampling.max-new-tokens": "6",
        "--ppo.num-minibatches": "1",
        "--algorithm.critic.num-minibatches": "2",
        "--algorithm.critic.warmup-iterations": "0",
        "--worlds.0.workers": "serial",
    }
    return ["frozenlake_tiny", *(word for pair in settings.items() for word in pair)]


def lines_of(directory: Path) -> list[dict[str, object]]:
    lines = RunReader(directory).metrics()
    return [{name: value for name, value in line.items() if name not in NOT_COMPARED} for line in lines]


def test_a_run_that_is_killed_anywhere_comes_to_the_same(tmp_path, monkeypatch):
    monkeypatch.setattr("training.run.build_report", lambda directory: directory / "report.html")
    assert main(command("straight", tmp_path)) == 0
    killed, words = tmp_path / "killed", command("killed", tmp_path)
    reached = []
    for moment in MOMENTS:
        resume = ["--resume"] if reached else []
        child = subprocess.run(
            [sys.executable, "-c", KILLED_AT, moment, *words, *resume],
            cwd=CHECKOUT,
            capture_output=True,
            text=True,
            timeout=120,
        )
        assert child.returncode == -signal.SIGKILL, (moment, child.stdout, child.stderr)
        state = load_cold_start_state(killed)
        assert state is not None
        is_later = not is_in_cold_start(killed)
        reached.append(
            load_checkpoint_state(killed / "latest")["iteration"] if is_later else f"step {state['num_done']}"
        )
    assert reached == ["step 2", "step 2", "step 7", 1, 1, 1]
    assert main([*words, "--resume"]) == 0
    states = [load_checkpoint_state(tmp_path / name / "latest") for name in ("straight", "killed")]
    assert differing(*states) == []
    models = [tmp_path / name / "latest" / "model" / "model.safetensors" for name in ("straight", "killed")]
    assert models[0].read_bytes() == models[1].read_bytes()
    first, second = lines_of(tmp_path / "straight"), lines_of(killed)
    assert [line["phase"] for line in first] == ["cold_start"] * 7 + ["rl"] * 2
    assert first == second
    assert not (killed / COLD_START_STATE).exists(), "nobody needs it any more"
