"""The world and the judge that both sides have."""

import time

import pytest

from agents.event_loop import run_blocking
from benchmarks.trainers.late_world import LateLake, late_judge, share_of
from benchmarks.trainers.trainer_comparison import Work
from vlm_envs.splits import split_seeds


@pytest.fixture
def lake():
    return LateLake(**Work().world_kwargs)


@pytest.mark.parametrize("seed", list(split_seeds("train", 20)))
def test_any_text_moves_and_no_move_ends_the_episode(lake, seed):
    observation, _ = lake.reset(seed=seed)
    for turn in range(3):
        shown = observation["image"]
        observation, _, terminated, truncated, _ = lake.step(f"<answer>nothing {turn}")
        assert (observation["image"] != shown).any()
        assert (terminated, truncated) == (False, turn == 2)


def test_the_text_alone_decides_the_move(lake):
    ends = {}
    for text in map(str, range(12)):
        lake.reset(seed=2)
        lake.step(text)
        ends.setdefault(lake.state.player, []).append(text)
    assert len(ends) > 1
    for cell, texts in ends.items():
        lake.reset(seed=2)
        lake.step(texts[-1])
        assert lake.state.player == cell


def test_it_answers_late():
    lake = LateLake(answer_ms=30.0)
    lake.reset(seed=0)
    started = time.monotonic()
    lake.step("")
    assert time.monotonic() - started >= 0.03


def test_a_text_is_a_number():
    assert share_of("a") == share_of("a") != share_of("b")
    assert all(0 <= share_of(str(each)) < 1 for each in range(100))


class Episode:
    turns = ()


def test_the_judge_is_asked_about_several_at_a_time():
    started = time.monotonic()
    rewards = run_blocking(late_judge(200.0, 8)([Episode()] * 16))
    taken_s = time.monotonic() - started
    assert len({reward.terms["score"] for reward in rewards}) == 16
    assert 0.4 <= taken_s < 3.2  # twice 200 ms, not sixteen times
