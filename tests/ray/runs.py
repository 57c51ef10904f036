"""Short training runs as programs, and what they logged."""

import os
import subprocess
import sys
from pathlib import Path

from tests.ray.processes import CHECKOUT, environment
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


def training(output: Path, name: str, *flags: str, paths: tuple[Path, ...] = (), **more: str) -> subprocess.Popen[str]:
    """Starts a run of a few episodes; its modules may lie at these paths, too."""
    settings = SETTINGS | {"output": str(output), "name": name} | more
    words = (word for name, value in settings.items() for word in (f"--{name}", value))
    return subprocess.Popen(
        [sys.executable, "-m", "training", "frozenlake_tiny", *flags, *words],
        cwd=CHECKOUT,
        env=environment(PYTHONPATH=os.pathsep.join(map(str, (CHECKOUT, *paths)))),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
    )


def lines(run: Path) -> list[dict[str, object]]:
    """Returns what a run has logged, but for times."""
    return [{name: value for name, value in each.items() if name not in TIMES} for each in RunReader(run).metrics()]
