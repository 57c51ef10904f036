"""Runs of two training processes that vLLM samples for."""

import json
import re
import sys
from dataclasses import replace
from pathlib import Path

from agents.vllm.vllm_config import VLLMConfig
from agents.vllm.vllm_engine import LocalEngine
from tests.unit.training.engines.several_processes import launched
from tests.vllm.server import CHECKPOINT
from training.recipes.tiny import frozenlake_tiny
from training.stages.stages_config import STAGE_BEFORE, Stage, StagesConfig

NEAR = 1e-5
"""Of sampler and trainer, in the mean over a mini-batch."""


def options(output, *more, num_iterations=2, resume=False):
    settings = {
        "name": "two",
        "output": str(output),
        "num-iterations": str(num_iterations),
        "num-groups": "3",
        "group-size": "2",
        "num-eval-episodes": "5",
        "num-val-episodes": "0",
        "checkpoint-every": "0",
        "num-threads": "1",
        "sampling.max-context-tokens": "2048",
        "ppo.num-minibatches": "2",
        "algorithm.critic.num-minibatches": "1",
        "algorithm.critic.warmup-iterations": "0",
        "worlds.0.workers": "serial",
    }
    kept = {"name", "output", "num-iterations"}
    settings = {name: value for name, value in settings.items() if not resume or name in kept}
    told = ["--resume"] if resume else ["--model", str(CHECKPOINT), "--sampler", "vllm"]
    return ["frozenlake_tiny", *told, *(word for name in settings for word in (f"--{name}", settings[name])), *more]


def ended(processes, timeout_s=400):
    told = [process.communicate(timeout=timeout_s)[0] for process in processes]
    return [process.returncode for process in processes], told


def trained(output, *more, **settings):
    """Returns the metrics of each iteration of a run of two processes."""
    codes, told = ended(launched(2, *options(output, *more, **settings), module="training"))
    assert codes == [0, 0] and not any("Traceback" in each for each in told), "\n\n".join(each[-3000:] for each in told)
    return metrics(output)


def metrics(output, run="two"):
    path = output / run / "metrics.jsonl"
    lines = [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []
    return [line for line in lines if line["phase"] == "rl"]


def require_sampled(rows, output, num_iterations=2):
    """Asserts that all was played, with the weights that the trainer had."""
    assert [row["iteration"] for row in rows] == [*range(num_iterations)]
    gaps = [row["sampler_gap"] for row in rows if "sampler_gap" in row]
    print("gaps", gaps)
    assert gaps and all(gap < NEAR for gap in gaps)  # a start as sure as this one has gaps of exactly 0, too
    assert all(row["lost_episodes"] == 0 for row in rows)
    evaluations = [json.loads(line) for line in (output / "two" / "evaluations.jsonl").read_text().splitlines()]
    assert [line["label"] for line in evaluations] == ["before", "after"]


def memory_told_at_each_end():
    """Has this process say how much memory it has, in MiB, whenever it lets go of a vLLM of its own."""
    close = LocalEngine.close

    def told(engine):
        close(engine)
        status = Path("/proc/self/status").read_text()
        print("memory", int(re.search(r"VmRSS:\s+(\d+)", status)[1]) // 1024, file=sys.stderr, flush=True)

    LocalEngine.close = told


def two_stages() -> StagesConfig:
    """Two stages of reinforcement learning, each with a vLLM in its process."""
    memory_told_at_each_end()
    config = frozenlake_tiny()
    critic = replace(config.algorithm.critic, num_minibatches=1, warmup_iterations=0)
    run = replace(
        config,
        worlds=tuple(replace(world, workers="serial") for world in config.worlds),
        num_iterations=2,
        num_groups=3,
        group_size=2,
        num_eval_episodes=0,
        num_val_episodes=0,
        eval_every=0,
        checkpoint_every=0,
        record_every=0,
        num_threads=1,
        sampler="vllm",
        vllm=VLLMConfig(memory_fraction=0.1),
        sampling=replace(config.sampling, max_context_tokens=2048),
        algorithm=replace(config.algorithm, critic=critic),
        ppo=replace(config.ppo, num_minibatches=2),
    )
    stages = (Stage(name="first", run=run), Stage(name="second", run=replace(run, model=STAGE_BEFORE)))
    return StagesConfig(name="two", stages=stages)
