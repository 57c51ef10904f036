"""Rows and pairs of a board, against values worked out by hand and by peers."""

import itertools
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchmarks.models.measures.measures import (
    actions_over_optimal,
    pairs,
    regrets,
    rows,
    ruined_at,
    turns_over_optimal,
)
from tests.unit.benchmarks.models.made import episode, turn
from vlm_envs.statistics.success_rates import wilson_interval

OUTCOMES = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=1, max_size=12)


def only_row(episodes, worlds=()):
    (row,) = rows(episodes, worlds)
    return row


class TestRates:
    def test_success_is_of_played_episodes_with_wilsons_interval(self):
        row = only_row([episode(seed=seed, success=seed < 3) for seed in range(8)])
        assert (row.num_episodes, row.num_successes, row.success) == (8, 3, 0.375)
        assert row.interval == pytest.approx(wilson_interval(3, 8))

    def test_an_error_counts_for_nothing_but_as_an_error(self):
        lost = episode(seed=9, success=False, error="429", turns=[turn(parse_error="x")], total_reward=-9.0)
        never_began = {"agent": "A", "world": "W", "seed": 8, "repeat": 0, "error": "the world could not be started"}
        row = only_row([episode(), lost, never_began])
        assert (row.num_episodes, row.num_errors, row.success, row.reward, row.invalid_rate) == (1, 2, 1.0, 1.0, 0.0)

    def test_nothing_is_said_of_an_agent_with_errors_alone(self):
        row = only_row([episode(error="500")])
        assert (row.num_episodes, row.num_errors) == (0, 1)
        assert row.interval == (0.0, 1.0)
        told = (row.reward, row.invalid_rate, row.ineffective_rate, row.regret, row.usd, row.tokens, row.seconds)
        assert set(told) == {None}

    def test_invalid_and_ineffective_turns(self):
        turns = [
            turn(parse_error="no answer", actions=[], action_effective=False, optimal_actions_left=3),
            turn(action_effective=False, optimal_actions_left=3),
            turn(),
            turn(optimal_actions_before=2, optimal_actions_left=1),
        ]
        row = only_row([episode(success=False, turns=turns)])
        assert row.invalid_rate == 1 / 4
        assert row.ineffective_rate == 1 / 3  # an unread turn tried nothing

    def test_without_turns_that_act_there_is_no_ineffective_rate(self):
        assert only_row([episode(turns=[turn(actions=[], parse_error="x")])]).ineffective_rate is None


