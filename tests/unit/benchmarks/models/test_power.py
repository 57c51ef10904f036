"""`benchmarks power`, against as many boards as it takes to see how often the test finds the difference."""

import itertools
import re

import numpy as np
import pytest
from scipy.special import bdtr

from benchmarks.__main__ import main
from vlm_envs.statistics.paired_tests import holm, mcnemar_exact


def num_levels(capsys, *words):
    assert main(["power", *words]) == 0
    return int(re.match(r"(\d+) levels", capsys.readouterr().out)[1])


@pytest.mark.parametrize(
    ("first", "second", "agreement"), [(0.5, 0.6, 0.0), (0.2, 0.4, 0.0), (0.5, 0.6, 0.6), (0.9, 0.8, 0.3)]
)
def test_boards_of_so_many_levels_find_the_difference_as_often_as_asked(first, second, agreement, capsys):
    needed = num_levels(capsys, str(first), str(second), "--agreement", str(agreement))
    rng = np.random.default_rng(17)
    # Pairs of outcomes with these rates and this correlation, drawn from what the second does where the first does what
    both = first * second + agreement * np.sqrt(first * (1 - first) * second * (1 - second))
    one = rng.random((1500, needed)) < first
    other = rng.random((1500, needed)) < np.where(one, both / first, (second - both) / (1 - first))
    assert np.corrcoef(one.ravel(), other.ravel())[0, 1] == pytest.approx(agreement, abs=0.02)
    counts = zip((one & ~other).sum(axis=1), (~one & other).sum(axis=1), strict=True)
    found = np.mean([mcnemar_exact(int(lost), int(won)) < 0.05 for lost, won in counts])
    assert found == pytest.approx(0.8, abs=0.04)


def test_agreement_saves_levels(capsys):
    alone = num_levels(capsys, "0.5", "0.6")
    assert num_levels(capsys, "0.5", "0.6", "--agreement", "0.5") < 0.6 * alone


def test_a_difference_of_nothing_takes_no_number_of_them(capsys):
    assert main(["power", "0.5", "0.5"]) == 0
    assert capsys.readouterr().out == "There is no difference to find: both succeed on 50% of the levels.\n"


def test_what_is_assumed_is_said(capsys):
    assert main(["power", "0.5", "0.6"]) == 0
    assert "see --agreement" in capsys.readouterr().out
    assert main(["power", "0.5", "0.6", "--agreement", "0.3"]) == 0
    assert "assumed" not in capsys.readouterr().out


@pytest.mark.parametrize(
    "words",
    [
        ("1.2", "0.5"),
        ("0.5", "0.6", "--alpha", "1"),
        ("0.5",),
        ("0.5", "half"),
        ("0.5", "0.6", "--models", "1"),
        ("0.5", "0.6", "--worlds", "0"),
        ("0.5", "0.6", "--models", "99"),
        ("0.5", "0.6", "--worlds", "1000"),
        ("0.5", "0.6", "--alpha", "1e-300"),
        ("0.5", "0.6", "--alpha", "0"),
    ],
)
def test_what_is_no_rate_is_refused(words, capsys):
    assert main(["power", *words]) == 2
    assert capsys.readouterr().err


def simulated(rates, num_levels, wanted, num_boards=200):
    """Returns how often pairs of models are told apart after Holm's correction on boards with these rates.

    Args:
        rates: float[W, M], by world and model.
        num_levels: Of each world.
        wanted: bool[W, P], the pairs to look at.
        num_boards: How many boards.
    """
    rng, found = np.random.default_rng(29), 0
    pairs = list(itertools.combinations(range(rates.shape[1]), 2))
    for _ in range(num_boards):
        solved = rng.random((len(rates), num_levels, rates.shape[1])) < rates[:, None]
        lost, won = (
            np.array([(solved[..., a] & ~solved[..., b]).sum(axis=1) for a, b in order]).T.ravel()
            for order in (pairs, [pair[::-1] for pair in pairs])
        )
        changed = lost + won
        p_values = np.where(changed > 0, np.minimum(1, 2 * bdtr(np.minimum(lost, won), changed, 0.5)), 1.0)
        found += (np.array(holm(list(p_values))) < 0.05)[wanted.ravel()].mean()
    return found / num_boards


@pytest.mark.parametrize(("num_models", "num_worlds"), [(2, 1), (4, 1), (4, 3), (6, 3)])
def test_boards_of_several_models_and_worlds_find_it_after_their_correction(num_models, num_worlds, capsys):
    needed = num_levels(capsys, "0.5", "0.6", "--models", str(num_models), "--worlds", str(num_worlds))
    half = np.repeat([0.5, 0.6], num_models // 2)
    differs = [half[a] != half[b] for a, b in itertools.combinations(range(num_models), 2)]
    most = simulated(np.tile(half, (num_worlds, 1)), needed, np.tile(differs, (num_worlds, 1)))
    # One pair differs, and no other model helps to find it
    alone = np.full((num_worlds, num_models), 0.5)
    alone[0] = [0.5, 0.6, *[0.55] * (num_models - 2)]
    first = np.zeros((num_worlds, len(differs)), bool)
    first[0, 0] = True
    least = simulated(alone, needed, first)
    assert (least + most) / 2 == pytest.approx(0.8, abs=0.04)
    assert least == pytest.approx(most, abs=0.1)


def test_more_models_and_worlds_need_more_levels_and_what_that_assumes_is_said(capsys):
    sizes = [num_levels(capsys, "0.5", "0.7", "--models", models, "--worlds", "2") for models in "235"]
    assert sizes == sorted(set(sizes))
    assert main(["power", "0.5", "0.7", "--models", "3"]) == 0
    assert "3 pairs" in capsys.readouterr().out


def test_agreement_saves_levels_on_larger_boards_too(capsys):
    words = ("0.5", "0.6", "--models", "3")
    assert num_levels(capsys, *words, "--agreement", "0.5") < 0.6 * num_levels(capsys, *words)
