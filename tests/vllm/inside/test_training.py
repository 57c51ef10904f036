"""`frozenlake_tiny` with `--sampler vllm` ends where it ends without. Run in .venv-vllm, by `make test-vllm`.

The two draw from other generators, so no number of a short run is the same. What has to be: the gap of sampler and
trainer is that of floating-point numbers in every iteration; and after a few both solve as many levels, within
what 256 of them can tell (their 95 % intervals overlap), and more than the cold start does.
"""

import json
from dataclasses import replace

import pytest

from agents.vllm.vllm_config import VLLMConfig
from training.recipes.tiny import frozenlake_tiny
from training.run import train

NUM_ITERATIONS = 6
NEAR = 1e-5
"""Of the mean over a mini-batch."""


def trained(tmp_path, name, **changes):
    """Returns the metrics of each iteration, and the evaluations before and after."""
    config = replace(
        frozenlake_tiny(), name=name, output=str(tmp_path), num_iterations=NUM_ITERATIONS, record_every=0, **changes
    )
    directory = train(config)
    lines = [json.loads(line) for line in (directory / "metrics.jsonl").read_text().splitlines()]
    evaluations = [json.loads(line) for line in (directory / "evaluations.jsonl").read_text().splitlines()]
    return [line for line in lines if line["phase"] == "rl"], {each["label"]: each for each in evaluations}


@pytest.mark.timeout(3000)
def test_it_ends_where_it_ends_without(tmp_path):
    sampled, evaluated = trained(tmp_path, "vllm", sampler="vllm", vllm=VLLMConfig(memory_fraction=0.1))
    _, known = trained(tmp_path, "transformers")
    gaps = [line["sampler_gap"] for line in sampled if "sampler_gap" in line]
    assert gaps and all(gap < NEAR for gap in gaps)
    assert all(line["lost_episodes"] == 0 for line in sampled)
    for label in ("before", "after"):
        ours, theirs = evaluated[label], known[label]
        print(label, ours["success"], theirs["success"])
        assert ours["success_low"] <= theirs["success_high"] and theirs["success_low"] <= ours["success_high"]
    assert evaluated["after"]["success"] > evaluated["before"]["success"]
