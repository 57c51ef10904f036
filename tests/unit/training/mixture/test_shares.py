"""Shares of a mix: whole in every iteration, never far from exact, and partners stay together."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import gymnasium as gym
import pytest
from hypothesis import given
from hypothesis import strategies as st

from agents.oracle import RandomAgent
from tests.unit.training.batches import NO_JUDGE, run_config
from training.cold_start.cold_start_config import ColdStartConfig
from training.config.world_spec import WorldSpec, world_names
from training.loop.collect import Collector
from training.mixture.mixture_config import Shares
from vlm_envs.errors import ConfigError

SMALL = {"side_px": 400, "target_px": (16, 40)}
GENERAL = {"side_px": 420, "target_px": (16, 40)}


def zoom(stream: str, weight: float = 1.0, **kwargs: Any) -> WorldSpec:
    return WorldSpec(env_id="VLM/ZoomQA-v0", kwargs={"prompt_format": f"ivgr_{stream}", **kwargs}, weight=weight)


GROUNDED, TEXTUAL = (zoom(stream, 45, **SMALL) for stream in ("grounded", "textual"))
OTHERS = zoom("textual", 10, **GENERAL)


def counts(specs: Sequence[WorldSpec], total: int, num_iterations: int) -> list[tuple[int, ...]]:
    shares = Shares(specs, total)
    return [shares.of(iteration) for iteration in range(num_iterations)]


def sums(given: Sequence[Sequence[int]]) -> list[int]:
    return [sum(each) for each in zip(*given, strict=True)]


def pair(side_px: int, weight: float) -> list[WorldSpec]:
    return [zoom(stream, weight, side_px=side_px) for stream in ("grounded", "textual")]


def lakes(*weights: float) -> list[WorldSpec]:
    kwargs = {"prompt_format": "grounding_worldmodeling"}  # said, so that no world is made to find it out
    return [
        WorldSpec(env_id="VLM/FrozenLake-v0", kwargs=kwargs | {"size": 4 + n}, weight=w) for n, w in enumerate(weights)
    ]


def test_the_batch_of_ivgr_is_exact_and_grounded_groups_keep_their_partners():
    # iVGR, appendix B: 45 % under both prompts and 10 % others; of 32 groups 14.4, 14.4 and 3.2.
    given = counts([GROUNDED, TEXTUAL, OTHERS], 32, 10)
    assert given[:2] == [(14, 14, 4), (15, 15, 2)]
    assert all(sum(each) == 32 and each[0] == each[1] for each in given)
    assert sums(given[:5]) == [72, 72, 16]
    assert sums(given) == [144, 144, 32]


def test_partners_may_stand_anywhere():
    assert counts([TEXTUAL, OTHERS, GROUNDED], 32, 1) == [(14, 4, 14)]


def test_an_iteration_plays_each_grounded_question_under_both_prompts():
    collector = Collector(run_config(worlds=(GROUNDED, TEXTUAL, OTHERS), num_groups=5, group_size=1, judge=NO_JUDGE))
    for iteration in range(2):
        groups = [group.trajectories[0] for group in collector.collect(RandomAgent(), iteration)]
        grounded, textual = (
            [each.turns[0].state["sample_id"] for each in groups if each.world == name]
            for name in world_names((GROUNDED, TEXTUAL, OTHERS))[:2]
        )
        assert grounded and grounded == textual
    collector.close()


@pytest.mark.parametrize(
    ("weights", "total", "iterations"),
    [
        ((1, 1), 4, [(2, 2)]),
        ((2, 1), 4, [(3, 1), (2, 2), (3, 1)]),
        ((1, 1, 1), 4, [(2, 1, 1), (1, 2, 1), (1, 1, 2)]),
        ((5, 1), 2, [(2, 0), (1, 1), (2, 0)]),
        ((0.1, 0.2), 3, [(1, 2), (1, 2)]),
        ((1,), 7, [(7,), (7,)]),
    ],
)
def test_what_one_iteration_rounds_off_another_makes_up(weights, total, iterations):
    assert counts(lakes(*weights), total, len(iterations)) == iterations


def test_partners_alone_play_an_odd_number_as_one_more_and_one_fewer():
    assert counts([GROUNDED, TEXTUAL], 5, 4) == [(3, 3), (2, 2), (3, 3), (2, 2)]


def check_shares(specs: Sequence[WorldSpec], total: int, num_iterations: int, num_pairs: int) -> None:
    """Asserts all that `Shares` promises; the first worlds are pairs of partners."""
    weights = [Fraction(str(spec.weight)) for spec in specs]
    played = [0] * len(specs)
    for number, now in enumerate(counts(specs, total, num_iterations), start=1):
        case = (total, number, now, [str(weight) for weight in weights])
        played = [before + more for before, more in zip(played, now, strict=True)]
        assert all(now[2 * each] == now[2 * each + 1] for each in range(num_pairs)), case
        is_even = not num_pairs or total % 2 == 0
        assert abs(sum(now) - total) <= (0 if is_even else 1) and 0 <= min(now) <= max(now) <= total, case
        assert sum(played) - number * total in ((0,) if is_even else (0, 1)), case
        for index, (count, weight) in enumerate(zip(played, weights, strict=True)):
            bound = 1.5 if index < 2 * num_pairs else 2 if num_pairs else 1
            assert abs(count - weight / sum(weights) * total * number) < bound, case


@given(
    of_pairs=st.lists(st.integers(1, 20), max_size=3),
    of_singles=st.lists(st.one_of(st.integers(1, 20), st.sampled_from([0.1, 0.37, 250])), max_size=6),
    total=st.integers(2, 13),
)
def test_every_world_keeps_to_its_share_at_every_iteration(of_pairs, of_singles, total):
    specs = [each for number, weight in enumerate(of_pairs) for each in pair(400 + number, weight)]
    if specs or of_singles:
        check_shares([*specs, *lakes(*of_singles)], total, 50, len(of_pairs))


@pytest.mark.parametrize("total", [3, 5, 7])
def test_partners_keep_up_beside_several_worlds_and_an_odd_number_of_groups(total):
    # They were more than four groups behind after a hundred iterations of three.
    for num_pairs in (1, 2):
        specs = [*(each for number in range(num_pairs) for each in pair(400 + number, 45)), *lakes(3, 3, 3, 3, 3)]
        check_shares(specs, total, 100, num_pairs)


def test_shares_do_not_drift_in_a_long_run():
    check_shares([*pair(400, 1), *lakes(0.333, 1.7)], 3, 3_000, 1)


@pytest.mark.parametrize(
    ("settings", "flag"),
    [
        ({"num_groups": 1, "group_size": 4, "model": "somewhere"}, "--num-groups 1 .* Use --num-groups 2 or more"),
        ({"cold_start": ColdStartConfig(batch_size=1)}, "--cold-start.batch-size 1 .* Use --cold-start.batch-size 2"),
    ],
)
def test_partners_do_not_fit_into_one_group_and_a_configuration_says_so(settings, flag):
    worlds = (OTHERS, GROUNDED, TEXTUAL)
    told = rf"--worlds.1 \(VLM/ZoomQA-v0\) and its textual partner --worlds.2 \(.*\) .* {flag}"
    with pytest.raises(ConfigError, match=told):
        run_config(worlds=worlds, judge=NO_JUDGE, **settings)
    assert run_config(worlds=(OTHERS, GROUNDED), judge=NO_JUDGE, **settings).worlds == (OTHERS, GROUNDED)


def test_a_batch_of_one_that_is_never_drawn_is_nobodys_concern():
    for unused in ({"model": "somewhere"}, {"model": None, "cold_start": ColdStartConfig(batch_size=1, data="some")}):
        run_config(**{"worlds": (GROUNDED, TEXTUAL), "cold_start": ColdStartConfig(batch_size=1), **unused})


@pytest.mark.parametrize(
    ("grounded", "textual"),
    [
        ({"side_px": (2000, 8000)}, {}),
        ({}, {"max_objects": 40, "answer_reward": 1.0, "format_reward": 0.0}),
        ({"target_px": [16, 40]}, {"target_px": (16, 40)}),
        ({"categories": ["attribute"], "representation": "natural_language"}, {"categories": ("attribute",)}),
        ({"max_turns": 1}, {}),
    ],
    ids=str,
)
def test_partners_may_spell_out_what_the_others_leave_to_defaults(grounded, textual):
    pair = [zoom("grounded", **grounded), zoom("textual", **textual)]
    given = counts([*pair, *lakes(1)], 5, 4)
    assert given == counts([zoom("grounded"), zoom("textual"), *lakes(1)], 5, 4)
    assert all(each[0] == each[1] for each in given)


@pytest.mark.parametrize(
    ("env_id", "kwargs", "weight"),
    [(TEXTUAL.env_id, GENERAL, 45), (TEXTUAL.env_id, SMALL, 44), ("Mine/Asks-v0", SMALL, 45)],
    ids=["other arguments", "another weight", "another world"],
)
def test_worlds_that_ask_other_things_are_no_partners(env_id, kwargs, weight):
    gym.register("Mine/Asks-v0", entry_point=lambda **_: gym.Env())
    try:
        textual = WorldSpec(env_id=env_id, kwargs=kwargs | {"prompt_format": "ivgr_textual"}, weight=weight)
        assert counts([GROUNDED, textual], 5, 1) == [(3, 2)]
    finally:
        del gym.registry["Mine/Asks-v0"]


@pytest.mark.parametrize("weight", [0, -1, float("nan"), float("inf")])
def test_a_weight_is_a_positive_number(weight):
    with pytest.raises(ConfigError, match="weight must be above 0"):
        WorldSpec(env_id="VLM/FrozenLake-v0", weight=weight)
