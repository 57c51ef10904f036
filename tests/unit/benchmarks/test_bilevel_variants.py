"""Two variants compared: what is counted, what is refused, and that a finished run is not run again."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from benchmarks.__main__ import main
from benchmarks.bilevel_variants import RESULT, Comparison, Outcome, permutation_p_value, run_one, summary, table
from tests.unit.training.batches import NO_JUDGE
from training.recipes.shipped import RECIPES


def outcome(variant: str, seed: int, num_successes: int) -> Outcome:
    return Outcome(
        variant=variant,
        seed=seed,
        num_iterations=2,
        num_successes=num_successes,
        num_episodes=10,
        training_success=0.5,
        explained_variance=None,
        s_per_iteration=3.0,
    )


@pytest.mark.parametrize(
    ("differences", "p_value"),
    [
        ([0.1] * 5, 2 / 32),  # all one way: only all swapped is as far
        ([0.1, 0.2, -0.1], 6 / 8),  # |0.2| is reached or passed by all but +0.1 -0.2 +0.1 = 0 and its mirror
        ([0.0, 0.0], 1.0),
        ([0.3], 1.0),
    ],
)
def test_p_values_count_the_ways_to_swap(differences, p_value):
    assert permutation_p_value(differences) == pytest.approx(p_value)


def test_seeds_are_paired_and_pooled():
    outcomes = [outcome("paper", 0, 8), outcome("paper", 1, 6), outcome("released", 1, 5), outcome("released", 0, 5)]
    summed = summary(outcomes)
    assert summed["difference"]["by_seed"] == pytest.approx([0.3, 0.1])
    assert summed["difference"]["mean"] == pytest.approx(0.2)
    assert summed["difference"]["p_value"] == 0.5
    assert (summed["paper"]["num_successes"], summed["paper"]["num_episodes"]) == (14, 20)
    # Wilson, z = 1.959964: centre (0.7 + z^2 / 40) / (1 + z^2 / 20) = 0.66778, margin 0.18675
    assert summed["paper"]["success_low"] == pytest.approx(0.48103, abs=1e-5)
    assert summed["paper"]["success_high"] == pytest.approx(0.85452, abs=1e-5)
    assert summed["paper"]["std_over_seeds"] == pytest.approx(0.2 / 2**0.5)
    lines = table(outcomes, summed)
    assert lines[-1] == "paper - released: +0.200, permutation test over seeds p = 0.500"
    assert [line.split()[2] for line in lines[1:7]] == ["0.800", "0.600", "0.500", "0.500", "0.700", "0.500"]
    with pytest.raises(ValueError, match="each seed under both variants"):
        summary(outcomes[:-1])


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (["--recipe", "frozenlake_tin"], "Did you mean 'frozenlake_tiny'"),
        (["--seeds", "1", "1"], "seeds must differ"),
        (["--num-at-once", "0"], "at least 1"),
    ],
)
def test_mistakes_are_told_before_the_first_run(arguments, said, tmp_path, capsys):
    assert main(["bilevel_variants", "--output", str(tmp_path), *arguments]) == 2
    assert said in capsys.readouterr().err
    assert not list(tmp_path.iterdir())


def test_variants_differ_in_nothing_but_the_variant():
    paper, released = (Comparison().config(variant, 3) for variant in ("paper", "released"))
    assert (paper.algorithm.variant, released.algorithm.variant) == ("paper", "released")
    assert replace(paper, name="one", algorithm=released.algorithm) == replace(released, name="one")
    assert (paper.seed, paper.num_threads, paper.num_eval_episodes) == (3, 1, 0), "test levels are not looked at"
    assert paper.num_iterations == RECIPES["frozenlake_tiny"]().num_iterations


@pytest.mark.soak
def test_a_finished_run_is_read_and_not_run_again(tiny_directory, tmp_path, monkeypatch):
    recipe = RECIPES["frozenlake_tiny"]()
    small = replace(
        recipe,
        model=str(tiny_directory),
        num_groups=2,
        group_size=2,
        judge=NO_JUDGE,
        sampling=replace(recipe.sampling, max_new_tokens=4),
        algorithm=recipe.algorithm.with_critic(num_minibatches=1, warmup_iterations=0),
        ppo=replace(recipe.ppo, num_minibatches=1),
    )
    monkeypatch.setitem(RECIPES, "frozenlake_tiny", lambda: small)
    comparison = Comparison(output=str(tmp_path), num_iterations=1, num_val_episodes=3)
    first = run_one(comparison, "paper", 4)
    assert (first.variant, first.seed, first.num_iterations, first.num_episodes) == ("paper", 4, 1, 3)
    path = tmp_path / "paper-4" / RESULT
    assert Outcome(**json.loads(path.read_text())) == first
    path.write_text(json.dumps({**vars(first), "num_successes": 2}))
    assert run_one(comparison, "paper", 4).num_successes == 2, "from the file"
    again = run_one(replace(comparison, num_val_episodes=5), "paper", 4)
    assert again.num_episodes == 5, "more levels are played by the same weights"
    assert again.s_per_iteration == first.s_per_iteration
