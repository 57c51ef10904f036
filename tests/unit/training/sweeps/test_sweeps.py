"""A paper's tables as one command."""

from __future__ import annotations

import json
import shutil
from concurrent.futures import Future
from dataclasses import replace
from pathlib import Path

import pytest

from agents.hf.sampling_config import SamplingConfig
from tests.unit.training.batches import run_config
from training.__main__ import main
from training.algorithms.grpo import GRPO
from training.algorithms.token_gae import TokenGAE
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.sweep import SweepConfig
from training.config.world_spec import WorldSpec
from training.run import train
from training.sweeps import runner, shipped
from training.sweeps.outcomes import Outcome, finished_outcomes, load_outcomes, save_outcomes
from training.sweeps.report import lines
from training.sweeps.runner import arm_directory, is_finished, run_sweep
from training.sweeps.sweep import Arm, Sweep
from training.sweeps.vagen import REPRESENTATIONS, STRATEGIES, TABLES, WORLDS, vagen_tables
from vlm_envs.errors import ConfigError

CHECKOUT = Path(__file__).parents[4]
LAKE = WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"prompt_format": "no_think", "max_turns": 2})


class InThisProcess:
    """Runs what is submitted at once, and counts it."""

    submitted = 0

    def __init__(self, *_):
        type(self).submitted = 0

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def submit(self, function, *arguments):
        type(self).submitted += 1
        done = Future()
        try:
            done.set_result(function(*arguments))
        except BaseException as error:
            done.set_exception(error)
        return done


@pytest.fixture
def small(tiny_directory, tmp_path, monkeypatch):
    """Returns a sweep of two arms that take seconds, run in this process."""
    monkeypatch.setattr(runner, "spawned_pool", InThisProcess)
    run = run_config(
        worlds=(LAKE,),
        algorithm=GRPO(),
        num_iterations=1,
        num_groups=2,
        group_size=2,
        num_eval_episodes=3,
        sampling=SamplingConfig(max_new_tokens=4),
        cold_start=ColdStartConfig(num_steps=2, num_first_turn_steps=1, batch_size=2, start_from=str(tiny_directory)),
        output=str(tmp_path),
    )
    start = replace(run, name="start", num_iterations=0, num_eval_episodes=0, num_val_episodes=0)
    arms = (
        Arm(name="plain", run=run, rows={"Table 1": "as it is"}, paper=0.5),
        Arm(name="other", run=replace(run, algorithm=GRPO(scale="none")), rows={"Table 1": "not scaled"}),
        Arm(name="alone", run=run, rows={"Table 2": "alone"}),
    )
    return Sweep(name="small", title="A small sweep", baseline="plain", arms=arms, start=start)


def test_every_arm_is_run_once_a_seed_from_one_start_and_not_again(small, tmp_path):
    config = SweepConfig(seeds=2, num_at_once=1, output=tmp_path)
    run_sweep(small.only(("other",)), config)
    folder = tmp_path / "small"
    assert InThisProcess.submitted == 5, "a start, and two seeds of two arms"
    assert all(is_finished(arm_directory(folder, arm, seed)) for arm in small.arms[:2] for seed in (1, 2))
    assert "test success" in (folder / "logs" / "other-2.txt").read_text()
    run_sweep(small.only(("other",)), config)
    assert InThisProcess.submitted == 0
    found = finished_outcomes(small, folder)
    assert {arm: [*seeds] for arm, seeds in found.items()} == {"plain": [1, 2], "other": [1, 2]}
    lengths = {
        len(levels) for seeds in found.values() for each in seeds.values() for levels in (each.before, each.after)
    }
    assert lengths == {3}
    table = lines(small, found)
    assert sum(line.startswith("| ") for line in table) == 4 and "Table 2" not in "\n".join(table)


@pytest.mark.soak
def test_a_run_that_was_interrupted_goes_on(small, tmp_path, monkeypatch):
    config = SweepConfig(seeds=1, num_at_once=1, output=tmp_path)
    one = replace(small, arms=small.arms[:1])

    def interrupted(run, *, resume):
        train(replace(run, num_eval_episodes=0) if run.name == "plain-1" else run, resume=resume)
        if run.name == "plain-1":
            raise KeyboardInterrupt

    monkeypatch.setattr("training.run.train", interrupted)
    with pytest.raises(KeyboardInterrupt):
        run_sweep(one, config)
    assert not is_finished(tmp_path / "small" / "plain-1")
    monkeypatch.setattr("training.run.train", train)
    run_sweep(one, config)
    assert InThisProcess.submitted == 1 and is_finished(tmp_path / "small" / "plain-1")


