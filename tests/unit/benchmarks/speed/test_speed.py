"""What a speed run reports. How fast things are is for `python -m benchmarks speed`, not for a test."""

import json

import pytest

from benchmarks.__main__ import main
from benchmarks.speed import speed_benchmarks
from benchmarks.speed.speed_benchmarks import (
    BENCHMARKS,
    HEADINGS,
    Row,
    cells,
    median_times_s,
    print_table,
)
from benchmarks.speed.world_speed import ACTION_NAMES
from tests.unit.slow import quick


def row(median: float = 4.0, unit: str = "ms", reference: float | None = 8.0, is_limit: bool = True) -> Row:
    return Row(name="a part", median=median, unit=unit, compared_with="limit", reference=reference, is_limit=is_limit)


@pytest.mark.parametrize(
    ("unit", "median", "ratio", "passed"),
    [
        ("ms", 4.0, 2.0, True),
        ("s", 8.0, 1.0, True),
        ("ms", 16.0, 0.5, False),
        ("turns/s", 16.0, 2.0, True),
        ("turns/s", 4.0, 0.5, False),
    ],
)
def test_a_ratio_above_one_is_always_better(unit, median, ratio, passed):
    measured = row(median=median, unit=unit)
    assert (measured.ratio, measured.passed) == (ratio, passed)


def test_a_slower_peer_is_no_failure():
    slower = row(median=16.0, is_limit=False)
    assert (slower.ratio, slower.passed) == (0.5, None)


def test_a_row_alone_has_neither_ratio_nor_verdict():
    alone = row(reference=None)
    assert (alone.ratio, alone.passed) == (None, None)


def test_calls_are_warmed_up_and_then_take_turns():
    order: list[str] = []
    times_s = median_times_s([lambda: order.append("ours"), lambda: order.append("peer")], 2)
    assert order == ["ours", "peer", "ours", "peer", "ours", "peer"]
    assert len(times_s) == 2 and min(times_s) >= 0.0


def test_cells_show_the_reference_in_the_units_of_the_row():
    assert cells("gae", row()) == ("gae", "a part", "4 ms", "limit 8", "2.00x", "ok")
    assert cells("gae", row(median=12345.6)) == ("gae", "a part", "12,346 ms", "limit 8", "0.00x", "MISSED")


def test_columns_of_the_table_line_up(capsys):
    print_table({"gae": [row()], "a longer name": [row(median=0.125)]})
    heading, *_, first, second = capsys.readouterr().out.splitlines()
    assert heading.split() == list(HEADINGS)
    assert first.index("limit 8") == second.index("limit 8") == heading.index("against")


def test_a_missed_limit_is_the_exit_code(monkeypatch, capsys):
    fast, slow = row(), row(median=9.0)
    monkeypatch.setattr(speed_benchmarks, "BENCHMARKS", BENCHMARKS)
    monkeypatch.setitem(BENCHMARKS, "fast", lambda quick: [fast])
    monkeypatch.setitem(BENCHMARKS, "slow", lambda quick: [slow])
    assert main(["speed", "--only", "fast"]) == 0
    assert main(["speed", "--only", "fast", "slow"]) == 1
    assert main(["speed", "--only", "slow", "--quick"]) == 0, "times of a smoke run are no verdict"
    assert "MISSED" in capsys.readouterr().out


def test_what_cannot_run_is_named_with_what_it_needs(monkeypatch, capsys):
    def absent(quick: bool) -> list[Row]:
        import no_such_module  # noqa: F401

        return []

    monkeypatch.setitem(BENCHMARKS, "absent", absent)
    assert main(["speed", "--only", "absent"]) == 0
    assert "skipped absent: needs no_such_module" in capsys.readouterr().out


def test_an_unknown_benchmark_suggests_the_one_meant(capsys):
    assert main(["speed", "--only", "rolouts"]) == 2
    assert "Did you mean 'rollouts'?" in capsys.readouterr().err


def test_without_a_command_the_usage_is_shown(capsys):
    assert main([]) == 2
    assert "speed" in capsys.readouterr().out


SLOW = ("ray", "rollouts", "primitive", "batched", "vector")


@pytest.mark.parametrize(
    "name", quick([name for name in BENCHMARKS if name != "ray"], *(name for name in BENCHMARKS if name not in SLOW))
)  # which `make test-ray` runs
@pytest.mark.sample(3)
def test_every_benchmark_runs(name, tmp_path):
    path = tmp_path / "speed.json"
    assert main(["speed", "--quick", "--only", name, "--json", str(path)]) == 0
    record = json.loads(path.read_text(encoding="utf-8"))
    if record["skipped"]:
        pytest.skip(record["skipped"][name])
    rows = record["benchmarks"][name]
    assert rows
    assert {"python", "num_cpus", "versions"} <= record["machine"].keys()
    assert all(each["median"] > 0 for each in rows)
    assert all((each["reference"] is None) == (each["ratio"] is None) for each in rows)
    assert all((each["passed"] is not None) == each["is_limit"] for each in rows)


def test_limits_are_the_promised_ones():
    import benchmarks.speed.world_speed

    assert benchmarks.speed.world_speed.IMPORT_LIMIT_S == 0.5
    assert benchmarks.speed.world_speed.JUDGE_LIMIT_PER_S == 500.0


def test_both_sides_of_a_comparison_do_the_same():
    from benchmarks.speed.world_speed import GYMNASIUM_ACTIONS, LAKE, _gymnasium_lake, _one_world, response

    ours = _one_world("VLM/FrozenLake-v0", desc=LAKE)
    ours.reset(seed=0)
    peer = _gymnasium_lake()
    if peer is None:
        pytest.skip("Gymnasium's FrozenLake-v1 cannot draw here: pip install 'gymnasium[toy-text]'")
    peer.reset(seed=0)
    for name in ("Right", "Right", "Down", "Down", "Left", "Down", "Right", "Right"):
        assert name in ACTION_NAMES
        *_, info = ours.step(response(name))
        place, _, is_over, _, _ = peer.step(GYMNASIUM_ACTIONS[name])
        row_, column = info["state"]["player_position"]
        assert 4 * row_ + column == place
    assert info["success"] and is_over
