"""A pool is a finite set: filtered by its rows, each level once an epoch, never silently empty or broken."""

from __future__ import annotations

import json

import pytest

from training.config.world_spec import WorldSpec
from training.pools.pool_config import DrawPoolConfig, PoolConfig
from training.pools.pool_drawing import draw_pool
from training.pools.pool_levels import Pool, PoolLevel, chosen_levels, open_pool, read_ids, read_levels
from vlm_envs.errors import ConfigError


def write(path, rows):
    path.write_text("".join(f"{row if isinstance(row, str) else json.dumps(row)}\n" for row in rows))
    return str(path)


@pytest.fixture
def counted(tmp_path):
    """Levels a to f, solved 0 to 5 times of five; the shortest solution of each is one longer than the last one's."""
    rows = [
        {"id": name, "passes": passes, "attempts": 5, "solution_length": 3 + passes}
        for passes, name in enumerate("abcdef")
    ]
    return write(tmp_path / "pool.jsonl", rows)


def levels(*names):
    return [PoolLevel(level_id=name, where=name) for name in names]


@pytest.mark.parametrize(
    ("filters", "kept"),
    [
        ({}, "abcdef"),
        ({"drop_hopeless": True, "drop_trivial": True}, "bcde"),
        ({"min_pass_rate": 0.2, "max_pass_rate": 0.4}, "bc"),
        ({"max_pass_rate": 0.0}, "a"),
        ({"min_solution_length": 5, "max_solution_length": 6}, "cd"),
        ({"max_solution_length": 5, "drop_hopeless": True}, "bc"),
    ],
)
def test_filters_keep_the_band_ends_included(filters, kept, counted):
    assert open_pool(PoolConfig(file=counted, **filters), seed=0).ids == tuple(kept)


@pytest.mark.parametrize("lines", [["b", "e"], ['"b"', '{"id": "e"}']])
def test_lists_of_ids_go_in_and_out(lines, counted, tmp_path):
    ids = write(tmp_path / "ids", lines)
    assert open_pool(PoolConfig(file=counted, include=ids), seed=0).ids == ("b", "e")
    other = write(tmp_path / "other", ["a", "never seen"])
    assert open_pool(PoolConfig(file=counted, exclude=(ids, other)), seed=0).ids == ("c", "d", "f")
    with pytest.raises(ConfigError, match=r"lists 1 ids that the pool .* lacks, such as 'never seen'"):
        open_pool(PoolConfig(file=counted, include=other), seed=0)


def test_ids_of_several_lines_are_listed_as_json(tmp_path):
    assert read_ids(write(tmp_path / "ids", [json.dumps("P_\n_G"), {"id": "G_\n_P"}])) == {"P_\n_G", "G_\n_P"}


def test_what_filters_empty_is_refused_with_what_dropped_how_many(counted):
    config = PoolConfig(file=counted, min_pass_rate=0.5, max_pass_rate=0.55)
    with pytest.raises(ConfigError, match=r"of its 6 levels, filters drop 3 by min_pass_rate, 3 by max_pass_rate\. W"):
        open_pool(config, seed=0)


def test_levels_that_nobody_played_cannot_be_filtered_by_passes(tmp_path):
    file = write(tmp_path / "pool", [{"id": "a", "attempts": 5, "passes": 1, "solution_length": 4}, {"id": "b"}])
    assert open_pool(PoolConfig(file=file), seed=0).ids == ("a", "b")
    with pytest.raises(ConfigError, match=r"pool, line 2: this level was not played.* --attempts 5"):
        chosen_levels(PoolConfig(file=file, drop_trivial=True))
    with pytest.raises(ConfigError, match=r"pool, line 2: the solution length of this level is unknown"):
        chosen_levels(PoolConfig(file=file, max_solution_length=9))


def test_levels_that_were_left_unplayed_are_dropped_where_passes_are_asked_for(tmp_path):
    played = {"attempts": 5, "passes": 1}
    file = write(tmp_path / "pool", [{"id": "a", **played}, {"id": "b", "attempts": 0}, {"id": "c", **played}])
    assert open_pool(PoolConfig(file=file), seed=0).ids == ("a", "b", "c")
    assert [each.level_id for each in chosen_levels(PoolConfig(file=file, drop_trivial=True))] == ["a", "c"]
    with pytest.raises(ConfigError, match="filters drop 2 by min_pass_rate, 1 by not being played"):
        chosen_levels(PoolConfig(file=file, min_pass_rate=0.5))


