"""Two iterations of the tiny recipe with each algorithm that needs no critic, through the command line."""

from __future__ import annotations

import json
import math

import pytest

from tests.unit.slow import quick
from training.__main__ import main
from training.algorithms.shipped import SHIPPED

CRITICLESS = [name for name, kind in SHIPPED.items() if kind().critic_config is None]
COMPARING = [name for name in CRITICLESS if SHIPPED[name]().min_group_size > 1]


@pytest.mark.parametrize("name", quick(CRITICLESS, "dapo", "gspo"))
def test_it_trains_by_its_name_alone(name, tiny_directory, tmp_path, capsys):
    words = ["frozenlake_tiny", "--algorithm", name, "--output", str(tmp_path), "--name", "run"]
    words += ["--model", str(tiny_directory), "--num-groups", "4", "--group-size", "2", "--num-eval-episodes", "0"]
    words += ["--sampling.max-new-tokens", "6", "--num-iterations", "2", "--num-threads", "1"]
    assert main(words) == 0
    assert "critic" not in capsys.readouterr().out
    config = json.loads((tmp_path / "run" / "config.json").read_text())
    assert (config["algorithm"]["class"], config["trained_with"]) == (name, SHIPPED[name].title)
    lines = [json.loads(line) for line in (tmp_path / "run" / "metrics.jsonl").read_text().splitlines()]
    assert [(line["iteration"], line["skipped_steps"]) for line in lines] == [(0, 0), (1, 0)]
    assert all(math.isfinite(line["policy_loss"]) for line in lines if "policy_loss" in line)


@pytest.mark.parametrize("name", COMPARING)
def test_too_few_siblings_are_refused_in_one_line(name, tmp_path, capsys):
    assert main(["frozenlake_tiny", "--algorithm", name, "--group-size", "1", "--output", str(tmp_path)]) == 2
    said = capsys.readouterr().err.strip()
    assert f"--algorithm {name} compares the episodes of a group, and --group-size 1 is too small" in " ".join(
        said.split()
    )
    assert not any(tmp_path.iterdir())
