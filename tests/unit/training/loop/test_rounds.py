"""Rounds of groups: how many are played, which are learnt from, and in which order."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

import pytest
import torch

from tests.unit.training.batches import text_batch
from training.__main__ import main
from training.algorithms.dapo import DAPO
from training.algorithms.gigpo import GiGPO
from training.algorithms.grpo import GRPO
from training.loop.rounds import sample_groups


@dataclass(frozen=True)
class Episode:
    """Stands for a scored one: which it is, and what it earned."""

    name: str
    reward: float


def to_batch(scored: Any):
    rewards = [[each.reward] for each in scored]
    return text_batch([[-1, 0]] * len(scored), rewards, group_index_B=torch.arange(len(scored)) // 2)


def played_by(rounds: list[list[tuple[float, float]]], asked: list[int]):
    """Returns what plays rounds of groups of two; `asked` lists the rounds that were."""

    def play(number: int) -> Any:
        asked.append(number)
        groups = enumerate(rounds[number])
        return [Episode(f"{number}.{group}", reward) for group, pair in groups for reward in pair]

    return play


def sampled(rounds, algorithm, num_groups=2):
    asked: list[int] = []
    sample = sample_groups(played_by(rounds, asked), to_batch, algorithm, num_groups=num_groups, group_size=2)
    assert asked == list(range(len(asked)))
    assert sample.first.scored == played_by(rounds, [])(0)
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
        num_groups=2,
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


@pytest.fixture
def arguments(tiny_directory, tmp_path):
    """Returns the command line of a run in which few groups are useful."""

    def command_line(name, num_iterations):
        words = ["frozenlake_tiny", "--algorithm", "dapo", "--algorithm.max-sampling-rounds", "3"]
        words += ["--model", str(tiny_directory), "--output", str(tmp_path), "--name", name]
        words += ["--num-groups", "4", "--group-size", "2", "--num-eval-episodes", "0", "--num-threads", "1"]
        return [*words, "--sampling.max-new-tokens", "6", "--num-iterations", str(num_iterations)]

    return command_line


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