class TestEffort:
    SOLVED = episode(
        turns=[
            turn(actions=["Left", "Right"], optimal_actions_before=4, optimal_actions_left=4),
            turn(actions=["Down"] * 3, optimal_actions_before=4, optimal_actions_left=1),
            turn(actions=["Down"], optimal_actions_before=1, optimal_actions_left=None, terminated=True),
        ]
    )

    def test_actions_and_turns_over_optimal(self):
        assert actions_over_optimal(self.SOLVED) == 6 / 4
        assert turns_over_optimal(self.SOLVED, 3) == 3 / 2  # 4 actions take 2 turns of 3
        assert turns_over_optimal(self.SOLVED, 1) == 3 / 4
        assert turns_over_optimal(self.SOLVED, None) is None

    def test_regret_of_every_turn(self):
        assert regrets(self.SOLVED) == [2.0, 0.0, 0.0]  # the end of a solved level is 0 away from it
        assert ruined_at(self.SOLVED) is None

    def test_a_turn_that_ruins_a_level_has_no_regret_and_those_after_it_neither(self):
        turns = [
            turn(optimal_actions_left=4),
            turn(optimal_actions_before=4, optimal_actions_left=None),
            turn(optimal_actions_before=None, optimal_actions_left=None),
        ]
        stuck = episode(success=False, turns=turns)
        assert regrets(stuck) == [2.0, None, None]
        assert ruined_at(stuck) == 1

    @pytest.mark.parametrize("left", [None, 0, 2])
    def test_a_world_that_ends_unsolved_was_not_played_without_regret(self, left):
        drowned = episode(success=False, turns=[turn(optimal_actions_left=left, terminated=True)])
        assert regrets(drowned) == [None]
        assert ruined_at(drowned) == 0
        row = only_row([drowned])
        assert (row.regret, row.ruined_rate) == (None, 1.0)

    def test_what_a_world_goes_on_with_after_it_is_solved_is_no_effort(self):
        turns = [
            turn(actions=["draw"], optimal_actions_before=1, optimal_actions_left=0),
            turn(actions=["draw"], optimal_actions_before=0, optimal_actions_left=0, truncated=True),
        ]
        drawn = episode(turns=turns)
        assert (turns_over_optimal(drawn, 1), actions_over_optimal(drawn)) == (1.0, 1.0)
        assert regrets(drawn) == [0.0, None]

    def test_without_a_solver_nobody_knows(self):
        unknown = episode(turns=[turn(optimal_actions_before=None, optimal_actions_left=None)])
        row = only_row([unknown], [{"label": "W", "max_actions_per_turn": 3}])
        assert (row.turns_over_optimal, row.over_optimal, row.regret, row.ruined_rate) == (None,) * 4

    def test_rows_mean_over_solved_episodes_and_over_turns(self):
        failed = episode(seed=1, success=False, turns=[turn(optimal_actions_left=3)])
        row = only_row([self.SOLVED, failed], [{"label": "W", "max_actions_per_turn": 3}])
        assert (row.turns_over_optimal, row.over_optimal) == (1.5, 1.5)
        assert row.turns_to_success == 3.0
        assert row.regret == (2 + 0 + 0 + 1) / 4
        assert row.ruined_rate == 0.0

    def test_turns_to_success_need_no_solver_but_a_solved_episode(self):
        unknown = [turn(optimal_actions_before=None, optimal_actions_left=None)] * 2
        failed = episode(seed=1, success=False, turns=unknown * 2)
        assert only_row([episode(turns=unknown), failed]).turns_to_success == 2.0
        assert only_row([failed]).turns_to_success is None

    def test_no_turns_at_all(self):
        empty = episode(success=False, turns=[])
        assert (regrets(empty), ruined_at(empty), actions_over_optimal(empty)) == ([], None, None)

    @given(st.lists(st.integers(1, 9), min_size=2, max_size=6))
    def test_regrets_sum_to_all_actions_beyond_the_plan(self, lengths):
        """Of an episode from the first length to the last one, with as many actions as needed for each change."""
        turns = [
            turn(actions=["x"] * abs(before - left), optimal_actions_before=before, optimal_actions_left=left)
            for before, left in itertools.pairwise(lengths)
        ]
        played = episode(success=False, turns=turns)
        num_actions = sum(len(each["actions"]) for each in turns)
        assert math.fsum(each or 0 for each in regrets(played)) == num_actions + lengths[-1] - lengths[0]


class TestRepeats:
    def test_pass_at_and_pass_hat(self):
        won = {0: (True, True, False), 1: (False, False, False)}
        played = [
            episode(seed=seed, repeat=repeat, success=success)
            for seed, repeats in won.items()
            for repeat, success in enumerate(repeats)
        ]
        row = only_row(played)
        assert row.pass_at == pytest.approx({1: 1 / 3, 2: 0.5, 3: 0.5})
        assert row.pass_hat == pytest.approx({1: 1 / 3, 2: 1 / 6, 3: 0.0})

    def test_without_repeats_there_is_neither(self):
        row = only_row([episode(seed=seed) for seed in range(3)])
        assert (row.pass_at, row.pass_hat) == ({}, {})

    def test_equal_repeats_are_worth_no_more_than_one(self):
        played = [episode(seed=seed, repeat=repeat, success=seed < 3) for seed in range(8) for repeat in range(4)]
        assert only_row(played).interval == pytest.approx(wilson_interval(3, 8))

    def test_the_interval_holds_the_rate_where_some_repeats_are_missing(self):
        played = [episode(seed=0, repeat=repeat) for repeat in range(9)] + [episode(seed=1, success=False)]
        row = only_row(played)
        assert row.interval.low < row.success < row.interval.high


