"""A run draws its own pool, and filters it by what the model that it starts from makes of it."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from tests.unit.episodes import LAKE, SHORT
from tests.unit.training.batches import run_config
from training import run as loop_run
from training.config.world_spec import WorldSpec
from training.pools import pool_drawing
from training.pools.pool_config import PoolConfig
from training.pools.pool_drawing import draw_own_pools
from training.run import train
from training.stages.stages_config import Stage, StagesConfig
from training.stages.stages_loop import train_stages
from vlm_envs.errors import ConfigError
from vlm_envs.records.run_data import RunReader


def lakes(**pool) -> WorldSpec:
    return WorldSpec(env_id=LAKE, kwargs=dict(SHORT), pool=PoolConfig(file="own.jsonl", **pool))


def drawing(model, output, *specs, **changes):
    """Returns a run of two iterations in worlds that draw their pools."""
    fields = {"num_iterations": 2, "num_eval_episodes": 0, "checkpoint_every": 1, "num_threads": 1}
    return run_config(**fields | changes | {"model": str(model), "output": str(output), "worlds": specs})


def rows_of(path):
    return [json.loads(line) for line in path.read_text().splitlines()]


def test_a_run_draws_its_pool_and_trains_on_it(tiny_directory, tmp_path):
    directory = train(drawing(tiny_directory, tmp_path, lakes(draw=6, attempts=2, max_pass_rate=0.5)))
    rows = rows_of(directory / "pools" / "own.jsonl")
    assert len({row["id"] for row in rows}) == 6
    assert all(row["attempts"] == 2 and row["agent"] == f"hf:{tiny_directory}" for row in rows)
    kept = [row for row in rows if row["passes"] <= 1]
    metrics = RunReader(directory).metrics()
    assert metrics[-1][f"pool/{LAKE}/size"] == len(kept) and metrics[-1][f"pool/{LAKE}/epoch"] == 4 / len(kept)


@pytest.mark.soak
def test_drawing_leaves_training_as_it_would_have_been(tiny_directory, tmp_path):
    drawn = train(drawing(tiny_directory, tmp_path / "a", lakes(draw=6, attempts=2)))
    there = PoolConfig(file=str(drawn / "pools" / "own.jsonl"))
    given = train(drawing(tiny_directory, tmp_path / "b", replace(lakes(), pool=there)))
    assert told(drawn) == told(given)


def told(directory):
    """Returns what iterations came to, but for times."""
    times = ("elapsed_s", "iteration_s", "rollout_s")
    return [
        {name: value for name, value in row.items() if not name.endswith("_s") and name not in times}
        for row in RunReader(directory).metrics()
    ]


def test_a_drawing_that_was_interrupted_is_gone_on_with(tiny_directory, tmp_path):
    whole = drawing(tiny_directory, tmp_path, lakes(draw=6, attempts=2))
    draw_own_pools(whole, tmp_path / "whole", tiny_directory)
    expected = (tmp_path / "whole" / "pools" / "own.jsonl").read_bytes()
    path = tmp_path / "half" / "pools" / "own.jsonl"
    path.parent.mkdir(parents=True)
    lines = expected.splitlines(keepends=True)
    path.write_bytes(b"".join(lines[:2]) + lines[2][:9])  # killed in the middle of a row
    draw_own_pools(whole, tmp_path / "half", tiny_directory)
    assert [row["id"] for row in rows_of(path)] == [json.loads(line)["id"] for line in lines]
    assert path.read_bytes().startswith(b"".join(lines[:2]))


@pytest.mark.soak
def test_what_goes_on_keeps_the_pool_it_began_with(tiny_directory, tmp_path, monkeypatch):
    config = drawing(tiny_directory, tmp_path, lakes(draw=6, attempts=2))
    whole = told(train(replace(config, name="whole")))
    train(replace(config, num_iterations=1))
    monkeypatch.setattr(loop_run, "draw_own_pools", lambda *_: pytest.fail("drawn a second time"))
    assert told(train(config, resume=True)) == whole


@pytest.mark.soak
def test_partners_share_what_is_drawn_and_the_first_of_them_plays(tiny_directory, tmp_path):
    size = {"side_px": 112, "target_px": 16, "max_objects": 1, "max_pixels": 56 * 56}
    pool = PoolConfig(file="own.jsonl", draw=3, attempts=1)
    specs = [
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**size, "prompt_format": f"ivgr_{stream}"}, pool=pool)
        for stream in ("grounded", "textual")
    ]
    directory = train(drawing(tiny_directory, tmp_path, *specs, num_iterations=1, record_every=1))
    assert [path.name for path in (directory / "pools").iterdir()] == ["own.jsonl"]
    rows = rows_of(directory / "pools" / "own.jsonl")
    episodes = list(RunReader(directory).trajectories("training-0"))
    assert {each["turns"][0]["state"]["sample_id"] for each in episodes} <= {row["id"] for row in rows}


def test_a_filter_that_leaves_nothing_is_told_before_anything_is_learnt(tiny_directory, tmp_path):
    config = drawing(tiny_directory, tmp_path, lakes(draw=2, attempts=1, min_pass_rate=0.9))
    with pytest.raises(ConfigError, match=r"Nothing is left of the pool .*own.jsonl: of its 2 levels.*min_pass_rate"):
        train(config)


def played_in(monkeypatch):
    """Returns what is filled with the levels that are played while a pool is drawn."""
    played, play = [], pool_drawing.play_each

    def noted(agent, spec, seeds, **kwargs):
        played.extend(kwargs["levels"])
        return play(agent, spec, seeds, **kwargs)

    monkeypatch.setattr(pool_drawing, "play_each", noted)
    return played


def test_a_length_that_no_level_has_is_told_before_any_is_played(tiny_directory, tmp_path, monkeypatch):
    played = played_in(monkeypatch)
    config = drawing(tiny_directory, tmp_path, lakes(), lakes(draw=6, attempts=5, min_solution_length=60))
    config = replace(config, worlds=(replace(config.worlds[0], pool=None, name="a"), config.worlds[1]))
    with pytest.raises(ConfigError, match=r"filters drop 6 by min_solution_length\. .* worlds\.1\.pool\.draw N\."):
        draw_own_pools(config, tmp_path / "run", tiny_directory)
    assert played == [] and not (tmp_path / "run" / "pools" / "own.jsonl").exists()


def test_levels_that_filters_drop_are_not_played_but_those_that_a_sharing_world_takes_are(
    tiny_directory, tmp_path, monkeypatch, capsys
):
    wide = {"kwargs": {**SHORT, "size": 6, "min_solution_length": 3}}
    whole = drawing(tiny_directory, tmp_path, replace(lakes(draw=12), **wide))
    draw_own_pools(whole, tmp_path / "all", tiny_directory)
    lengths = {row["id"]: row["solution_length"] for row in rows_of(tmp_path / "all" / "pools" / "own.jsonl")}
    low, high = min(lengths.values()), max(lengths.values())
    assert low + 1 < high
    played = played_in(monkeypatch)
    bands = [{"max_solution_length": low}, {"min_solution_length": high}]
    sharing = [lakes(draw=12, attempts=2, max_pass_rate=1.0, **band) for band in bands]
    config = drawing(tiny_directory, tmp_path, *(replace(each, name=f"{n}", **wide) for n, each in enumerate(sharing)))
    draw_own_pools(config, tmp_path / "run", tiny_directory)
    path = tmp_path / "run" / "pools" / "own.jsonl"
    ends = [level for level, length in lengths.items() if length in (low, high)]
    assert played == [level for level in ends for _ in range(2)]
    assert [row["id"] for row in rows_of(path)] == list(lengths), "the others are in the file, too"
    assert [row["id"] for row in rows_of(path) if row["attempts"]] == ends
    assert f"{12 - len(ends)} not played because filters drop them" in capsys.readouterr().out
    before, played[:] = path.read_bytes(), []
    path.write_bytes(b"".join(before.splitlines(keepends=True)[:7]))
    draw_own_pools(config, tmp_path / "run", tiny_directory)
    assert [row["id"] for row in rows_of(path)] == list(lengths) and len(played) < 2 * len(ends), (
        "and it is gone on with"
    )


def test_ids_that_are_to_be_included_are_looked_for_before_any_level_is_played(tiny_directory, tmp_path, monkeypatch):
    played = played_in(monkeypatch)
    (tmp_path / "ids").write_text("nowhere\n")
    config = drawing(tiny_directory, tmp_path, lakes(draw=4, attempts=2, include=str(tmp_path / "ids")))
    with pytest.raises(ConfigError, match=r"lists 1 ids that the pool .* lacks.* worlds\.0\.pool\.draw N"):
        draw_own_pools(config, tmp_path / "run", tiny_directory)
    assert played == []


def test_a_stage_whose_pool_is_left_empty_is_named_with_its_own_option(tiny_directory, tmp_path):
    run = drawing(None, "runs", lakes(draw=2, attempts=1, min_pass_rate=0.9))
    stages = (Stage(name="one_more", run=replace(run, model=str(tiny_directory))),)
    said = r"Stage 'one_more': Nothing is left .*: --stages\.one-more\.worlds\.0\.pool\.draw N\. .*--resume"
    with pytest.raises(ConfigError, match=said):
        train_stages(StagesConfig(name="staged", output=str(tmp_path), stages=stages))


def test_a_band_of_pass_rates_that_is_left_empty_is_remedied_by_a_larger_draw(tiny_directory, tmp_path):
    config = drawing(tiny_directory, tmp_path, lakes(draw=2, attempts=1, min_pass_rate=0.9))
    with pytest.raises(
        ConfigError, match=r"drop 2 by min_pass_rate\. .* have the run draw more .*worlds\.0\.pool\.draw"
    ):
        draw_own_pools(config, tmp_path / "run", tiny_directory)


@pytest.mark.parametrize(
    ("pool", "said"),
    [
        ({"draw": 4, "drop_hopeless": True}, "not played. Use .*attempts 5"),
        ({"draw": 4, "file": "a/own.jsonl"}, "; got 'a/own.jsonl'"),
        ({"draw": -1}, "draw must be at least 0; got -1"),
        (
            {"draw": 4, "attempts": 2, "min_pass_rate": 0.4, "max_pass_rate": 0.45},
            "every pass rate is a multiple of 1/2",
        ),
        (
            {"draw": 4, "attempts": 1, "drop_hopeless": True, "drop_trivial": True},
            "Widen the range.* increase .*attempts",
        ),
    ],
)
def test_what_does_not_go_with_drawing_is_refused(pool, said):
    with pytest.raises(ConfigError, match=said):
        PoolConfig(**{"file": "own.jsonl"} | pool)


def test_one_file_is_drawn_in_one_way_and_not_for_a_cold_start(tmp_path):
    with pytest.raises(ConfigError, match=r"--worlds.0 and --worlds.1 draw one pool, own.jsonl, in two"):
        drawing("none", tmp_path, lakes(draw=4), replace(lakes(draw=5), name="b"))
    with pytest.raises(ConfigError, match="does not exist before a cold start"):
        replace(lakes(draw=4), pool=None, cold_start_pool=PoolConfig(file="own.jsonl", draw=4))
