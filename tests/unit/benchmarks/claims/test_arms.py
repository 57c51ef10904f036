"""The three arms of a claim, in a few steps."""

from __future__ import annotations

import shutil
from dataclasses import replace

import pytest
import torch

from agents.hf.sampling import SamplingConfig
from benchmarks.claims.arms import IMITATION_RATES, Arm, Arms, Measuring, Point
from benchmarks.claims.claim import Claim
from training.algorithms.grpo import GRPO
from training.checkpoints.reference import weights_hash
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError

MEASURING = Measuring(num_points=2, num_val_episodes=2, num_test_episodes=3)


@pytest.fixture
def claim(monkeypatch):
    recipe = RECIPES["frozenlake_tiny"]()
    short = replace(
        recipe,
        num_iterations=2,
        num_groups=2,
        group_size=2,
        algorithm=GRPO(),
        sampling=SamplingConfig(max_new_tokens=6),
        cold_start=replace(recipe.cold_start, batch_size=2, num_first_turn_steps=1),
        ppo=replace(recipe.ppo, num_minibatches=1),
    )
    monkeypatch.setitem(RECIPES, "short", lambda: short)
    before = torch.get_num_threads()
    yield Claim(title="a short one", recipe="short", num_steps=4, num_demonstrations=3)
    torch.set_num_threads(before)


@pytest.fixture
def arms(claim, tmp_path):
    said = []
    return Arms(
        name="short", claim=claim, runs=tmp_path / "runs", results=tmp_path, measuring=MEASURING, say=said.append
    )


def test_a_claim_may_be_shorter_than_its_recipe(claim):
    assert claim.config(seed=1).num_iterations == 2
    assert replace(claim, num_iterations=1).config(seed=1).num_iterations == 1


def results(arms, seed, *kinds):
    return [Arm.load(arms.results / f"short-{seed}-{kind}.json") for kind in kinds]


def test_both_arms_go_on_from_one_start_with_the_same_compute(arms, monkeypatch):
    arms.prepare()
    arms.run(1)
    expert, start = results(arms, 0, "expert", "start")
    imitation, learnt = results(arms, 1, "imitation", "rl")
    assert expert.solved == [True] * 3, "it is optimal"
    assert [point.step for point in start.curve] == [2, 4]
    assert [point.step for point in learnt.curve] == [0, 1, 2]
    assert imitation.curve[0] == learnt.curve[0], "one start"
    told = imitation.made_by["cold_start"]
    assert imitation.curve[-1].step == told["num_steps"] and told["num_demonstrations"] == 3
    assert told["learning_rate"] in IMITATION_RATES
    assert 0.3 < imitation.cpu_s / learnt.cpu_s < 3
    assert start.start == imitation.start == learnt.start == weights_hash(arms.start)
    assert start.levels == imitation.levels == learnt.levels == expert.levels and len(expert.levels) == 3
    for each in (start, imitation, learnt):
        assert len(each.solved) == 3
        assert each.best.success == max(point.success for point in each.curve)


def test_the_better_rate_of_imitation_counts(arms, monkeypatch):
    arms.prepare()
    tried = []

    def imitate(stage, model, encoder, config, imitation, num_points):
        tried.append(imitation.learning_rate)
        stage.arm.best = Point(cpu_s=1.0, step=1, success=imitation.learning_rate)

    monkeypatch.setattr("benchmarks.claims.arms.imitate", imitate)
    assert arms._imitate(1, 0.1).made_by["cold_start"]["learning_rate"] == max(IMITATION_RATES)
    assert tried == [*IMITATION_RATES]


def test_arms_of_another_start_are_not_put_beside_those_of_this_one(arms):
    arms.prepare()
    (start,) = results(arms, 0, "start")
    replace(start, kind="rl", seed=1, start="other").save(arms.results / "short-1-rl.json")
    for start_is_gone in (False, True):
        if start_is_gone:
            shutil.rmtree(arms.start)
        with pytest.raises(ConfigError, match=r"short-1-rl\.json went on from another start.*--results"):
            arms.prepare()
        assert results(arms, 0, "start") == [start], "it is as it was"


def test_nothing_is_prepared_where_all_is_there(arms):
    assert arms.lacks([1])
    for seed, kinds in {0: ("expert", "start"), 1: ("rl", "imitation")}.items():
        for kind in kinds:
            Arm(kind=kind, claim="short", seed=seed).save(arms.results / f"short-{seed}-{kind}.json")
    assert not arms.lacks([1]) and arms.lacks([1, 2])


@pytest.mark.soak
def test_what_is_there_is_not_made_again_and_a_lost_start_is(arms, monkeypatch):
    arms.prepare()
    arms.run(1)
    monkeypatch.setattr(Arms, "_reinforce", lambda *_: pytest.fail("it is there"))
    arms.run(1)
    (made,) = results(arms, 0, "start")
    shutil.rmtree(arms.start)
    arms.prepare()
    (again,) = results(arms, 0, "start")
    assert [point.success for point in again.curve] == [point.success for point in made.curve]
    assert (arms.start / "config.json").is_file()