@pytest.mark.parametrize(
    ("row", "told"),
    [
        ("{", "line 3 is not valid JSON"),
        ("[1]", "line 3: expected a JSON object"),
        ({"level": "c"}, "line 3: .*'id'"),
        ({"id": 7}, "line 3: .*'id', .*; got 7"),
        ({"id": "c", "passes": 6, "attempts": 5}, "line 3: 'passes' must be .* to the 5 'attempts'; got 6"),
        ({"id": "c", "passes": 1}, "line 3: 'passes' must be .* to the 0 'attempts'; got 1"),
        ({"id": "c", "attempts": "five"}, "line 3: 'attempts' must be a whole number from 0; got 'five'"),
        ({"id": "c", "solution_length": -1}, "line 3: 'solution_length' must be"),
        ({"id": "a"}, "line 3: duplicate .*pool, line 1"),
    ],
)
def test_a_broken_row_is_named_by_file_and_line(row, told, tmp_path):
    file = write(tmp_path / "pool", [{"id": "a"}, "", row])
    with pytest.raises(ConfigError, match=told):
        read_levels(file)


def test_a_file_that_is_not_there_or_empty_is_refused(tmp_path):
    with pytest.raises(ConfigError, match=r"cannot be read: No such file or directory\. Name a file of JSON lines"):
        read_levels(tmp_path / "none")
    with pytest.raises(ConfigError, match=r"holds no level\. Draw some"):
        read_levels(write(tmp_path / "empty", ["", ""]))


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"min_pass_rate": 0.5, "max_pass_rate": 0.4}, "min_pass_rate 0.5 is above max_pass_rate 0.4"),
        ({"min_solution_length": 7, "max_solution_length": 6}, "min_solution_length 7 is above"),
        ({"max_pass_rate": 20}, "max_pass_rate must be at least 0 and at most 1; got 20"),
        ({"order": "hardest"}, "order must be one of 'shuffled', 'easiest_first'"),
    ],
)
def test_filters_that_mean_nothing_are_refused(settings, told):
    with pytest.raises(ConfigError, match=told):
        PoolConfig(file="pool", **settings)


def test_every_level_comes_once_an_epoch_before_any_comes_again():
    pool = Pool(levels(*"abcdefg"), seed=3)
    visited = [level for first in range(0, 21, 3) for level in pool.visited(first, 3)]  # which straddles epochs
    epochs = [visited[start : start + 7] for start in range(0, 21, 7)]
    assert all(sorted(epoch) == list("abcdefg") for epoch in epochs)
    assert len(set(map(tuple, epochs))) == 3, "each in an order of its own"
    assert pool.visited(5, 11) == visited[5:16], "where the next one stands follows from the count alone"
    assert Pool(levels(*"abcdefg"), seed=3).visited(0, 21) == visited
    assert Pool(levels(*"abcdefg"), seed=4).visited(0, 21) != visited


def test_easiest_first_goes_by_pass_rate_then_by_length():
    def level(name, passes, length):
        return PoolLevel(level_id=name, where="", attempts=4 if passes is not None else 0, passes=passes or 0,
                         solution_length=length)  # fmt: skip

    known = [level("hard", 0, 9), level("unknown", None, None), level("easy", 4, 5), level("easier", 4, 3)]
    pool = Pool(known, seed=0, order="easiest_first")
    for epoch in range(3):
        assert pool.visited(4 * epoch, 4) == ["easier", "easy", "hard", "unknown"]
    alike = Pool([level(name, 2, 5) for name in "abcdef"], seed=0, order="easiest_first")
    assert alike.visited(0, 6) != alike.visited(6, 6), "those that are alike are shuffled"


def test_a_digest_tells_other_levels_and_another_order_of_them():
    digests = {Pool(levels(*names), seed=0).digest for names in ("abc", "acb", "ab", ("a", "bc"))}
    assert len(digests) == 4
    assert Pool(levels(*"abc"), seed=1).digest in digests


def test_a_pair_that_is_left_out_is_left_out_in_both_orders(tmp_path):
    rows = [{"prompt": f"What is {n} and 1?", "chosen": f"{n + 1}.", "rejected": f"{n}."} for n in range(30)]
    (tmp_path / "pairs.jsonl").write_text("\n".join(map(json.dumps, rows)))
    kwargs = {"dataset": "pairs", "folder": str(tmp_path), "prompt_format": "arm"}
    forward, turned = (
        WorldSpec(env_id="VLM/RewardJudging-v0", kwargs=kwargs | each) for each in ({}, {"reverse_order": True})
    )
    whole, part, left = (str(tmp_path / name) for name in ("whole.jsonl", "part.jsonl", "left.jsonl"))
    draw_pool(turned, DrawPoolConfig(out=part, num_samples=5))
    draw_pool(forward, DrawPoolConfig(out=whole, num_samples=100))
    draw_pool(forward, DrawPoolConfig(out=left, num_samples=100, exclude=(part,)))
    numbers = [{each.split(":", 2)[2] for each in read_ids(path)} for path in (whole, part, left)]
    assert len(numbers[1]) == 5 and numbers[2] == numbers[0] - numbers[1]
    filtered = chosen_levels(PoolConfig(file=whole, exclude=(part,)))
    assert {each.level_id for each in filtered} == read_ids(left)
