"""Rounds of groups: how many are played, which are learnt from, and in which order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import pytest
import torch

from tests.unit.training.batches import text_batch
from training.__main__ import main
from training.algorithms.dapo import DAPO
from training.algorithms.gigpo import GiGPO
from training.algorithms.grpo import GRPO
from training.loop.collect import sample_groups
from training.mixture.mixed_worlds import MixUnit


@dataclass(frozen=True)
class Episode:
    """Stands for a scored one: which it is, what it earned, and in which world and level it was played."""

    name: str
    reward: float
    trajectory: Any


def to_batch(scored: Any):
    rewards = [[each.reward] for each in scored]
    return text_batch([[-1, 0]] * len(scored), rewards, group_index_B=torch.arange(len(scored)) // 2)


Groups = list[tuple[float, float]]


def level(world: str, seed: Any) -> Any:
    return SimpleNamespace(world=world, seed=seed)


def played_by(rounds: list[Groups], asked: list[int]):
    """Returns what plays rounds of groups of two in one world; `asked` lists the rounds that were."""

    def play(number: int, worlds: Any) -> Any:
        asked.append(number)
        groups = enumerate(rounds[number])
        return [
            Episode(f"{number}.{group}", reward, level("lake", (number, group)))
            for group, pair in groups
            for reward in pair
        ]

    return play


def alone(num_groups: int) -> list[MixUnit]:
    return [MixUnit(("lake",), num_groups)]


def sampled(rounds, algorithm, num_groups=2):
    asked: list[int] = []
    sample = sample_groups(played_by(rounds, asked), to_batch, algorithm, units=alone(num_groups), group_size=2)
    assert asked == list(range(len(asked)))
    assert sample.first.scored == played_by(rounds, [])(0, None)
    assert torch.equal(sample.learnt.batch.turn_rewards_BK, to_batch(sample.learnt.scored).turn_rewards_BK)
    return [episode.name for episode in sample.learnt.scored[::2]], len(asked), sample.metrics


FLAT, USEFUL = (1.0, 1.0), (0.0, 1.0)


@pytest.mark.parametrize("algorithm", [GRPO(), GiGPO(), DAPO(max_sampling_rounds=1)])
def test_one_round_is_taken_as_it_is(algorithm):
    assert sampled([[FLAT, USEFUL, FLAT]], algorithm) == (["0.0", "0.1", "0.2"], 1, {})


@pytest.mark.parametrize("algorithm", [DAPO(), GRPO(max_sampling_rounds=10), GiGPO(max_sampling_rounds=10)])
def test_flat_groups_are_replaced_and_no_more_is_played_than_needed(algorithm):
    rounds = [[FLAT, USEFUL], [FLAT, FLAT], [USEFUL, USEFUL], [USEFUL, USEFUL]]
    names, num_rounds, metrics = sampled(rounds, algorithm)
    assert (names, num_rounds) == (["0.1", "2.0"], 3)
    assert metrics == {"gen_rounds": 3.0, "resampled_groups": 1.0}


def test_enough_at_once_play_no_further_round():
    assert sampled([[USEFUL, USEFUL]], DAPO()) == (["0.0", "0.1"], 1, {"gen_rounds": 1.0, "resampled_groups": 0.0})


def test_after_the_last_round_others_fill_up_in_the_order_they_were_played():
    names, num_rounds, metrics = sampled([[FLAT, FLAT, FLAT], [FLAT, USEFUL, FLAT]], DAPO(max_sampling_rounds=2), 3)
    assert (names, num_rounds) == (["0.0", "0.1", "1.1"], 2)
    assert metrics["resampled_groups"] == 1


def test_what_fills_up_is_in_no_loss():
    sample = sample_groups(
        played_by([[FLAT, FLAT], [USEFUL, FLAT]], []),
        to_batch,
        DAPO(max_sampling_rounds=2, overlong_share=0.0),
        units=alone(2),
        group_size=2,
    )
    assert [each.name for each in sample.learnt.scored] == ["0.0", "0.0", "1.0", "1.0"]
    assert DAPO(overlong_share=0.0).keep(sample.learnt.batch).trainable_B.tolist() == [False, False, True, True]


def test_no_group_is_taken_twice_and_groups_stay_whole():
    rounds = [[FLAT, USEFUL, FLAT]] + [[USEFUL, FLAT, USEFUL]] * 3
    names, _, _ = sampled(rounds, DAPO(), 6)
    assert names == ["0.1", "1.0", "1.2", "2.0", "2.2", "3.0"]
    assert len(set(names)) == len(names)


def test_where_groups_were_lost_there_are_fewer():
    names, num_rounds, _ = sampled([[USEFUL], [FLAT]], DAPO(max_sampling_rounds=2), 4)
    assert (names, num_rounds) == (["0.0", "1.0"], 2)


def mixed(rounds: list[dict[str, Groups]], units: list[MixUnit]):
    """Returns the groups that are learnt from in a mix, as round, world, level, and the worlds each round played."""
    asked: list[Any] = []

    def play(number: int, worlds: Any) -> Any:
        asked.append(worlds if worlds is None else sorted(worlds))
        return [
            Episode(f"{number}.{world}.{seed}", reward, level(world, seed))
            for world, groups in rounds[number].items()
            if worlds is None or world in worlds
            for seed, pair in enumerate(groups)
            for reward in pair
        ]

    algorithm = DAPO(max_sampling_rounds=len(rounds))
    sample = sample_groups(play, to_batch, algorithm, units=units, group_size=2)
    return [episode.name for episode in sample.learnt.scored[::2]], asked


def test_a_world_keeps_its_share_however_seldom_it_is_useful():
    """The first world has useful groups to spare; the second, behind it, finds its own in the third round."""
    easy, hard = [USEFUL, USEFUL], [FLAT]
    rounds = [{"a": [USEFUL, FLAT], "b": hard}, {"a": easy, "b": hard}, {"a": easy, "b": [USEFUL]}]
    names, asked = mixed(rounds, [MixUnit(("a",), 2), MixUnit(("b",), 1)])
    assert names == ["0.a.0", "1.a.0", "2.b.0"]
    assert asked == [None, ["a", "b"], ["b"]], "who has enough is not played again"


def test_a_world_that_is_never_useful_is_filled_up_with_its_own():
    rounds = [{"a": [USEFUL], "b": [FLAT, FLAT]}, {"a": [USEFUL], "b": [FLAT, FLAT]}]
    names, asked = mixed(rounds, [MixUnit(("a",), 1), MixUnit(("b",), 2)])
    assert (names, asked) == (["0.a.0", "0.b.0", "0.b.1"], [None, ["b"]])


def test_partners_are_taken_together():
    """Of two questions a round, one or none is useful to both; what is useful to one is the first to fill up."""
    rounds = [
        {"grounded": [FLAT, USEFUL], "textual": [FLAT, FLAT]},
        {"grounded": [FLAT, USEFUL], "textual": [USEFUL, USEFUL]},
    ]
    names, asked = mixed(rounds, [MixUnit(("grounded", "textual"), 2)])
    assert names == ["0.grounded.1", "0.textual.1", "1.grounded.1", "1.textual.1"]
    assert asked == [None, ["grounded", "textual"]]


def test_a_later_round_that_was_lost_is_the_last():
    names, num_rounds, metrics = sampled([[FLAT, USEFUL], [], [USEFUL, USEFUL]], DAPO(max_sampling_rounds=3))
    assert (names, num_rounds) == (["0.0", "0.1"], 2)
    assert metrics == {"gen_rounds": 1.0, "resampled_groups": 0.0}


@pytest.fixture
def arguments(tiny_directory, tmp_path):
    """Returns the command line of a run in which few groups are useful."""

    def command_line(name, num_iterations):
        words = ["frozenlake_tiny", "--algorithm", "dapo", "--algorithm.max-sampling-rounds", "3"]
        words += ["--model", str(tiny_directory), "--output", str(tmp_path), "--name", name]
        words += ["--num-groups", "4", "--group-size", "2", "--num-eval-episodes", "0", "--num-threads", "1"]
        return [*words, "--sampling.max-new-tokens", "6", "--num-iterations", str(num_iterations)]

    return command_line


@pytest.mark.soak
def test_a_run_plays_rounds_logs_them_and_goes_on_bit_by_bit(arguments, tmp_path):
    assert main(arguments("whole", 2)) == 0
    assert main(arguments("halves", 1)) == 0
    resumed = ["frozenlake_tiny", "--output", str(tmp_path), "--name", "halves", "--resume", "--num-iterations", "2"]
    assert main(resumed) == 0
    whole, halves = (
        [json.loads(line) for line in (tmp_path / name / "metrics.jsonl").read_text().splitlines()]
        for name in ("whole", "halves")
    )
    assert [line["gen_rounds"] for line in whole] == [3, 3], "an untrained model solves nothing"
    untimed = [
        [{key: value for key, value in line.items() if not key.endswith("_s")} for line in lines]
        for lines in (whole, halves)
    ]
    assert untimed[0] == untimed[1]
    assert all("resampled_groups" in line for line in whole)
