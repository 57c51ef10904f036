"""Suggestions are made for names that are alike, not for what many names share."""

import pytest

from vlm_envs.validation import did_you_mean


@pytest.mark.parametrize(
    ("name", "known", "meant"),
    [
        ("--nonsense", ["--seed", "--name"], None),
        ("Nope-v0", ["Hopper-v5", "CartPole-v1"], None),
        ("VLM/Nope-v0", ["VLM/SVG-v0", "VLM/DocQA-v0"], None),
        ("--cold-start.foo", ["--cold-start.data", "--cold-start.num-steps"], None),
        ("--max-turns", ["--algorithm.gamma-turn"], None),
        ("--num-itertions", ["--num-iterations", "--seed"], "--num-iterations"),
        ("--algorithm.gama-turn", ["--algorithm.gamma-turn"], "--algorithm.gamma-turn"),
        ("CartPol-v1", ["CartPole-v0", "CartPole-v1"], "CartPole-v1"),
        ("Sokoban", ["VLM/Sokoban-v0", "VLM/SVG-v0"], "VLM/Sokoban-v0"),
        ("amr", ["mm_ifengine", "arm"], "arm"),
    ],
)
def test_only_names_that_are_alike_are_suggested(name, known, meant):
    assert did_you_mean(name, known) == (f" Did you mean {meant!r}?" if meant else "")
