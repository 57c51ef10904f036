"""The page on worlds of one's own, from check to a trained model: its commands, as they stand there."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

CHECKOUT = Path(__file__).parents[2]
PAGE = CHECKOUT / "docs" / "own-world.md"

TINY = "--num-iterations 1 --num-groups 2 --group-size 2 --ppo.num-minibatches 1 --algorithm.critic.num-minibatches 1 "
TINY += "--eval-every 0 --algorithm.critic.warmup-iterations 0 --num-eval-episodes 2 "
TINY += "--num-val-episodes 2 --sampling.max-new-tokens 8 "
TINY += "--cold-start.num-steps 2 --cold-start.num-first-turn-steps 1 --cold-start.batch-size 2 --num-threads 1"
"""What is put behind the page's own options, so that it takes seconds."""


def commands(heading: str) -> str:
    """Returns the first block of commands under a heading of the page."""
    (section,) = re.findall(rf"^## {heading}\n(.*?)(?=^## |\Z)", PAGE.read_text(encoding="utf-8"), re.M | re.S)
    return re.search(r"```bash\n(.*?)```", section, re.S)[1]


def run_commands(script: str) -> str:
    environ = {**os.environ, "PYTHONPATH": str(CHECKOUT), "OMP_NUM_THREADS": "1"}
    shell = ["bash", "-euc", f'python() {{ "{sys.executable}" "$@"; }}\n{script}']
    result = subprocess.run(shell, capture_output=True, text=True, cwd=CHECKOUT, env=environ, timeout=280)
    assert result.returncode == 0, result.stderr
    return result.stdout


def test_the_check_of_the_page_passes():
    assert "0 skipped" in run_commands(commands("Check it"))


@pytest.mark.soak
def test_the_training_of_the_page_ends_in_a_model(tmp_path):
    script = commands("Train it").rstrip()
    assert script.splitlines()[1].startswith("python -m training own_world:Own/Bulbs-v0")
    told = run_commands(f"{script} {TINY} --output {tmp_path}")
    assert "Left out: --judge.grounding-weight" in told
    (directory,) = tmp_path.iterdir()
    assert f"Model:  {directory / 'latest' / 'model'}" in told
    assert (directory / "latest" / "model" / "model.safetensors").is_file()
    evaluations = [json.loads(line)["label"] for line in (directory / "evaluations.jsonl").read_text().splitlines()]
    assert (evaluations[0], evaluations[-1]) == ("before", "after")


@pytest.mark.soak
def test_a_new_package_trains(tmp_path):
    python = f"python -m training my_walk:Own/MyWalk-v0 --worlds.0.kwargs.prompt-format no_think {TINY}"
    told = run_commands(
        f"python -m vlm_envs new my_walk --folder {tmp_path}\n"
        f"export PYTHONPATH={tmp_path}/my_walk:$PYTHONPATH\n"
        f"{python} --num-iterations 2 --output {tmp_path}/runs\n"
    )
    assert f"PYTHONPATH={tmp_path}/my_walk python -m training my_walk:Own/MyWalk-v0" in told
    (directory,) = (tmp_path / "runs").iterdir()
    assert (directory / "latest" / "model" / "model.safetensors").is_file()
    assert "rl 2/2" in told