@pytest.mark.soak
def test_what_arms_solved_is_kept_where_it_is_asked_for_and_shown_without_runs(small, tmp_path, monkeypatch, capsys):
    monkeypatch.setitem(shipped.SWEEPS, "small", lambda config: small)
    words = ["sweep", "small", "--output", str(tmp_path / "runs"), "--results", str(tmp_path / "kept")]
    assert main([*words, "--only", "other", "--seeds", "1"]) == 0
    shown = capsys.readouterr().out
    kept = load_outcomes(tmp_path / "kept" / "small.json")
    assert {arm: [*seeds] for arm, seeds in kept.items()} == {"plain": [1], "other": [1]}
    shutil.rmtree(tmp_path / "runs")
    assert main(words) == 0 and capsys.readouterr().out == shown
    assert main([*words, "--only", "other", "--seeds", "1"]) == 0 and InThisProcess.submitted == 0
    assert capsys.readouterr().out == shown, "what is kept is not run again"
    mended = {arm: {1: replace(each[1], commit="kept")} for arm, each in kept.items()}
    save_outcomes(mended, tmp_path / "kept" / "small.json")
    assert main([*words, "--only", "alone", "--seeds", "1"]) == 0
    assert load_outcomes(tmp_path / "kept" / "small.json")["plain"] == mended["plain"], "before what a folder has"
    assert sorted(load_outcomes(tmp_path / "kept" / "small.json")) == ["alone", "other", "plain"], (
        "what was there stays"
    )
    run = {"before": "0101", "after": "0111", "commit": "abc"}
    for broken in ([1], {"1": run | {"after": "01?1"}}, {"1": run, "2": run | {"after": "011"}}, {"1": run | {"x": 1}}):
        (tmp_path / "kept" / "small.json").write_text(json.dumps({"plain": broken}))
        assert main(words) == 2 and "small.json is not what a sweep has written" in capsys.readouterr().err
    assert main([*words, "--quick"]) == 2 and "leave --results out" in capsys.readouterr().err


def test_a_table_says_what_arms_solve_beside_the_baseline(small):
    known = {
        arm: {seed: Outcome(before="1000", after=after, commit="abc") for seed in (1, 2, 3)}
        for arm, after in (("plain", "1000"), ("other", "1110"))
    }
    heading, _, plain, other = [line for line in lines(small, known) if line.startswith("| ")]
    assert "more than as it is" in heading
    assert "**0.250**" in plain and "0.50 |" in plain and "+" not in plain
    assert "**0.750**" in other and "+0.500" in other and "0.750, 0.750, 0.750" in other


@pytest.mark.parametrize("world", WORLDS)
@pytest.mark.parametrize("model", [None, "somewhere"])
def test_vagens_arms_differ_from_base_in_what_their_row_says(world, model):
    sweep = vagen_tables(world, model=model)
    assert sweep.tables == tuple(TABLES.values()) and (sweep.start is None) == (model is not None)
    arms = {arm.name: arm.run for arm in sweep.arms}
    assert len(arms) == 13 and all(
        arm.paper for arm in sweep.arms if arm.name not in ("bilevel_gae", "reasoning_reward")
    )
    base = arms["base"]
    for name in ("no_think", "symbolic"):
        kwargs = arms[name].worlds[0].kwargs
        assert [key for key in kwargs if kwargs[key] != base.worlds[0].kwargs[key]] == [
            "representation" if name == "symbolic" else "prompt_format"
        ]
        assert replace(arms[name], worlds=base.worlds) == base
    assert arms["vanilla_ppo"].algorithm == replace(base.algorithm, mask="all")
    assert arms["bilevel_gae"] == replace(base, algorithm=arms["full"].algorithm)
    assert arms["reasoning_reward"].judge == arms["full"].judge != base.judge
    assert isinstance(arms["reasoning_reward"].algorithm, TokenGAE)
    episodes = {run.num_groups * run.group_size for run in arms.values()}
    assert len(episodes) == 1, "all arms play as many episodes"


