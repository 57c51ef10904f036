"""A forecast multiplies what a pilot took, adds agents up as they play side by side, and never calls unknown free."""

from __future__ import annotations

import pytest

from benchmarks.__main__ import main
from benchmarks.models.board.board import Board, EpisodeKey
from benchmarks.models.play.board_forecast import forecast
from tests.unit.benchmarks.models.made import episode, turn
from vlm_envs.records.json_lines import append_line
from vlm_envs.statistics.success_rates import wilson_interval


@pytest.fixture
def pilot(tmp_path):
    """A board of a dear agent, of one whose price nobody knows, and of a free one, four episodes each."""
    agents = [("dear", {"provider": "openai"}), ("mystery", {"provider": "compatible"}), ("free", {})]
    definition = {
        "suite": None,
        "split": "test",
        "worlds": [{"label": "W", "digest": "w", "env_id": "W", "kwargs": {}, "split": "test"}],
        "agents": [{"label": name, "identity": identity, "digest": name} for name, identity in agents],
        "versions": {},
    }
    with Board.open(tmp_path / "pilot", definition) as board:
        pass
    costs = {"dear": {"usd": 0.5, "tokens": 1000}, "mystery": {"tokens": 2000}, "free": {}}
    for name, cost in costs.items():
        for seed in range(4):
            named = {
                "world_digest": "w",
                "agent_digest": name,
                "final": {"text": "", "images": []},
                "wall_s": 3.0 if name == "dear" else 1.0,
            }
            line = episode(name, seed, success=seed < 2) | named | cost
            assert EpisodeKey.of(line)
            append_line(board.directory / "episodes.jsonl", line)
    return board


def told(board, levels=(64,)):
    return {(each.agent, each.num_levels): each for each in forecast(board, levels)}


def test_each_agent_takes_what_it_took_times_the_levels(pilot):
    dear = told(pilot)["dear", 64]
    assert (dear.num_pilot, dear.seconds, dear.tokens, dear.usd) == (4, 3.0 * 64, 1000 * 64, 0.5 * 64)
    low, high = wilson_interval(32, 64)
    assert dear.half_width == pytest.approx((high - low) / 2)  # the pilot leaves one half open
    wide, narrow = (told(pilot, (64, 1024))["dear", number].half_width for number in (64, 1024))
    assert narrow < wide / 3


def test_questions_about_the_same_image_count_as_fewer_levels(pilot):
    path = pilot.directory / "episodes.jsonl"
    lines = pilot.lines()
    path.write_text("")
    for line in lines:
        append_line(path, line | {"cluster": f"image {line['seed'] // 2}"})
    low, high = wilson_interval(16, 32)
    assert told(pilot)["dear", 64].half_width == pytest.approx((high - low) / 2)
    assert told(pilot, (2,))["dear", 2].half_width == 0.5


def test_a_world_with_few_levels_gets_no_narrower_interval_than_these_allow(pilot):
    path = pilot.directory / "episodes.jsonl"
    lines = pilot.lines()
    path.write_text("")
    for line in lines:
        append_line(path, line | {"start_state_hash": f"level {line['seed'] // 2}"})
    # Of the pilot's 6 pairs of seeds 2 share their level, as if there were 3 levels
    low, high = wilson_interval(1, 2)
    assert told(pilot)["dear", 64].half_width == pytest.approx((high - low) / 2)
    assert told(pilot, (100_000,))["dear", 100_000].half_width == pytest.approx((high - low) / 2)


def test_an_unknown_price_is_said_and_nothing_is_not(pilot):
    of = told(pilot)
    assert of["mystery", 64].usd is None
    assert of["mystery", 64].is_price_unknown
    assert of["free", 64].usd is None
    assert not of["free", 64].is_price_unknown
    everybody = of["all agents", 64]
    assert (everybody.seconds, everybody.tokens, everybody.usd) == (3.0 * 64, 3000 * 64, 0.5 * 64)
    assert everybody.is_price_unknown


def test_what_failures_took_is_part_of_it(pilot):
    failed = turn(usage={"usd": 6.0, "prompt_tokens": 300.0, "completion_tokens": 100.0})
    line = {**pilot.lines()[0], "seed": 9, "error": "HTTP 500", "wall_s": 20.0, "turns": [failed]}
    append_line(pilot.directory / "episodes.jsonl", line)
    dear = told(pilot)["dear", 64]
    assert dear.num_pilot == 4
    assert dear.seconds == (4 * 3.0 + 20.0) / 4 * 64
    assert (dear.usd, dear.tokens) == ((4 * 0.5 + 6.0) / 4 * 64, (4 * 1000 + 400) / 4 * 64)


def test_the_command_prints_a_line_for_each_and_for_all(pilot, capsys):
    assert main(["forecast", str(pilot.directory), "--levels", "64", "256"]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert len(lines) == 1 + 2 * 4
    (mystery, _) = [line for line in lines if "mystery" in line]
    assert "price unknown" in mystery
    (everybody, _) = [line for line in lines if "all agents" in line]
    assert "32.00 + price unknown" in everybody
    (free, _) = [line for line in lines if "free" in line]
    assert free.split() == ["64", "W", "free", "4", "64", "s", "±0.119", "at", "most"]


@pytest.mark.parametrize(
    ("words", "message"),
    [
        (["--levels", "0"], "--levels must be at least 1; got 0."),
        (["--levels", "x"], "--levels"),
    ],
)
def test_nonsense_is_told(words, message, pilot, capsys):
    assert main(["forecast", str(pilot.directory), *words]) == 2
    assert message in capsys.readouterr().err


def test_nothing_is_told_from_nothing(pilot, capsys):
    (pilot.directory / "episodes.jsonl").unlink()
    assert main(["forecast", str(pilot.directory)]) == 2
    assert "has no episodes" in capsys.readouterr().err


def test_the_search_of_lazy_counts_once(tmp_path):
    world = {"label": "W", "digest": "w", "env_id": "W", "kwargs": {}, "split": "test"}
    definition = {"suite": None, "split": "test", "worlds": [world], "versions": {}}
    agent = {"label": "lazy", "identity": {}, "digest": "lazy"}
    with Board.open(tmp_path / "pilot", {**definition, "agents": [agent]}) as board:
        pass
    for seed in range(4):
        named = {"world_digest": "w", "agent_digest": "lazy", "final": {"text": "", "images": []}}
        line = episode("lazy", seed) | named | {"wall_s": 31.0 if seed == 0 else 0.5}
        append_line(board.directory / "episodes.jsonl", line)
    assert told(board)["lazy", 64].seconds == 31.0 + 0.5 * 63
