import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from vlm_envs.records.statistics import PairedOutcomes, mcnemar_exact, pair_outcomes, wilson_interval


@pytest.mark.parametrize(
    ("num_successes", "num_trials", "low", "high"),
    [
        # Newcombe, Stat. Med. 17 (1998), table I, method 3
        (81, 263, 0.2553, 0.3662),
        (15, 148, 0.0624, 0.1605),
        (0, 20, 0.0000, 0.1611),
        (1, 29, 0.0061, 0.1718),
    ],
)
def test_wilson_interval_agrees_with_the_published_table(num_successes, num_trials, low, high):
    assert wilson_interval(num_successes, num_trials) == pytest.approx((low, high), abs=5e-5)


def test_wilson_interval_of_no_success_has_its_closed_form():
    # For 0 of n the upper end is z^2 / (n + z^2); z = 1.959964 gives 3.841459 / 13.841459 for n = 10
    interval = wilson_interval(0, 10)
    assert interval.low == 0.0
    assert interval.high == pytest.approx(0.277533, abs=1e-6)
    assert wilson_interval(10, 10) == pytest.approx((1 - 0.277533, 1.0), abs=1e-6)


@given(num_trials=st.integers(1, 500), share=st.floats(0, 1), confidence=st.floats(0.5, 0.999))
def test_wilson_interval_holds_the_rate_and_mirrors(num_trials, share, confidence):
    num_successes = round(share * num_trials)
    low, high = wilson_interval(num_successes, num_trials, confidence)
    assert 0.0 <= low <= num_successes / num_trials <= high <= 1.0
    assert low < high
    mirrored = wilson_interval(num_trials - num_successes, num_trials, confidence)
    assert (1 - mirrored.high, 1 - mirrored.low) == pytest.approx((low, high), abs=1e-12)


@pytest.mark.parametrize(("num_successes", "num_trials"), [(1, 0), (-1, 3), (4, 3)])
def test_wilson_interval_refuses_counts_that_cannot_be(num_successes, num_trials):
    with pytest.raises(ValueError, match="at least one trial"):
        wilson_interval(num_successes, num_trials)


def test_wilson_interval_refuses_percent():
    with pytest.raises(ValueError, match=r"0\.95"):
        wilson_interval(1, 2, confidence=95)


def test_mcnemar_by_hand():
    # 10 changed pairs, 1 the other way: 2 * (C(10,0) + C(10,1)) / 2^10 = 22 / 1024
    assert mcnemar_exact(1, 9) == mcnemar_exact(9, 1) == 22 / 1024
    # 2 * (1 + 18 + 153 + 816) / 2^18
    assert mcnemar_exact(3, 15) == 1976 / 262144
    assert mcnemar_exact(0, 0) == 1.0
    assert mcnemar_exact(5, 5) == 1.0  # the two tails overlap and are cut at 1
    with pytest.raises(ValueError, match="at least 0"):
        mcnemar_exact(-1, 2)


def test_mcnemar_of_many_pairs_neither_overflows_nor_is_negative():
    p_value = mcnemar_exact(900, 1100)
    # Normal approximation with continuity correction: z = (200 - 1) / sqrt(2000) = 4.4498, p = 8.6e-6
    assert p_value == pytest.approx(math.erfc(199 / math.sqrt(2000) / math.sqrt(2)), rel=0.02)
    assert 0.0 <= mcnemar_exact(0, 5000) < 1e-300


def test_pairs_leave_out_what_was_played_once():
    before = {1: True, 2: False, 3: True, 4: False, 5: True}
    after = {1: True, 2: True, 3: False, 4: False, 6: True}
    outcomes = pair_outcomes(before, after)
    assert outcomes == PairedOutcomes(num_both=1, num_only_before=1, num_only_after=1, num_neither=1)
    assert (outcomes.num_pairs, outcomes.p_value) == (4, 1.0)