class TestCost:
    def priced(self, seed, success, usd, tokens=100, **told):
        return episode(seed=seed, success=success, usd=usd, tokens=tokens, **told)

    def test_cost_and_tokens_of_a_success(self):
        row = only_row([self.priced(0, True, 0.5), self.priced(1, False, 0.3, tokens=300)])
        assert (row.usd, row.usd_per_success) == (0.8, 0.8)
        assert (row.tokens, row.tokens_per_success) == (200, 400)

    def test_without_a_success_there_is_none_of_its_cost(self):
        row = only_row([self.priced(0, False, 0.5)])
        assert (row.usd, row.usd_per_success, row.tokens_per_success) == (0.5, None, None)

    def test_an_unknown_price_is_no_zero(self):
        assert only_row([self.priced(0, True, 0.5), episode(seed=1, tokens=50)]).usd is None
        assert only_row([episode()]).usd is None

    def test_what_an_error_had_cost_until_then_is_paid(self):
        turns = [turn(usage={"usd": 0.25}), turn(usage={})]
        lost = episode(seed=1, error="timeout", turns=turns)
        never_began = {"agent": "A", "world": "W", "seed": 2, "repeat": 0, "error": "the world could not be started"}
        assert only_row([self.priced(0, True, 0.5), lost, never_began]).usd == 0.75

    def test_failed_tries_are_paid_though_the_last_one_counts(self):
        usage = {"usd": 0.25, "prompt_tokens": 30.0, "completion_tokens": 10.0}
        failed = episode(error="429", turns=[turn(usage=usage), turn(usage={})])
        row = only_row([failed, failed, self.priced(0, True, 0.5), self.priced(1, False, 0.5, tokens=200)])
        assert (row.num_episodes, row.num_errors, row.success) == (2, 0, 0.5)
        assert (row.usd, row.usd_per_success) == (1.5, 1.5)
        assert (row.tokens, row.tokens_per_success) == ((2 * 40 + 300) / 2, 380)


class TestPairs:
    def test_success_is_compared_by_mcnemars_exact_test(self):
        first = [episode("A", seed, seed in (0, 1)) for seed in range(12)]
        second = [episode("B", seed, seed >= 1) for seed in range(12)]
        (pair,) = pairs([*first, *second])
        assert (pair.outcomes.num_only_before, pair.outcomes.num_only_after) == (1, 10)
        assert pair.p_value == pytest.approx(stats.binomtest(1, 11).pvalue)
        assert pair.reward.mean == pytest.approx(9 / 12)

    @given(OUTCOMES)
    def test_played_once_it_is_mcnemar_and_never_beyond_1(self, outcomes):
        played = [
            episode(agent, seed, pair[index]) for index, agent in enumerate("AB") for seed, pair in enumerate(outcomes)
        ]
        (pair,) = pairs(played)
        assert pair.p_value == pytest.approx(pair.outcomes.p_value)
        assert 0 < pair.reward.p_value <= 1

    def test_only_levels_that_both_played_count(self):
        played = [episode("A", 0), episode("A", 1), episode("B", 1, False), episode("B", 2), episode("B", 0, error="x")]
        (pair,) = pairs(played)
        assert pair.outcomes.num_pairs == 1

    def test_agents_without_a_common_level_are_no_pair(self):
        assert pairs([episode("A", 0), episode("B", 1)]) == []

    def test_every_pair_of_a_world_is_corrected_for_all_of_them(self):
        won = {"A": 2, "B": 10, "C": 12}
        played = [episode(agent, seed, seed < most) for agent, most in won.items() for seed in range(12)]
        found = {(each.first, each.second): each for each in pairs(played)}
        raw = {pair: stats.binomtest(0, each.outcomes.num_only_after).pvalue for pair, each in found.items()}
        assert found["A", "C"].p_value == pytest.approx(3 * raw["A", "C"])
        assert found["A", "B"].p_value == pytest.approx(2 * raw["A", "B"])
        assert found["B", "C"].p_value == pytest.approx(raw["B", "C"])
        alone = {pair: pairs([each for each in played if each["agent"] in pair])[0] for pair in found}
        assert found["A", "C"].reward.p_value == pytest.approx(3 * alone["A", "C"].reward.p_value)

    def test_repeats_of_a_level_are_no_further_levels(self):
        played = [
            episode(agent, seed, agent == "B", repeat=repeat)
            for agent in "AB"
            for seed in range(4)
            for repeat in range(25)
        ]
        (pair,) = pairs(played)
        assert pair.outcomes.num_only_after == 100
        assert pair.p_value == 2 / 2**4
        assert pair.reward.p_value == 2 / 2**4

    def test_agents_that_differ_in_nothing_are_found_different_seldom_though_levels_differ(self):
        """Of 150 boards with equal agents, each level its own rate and four repeats, about 5 % may."""
        rng = np.random.default_rng(7)
        found = 0
        for _ in range(150):
            rates = rng.random(12)
            won = rng.random((2, 4, 12)) < rates
            played = [
                episode(agent, seed, bool(won[index, repeat, seed]), repeat=repeat)
                for index, agent in enumerate("AB")
                for repeat in range(4)
                for seed in range(12)
            ]
            found += pairs(played)[0].p_value < 0.05
        assert found <= 15


