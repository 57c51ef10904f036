"""The three arms of a claim, in a few steps."""

from __future__ import annotations

import shutil
from dataclasses import replace
from types import SimpleNamespace

import pytest
import torch

from agents.hf.sampling_config import SamplingConfig
from agents.registry import make_agent
from benchmarks.claims.arm import Arm, Point
from benchmarks.claims.arms import (
    IMITATION_RATES,
    MORE_STEPS,
    Arms,
    Measuring,
    Stage,
    record_test,
    seconds_per_step,
)
from benchmarks.claims.claim import Claim
from training.algorithms.grpo import GRPO
from training.checkpoints.checkpoint_files import weights_hash
from training.cold_start.cold_start_loop import untaught
from training.loop.evaluation import evaluate
from training.recipes.shipped import RECIPES
from vlm_envs.errors import ConfigError

MEASURING = Measuring(num_points=2, num_val_episodes=2, num_test_episodes=3)


@pytest.fixture(autouse=True)
def own_threads():
    """Gives torch its threads back."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module")
def claim():
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
    with pytest.MonkeyPatch.context() as monkeypatch:
        monkeypatch.setitem(RECIPES, "short", lambda: short)
        yield Claim(title="a short one", recipe="short", num_steps=4, num_demonstrations=3)


def arms_in(folder, claim):
    return Arms(
        name="short", claim=claim, runs=folder / "runs", results=folder, measuring=MEASURING, say=lambda told: None
    )


@pytest.fixture
def arms(claim, tmp_path):
    return arms_in(tmp_path, claim)


@pytest.fixture(scope="module")
def start(claim, tmp_path_factory):
    """Returns a folder in which the arms were prepared."""
    folder = tmp_path_factory.mktemp("prepared")
    arms_in(folder, claim).prepare()
    return folder


@pytest.fixture
def prepared(arms, start, tmp_path):
    """Returns arms that were prepared, in a folder of their own."""
    shutil.copytree(start, tmp_path, dirs_exist_ok=True)
    return arms


def test_a_claim_may_be_shorter_than_its_recipe(claim):
    assert claim.config(seed=1).num_iterations == 2
    assert replace(claim, num_iterations=1).config(seed=1).num_iterations == 1


def results(arms, seed, *kinds):
    return [Arm.load(arms.results / f"short-{seed}-{kind}.json") for kind in kinds]


@pytest.mark.soak
def test_both_arms_go_on_from_one_start_with_the_same_compute(arms, monkeypatch):
    """A step and an iteration take a second each by this clock, and validations take hours that do not count."""
    seconds = [0.0]

    def a_second_later():
        seconds.append(seconds[-1] + 1.0)
        return seconds[-1]

    def hours_later(*args, **kwargs):
        seconds.append(seconds[-1] + 10_000.0)
        return evaluate(*args, **kwargs)

    monkeypatch.setattr("benchmarks.claims.arms.evaluate", hours_later)
    monkeypatch.setattr("benchmarks.claims.arms.time", SimpleNamespace(process_time=a_second_later))
    arms.prepare()
    arms.run(1)
    expert, start = results(arms, 0, "expert", "start")
    imitation, learnt = results(arms, 1, "imitation", "rl")
    assert expert.solved == [True] * 3 and expert.curve[0].success == 1.0, "it is optimal"
    assert all("commit" in each.made_by for each in (expert, start, imitation, learnt))
    assert [point.step for point in start.curve] == [2, 4]
    assert [point.step for point in learnt.curve] == [0, 1, 2]
    assert imitation.curve[0] == learnt.curve[0], "one start"
    told = imitation.made_by["cold_start"]
    assert imitation.curve[-1].step == told["num_steps"] and told["num_demonstrations"] == 3
    assert told["learning_rate"] in IMITATION_RATES
    assert (start.cpu_s, learnt.cpu_s, imitation.cpu_s) == (4.0, 2.0, told["num_steps"])
    assert told["num_steps"] == round(2 * MORE_STEPS) == 2
    assert [point.cpu_s for point in learnt.curve] == [0.0, 1.0, 2.0]
    assert start.start == imitation.start == learnt.start == weights_hash(arms.start)
    assert start.levels == imitation.levels == learnt.levels == expert.levels and len(expert.levels) == 3
    for each in (start, imitation, learnt):
        assert len(each.solved) == 3
        assert each.best.success == max(point.success for point in each.curve)


def test_the_best_on_validation_levels_plays_the_test_levels_and_the_first_of_equals_is_the_best(claim, monkeypatch):
    solved, played = iter([1, 3, 3, 2, 4, 1]), []

    def scripted(temperature, spec, *, split, num_episodes):
        played.append((split, num_episodes, weight.item(), temperature))
        num_solved = next(solved)
        episodes = [SimpleNamespace(success=place < num_solved, start_state_hash="a") for place in range(4)]
        return SimpleNamespace(trajectories=episodes, record=lambda: {"format_rate": 1.0})

    monkeypatch.setattr("benchmarks.claims.arms.evaluate", scripted)
    made = lambda *_, sampling, **__: sampling.temperature  # noqa: E731
    monkeypatch.setattr("benchmarks.claims.arms.make_agent", made)
    model = torch.nn.Linear(1, 1, bias=False)
    weight = model.weight
    stage = Stage(Arm(kind="rl", claim="short", seed=1), claim.config(seed=1), MEASURING, lambda _: None)
    for step in range(4):
        torch.nn.init.constant_(weight, step)
        stage.validate(model, None, step=step)
    assert [point.success for point in stage.arm.curve] == [0.25, 0.75, 0.75, 0.5]
    assert (stage.arm.best.step, stage.best_success) == (1, 0.75)
    stage.test(model, None)
    assert played[:4] == [("val", 2, float(step), 1.0) for step in range(4)]
    assert played[4:] == [("test", 3, 1.0, 1.0), ("test", 3, 1.0, 0.0)], "drawn, and greedily"
    assert stage.arm.solved == [True] * 4 and stage.arm.greedy == [True] + [False] * 3


@pytest.mark.soak
def test_imitation_has_the_time_of_reinforcement_learning_at_each_rate(prepared, monkeypatch):
    given = []

    def imitate(stage, model, encoder, config, imitation, num_points):
        given.append(imitation.num_steps)

    learnt = Arm(kind="rl", claim="short", seed=1, cpu_s=50.0)
    monkeypatch.setattr(Arms, "_reinforce", lambda arms, seed: replace(learnt, seed=seed))
    monkeypatch.setattr("benchmarks.claims.arms.imitate", imitate)
    monkeypatch.setattr("benchmarks.claims.arms.seconds_per_step", lambda *_: 0.25)
    prepared.run(1)
    assert given == [round(200 * MORE_STEPS)] * len(IMITATION_RATES)


@pytest.mark.soak
def test_more_imitation_shows_whole_episodes_however_few_its_steps(prepared, claim, monkeypatch):
    """The start has seen first turns first, for more steps than more imitation has in all."""
    given = []

    def imitate(stage, model, encoder, config, imitation, num_points):
        given.append((imitation.num_steps, imitation.num_first_turn_steps))

    monkeypatch.setattr("benchmarks.claims.arms.imitate", imitate)
    monkeypatch.setattr("benchmarks.claims.arms.seconds_per_step", lambda *_: 0.25)
    claim = replace(claim, num_first_turn_steps=4)
    assert claim.config(seed=1).cold_start.num_first_turn_steps == 4
    replace(prepared, claim=claim)._imitate(1, 0.5)
    assert given == [(2, 0)] * len(IMITATION_RATES)


@pytest.mark.soak
def test_the_better_rate_of_imitation_counts(prepared, monkeypatch):
    tried = []

    def imitate(stage, model, encoder, config, imitation, num_points):
        tried.append(imitation.learning_rate)
        stage.arm.best = Point(cpu_s=1.0, step=1, success=worth[imitation.learning_rate])

    monkeypatch.setattr("benchmarks.claims.arms.imitate", imitate)
    monkeypatch.setattr("benchmarks.claims.arms.seconds_per_step", lambda *_: 0.25)
    for better, other in (IMITATION_RATES, IMITATION_RATES[::-1]):
        tried.clear()
        worth = {better: 0.75, other: 0.5}
        arm = prepared._imitate(1, 0.1)
        assert arm.made_by["cold_start"]["learning_rate"] == better and tried == [*IMITATION_RATES]
        (rejected,) = arm.rejected
        assert rejected["learning_rate"] == other and len(rejected["curve"]) == 1, "its first validation"


def test_imitation_is_timed_on_its_own_episodes(arms, monkeypatch):
    timed = []
    monkeypatch.setattr("benchmarks.claims.arms.imitate", lambda *_: None)
    monkeypatch.setattr(
        "benchmarks.claims.arms.cold_start",
        lambda model, encoder, worlds, config, *, on_step: (timed.append(config), on_step(0, {})),
    )
    model, encoder = untaught(arms.claim.config(seed=1))
    config = arms.claim.config(seed=1)
    seconds_per_step(model, encoder, config, config.cold_start)
    assert [each.num_demonstrations for each in timed] == [3]


def test_a_suboptimal_expert_plays_as_it_is_imitated_and_each_split_as_if_it_were_the_first(arms, claim):
    claim, measuring = replace(claim, suboptimal_rate=0.5), Measuring(num_val_episodes=20, num_test_episodes=30)
    world = claim.config(seed=0).worlds[0]
    played = {
        split: evaluate(make_agent("oracle", suboptimal_rate=0.5), world, split=split, num_episodes=number)
        for split, number in (("test", 30), ("val", 20))
    }
    expert = replace(arms, claim=claim, measuring=measuring)._play_expert()
    assert expert.solved == [each.success for each in played["test"].trajectories]
    assert expert.curve == [Point(cpu_s=0.0, step=0, success=played["val"].success)]
    assert 0 < sum(expert.solved) < 30 and 0 < expert.curve[0].success < 1


def test_a_level_is_told_by_its_start():
    config = RECIPES["frozenlake_tiny"]()
    played = evaluate(make_agent("oracle"), config.worlds[0], split="test", num_episodes=12)
    arm = Arm(kind="expert", claim="short", seed=0)
    record_test(arm, played)
    assert arm.levels == [each.start_state_hash[:8] for each in played.trajectories]


def test_arms_of_another_start_are_not_put_beside_those_of_this_one(prepared):
    (start,) = results(prepared, 0, "start")
    other = prepared.results / "short-1-rl.json"
    for hash_, told in (("other", "went on from another start than"), ("", "does not say whether")):
        replace(start, kind="rl", seed=1, start=hash_).save(other)
        with pytest.raises(ConfigError, match=rf"short-1-rl\.json {told}.*--results"):
            prepared.prepare()
        assert results(prepared, 0, "start") == [start], "it is as it was"


def test_a_start_that_is_gone_is_not_made_anew_for_arms_that_went_on_from_it(prepared, monkeypatch):
    (start,) = results(prepared, 0, "start")
    replace(start, kind="rl", seed=1).save(prepared.results / "short-1-rl.json")
    shutil.rmtree(prepared.start)
    monkeypatch.setattr(Arms, "_make_start", lambda *_: pytest.fail("it takes an hour"))
    with pytest.raises(ConfigError, match=r"start is gone, from which .*short-1-rl\.json went on"):
        prepared.prepare()


def test_a_start_that_is_kept_beside_the_results_is_gone_on_from(prepared, monkeypatch):
    (start,) = results(prepared, 0, "start")
    replace(start, kind="rl", seed=1).save(prepared.results / "short-1-rl.json")
    shutil.move(prepared.start, prepared.kept_start)
    monkeypatch.setattr(Arms, "_make_start", lambda *_: pytest.fail("it takes an hour"))
    prepared.prepare()
    assert weights_hash(prepared.start) == start.start


@pytest.mark.soak
def test_a_start_that_was_not_tested_is_tested_as_it_is(prepared, monkeypatch):
    (start,) = results(prepared, 0, "start")
    (prepared.results / "short-0-start.json").unlink()
    monkeypatch.setattr(Arms, "_make_start", lambda *_: pytest.fail("it is there"))
    prepared.prepare()
    (again,) = results(prepared, 0, "start")
    assert again.start == start.start == weights_hash(prepared.start) and again.levels == start.levels


def test_nothing_is_prepared_where_all_is_there(arms):
    assert arms.is_incomplete([1])
    for seed, kinds in {0: ("expert", "start"), 1: ("rl", "imitation")}.items():
        for kind in kinds:
            Arm(kind=kind, claim="short", seed=seed).save(arms.results / f"short-{seed}-{kind}.json")
    assert not arms.is_incomplete([1]) and arms.is_incomplete([1, 2])


@pytest.mark.soak
def test_what_is_there_is_not_made_again_and_a_lost_start_is(arms, monkeypatch):
    arms.prepare()
    arms.run(1)
    with monkeypatch.context() as patched:
        patched.setattr(Arms, "_reinforce", lambda *_: pytest.fail("it is there"))
        arms.run(1)
    (made,) = results(arms, 0, "start")
    for kind in ("rl", "imitation"):
        (arms.results / f"short-1-{kind}.json").unlink()
    shutil.rmtree(arms.start)
    arms.prepare()
    (again,) = results(arms, 0, "start")
    assert [point.success for point in again.curve] == [point.success for point in made.curve]
    assert again.start == made.start, "it comes to the same on one machine"
