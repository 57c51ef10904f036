"""Shares of a mix: whole in every iteration, exact over some of them, and partners stay together."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from agents.oracle import RandomAgent
from tests.unit.training.batches import NO_JUDGE, run_config
from training.collect import Collector
from training.config import WorldSpec
from training.shares import counts
from vlm_envs.errors import ConfigError

SMALL = {"side_px": 400, "target_px": (16, 40)}
GENERAL = {"side_px": 420, "target_px": (16, 40)}
GROUNDED = WorldSpec(env_id="VLM/ZoomQAGrounded-v0", kwargs=SMALL, weight=45)
TEXTUAL = WorldSpec(env_id="VLM/ZoomQATextual-v0", kwargs=SMALL, weight=45)
OTHERS = WorldSpec(env_id="VLM/ZoomQATextual-v0", kwargs=GENERAL, weight=10)


def lakes(*weights: float) -> list[WorldSpec]:
    return [WorldSpec(env_id="VLM/FrozenLake-v0", kwargs={"size": 4 + n}, weight=w) for n, w in enumerate(weights)]


def test_the_batch_of_ivgr_is_exact_and_grounded_groups_keep_their_partners():
    # iVGR, appendix B: 45 % under both prompts and 10 % others; of 32 groups 14.4, 14.4 and 3.2.
    given = [counts([GROUNDED, TEXTUAL, OTHERS], 32, iteration) for iteration in range(10)]
    assert given[0] == [14, 14, 4]
    assert all(sum(each) == 32 and each[0] == each[1] for each in given)
    assert [sum(each) for each in zip(*given[:5], strict=True)] == [72, 72, 16]
    assert [sum(each) for each in zip(*given, strict=True)] == [144, 144, 32]


def test_streams_of_one_env_id_are_partners_too():
    one_id = [
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**SMALL, "prompt_format": prompt_format}, weight=45)
        for prompt_format in ("ivgr_grounded", "ivgr_textual")
    ]
    assert counts([*one_id, OTHERS], 32, 0) == counts([GROUNDED, TEXTUAL, OTHERS], 32, 0) == [14, 14, 4]


def test_an_iteration_plays_each_grounded_question_under_both_prompts():
    collector = Collector(run_config(worlds=(GROUNDED, TEXTUAL, OTHERS), num_groups=5, group_size=1, judge=NO_JUDGE))
    for iteration in range(2):
        groups = [group.trajectories[0] for group in collector.collect(RandomAgent(), iteration)]
        grounded, textual = (
            [each.turns[0].state["sample_id"] for each in groups if each.world == name]
            for name in ("VLM/ZoomQAGrounded-v0", "VLM/ZoomQATextual-v0 (side_px=400)")
        )
        assert grounded and grounded == textual
    collector.close()


@pytest.mark.parametrize(
    ("weights", "total", "iterations"),
    [
        ((1, 1), 4, [[2, 2]]),
        ((2, 1), 4, [[3, 1], [2, 2], [3, 1]]),
        ((1, 1, 1), 4, [[2, 1, 1], [1, 2, 1], [1, 1, 2]]),
        ((5, 1), 2, [[2, 0], [1, 1], [2, 0]]),
        ((0.1, 0.2), 3, [[1, 2], [1, 2]]),
        ((1,), 7, [[7], [7]]),
    ],
)
def test_what_one_iteration_rounds_off_another_makes_up(weights, total, iterations):
    assert [counts(lakes(*weights), total, number) for number in range(len(iterations))] == iterations


def test_partners_alone_leave_an_odd_group_to_the_textual_one():
    for iteration in range(4):
        grounded, textual = counts([GROUNDED, TEXTUAL], 5, iteration)
        assert (grounded, textual) == (2, 3)


@pytest.mark.parametrize("total", [2, 3, 5, 7, 9])
def test_an_odd_number_of_groups_is_exact_in_the_long_run_and_partners_are_played(total):
    given = [counts([GROUNDED, TEXTUAL, OTHERS], total, iteration) for iteration in range(200)]
    assert all(abs(sum(each) - total) <= 1 and each[0] == each[1] for each in given)
    for number in (20, 60, 200):
        played = [sum(each) for each in zip(*given[:number], strict=True)]
        due = [share * total * number for share in (0.45, 0.45, 0.1)]
        assert all(abs(one - other) < 2.5 for one, other in zip(played, due, strict=True))


def test_partners_do_not_fit_into_one_group():
    with pytest.raises(ConfigError, match=r"num_groups=1.*\n?.*at least 2"):
        counts([GROUNDED, TEXTUAL, OTHERS], 1, 0)


def test_worlds_that_ask_other_things_are_no_partners():
    assert counts([GROUNDED, WorldSpec(env_id=OTHERS.env_id, kwargs=GENERAL, weight=45)], 5, 0) == [3, 2]


@settings(max_examples=100, deadline=None)
@given(
    weights=st.lists(st.integers(1, 20), min_size=1, max_size=4),
    total=st.integers(1, 40),
    iteration=st.integers(0, 10**9),
)
def test_counts_are_whole_and_near_their_shares_in_every_iteration(weights, total, iteration):
    given = counts(lakes(*weights), total, iteration)
    assert sum(given) == total
    for weight, count in zip(weights, given, strict=True):
        assert abs(count - weight / sum(weights) * total) < 2
