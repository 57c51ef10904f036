"""One number over all worlds: means, ranks, intervals, and which agents cannot be told apart."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from benchmarks.models.cli.run_command import overall_tables, tables_text
from benchmarks.models.measures.comparisons import not_above, overall
from benchmarks.models.measures.measures import pairs, rows
from tests.unit.benchmarks.models.made import episode


def played(agent, solved, world="W", **told):
    return [episode(agent, seed, seed < solved, world=world, **told) for seed in range(16)]


def by_agent(episodes):
    return {row.agent: row for row in overall(episodes)}


class TestMeans:
    def test_only_worlds_that_all_have_played_count_and_each_as_much(self):
        told = [*played("A", 8), *played("A", 16, "V"), *played("A", 0, "U"), *played("B", 4), *played("B", 4, "V")]
        found = by_agent(told)
        assert (found["A"].num_worlds, found["A"].success, found["B"].success) == (2, 0.75, 0.25)

    def test_an_error_counts_for_nothing(self):
        told = [*played("A", 8), *played("B", 4), episode("B", 99, False, world="V", error="429"), *played("A", 1, "V")]
        assert by_agent(told)["A"].num_worlds == 1

    def test_without_a_common_world_there_is_no_number(self):
        assert overall([*played("A", 8), *played("B", 8, "V")]) == [] == overall([])

    def test_a_reference_that_skips_a_world_does_not_decide_which_worlds_count(self):
        told = [*played("A", 8), *played("A", 9, "V"), *played("B", 4), *played("B", 4, "V"), *played("lazy", 10)]
        found = by_agent([*told, *played("oracle", 16), *played("oracle", 16, "V")])
        assert set(found) == {"A", "B", "oracle"} and found["A"].num_worlds == 2
        assert found["A"].below_lazy and found["B"].below_lazy and not found["oracle"].below_lazy
        assert "below lazy" in tables_text(overall_tables(list(found.values())))

    def test_a_reference_that_could_not_play_is_left_out_rather_than_all_worlds(self):
        found = by_agent([*played("A", 8), *played("B", 4), *played("lazy", 2, "V")])
        assert set(found) == {"A", "B"} and not found["A"].below_lazy

    def test_ranks_are_averaged_and_ties_share_theirs(self):
        told = [*played("A", 9), *played("B", 9), *played("C", 3)]
        told += [*played("A", 3, "V"), *played("B", 5, "V"), *played("C", 9, "V")]
        assert {agent: row.mean_rank for agent, row in by_agent(told).items()} == {"A": 2.25, "B": 1.75, "C": 2.0}


class TestInterval:
    def test_of_one_world_it_is_that_worlds(self):
        told = played("A", 5)
        (row,) = overall(told)
        assert (row.low, row.high) == pytest.approx(tuple(rows(told)[0].interval))

    def test_more_worlds_narrow_it_unless_they_show_the_same(self):
        one = by_agent(played("A", 8))["A"]
        four = by_agent([each for world in "WVUT" for each in played("A", 8, world)])["A"]
        same = by_agent([{**each, "cluster": f"i{each['seed']}"} for world in "WVUT" for each in played("A", 8, world)])
        assert four.high - four.low == pytest.approx((one.high - one.low) / 2)
        assert same["A"].high - same["A"].low == pytest.approx(one.high - one.low)

    def test_it_covers_the_truth_as_often_as_it_says(self):
        rng, hits = np.random.default_rng(5), 0
        for _ in range(300):
            rates = {"W": 0.9, "V": 0.2, "U": 0.5}
            told = [
                episode("A", seed, bool(rng.random() < rate), world=world)
                for world, rate in rates.items()
                for seed in range(24)
            ]
            (row,) = overall(told)
            hits += row.low <= np.mean(list(rates.values())) <= row.high
        assert 0.92 <= hits / 300 <= 0.98


class TestDistinguished:
    def test_agents_that_differ_clearly_are_and_others_are_not(self):
        told = [
            each for world in "WV" for agent, n in (("A", 16), ("B", 15), ("C", 2)) for each in played(agent, n, world)
        ]
        found = by_agent(told)
        assert found["A"].indistinguishable_from == ("B",) and found["B"].indistinguishable_from == ("A",)
        assert found["C"].indistinguishable_from == ()

    def test_worlds_with_other_numbers_of_levels_weigh_the_same(self):
        """B is better on the 4 levels of V, and worse on as large a share of the 400 of W."""
        told = [episode("A", seed, seed % 2 == 0, world="W") for seed in range(400)]
        told += [episode("B", seed, False, world="W") for seed in range(400)]
        told += [episode(agent, seed, agent == "B" and seed < 2, world="V") for agent in "AB" for seed in range(4)]
        found = by_agent(told)
        assert found["A"].success == found["B"].success == 0.25
        assert found["A"].indistinguishable_from == ("B",)

    def test_equal_agents_are_distinguished_seldom(self):
        rng, found = np.random.default_rng(11), 0
        for _ in range(150):
            told = [
                episode(agent, seed, bool(rng.random() < 0.5), world=world)
                for agent, world, seed in itertools.product("ABC", "WV", range(10))
            ]
            found += any(len(row.indistinguishable_from) < 2 for row in overall(told))
        assert found / 150 <= 0.1

    def test_references_do_not_weaken_what_is_said_of_contestants(self):
        contestants = [*played("A", 9), *played("B", 2)]
        references = [*played("random", 0), *played("lazy", 1), *played("oracle", 16)]
        (alone,) = pairs(contestants)
        among = {(each.first, each.second): each for each in pairs([*contestants, *references])}
        assert among["A", "B"].p_value == alone.p_value and among["A", "B"].reward == alone.reward
        raw = pairs([*played("random", 0), *played("oracle", 16)])[0].p_value
        assert among["random", "oracle"].p_value == pytest.approx(9 * raw), "nine pairs have a reference"


class TestPraise:
    @pytest.mark.parametrize(
        ("rates", "reason"),
        [
            ({"A": {"W": 0.5, "V": 0.0}}, None),
            ({"A": {"W": 0.0, "V": 0.0}}, ""),
            ({"A": {"W": 0.5, "V": 0.0}, "lazy": {"W": 0.5, "V": 0.0}}, None),
            ({"A": {"W": 0.5, "V": 0.0}, "lazy": {"W": 0.5, "V": 0.1}}, "lazy"),
            ({"A": {"W": 0.1, "V": 0.9}, "lazy": {"W": 0.5}}, "lazy"),
            ({"A": {"W": 0.1, "V": 0.9}, "random": {"W": 0.1, "V": 0.9}}, "random"),
            ({"A": {"W": 0.1, "V": 0.9}, "random": {"U": 1.0}, "lazy": {"U": 1.0}}, None),
        ],
    )
    def test_the_best_must_solve_something_no_less_than_lazy_and_more_than_random(self, rates, reason):
        assert not_above("A", ["W", "V"], rates) == reason

    def test_agents_below_lazy_are_marked(self):
        found = overall([*played("A", 3), *played("B", 6), *played("lazy", 6), *played("oracle", 16)])
        assert {row.agent for row in found if row.below_lazy} == {"A"}


def test_it_is_printed_for_several_worlds_only():
    one = [*played("A", 3), *played("lazy", 6)]
    assert overall_tables(overall(one)) == [] == overall_tables([])
    text = tables_text(overall_tables(overall([*one, *played("A", 3, "V"), *played("lazy", 6, "V")])))
    assert "0.188" in text and "below lazy" in text and "2 worlds" in text
