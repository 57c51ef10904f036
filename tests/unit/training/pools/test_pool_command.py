"""`python -m training pool`: distinct levels with an agent's passes; resumes after a kill, checks options early."""

from __future__ import annotations

import json
import shlex

import pytest

from tests.unit.training.test_run_options import RECIPE_FILE
from tests.unit.vlm_envs.qa.datasets.test_benchmarks import vstar
from training.__main__ import main
from training.pools import pool_drawing
from training.pools.pool_command import pool_to_draw, require_pools
from training.pools.pool_levels import read_levels
from training.run_options import configured, find_recipe
from vlm_envs import make

LAKE = "VLM/FrozenLake-v0"


def rows(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def out(tmp_path):
    return tmp_path / "pools" / "lakes.jsonl"


def test_levels_are_training_levels_each_once_by_seed(out, tmp_path, capsys):
    command = ["pool", LAKE, "--num-samples", "40", "--out"]
    assert main([*command, str(out)]) == 0
    levels = read_levels(out)
    world = make(LAKE).unwrapped
    assert len({each.level_id for each in levels}) == 40
    assert {world.dynamics.level_split(each.level_id) for each in levels} == {"train"}
    for each in levels:
        assert each.solution_length == world.dynamics.cost_to_go(world.dynamics.load(each.level_id))
    shown = capsys.readouterr().out
    assert "40 levels\n" in shown
    assert f"python -m training {LAKE} --worlds.0.pool.file {out}" in shown
    again, other = tmp_path / "again", tmp_path / "other"
    assert main([*command, str(again)]) == main([*command, str(other), "--seed", "1"]) == 0
    assert again.read_bytes() == out.read_bytes() != other.read_bytes()


def test_what_trains_on_a_pool_is_named(out, tmp_path, capsys):
    (tmp_path / "lakes_of_a_pool.py").write_text(RECIPE_FILE)
    recipe = ["--recipe", str(tmp_path / "lakes_of_a_pool.py")]
    size = ["--worlds.0.kwargs.size", "4", "5"]
    trained_on, spec, _ = pool_to_draw([*recipe, *size, "--out", str(out)])
    assert spec.kwargs["size"] == (4, 5)
    assert trained_on == f"{' '.join(recipe)} --worlds.0.pool.file {out}"
    spaced = out.with_name("my lakes.jsonl")
    given = ["--worlds.0.kwargs.size", "5", "--worlds.0.kwargs.min-solution-length", "2"]
    assert main(["pool", LAKE, *given, "--num-samples", "3", "--out", str(spaced)]) == 0
    told = capsys.readouterr().out.splitlines()[-1]
    call = shlex.split(told.partition(": python -m training ")[2])
    assert call == [LAKE, "--worlds.0.pool.file", str(spaced)]
    require_pools(configured(*find_recipe([*call, *given])).worlds)


def test_a_world_of_few_levels_gives_them_all_and_says_so(out, capsys):
    small = ["--worlds.0.kwargs.size", "2", "--worlds.0.kwargs.min-solution-length", "2"]
    assert main(["pool", LAKE, *small, "--num-samples", "30", "--out", str(out)]) == 0
    number = len(rows(out))
    assert 0 < number < 30
    assert f"{LAKE} has fewer levels than the requested 30.\n{number} levels" in capsys.readouterr().out


def test_excluded_levels_are_not_drawn(out, tmp_path):
    command = ["pool", LAKE, "--num-samples", "30"]
    assert main([*command, "--out", str(out)]) == 0
    rest = tmp_path / "rest"
    assert main([*command, "--exclude", str(out), "--out", str(rest)]) == 0
    first, second = ({each["id"] for each in rows(path)} for path in (out, rest))
    assert len(second) == 30 and not first & second


def test_passes_of_an_agent_are_counted(out, capsys):
    command = ["pool", LAKE, "--num-samples", "6", "--attempts", "3", "--out"]
    assert main([*command, str(out), "--agent", "oracle"]) == 0
    assert {(each["attempts"], each["passes"], each["agent"]) for each in rows(out)} == {(3, 3, "oracle")}
    assert "6 levels: 0 solved 0 of 3, 0 solved 1 of 3, 0 solved 2 of 3, 6 solved 3 of 3" in capsys.readouterr().out
    by_chance = out.with_name("random")
    assert main([*command, str(by_chance), "--agent", "random"]) == 0
    assert [each["id"] for each in rows(by_chance)] == [each["id"] for each in rows(out)]
    assert any(each["passes"] < 3 for each in rows(by_chance))


def test_what_was_killed_is_gone_on_with(out, monkeypatch):
    command = ["pool", LAKE, "--num-samples", "9", "--agent", "oracle", "--attempts", "2", "--out", str(out)]
    monkeypatch.setattr(pool_drawing, "MAX_PARALLEL", 4)
    play, calls = pool_drawing.play_each, []

    def dies(agent, spec, seeds, **kwargs):
        calls.append(kwargs["levels"])
        if len(calls) == 3:
            raise KeyboardInterrupt
        return play(agent, spec, seeds, **kwargs)

    monkeypatch.setattr(pool_drawing, "play_each", dies)
    assert main(command) == 130
    assert len(rows(out)) == 4
    with out.open("a") as file:
        file.write('{"id": "half')
    assert main(command) == 0
    assert len(calls) == 3 + 3, "what was played is not played again"
    found = rows(out)
    out.unlink()
    assert main(command) == 0
    assert rows(out) == found and len(found) == 9


def test_a_file_of_another_pool_is_not_written_over(out, capsys):
    command = ["pool", LAKE, "--num-samples", "4", "--out", str(out)]
    assert main(command) == 0
    before = out.read_bytes()
    for other in (["--seed", "1"], ["--agent", "oracle"], ["--worlds.0.kwargs.size", "5"], ["--num-samples", "3"]):
        assert main([*command, *other]) == 2
        assert "holds a different pool" in capsys.readouterr().err
    assert out.read_bytes() == before
    assert main([*command, "--num-samples", "6"]) == 0, "more of the same are added"
    assert out.read_bytes().startswith(before) and len(rows(out)) == 6


def test_a_data_set_gives_the_ids_of_its_training_split(out, tmp_path, capsys):
    folder = vstar(tmp_path / "vstar")
    settings = ["dataset", "vstar", "folder", str(folder), "is-benchmark", "False"]
    kwargs = [f"--worlds.0.kwargs.{word}" if number % 2 == 0 else word for number, word in enumerate(settings)]
    command = ["pool", "VLM/ZoomQA-v0", *kwargs, "--num-samples", "1000", "--out", str(out)]
    assert main(command) == 0
    source = make("VLM/ZoomQA-v0", dataset="vstar", folder=str(folder), is_benchmark=False).unwrapped.dynamics.source
    ids = [each["id"] for each in rows(out)]
    assert sorted(ids) == sorted(source.ids("train")) != ids, "in an order by seed"
    capsys.readouterr()
    assert main([*command[:-1], str(tmp_path / "none"), "--exclude", str(out)]) == 2
    assert "has no level of split 'train' left after --exclude" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("words", "told"),
    [
        (["no_such"], "pool takes a recipe (frozenlake_tiny"),
        ([LAKE, "--world", "1"], f"worlds: 0 {LAKE}"),
        ([LAKE, "--worlds.1.env-id", "VLM/Sokoban-v0"], "--world NUMBER"),
        ([LAKE, "--agent", "hf:nowhere"], "nowhere"),
        ([LAKE, "--num-samples", "0"], "--num-samples must be at least 1"),
        ([LAKE, "--exclude", "nowhere"], "The pool nowhere cannot be read"),
    ],
)
def test_mistakes_are_told_and_leave_nothing(words, told, out, capsys):
    assert main(["pool", *words, "--out", str(out)]) == 2
    assert told in capsys.readouterr().err
    assert not out.exists()
