"""Shares that go by success: most where a world is neither mastered nor out of reach, and exact after a resumption."""

from __future__ import annotations

import math

import pytest
import torch

from tests.unit.episodes import LAKE, SHORT
from tests.unit.training.batches import run_config
from training.config.world_spec import WorldSpec
from training.mixture.mixed_worlds import AdaptiveShares
from training.mixture.mixture_config import MixConfig

SUCCESS = MixConfig(schedule="success", memory=0.0)
STEPWISE = MixConfig(schedule="stepwise", unlock_success=0.75, memory=0.0)


def lakes(*weights):
    return [WorldSpec(env_id=LAKE, kwargs={**SHORT, "size": 4 + n}, weight=w) for n, w in enumerate(weights)]


def pair(weight=1.0):
    kwargs = {"side_px": 400, "target_px": (16, 40)}
    return [
        WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={**kwargs, "prompt_format": f"ivgr_{stream}"}, weight=weight)
        for stream in ("grounded", "textual")
    ]


def outcomes(rate):
    return [True] * round(rate * 10) + [False] * round((1 - rate) * 10)


def played(shares, num_iterations, rates):
    """Returns what each world plays while its success is what `rates` says."""
    given = []
    for iteration in range(num_iterations):
        given.append(shares.of(iteration))
        shares.learn({number: outcomes(rates[number]) for number, count in enumerate(given[-1]) if count})
    return given


@pytest.mark.parametrize(
    ("target", "success", "factor"),
    [(0.5, None, 1.0), (0.5, 0.5, 1.0), (0.5, 0.0, 0.1), (0.5, 1.0, 0.1), (0.5, 0.25, 0.55), (0.8, 0.4, 0.55)],
)
def test_the_factor_is_a_tent_over_the_target(target, success, factor):
    assert MixConfig(schedule="success", target_success=target).factor(success) == pytest.approx(factor)


def test_worlds_near_the_target_are_played_more_and_none_is_forgotten():
    shares = AdaptiveShares(lakes(1, 1, 1), 12, SUCCESS)
    given = played(shares, 101, (1.0, 0.5, 0.0))
    assert given[0] == (4, 4, 4), "nothing is known yet"
    assert all(sum(each) == 12 for each in given)
    # 0.1 : 1 : 0.1 of 100 times 12 groups
    assert [sum(column) for column in zip(*given[1:], strict=True)] == [100, 1000, 100]


def test_weights_still_count():
    given = played(AdaptiveShares(lakes(3, 1), 8, SUCCESS), 10, (0.5, 0.5))
    assert [sum(column) for column in zip(*given, strict=True)] == [60, 20]


def test_partners_play_the_same_number_whatever_their_success():
    shares = AdaptiveShares([*pair(), *lakes(1)], 7, SUCCESS)
    given = played(shares, 40, (1.0, 0.6, 0.5))
    assert all(each[0] == each[1] and sum(each) == 7 for each in given)
    alone = played(AdaptiveShares(pair(), 5, SUCCESS), 8, (0.3, 0.3))
    assert {sum(each) for each in alone} == {4, 6} and sum(map(sum, alone)) == 40


def test_stepwise_adds_a_world_once_the_last_one_is_solved_well_enough():
    shares = AdaptiveShares(lakes(1, 1, 1), 6, STEPWISE)
    assert shares.of(0) == (6, 0, 0)
    shares.learn({0: outcomes(0.7)})
    assert shares.of(1) == (6, 0, 0)
    shares.learn({0: outcomes(0.8)})
    assert shares.of(2) == (3, 3, 0)
    shares.learn({0: outcomes(1.0), 1: outcomes(0.1)})
    assert shares.of(3) == (3, 3, 0), "the first one's success does not count any more"
    shares.learn({0: outcomes(0.0), 1: outcomes(0.9)})
    assert shares.of(4) == (2, 2, 2), "and nothing is taken away again"


def test_memory_smooths_what_is_known():
    shares = AdaptiveShares(lakes(1, 1), 4, MixConfig(schedule="success", memory=0.75))
    for rate in (1.0, 0.0):
        shares.learn({0: outcomes(rate)})
    found = shares.metrics(("a", "b"))
    assert found["mix/a/success"] == 0.75
    assert math.isnan(found["mix/b/success"])


def test_a_state_that_was_saved_goes_on_to_the_bit(tmp_path):
    straight, stopped = (AdaptiveShares(lakes(1, 2, 3), 7, SUCCESS) for _ in range(2))
    rates = (0.9, 0.3, 0.5)
    expected = played(straight, 9, rates)
    played(stopped, 4, rates)
    torch.save(stopped.state_dict(), tmp_path / "state")
    again = AdaptiveShares(lakes(1, 2, 3), 7, SUCCESS)
    again.of(0)  # as a run does when it begins
    again.load_state_dict(torch.load(tmp_path / "state", weights_only=True))
    found = []
    for iteration in range(4, 9):
        found.append(again.of(iteration))
        assert again.of(iteration) == found[-1], "dealt once"
        again.learn({number: outcomes(rates[number]) for number in range(3)})
    assert found == expected[4:]
    assert again.state_dict() == straight.state_dict()


def test_schedules_and_their_own_settings_are_taken():
    worlds = tuple(lakes(1, 1))
    assert run_config(worlds=worlds).mix.schedule == "fixed"
    run_config(worlds=worlds, mix=MixConfig(schedule="success", target_success=0.7, memory=0.5, min_factor=0.2))
    run_config(worlds=worlds, mix=MixConfig(schedule="stepwise", unlock_success=0.7, memory=0.5))