def test_who_does_nothing_wastes_nothing_and_has_no_regret():
    idle = episode("A", success=False, turns=[turn(actions=[], parse_error="no answer", optimal_actions_left=3)])
    assert rows([idle])[0].regret is None


def test_in_a_world_that_asks_a_guess_may_be_shorter_than_what_an_expert_shows():
    asked = [turn(state={"sample_id": "7"}, optimal_actions_before=3, optimal_actions_left=0, terminated=True)]
    [row] = rows([episode("A", turns=asked)], [{"label": "W", "max_actions_per_turn": 1}])
    assert row.over_optimal is None and row.turns_over_optimal is None
    assert row.regret is None and row.ruined_rate is None


def test_pairs_of_all_worlds_are_one_family():
    one, two = (
        [episode(agent, seed, agent == "A", world=world) for agent in "AB" for world in worlds for seed in range(6)]
        for worlds in (["W"], ["W", "V"])
    )
    assert pairs(one)[0].p_value == pytest.approx(2 / 2**6)
    assert [pair.p_value for pair in pairs(two)] == pytest.approx([4 / 2**6] * 2)


@pytest.mark.parametrize(("judges", "mistake"), [
    (("exact", "exact"), "saw wrongly"),
    (("exact", None), "lost"),
    (("exact", "direct m"), "lost"),
    ((None, None), "lost"),
])  # fmt: skip
def test_judges_tell_first_mistakes_only_where_one_judge_has_judged_all_of_a_world(judges, mistake):
    lost = turn(terminated=True, sections={"observation": "a hole below"}, scores={"observation": 0.5})
    board = [
        episode(name, success=False, turns=[lost], **({"judge": judge} if judge else {}))
        for name, judge in zip("AB", judges, strict=True)
    ]
    board.append(episode("B", seed=1, error="HTTP 500", turns=[]))  # Which nobody judges
    assert [row.mistakes for row in rows(board)] == [{mistake: 1}] * 2


@pytest.mark.parametrize("observation", ["unknown", "", "  ", "Unknown."])
def test_agents_that_state_no_observation_are_blamed_for_neither_perception_nor_planning(observation):
    lost = turn(
        terminated=True, state_text="{a: 1}", sections={"observation": observation}, scores={"observation": 0.0}
    )
    seen = turn(terminated=True, state_text="{a: 1}", sections={"observation": "{a: 1}"}, scores={"observation": 1.0})
    board = [episode(name, success=False, turns=[made], judge="exact") for name, made in (("A", lost), ("B", seen))]
    assert [row.mistakes for row in rows(board)] == [{"not stated": 1}, {"lost": 1}]