def test_checkpoints_of_one_name_have_a_sweep_each_and_quick_ones_are_short(tmp_path):
    first, second = (vagen_tables(model=str(tmp_path / name / "model")) for name in ("a", "b"))
    assert first.name != second.name and first.name.startswith("vagen_tables_frozenlake_model-")
    quick = vagen_tables(model=str(tmp_path / "a" / "model"), quick=True)
    assert quick.name == f"{first.name}_quick"
    for arm in quick.arms:
        run = arm.run
        assert run.num_iterations == 2 and run.num_groups * run.group_size == 8 and run.num_eval_episodes == 16


@pytest.mark.soak
def test_what_is_finished_with_other_settings_is_no_result(small, tmp_path):
    config = SweepConfig(seeds=1, num_at_once=1, output=tmp_path)
    one = replace(small, arms=small.arms[:1])
    run_sweep(one, config)
    arm = one.arms[0]
    for other, said in (
        (replace(arm.run, group_size=4), "--group-size: the run has 2, asked for is 4"),
        (replace(arm.run, num_iterations=2), "finished with 1 iterations, and 2 are asked for"),
    ):
        with pytest.raises(ConfigError, match=said):
            run_sweep(replace(one, arms=(replace(arm, run=other),)), config)
    start = replace(one.start, cold_start=replace(one.start.cold_start, batch_size=3))
    with pytest.raises(ConfigError, match=r"--cold-start\.batch-size: the run has 2, asked for is 3"):
        run_sweep(replace(one, start=start), replace(config, seeds=2))
    run_sweep(one, config)


@pytest.mark.parametrize("model", [None, "somewhere"])
def test_prompts_say_what_an_arm_is_to_write(model):
    """Or the start could not know which of its formats is asked for."""
    prompts = {}
    for arm in vagen_tables(model=model).arms:
        with arm.run.worlds[0].made() as world:
            observation, _ = world.reset(seed=0)
            prompts.setdefault((observation.get("system"), observation["text"]), set()).add(arm.name)
    alone = [names for names in prompts.values() if len(names) == 1]
    assert sorted(name for names in alone for name in names) == sorted([*STRATEGIES, *REPRESENTATIONS])
    assert len(prompts) == 7, "and all others write what Base does"


def test_a_tiny_start_imitates_everything_that_arms_write():
    sweep = vagen_tables("sokoban")
    shown = {tuple(sorted(spec.kwargs.items())) for spec in sweep.start.worlds}
    assert {tuple(sorted(arm.run.worlds[0].kwargs.items())) for arm in sweep.arms} == shown


def test_mistakes_are_told_with_what_there_is(capsys, tmp_path, monkeypatch, small):
    assert main(["sweep", "--output", "runs"]) == 2
    assert "Which sweep? Its name comes first: vagen_tables." in capsys.readouterr().err
    assert main(["sweep", "vagen_table"]) == 2
    assert "Did you mean 'vagen_tables'?" in capsys.readouterr().err
    assert main(["sweep", "vagen_tables", "--world", "frozenlak"]) == 2
    assert "Did you mean 'frozenlake'?" in capsys.readouterr().err
    assert main(["sweep", "vagen_tables", "--only", "grp"]) == 2
    assert "Did you mean 'grpo'?" in capsys.readouterr().err
    assert main(["sweep", "vagen_tables", "--output", str(tmp_path)]) == 2
    assert "--seeds 3" in capsys.readouterr().err
    monkeypatch.setitem(shipped.SWEEPS, "small", lambda config: small)
    assert main(["sweep", "small", "--seeds", "1", "--output", str(tmp_path), "--quick"]) == 0
    shown = capsys.readouterr().out
    assert "its numbers mean nothing" in shown and (tmp_path / "small" / "tables.md").read_text() in shown + "\n"


@pytest.mark.soak
def test_the_tables_of_vagens_runs_are_of_what_is_kept():
    sweep = vagen_tables()
    known = load_outcomes(CHECKOUT / "docs" / "sweeps" / f"{sweep.name}.json")
    assert {arm.name for arm in sweep.arms} == {*known} and all([*seeds] == [1, 2, 3] for seeds in known.values())
    told = [line for line in lines(sweep, known) if line.startswith("|")]
    page = (CHECKOUT / "docs" / "research" / "paper-runs.md").read_text(encoding="utf-8")
    assert len(told) > 20 and all(line in page for line in told)


def test_arms_of_one_name_and_a_baseline_that_is_none_are_refused(small):
    with pytest.raises(ConfigError, match="distinct"):
        replace(small, arms=small.arms * 2)
    with pytest.raises(ConfigError, match="none of its arms"):
        replace(small, baseline="missing")
