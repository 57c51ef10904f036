import pytest

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


def test_the_ends_of_no_success_and_of_nothing_but_success_are_exact():
    # For 0 of n the upper end is z^2 / (n + z^2); z = 1.959964 gives 3.841459 / 13.841459 for n = 10
    assert (wilson_interval(0, 10).low, wilson_interval(10, 10).high) == (0.0, 1.0)
    assert wilson_interval(0, 10).high == pytest.approx(0.277533, abs=1e-6)
    assert wilson_interval(0, 0) == (0.0, 1.0)


@pytest.mark.parametrize(("num_successes", "num_trials", "confidence"), [(1, 0, 0.95), (4, 3, 0.95), (1, 2, 95)])
def test_an_interval_of_what_cannot_be_is_refused(num_successes, num_trials, confidence):
    with pytest.raises(ValueError):
        wilson_interval(num_successes, num_trials, confidence)


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
