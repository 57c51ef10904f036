"""`benchmarks power`, against as many boards as it takes to see how often the test finds the difference."""

import re

import numpy as np
import pytest

from benchmarks.__main__ import main
from vlm_envs.statistics.pairs import mcnemar_exact


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


@pytest.mark.parametrize("words", [("1.2", "0.5"), ("0.5", "0.6", "--alpha", "1"), ("0.5",), ("0.5", "half")])
def test_what_is_no_rate_is_refused(words, capsys):
    assert main(["power", *words]) == 2
    assert capsys.readouterr().err
