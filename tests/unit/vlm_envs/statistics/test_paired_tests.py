"""Tests of the same trials twice, against values worked out by hand."""

import itertools

import numpy as np
import pytest

pytest.importorskip("scipy", reason="needs scipy: pip install '.[records]'")

from vlm_envs.statistics.paired_tests import PairedOutcomes, holm, mcnemar_exact, pair_outcomes, sign_flip_test


def test_mcnemar_by_hand():
    # 10 changed pairs, 1 the other way: 2 * (C(10,0) + C(10,1)) / 2^10 = 22 / 1024
    assert mcnemar_exact(1, 9) == mcnemar_exact(9, 1) == pytest.approx(22 / 1024)
    # 2 * (1 + 18 + 153 + 816) / 2^18
    assert mcnemar_exact(3, 15) == pytest.approx(1976 / 262144)
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(5, 5) == 1.0  # the two tails overlap and are cut at 1
    with pytest.raises(ValueError):
        mcnemar_exact(-1, 2)


def test_pairs_leave_out_what_was_played_once():
    before = {1: True, 2: False, 3: True, 4: False, 5: True}
    after = {1: True, 2: True, 3: False, 4: False, 6: True}
    outcomes = pair_outcomes(before, after)
    assert outcomes == PairedOutcomes(num_both=1, num_only_before=1, num_only_after=1, num_neither=1)
    assert (outcomes.num_pairs, outcomes.p_value) == (4, 1.0)


class TestSignFlips:
    @pytest.mark.parametrize("differences", [[], [0, 0], [1], [3, -1, 2, 0], [1, 1, 1, -1], [2, 2, -3, 1, 1]])
    def test_it_is_the_share_of_all_choices_of_signs(self, differences):
        sums = [
            abs(sum(sign * each for sign, each in zip(signs, differences, strict=True)))
            for signs in itertools.product((-1, 1), repeat=len(differences))
        ]
        assert sign_flip_test(differences) == pytest.approx(np.mean([each >= abs(sum(differences)) for each in sums]))

    @pytest.mark.parametrize(("lost", "won"), [(0, 0), (1, 10), (40, 60), (100, 300)])
    def test_on_levels_played_once_it_is_mcnemars(self, lost, won):
        assert sign_flip_test([-1] * lost + [1] * won) == pytest.approx(mcnemar_exact(lost, won))

    @pytest.mark.parametrize("differences", [[0.5, -0.25, 1.125], [0.1, 0.2, -0.3, 0.1, 0.1], [0.1] * 12])
    def test_of_few_numbers_that_are_not_whole_it_is_exact(self, differences):
        sums = [abs(float(np.dot(signs, differences))) for signs in itertools.product((-1, 1), repeat=len(differences))]
        share = np.mean([each >= abs(sum(differences)) - 1e-12 for each in sums])
        assert sign_flip_test(differences) == pytest.approx(share)

    def test_of_many_it_is_close_to_the_exact_one_and_the_same_every_time(self):
        whole = [1] * 30 + [-1] * 14
        drawn = sign_flip_test([0.1 * each for each in whole])
        assert drawn == pytest.approx(sign_flip_test(whole), abs=0.006)
        assert drawn == sign_flip_test([0.1 * each for each in whole])
        assert sign_flip_test([0.1] * 60) == 1 / 10_001


class TestHolm:
    def test_an_example_worked_by_hand(self):
        assert holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])

    def test_one_stays_and_none_is_above_one(self):
        assert holm([0.2]) == [0.2]
        assert holm([0.6, 0.7]) == [1.0, 1.0]
        assert holm([]) == []
